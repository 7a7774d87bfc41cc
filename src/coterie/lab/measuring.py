"""Measures: what a claim reads from an experiment's finished rows, one number per seed in ascending order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from coterie.lab.experiment import Row, by_seed, matching, per_seed

Setting = float | int | str | bool  # one parameter of a point
Settings = dict[str, Setting]
Measure = Callable[[Sequence[Row]], Sequence[float]]


def value(name: str, **where: Setting) -> Measure:
    return lambda rows: per_seed(rows, name, **where)


def each_seed(told: Callable[[list[Row]], float], **where: Setting) -> Measure:
    """What `told` makes of a seed's matching rows; a seed without any says nothing."""
    return lambda rows: [float(told(own)) for own in by_seed(matching(rows, **where))]


def throughout(name: str, is_so: Callable[[float], bool], **where: Setting) -> Measure:
    """1 for every seed in which the value is as asked at all matching points."""
    return each_seed(lambda own: all(is_so(row.values[name]) for row in own), **where)


def worst(name: str, **where: Setting) -> Measure:
    """The largest over all matching points."""

    def measure(rows: Sequence[Row]) -> list[float]:
        groups = [per_seed(own, name) for own in by_seed(matching(rows, **where))]
        return [max(group) for group in groups if group]

    return measure


def along(name: str, key: str, is_so: Callable[[list[float]], bool], **where: Setting) -> Measure:
    """1 for every seed whose values, in the order of the point's `key`, are as asked; one value has no order."""

    def measure(rows: Sequence[Row]) -> list[float]:
        curves = [curve(own, name, key) for own in by_seed(matching(rows, **where))]
        return [float(is_so(values)) for values in curves if len(values) > 1]

    return measure


def curve(rows: Sequence[Row], name: str, key: str) -> list[float]:
    """The values that there are, in the order of the point's `key`."""
    found = sorted((row for row in rows if name in row.values), key=lambda row: float(row.point[key]))
    return [row.values[name] for row in found]


def falling(values: list[float]) -> bool:
    return all(after < before for before, after in pairwise(values))


def rising(values: list[float]) -> bool:
    return all(after > before for before, after in pairwise(values))
