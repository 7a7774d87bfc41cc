"""How often a number was how large, counted in powers of two: cheap enough for every message."""

from __future__ import annotations

SIZE = 64


class Bins:
    """Bin k holds the numbers below 2 ** k that are in no bin before it; 0 is in the first."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * SIZE
        self.total = 0

    def add(self, number: int, times: int = 1) -> None:
        self.counts[number.bit_length()] += times
        self.total += number * times

    @property
    def count(self) -> int:
        return sum(self.counts)
