"""Chance by name: every draw is a function of the seed, what it is for, and its number there.

A generator that is drawn from in turn would give everybody other numbers when one action of a scenario is left out;
then a failure could not be made smaller without changing everything else.
"""

from __future__ import annotations

from zlib import crc32

_MASK = (1 << 64) - 1


def mixed(value: int) -> int:
    """64 bits that look random, the same for the same value (the finaliser of splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Chance:
    """Draws for one purpose; `of(n)` is the n-th, in any order."""

    __slots__ = ("_base",)

    def __init__(self, seed: int, name: str) -> None:
        self._base = mixed(mixed(seed) ^ crc32(name.encode()) << 16)

    def number(self, n: int, below: int) -> int:
        return mixed(self._base ^ n) % below

    def share(self, n: int) -> float:
        """From 0 to below 1."""
        return (mixed(self._base ^ n) >> 11) / (1 << 53)
