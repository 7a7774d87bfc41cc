"""What an experiment is: points to run, values to measure, and the claims of a paper that those values judge.

An experiment's `run` is a plain top-level function `(point, seed) -> {value name: number}`, so that every (point,
seed) can be a task of its own anywhere. Claims look at the finished rows; they never run anything, and nobody edits
results by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Point = Mapping[str, float | int | str | bool]  # the parameters of one run


@dataclass(frozen=True)
class Row:
    """One finished run."""

    experiment: str
    point: Point
    seed: int
    values: Mapping[str, float]
    seconds: float = 0.0
    is_small: bool = False  # run at a smaller size than the point says


OURS = "ours"  # where a claim stands that no paper makes


class Kind(StrEnum):
    """Whose sentence a claim is. Totals never mix them."""

    PAPER = "the paper's"
    READING = "another reading"
    OURS = "our own"


class Sense(StrEnum):
    """How a number is held against the paper's."""

    ABOUT = "about"  # within the tolerance on either side
    AT_LEAST = "at least"  # the tolerance is how far below still counts as partly
    AT_MOST = "at most"  # the tolerance is how far above still counts as partly
    HOLDS = "holds"  # yes or no: one 1.0 or 0.0 per seed


@dataclass(frozen=True)
class Claim:
    """One sentence, cell or curve of a paper, or one of ours.

    `measure` gives one number per seed from the experiment's rows; `judging.judge` holds them against `expected`.
    `because` says what is known about a claim that does not hold. A claim that takes another claim's words another way
    names it in `reads`; all readings of a sentence stand side by side.
    """

    id: str  # "fig12/degree-10000"; its paper comes before it
    where: str  # "Figure 12", or OURS
    statement: str
    expected: float
    tolerance: float
    measure: Callable[[Sequence[Row]], Sequence[float]]
    unit: str = ""
    because: str = ""
    sense: Sense = Sense.ABOUT
    reads: str = ""

    @property
    def kind(self) -> Kind:
        if self.reads:
            return Kind.READING
        return Kind.OURS if self.where == OURS else Kind.PAPER


def yes(
    id: str,
    where: str,
    statement: str,
    measure: Callable[[Sequence[Row]], Sequence[float]],
    because: str = "",
    reads: str = "",
) -> Claim:
    """A claim that holds or does not: `measure` gives 1.0 for every seed where it does, else 0.0."""
    return Claim(id, where, statement, 1.0, 0.0, measure, "", because, Sense.HOLDS, reads)


@dataclass(frozen=True)
class Plot:
    """A figure of the report: value `y`, or several by their labels, over point parameter `x`, one line per value of
    `line`, or of several parameters together, at the points that `only` asks for (None: those without it).

    With `over`, values are divided by that one of the same run: papers often tell shares rather than sizes. Without
    `x` one run gives a whole line: labels of `y` are then "LINE @ X". `figure` names the points in
    `points/PAPER.csv` that the paper prints for it.
    """

    title: str
    x: str | None
    y: str | Mapping[str, str]
    line: str | Sequence[str] = ()
    log_x: bool = False
    log_y: bool = False
    y_label: str = ""
    x_label: str = ""
    figure: str = ""
    over: str = ""
    only: Mapping[str, float | int | str | bool | None] | Callable[[Point], bool] = field(default_factory=dict)


@dataclass(frozen=True)
class ValueTable:
    """A table of the report: one line for each value of point parameter `along`, columns by their labels."""

    title: str
    along: str
    columns: Mapping[str, str]


def as_it_is(point: Point) -> Point:
    return point


def shrunk(**factors: float) -> Callable[[Point], Point]:
    """The point with these sizes divided, to whole numbers."""

    def small(point: Point) -> Point:
        return {key: max(1, round(float(it) / factors[key])) if key in factors else it for key, it in point.items()}

    return small


@dataclass(frozen=True)
class Experiment:
    """A table or figure.

    `full` points are the paper's. The quick form runs `quick` (all of them, if none are given) as `small` makes them
    and names them as they are, so that the claims, which ask for the paper's sizes, are judged there too; verdicts at a
    smaller size are marked.
    """

    id: str  # "spidercast/fig12"
    paper: str
    where: str
    title: str
    run: Callable[[Point, int], Mapping[str, float]]
    quick: Sequence[Point]
    full: Sequence[Point]
    claims: Sequence[Claim] = ()
    plots: Sequence[Plot] = ()
    quick_seeds: int = 3
    full_seeds: int = 5
    small: Callable[[Point], Point] = as_it_is
    shown: Sequence[str] = ()  # values that are printed for every point, besides the claims
    tables: Sequence[ValueTable] = ()
    # What stands in for something that the paper does not give, such as its network or its trace: a sentence is judged
    # once with each, and ids differ by these names alone.
    stand_ins: Sequence[str] = ()

    @property
    def short(self) -> str:
        """The paper's short name, which its ids begin with."""
        return self.id.partition("/")[0]

    def points(self, is_full: bool) -> Sequence[Point]:
        return self.full if is_full or not self.quick else self.quick

    def id_of(self, claim: Claim) -> str:
        return f"{self.short}/{claim.id}"

    def sentence_of(self, claim: Claim) -> str:
        """The claim's id without the name of what stands in."""
        figure, _, name = self.id_of(claim).rpartition("/")
        parts = f"-{name}-"
        for each in self.stand_ins:
            parts = parts.replace(f"-{each}-", "-")
        return f"{figure}/{parts.strip('-')}"


def is_at(point: Point, where: Mapping[str, float | int | str | bool | None]) -> bool:
    """Has the point these parameters, whatever others it has?"""
    return all(point.get(key) == wanted for key, wanted in where.items())


def matching(rows: Sequence[Row], **where: float | int | str | bool) -> list[Row]:
    return [row for row in rows if is_at(row.point, where)]


def by_seed(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each seed, in ascending order of seeds."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.seed, []).append(row)
    return [found[seed] for seed in sorted(found)]


def per_seed(rows: Sequence[Row], value: str, **where: float | int | str | bool) -> list[float]:
    """The named value of the rows whose point matches, one per seed in ascending order."""
    return [row.values[value] for own in by_seed(matching(rows, **where)) for row in own if value in row.values]
