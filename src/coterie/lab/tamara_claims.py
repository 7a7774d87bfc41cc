"""How Tamara's claims are written down: grids of points, values per seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.lab.experiment import Point, per_seed
from coterie.lab.measuring import Measure, Setting, Settings

PAPER = "Milo, Zur, Verbin: Boosting Topic-Based Publish-Subscribe Systems with Dynamic Clustering, SIGMOD 2007"
RATES = ("average", "frequent", "infrequent")


def holds(name: str, test: Callable[[float], bool], **where: Setting) -> Measure:
    return lambda rows: [float(test(value)) for value in per_seed(rows, name, **where)]


def grid(**axes: Sequence[Setting]) -> list[Point]:
    points: list[Settings] = [{}]
    for key, values in axes.items():
        points = [{**point, key: value} for point in points for value in values]
    return list(points)
