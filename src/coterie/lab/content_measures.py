"""The points of the content trees paper's experiments, and how its claims read their numbers off finished rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from coterie.lab.experiment import Point, Row, per_seed

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


def ratio(top: str, bottom: str, **where: float | int | str | bool) -> Measure:
    """Value over value in every matching row, averaged per seed."""

    def measure(rows: Sequence[Row]) -> list[float]:
        found: dict[int, list[float]] = {}
        for row in rows:
            if all(row.point.get(key) == wanted for key, wanted in where.items()) and top in row.values:
                found.setdefault(row.seed, []).append(row.values[top] / row.values[bottom])
        return [float(np.mean(found[seed])) for seed in sorted(found)]

    return measure


def exact(**formulas: Callable[[float], float]) -> Measure:
    """1 where every value is what its formula says of n, in every row of a seed."""

    def measure(rows: Sequence[Row]) -> list[float]:
        seeds = sorted({row.seed for row in rows})
        own = {seed: [row.values for row in rows if row.seed == seed] for seed in seeds}
        return [
            float(all(found[name] == formula(found["n"]) for found in own[seed] for name, formula in formulas.items()))
            for seed in seeds
        ]

    return measure


def equal(one: str, other: str) -> Measure:
    """1 where two values are the same, but for rounding, in every row of a seed."""

    def measure(rows: Sequence[Row]) -> list[float]:
        seeds = sorted({row.seed for row in rows})
        own = {seed: [row.values for row in rows if row.seed == seed] for seed in seeds}
        return [float(all(math.isclose(found[one], found[other]) for found in own[seed])) for seed in seeds]

    return measure


def orders(top: str, bottom: str, **where: float | int | str | bool) -> Measure:
    """The decimal logarithm of a ratio."""
    plain = ratio(top, bottom, **where)
    return lambda rows: [float(np.log10(value)) for value in plain(rows)]


def growing(top: str, bottom: str, **where: float | int | str | bool) -> Measure:
    """1 where value over value rises with the number of nodes."""

    def measure(rows: Sequence[Row]) -> list[float]:
        chosen = [row for row in rows if all(row.point.get(key) == wanted for key, wanted in where.items())]
        verdicts = []
        for seed in sorted({row.seed for row in chosen}):
            curve = sorted(
                (row.point["nodes"], row.values[top] / row.values[bottom]) for row in chosen if row.seed == seed
            )
            verdicts.append(float(np.all(np.diff([value for _, value in curve]) > 0)))
        return verdicts

    return measure


def nearing(top: str, bottom: str, **where: float | int | str | bool) -> Measure:
    """1 where value over value is nearer to 1 the wider the locality, on the mean of all sizes."""

    def measure(rows: Sequence[Row]) -> list[float]:
        chosen = [row for row in rows if all(row.point.get(key) == wanted for key, wanted in where.items())]
        verdicts = []
        for seed in sorted({row.seed for row in chosen}):
            found: dict[float, list[float]] = {}
            for row in chosen:
                if row.seed == seed:
                    found.setdefault(float(row.point["locality"]), []).append(row.values[top] / row.values[bottom])
            off = [abs(float(np.mean(found[locality])) - 1) for locality in sorted(found)]
            verdicts.append(float(np.all(np.diff(off) < 0)))
        return verdicts

    return measure


def worst(top: str, bottom: str, **where: float | int | str | bool) -> Measure:
    """The largest value over value among a seed's rows."""

    def measure(rows: Sequence[Row]) -> list[float]:
        chosen = [row for row in rows if all(row.point.get(key) == wanted for key, wanted in where.items())]
        seeds = sorted({row.seed for row in chosen})
        return [max(row.values[top] / row.values[bottom] for row in chosen if row.seed == seed) for seed in seeds]

    return measure


def always_one(value: str, **where: float | int | str | bool) -> Measure:
    """1 for every seed whose rows all have the value 1."""

    def measure(rows: Sequence[Row]) -> list[float]:
        chosen = [row for row in rows if all(row.point.get(key) == wanted for key, wanted in where.items())]
        seeds = sorted({row.seed for row in chosen})
        return [float(all(row.values[value] == 1.0 for row in chosen if row.seed == seed)) for seed in seeds]

    return measure


def always(top: str, bottom: str) -> Measure:
    """1 where `top` is at most `bottom` in every row of a seed."""

    def measure(rows: Sequence[Row]) -> list[float]:
        seeds = sorted({row.seed for row in rows})
        return [
            float(all(row.values[top] <= row.values[bottom] * (1 + 1e-9) for row in rows if row.seed == seed))
            for seed in seeds
        ]

    return measure


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
        for seed in sorted({row.seed for row in rows}):
            curve = sorted(
                (float(row.point["trees"]), row.values[value])
                for row in rows
                if row.seed == seed and row.point["network"] == network and value in row.values
            )
            if not curve:
                continue
            low = min(range(len(curve)), key=lambda at: curve[at][1])
            verdicts.append(float(0 < low < len(curve) - 1))
        return verdicts

    return measure


def rising(value: str, network: str) -> Measure:
    """Share of steps along which the value grows with the number of trees."""

    def measure(rows: Sequence[Row]) -> list[float]:
        shares = []
        for seed in sorted({row.seed for row in rows}):
            curve = [
                value_at
                for _, value_at in sorted(
                    (float(row.point["trees"]), row.values[value])
                    for row in rows
                    if row.seed == seed and row.point["network"] == network and value in row.values
                )
            ]
            if len(curve) > 1:
                shares.append(float(np.mean(np.diff(curve) >= 0)))
        return shares

    return measure
