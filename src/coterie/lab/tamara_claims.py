"""How Tamara's claims are written down: grids of points, values per seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.lab.experiment import Point, Row, per_seed

PAPER = "Milo, Zur, Verbin: Boosting Topic-Based Publish-Subscribe Systems with Dynamic Clustering, SIGMOD 2007"
Setting = dict[str, float | int | str | bool]
RATES = ("average", "frequent", "infrequent")


def value(name: str, **where: float | int | str | bool) -> Callable[[Sequence[Row]], Sequence[float]]:
    return lambda rows: per_seed(rows, name, **where)


def holds(
    name: str, test: Callable[[float], bool], **where: float | int | str | bool
) -> Callable[[Sequence[Row]], Sequence[float]]:
    return lambda rows: [float(test(value)) for value in per_seed(rows, name, **where)]


def grid(**axes: Sequence[float | int | str | bool]) -> list[Point]:
    points: list[dict[str, float | int | str | bool]] = [{}]
    for key, values in axes.items():
        points = [{**point, key: value} for point in points for value in values]
    return list(points)
