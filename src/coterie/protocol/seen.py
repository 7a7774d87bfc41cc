"""A bounded memory of identifiers already seen."""

from __future__ import annotations


class Seen:
    """Remembers at least the last `capacity` identifiers and at most twice as many.

    Two generations: when the young one is full it becomes the old one and the old one is forgotten, so each look-up is
    two set probes and forgetting costs nothing per identifier.
    """

    __slots__ = ("_capacity", "_old", "_young")

    def __init__(self, capacity: int = 4096) -> None:
        assert capacity > 0
        self._capacity = capacity
        self._young: set[int] = set()
        self._old: set[int] = set()

    def add(self, identifier: int) -> bool:
        """True if it is new."""
        if identifier in self._young or identifier in self._old:
            return False
        if len(self._young) >= self._capacity:
            self._old = self._young
            self._young = set()
        self._young.add(identifier)
        return True

    def __contains__(self, identifier: int) -> bool:
        return identifier in self._young or identifier in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
