"""How far this node has dealt with what others published: a mark per origin and topic, and what it has heard of each.

An identifier rises with every publication of its origin, so within one origin it is a position: nothing here compares
the clocks of two nodes. A mark says: everything of this origin on this topic up to here was had, or is not wanted. What
was delivered beyond a gap, because nobody could be asked for what is missing, stands *ahead* of the mark; the gap stays
open, and the mark goes on when it is filled. It goes back only for
a session that comes without what others here had.
"""

from __future__ import annotations

import msgspec

from coterie.broker.carried import TIME_MASK, origin_of
from coterie.broker.turn import Turn
from coterie.broker.writes import MARKS, META, Saved

HEADS = "heads"
AHEAD_MAX = 1000  # of one origin on one topic; then the gap behind them is given up for good
_pack = msgspec.msgpack.Encoder().encode


class Marks:
    """See the module. `heads` is the last publication heard of, by origin."""

    def __init__(self, turn: Turn) -> None:
        self.heads: dict[int, int] = {}
        self._kept_heads = b""
        self._turn = turn
        self._of: dict[tuple[int, str], int] = {}
        self._ahead: dict[tuple[int, str], dict[int, int]] = {}  # identifier -> the one before it

    def load(self, saved: Saved) -> None:
        for key, value in saved.rows(MARKS):
            assert isinstance(key, tuple)
            identifier, ahead = unpacked_mark(value)
            name = int(key[0]), str(key[1])
            self._of[name] = identifier
            if ahead:
                self._ahead[name] = ahead
            self.hear(max((identifier, *ahead)))
        for key, value in saved.rows(META):
            if key == HEADS:
                for identifier in msgspec.msgpack.decode(value, type=list[int]):
                    self.hear(identifier)

    def hear(self, identifier: int) -> None:
        origin = origin_of(identifier)
        if identifier > self.heads.get(origin, 0):
            self.heads[origin] = identifier

    def keep_heads(self) -> None:
        heads = _pack(list(self.heads.values()))
        if heads != self._kept_heads:
            self._kept_heads = heads
            self._turn.write(META, HEADS, heads)

    def get(self, origin: int, topic: str) -> int:
        return self._of.get((origin, topic), 0)

    def has(self, origin: int, topic: str, identifier: int) -> bool:
        """Whether it was dealt with."""
        key = (origin, topic)
        return identifier <= self._of.get(key, 0) or (key in self._ahead and identifier in self._ahead[key])

    def pass_by(self, origin: int, topic: str, identifier: int, before: int) -> None:
        """It is dealt with, and so is `before` or it need not be; with the next batch that is kept."""
        ahead = self._ahead.get((origin, topic))
        if ahead is not None and before in ahead:
            self.set_ahead(origin, topic, identifier, before)
        else:
            self.set(origin, topic, identifier)

    def is_next(self, origin: int, topic: str, before: int, identifier: int) -> bool:
        """Whether nothing is missing between what was dealt with and this one, and it is news."""
        key = (origin, topic)
        return before <= self._of.get(key, 0) < identifier and key not in self._ahead

    def pass_lightly(self, origin: int, topic: str, identifier: int) -> None:
        """As `set`, where `is_next`; of what no session wants that outlives this process, nothing is written."""
        self._of[origin, topic] = identifier
        if identifier > self.heads.get(origin, 0):
            self.heads[origin] = identifier

    def set(self, origin: int, topic: str, identifier: int) -> None:
        """Everything up to here is dealt with."""
        key = (origin, topic)
        identifier = max(identifier, self._of.get(key, 0))
        if key in self._ahead:
            ahead = self._ahead.pop(key)
            for later in sorted(ahead):
                if ahead[later] <= identifier:
                    identifier = max(identifier, later)
            left = {later: before for later, before in ahead.items() if later > identifier}
            if left:
                self._ahead[key] = left
        self._of[key] = identifier
        self._write(key)

    def set_ahead(self, origin: int, topic: str, identifier: int, before: int) -> None:
        """It was delivered though `before` is missing, or something before that."""
        key = (origin, topic)
        self._of.setdefault(key, 0)
        ahead = self._ahead.setdefault(key, {})
        ahead[identifier] = before
        if len(ahead) > AHEAD_MAX:
            self.set(origin, topic, min(ahead))
        else:
            self._write(key)

    def reopen(self, origin: int, topic: str, identifier: int, ahead: dict[int, int]) -> None:
        """What came behind this one is wanted again, but for those `ahead`: somebody came who has not had it."""
        key = (origin, topic)
        self._of[key] = min(identifier, self._of.get(key, 0))
        self._ahead.pop(key, None)
        if ahead:
            self._ahead[key] = ahead
        self._write(key)

    def ahead_of(self, origin: int, topic: str) -> dict[int, int]:
        return self._ahead.get((origin, topic), {})

    def ahead(self) -> list[tuple[tuple[int, str], dict[int, int]]]:
        return list(self._ahead.items())

    def _write(self, key: tuple[int, str]) -> None:
        identifier = self._of.get(key, 0)
        ahead = self._ahead.get(key)
        self._turn.writes.append((MARKS, key, _pack(identifier if ahead is None else (identifier, ahead))))

    def all(self) -> list[tuple[tuple[int, str], int]]:
        return list(self._of.items())

    def trim(self, before_us: int) -> None:
        """Forget marks from before this moment of their origin."""
        for key in [key for key in self._of if self._last(key) & TIME_MASK < before_us]:
            del self._of[key]
            self._ahead.pop(key, None)
            self._turn.write(MARKS, key, None)

    def _last(self, key: tuple[int, str]) -> int:
        return max([self._of[key], *self._ahead.get(key, {})])


def unpacked_mark(value: bytes) -> tuple[int, dict[int, int]]:
    found = msgspec.msgpack.decode(value, type=int | tuple[int, dict[int, int]])
    return (found, {}) if isinstance(found, int) else found
