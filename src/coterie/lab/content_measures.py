"""The points of the content trees paper's experiments, and how its claims read their numbers off finished rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from coterie.lab.experiment import Point, Row, by_seed, matching, per_seed
from coterie.lab.measuring import Setting, curve, each_seed, falling, rising

FLAT, DENSE, STUB = "flat-10", "flat-20", "transit-stub"
FAMILIES = (STUB, FLAT, DENSE)

Measure = Callable[[Sequence[Row]], Sequence[float]]


def grid(networks: Sequence[str], localities: Sequence[float], nodes: Sequence[int], documents: int) -> list[Point]:
    return [
        {"network": network, "locality": locality, "nodes": count, "documents": documents}
        for network in networks
        for locality in localities
        for count in nodes
    ]


def ratio(top: str, bottom: str, **where: Setting) -> Measure:
    """Value over value in every matching row, averaged per seed."""

    def measure(rows: Sequence[Row]) -> list[float]:
        with_both = [row for row in matching(rows, **where) if top in row.values]
        return [float(np.mean(_quotients(own, top, bottom))) for own in by_seed(with_both)]

    return measure


def _quotients(rows: Sequence[Row], top: str, bottom: str) -> list[float]:
    return [row.values[top] / row.values[bottom] for row in rows]


def exact(**formulas: Callable[[float], float]) -> Measure:
    """1 where every value is what its formula says of n, in every row of a seed."""
    return each_seed(
        lambda own: all(
            row.values[name] == formula(row.values["n"]) for row in own for name, formula in formulas.items()
        )
    )


def equal(one: str, other: str) -> Measure:
    """1 where two values are the same, but for rounding, in every row of a seed."""
    return each_seed(lambda own: all(math.isclose(row.values[one], row.values[other]) for row in own))


def orders(top: str, bottom: str, **where: Setting) -> Measure:
    """The decimal logarithm of a ratio."""
    plain = ratio(top, bottom, **where)
    return lambda rows: [float(np.log10(value)) for value in plain(rows)]


def growing(top: str, bottom: str, **where: Setting) -> Measure:
    """1 where value over value rises with the number of nodes."""

    def told(own: list[Row]) -> bool:
        ordered = sorted(own, key=lambda row: (row.point["nodes"], row.values[top] / row.values[bottom]))
        return rising(_quotients(ordered, top, bottom))

    return each_seed(told, **where)


def nearing(top: str, bottom: str, **where: Setting) -> Measure:
    """1 where value over value is nearer to 1 the wider the locality, on the mean of all sizes."""

    def told(own: list[Row]) -> bool:
        found: dict[float, list[Row]] = {}
        for row in own:
            found.setdefault(float(row.point["locality"]), []).append(row)
        off = [abs(float(np.mean(_quotients(found[locality], top, bottom))) - 1) for locality in sorted(found)]
        return falling(off)

    return each_seed(told, **where)


def worst_ratio(top: str, bottom: str, **where: Setting) -> Measure:
    """The largest value over value among a seed's rows."""
    return each_seed(lambda own: max(_quotients(own, top, bottom)), **where)


def always(top: str, bottom: str) -> Measure:
    """1 where `top` is at most `bottom` in every row of a seed."""
    return each_seed(lambda own: all(row.values[top] <= row.values[bottom] * (1 + 1e-9) for row in own))


def sample_penalty(value: str, network: str, enough: float, keywords: int) -> Measure:
    """Cost learned from 3 % over cost learned from a sample that is large enough."""

    def measure(rows: Sequence[Row]) -> list[float]:
        at: dict[str, float | int | str | bool] = {"network": network, "keywords_per_document": keywords}
        some, most = (per_seed(rows, value, sampling=share, **at) for share in (0.03, enough))
        return [one / other for one, other in zip(some, most, strict=True)]

    return measure


def turning_point(value: str, network: str) -> Measure:
    """1 where cost first falls and then rises with the number of trees."""

    def measure(rows: Sequence[Row]) -> list[float]:
        verdicts = []
        for own in by_seed(matching(rows, network=network)):
            costs = curve(own, value, "trees")
            if costs:
                low = min(range(len(costs)), key=costs.__getitem__)
                verdicts.append(float(0 < low < len(costs) - 1))
        return verdicts

    return measure


def steps_up(value: str, network: str) -> Measure:
    """Share of steps along which the value grows with the number of trees."""

    def measure(rows: Sequence[Row]) -> list[float]:
        curves = [curve(own, value, "trees") for own in by_seed(matching(rows, network=network))]
        return [float(np.mean(np.diff(values) >= 0)) for values in curves if len(values) > 1]

    return measure
