"""How far a step of many Spark jobs is: it says which leg of its way begins, and Spark's tasks how far that one is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Leg = Callable[[float, float], None]  # from which to which share of a step the work goes that begins now


@dataclass
class Legs:
    """The leg that a step is on; without a word it is the whole way."""

    low: float = 0.0
    high: float = 1.0
    number: int = 0

    def __call__(self, low: float, high: float) -> None:
        self.low, self.high, self.number = low, high, self.number + 1

    def inside(self, share: float) -> float:
        return self.low + (self.high - self.low) * share


def untold(low: float, high: float) -> None:
    """For work that nobody watches."""


def within(leg: Leg, low: float, high: float) -> Leg:
    """What part of a step says of itself, as a part of the step."""
    return lambda start, end: leg(low + (high - low) * start, low + (high - low) * end)
