"""Fewer wake-ups for a bounded delay (`mqtt.latency_budget_ms`): sockets that speak often are read once per budget.

At a few thousand messages a second most of a broker's time goes to waking up, reading and writing for each of them. It
has to be the reading that waits, for held output saves neither. A socket that spoke more than twice in a millisecond is
taken off the loop's list; from then on a timer reads it, all such sockets in one go and in one turn. After some rounds
without a word it is given back to the loop. Nothing waits longer than the budget, and who speaks rarely not at all.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

OFTEN_S = 0.001  # who speaks three times within it is paced
SILENT_ROUNDS_MAX = 8


class PacedSocket(Protocol):
    """A socket that can be read by hand."""

    def hold(self, reason: str) -> None: ...
    def release(self, reason: str) -> None: ...
    def read_now(self) -> bool | None:
        """Whether it said anything; None if it cannot be read like this (any more)."""


class TurnTaker(Protocol):
    """Who gathers what the sockets of a round say into one turn."""

    def gather(self) -> None: ...
    def turn(self) -> None: ...


class Pacer:
    """See the module."""

    def __init__(self, budget_s: float, driver: TurnTaker) -> None:
        self.rounds = 0
        self._budget_s, self._driver = budget_s, driver
        self._loop = asyncio.get_running_loop()
        self._silent: dict[PacedSocket, int] = {}  # rounds without a word
        self._timer: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """Sockets that are paced at present."""
        return len(self._silent)

    def join(self, socket: PacedSocket) -> None:
        socket.hold("pace")
        self._silent[socket] = 0
        if self._timer is None:
            self._timer = self._loop.call_later(self._budget_s, self._round)

    def leave(self, socket: PacedSocket) -> None:
        if self._silent.pop(socket, None) is not None:
            socket.release("pace")

    def _round(self) -> None:
        self.rounds += 1
        self._timer = None
        self._driver.gather()
        for socket in list(self._silent):
            has_spoken = socket.read_now()
            self._silent[socket] = 0 if has_spoken else self._silent.get(socket, 0) + 1
            if has_spoken is None or self._silent[socket] > SILENT_ROUNDS_MAX:
                self.leave(socket)
        self._driver.turn()
        if self._silent and self._timer is None:
            self._timer = self._loop.call_later(self._budget_s, self._round)
