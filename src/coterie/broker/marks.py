"""How far this node has dealt with what others published: a mark per origin and topic, and what it has heard of each.

An identifier rises with every publication of its origin, so within one origin it is a position: nothing here compares
the clocks of two nodes. A mark says: everything of this origin on this topic up to here was had, or is not wanted.
"""

from __future__ import annotations

import msgspec

from coterie.broker.carried import TIME_MASK, origin_of
from coterie.broker.turn import Turn
from coterie.broker.writes import MARKS, META, Saved

HEADS = "heads"
_pack = msgspec.msgpack.Encoder().encode


class Marks:
    """See the module. `heads` is the last publication heard of, by origin."""

    def __init__(self, turn: Turn) -> None:
        self.heads: dict[int, int] = {}
        self._turn = turn
        self._of: dict[tuple[int, str], int] = {}

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(MARKS):
            assert isinstance(key, tuple)
            identifier = msgspec.msgpack.decode(value, type=int)
            self._of[int(key[0]), str(key[1])] = identifier
            self.hear(identifier)
        for key, value in saved.rows(META):
            if key == HEADS:
                for identifier in msgspec.msgpack.decode(value, type=list[int]):
                    self.hear(identifier)

    def hear(self, identifier: int) -> None:
        origin = origin_of(identifier)
        if identifier > self.heads.get(origin, 0):
            self.heads[origin] = identifier

    def keep_heads(self) -> None:
        self._turn.write(META, HEADS, _pack(list(self.heads.values())))

    def get(self, origin: int, topic: str) -> int:
        return self._of.get((origin, topic), 0)

    def set(self, origin: int, topic: str, identifier: int) -> None:
        """With the next batch it is kept."""
        self._of[origin, topic] = identifier
        self._turn.writes.append((MARKS, (origin, topic), _pack(identifier)))

    def trim(self, before_us: int) -> None:
        """Forget marks from before this moment of their origin."""
        gone = [key for key, identifier in self._of.items() if identifier & TIME_MASK < before_us]
        for key in gone:
            del self._of[key]
            self._turn.write(MARKS, key, None)
