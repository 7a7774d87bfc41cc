"""The board of a simulated machine (`broker.siblings`): it outlives its processes, as a file would."""

from __future__ import annotations

from coterie.broker.siblings import NUMBER_BYTES


class SimBoard:
    """One process's view of the numbers that all share."""

    def __init__(self, numbers: list[int], slot: int) -> None:
        self._numbers, self._slot = numbers, slot

    def all(self) -> bytes:
        return b"".join(one.to_bytes(NUMBER_BYTES, "little") for one in self._numbers)

    def advance(self) -> int:
        self._numbers[self._slot] += 1
        return self._numbers[self._slot]
