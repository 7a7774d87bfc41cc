"""How SpiderCast's claims are measured on finished rows, and the sizes its experiments share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from coterie.lab.experiment import Claim, Experiment, Plot, Point, Row, as_it_is, per_seed, shrunk

PAPER = "SpiderCast"
SIZES = (1000, 2000, 4000, 6000, 8000, 10000)
AN_EIGHTH, A_QUARTER = shrunk(nodes=8), shrunk(nodes=4)  # of the nodes, for the quick form
ENDS = (SIZES[0], SIZES[-1])
LIVES = (100, 200, 300, 400, 500)  # mean, in seconds


def capped(most: int) -> Callable[[Point], Point]:
    """At most so many nodes, where claims are about numbers that change with them."""
    return lambda point: {**point, "nodes": min(int(point["nodes"]), most)}


def only_ends(points: Sequence[Point], key: str = "nodes", ends: Sequence[float] = ENDS) -> list[Point]:
    return [point for point in points if point[key] in ends]


Setting = dict[str, float | int | str | bool]
Table = dict[object, float]
Measure = Callable[[Sequence[Row]], Sequence[float]]


def value(name: str, **where: float | int | str | bool) -> Measure:
    return lambda rows: per_seed(rows, name, **where)


def worst(name: str, **where: float | int | str | bool) -> Measure:
    """The largest over all matching points, one number per seed."""

    def measure(rows: Sequence[Row]) -> list[float]:
        seeds = sorted({row.seed for row in rows})
        groups = [per_seed([row for row in rows if row.seed == seed], name, **where) for seed in seeds]
        return [max(group) for group in groups if group]

    return measure


def holds(name: str, key: str, is_ordered: Callable[[list[float]], bool], **where: float | int | str | bool) -> Measure:
    """1.0 for every seed whose values, in the order of the point's `key`, satisfy the predicate."""

    def measure(rows: Sequence[Row]) -> list[float]:
        verdicts = []
        for seed in sorted({row.seed for row in rows}):
            chosen = [row for row in rows if row.seed == seed and all(row.point.get(k) == v for k, v in where.items())]
            ordered = sorted(chosen, key=lambda row: row.point[key])
            values = [row.values[name] for row in ordered if name in row.values]
            if len(values) > 1:
                verdicts.append(float(is_ordered(values)))
        return verdicts

    return measure


def ratio(name: str, over: Setting, under: Setting) -> Measure:
    """In percent above the second point's value."""

    def measure(rows: Sequence[Row]) -> list[float]:
        uppers, lowers = per_seed(rows, name, **over), per_seed(rows, name, **under)
        if not uppers or not lowers:
            return []  # one of the two points was not run
        return [100 * (upper / lower - 1) for upper, lower in zip(uppers, lowers, strict=True)]

    return measure


def falling(values: list[float]) -> bool:
    return all(after < before for before, after in pairwise(values))


def rising(values: list[float]) -> bool:
    return all(after > before for before, after in pairwise(values))


def experiment(
    name: str,
    where: str,
    title: str,
    run: Callable[[Point, int], Mapping[str, float]],
    full: Sequence[Point],
    claims: Sequence[Claim],
    plots: Sequence[Plot] = (),
    small: Callable[[Point], Point] = as_it_is,
    full_seeds: int = 3,
    quick: Sequence[Point] = (),
    quick_seeds: int = 3,
) -> Experiment:
    return Experiment(
        f"spidercast/{name}",
        PAPER,
        where,
        title,
        run,
        quick,
        full,
        claims,
        plots,
        quick_seeds=quick_seeds,
        full_seeds=full_seeds,
        small=small,
    )
