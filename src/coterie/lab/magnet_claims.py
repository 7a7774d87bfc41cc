"""How Magnet's claims are measured on finished rows, beside what its runs bring along."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.experiment import Row


def always_saves(rows: Sequence[Row]) -> list[float]:
    """1 for every seed in which every point saves something."""
    seeds = sorted({row.seed for row in rows})
    return [float(all(row.values["saving"] > 0 for row in rows if row.seed == seed)) for seed in seeds]
