"""The last publication of this node on each topic that is in its log: what the next one names as the one before."""

from __future__ import annotations

import msgspec

from coterie.broker.turn import Turn
from coterie.broker.writes import LAST, Saved

_pack = msgspec.msgpack.Encoder().encode


class LastPublished:
    """See the module. What has left the log is nobody's predecessor any more. `of`: by topic."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.of: dict[str, int] = {}

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(LAST):
            self.of[str(key)] = msgspec.msgpack.decode(value, type=int)

    @property
    def last(self) -> int:
        return max(self.of.values(), default=0)

    def follow(self, topic: str, identifier: int) -> int:
        """Note a publication; returns the one before it, 0 if there is none."""
        before = self.of.get(topic, 0)
        self.of[topic] = identifier
        self._turn.writes.append((LAST, topic, _pack(identifier)))
        return before

    def keep(self, topic: str) -> None:
        """What was noted in memory only (`crossing`) is in the log by now."""
        self._turn.writes.append((LAST, topic, _pack(self.of[topic])))

    def all(self) -> list[tuple[str, int]]:
        return list(self.of.items())

    def trim(self, before: int) -> None:
        """The log holds nothing up to this publication any more."""
        for topic in [topic for topic, identifier in self.of.items() if identifier <= before]:
            del self.of[topic]
            self._turn.write(LAST, topic, None)
