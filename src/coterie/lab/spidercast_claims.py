"""How SpiderCast's claims are measured on finished rows, and the sizes its experiments share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coterie.lab.experiment import Claim, Experiment, Plot, Point, Row, as_it_is, per_seed, shrunk
from coterie.lab.measuring import Measure, Settings

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


Table = dict[object, float]


def above(name: str, over: Settings, under: Settings) -> Measure:
    """By how many per cent the first point's value lies above the second's."""

    def measure(rows: Sequence[Row]) -> list[float]:
        uppers, lowers = per_seed(rows, name, **over), per_seed(rows, name, **under)
        if not uppers or not lowers:
            return []  # one of the two points was not run
        return [100 * (upper / lower - 1) for upper, lower in zip(uppers, lowers, strict=True)]

    return measure


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
