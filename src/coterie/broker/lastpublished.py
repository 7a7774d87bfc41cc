"""The last publication of this node on each topic that is in its log: what the next one names as the one before."""

from __future__ import annotations

import msgspec

from coterie.broker.turn import Turn
from coterie.broker.writes import LAST, Saved

_pack = msgspec.msgpack.Encoder().encode


class LastPublished:
    """See the module. What has left the log is nobody's predecessor any more."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._of: dict[str, int] = {}

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(LAST):
            self._of[str(key)] = msgspec.msgpack.decode(value, type=int)

    @property
    def last(self) -> int:
        return max(self._of.values(), default=0)

    def follow(self, topic: str, identifier: int) -> int:
        """Note a publication; returns the one before it, 0 if there is none."""
        before = self._of.get(topic, 0)
        self._of[topic] = identifier
        self._turn.writes.append((LAST, topic, _pack(identifier)))
        return before

    def all(self) -> list[tuple[str, int]]:
        return list(self._of.items())

    def trim(self, before: int) -> None:
        """The log holds nothing up to this publication any more."""
        for topic in [topic for topic, identifier in self._of.items() if identifier <= before]:
            del self._of[topic]
            self._turn.write(LAST, topic, None)
