"""Whom this node has sent elsewhere, where to and why: for people who ask (`inspection`)."""

from __future__ import annotations

import msgspec

from coterie.broker.turn import Turn

REMEMBERED_MAX = 10_000


class Departure(msgspec.Struct, frozen=True):
    at_s: float
    server: str
    why: str


class Departures:
    """The last one of each client; the oldest are forgotten."""

    def __init__(self, turn: Turn) -> None:
        self.of: dict[str, Departure] = {}
        self._turn = turn

    def note(self, client: str, server: str, why: str) -> None:
        self.of.pop(client, None)
        while len(self.of) >= REMEMBERED_MAX:
            del self.of[next(iter(self.of))]
        self.of[client] = Departure(self._turn.now_s, server, why)
