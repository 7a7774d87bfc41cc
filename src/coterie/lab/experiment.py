"""What an experiment is: points to run, values to measure, and the claims of a paper that those values judge.

An experiment's `run` is a plain top-level function `(point, seed) -> {value name: number}`, so that every (point,
seed) can be a task of its own anywhere. Claims look at the finished rows; they never run anything, and nobody edits
results by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

Point = Mapping[str, float | int | str | bool]  # the parameters of one run


@dataclass(frozen=True)
class Row:
    """One finished run."""

    experiment: str
    point: Point
    seed: int
    values: Mapping[str, float]
    seconds: float = 0.0


class Verdict(StrEnum):
    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not reproduced"
    MISSING = "not run"


@dataclass(frozen=True)
class Claim:
    """One sentence, cell or curve of a paper.

    `measure` gives one number per seed from the experiment's rows. It is *reproduced* when the mean lies within
    `tolerance` of `expected`, *partly* within twice that. For a claim about a shape, measure 1.0 where it holds and
    expect 1.0. `because` says what is known about a claim that does not hold.
    """

    id: str  # "fig12/degree-10000"; the experiment's paper comes before it
    where: str  # "Figure 12"
    statement: str
    expected: float
    tolerance: float
    measure: Callable[[Sequence[Row]], Sequence[float]]
    unit: str = ""
    because: str = ""

    def judge(self, rows: Sequence[Row]) -> Judgement:
        measured = [float(value) for value in self.measure(rows)] if rows else []
        if not measured:
            return Judgement(self, (), Verdict.MISSING)
        off = abs(float(np.mean(measured)) - self.expected)
        if off <= self.tolerance:
            return Judgement(self, tuple(measured), Verdict.REPRODUCED)
        return Judgement(self, tuple(measured), Verdict.PARTLY if off <= 2 * self.tolerance else Verdict.NOT)


@dataclass(frozen=True)
class Judgement:
    """A claim and what we measured for it."""

    claim: Claim
    measured: tuple[float, ...]
    verdict: Verdict

    @property
    def mean(self) -> float:
        return float(np.mean(self.measured)) if self.measured else float("nan")

    @property
    def spread(self) -> float:
        """Standard deviation over seeds."""
        return float(np.std(self.measured, ddof=1)) if len(self.measured) > 1 else 0.0


@dataclass(frozen=True)
class Plot:
    """A figure of the report: value `y` over point parameter `x`, one line per value of `line`."""

    title: str
    x: str
    y: str
    line: str | None = None
    log_x: bool = False
    y_label: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or figure. `quick` points take seconds in all, `full` points are the paper's sizes."""

    id: str  # "spidercast/fig12"
    paper: str
    where: str
    title: str
    run: Callable[[Point, int], Mapping[str, float]]
    quick: Sequence[Point]
    full: Sequence[Point]
    claims: Sequence[Claim] = ()
    plots: Sequence[Plot] = ()
    quick_seeds: int = 1
    full_seeds: int = 5


def per_seed(rows: Sequence[Row], value: str, **where: float | int | str | bool) -> list[float]:
    """The named value of the rows whose point matches, one per seed in ascending order."""
    matching = [row for row in rows if all(row.point.get(key) == wanted for key, wanted in where.items())]
    return [row.values[value] for row in sorted(matching, key=lambda row: row.seed) if value in row.values]
