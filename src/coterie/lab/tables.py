"""Tables of what was measured, beside the claims: one line a point, one column a value, means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from coterie.lab.experiment import Row, ValueTable

if TYPE_CHECKING:
    from coterie.lab.reproduce import Finding


class MeasuredTable(NamedTuple):
    title: str
    header: list[str]
    rows: list[list[str]]


def measured_tables(finding: Finding) -> list[MeasuredTable]:
    return [_measured(table, finding.rows) for table in finding.experiment.tables]


def _measured(table: ValueTable, rows: Sequence[Row]) -> MeasuredTable:
    points = list(dict.fromkeys(str(row.point[table.along]) for row in rows))
    header = [table.along, *table.columns]
    return MeasuredTable(table.title, header, [[point, *_cells(table, rows, point)] for point in points])


def _cells(table: ValueTable, rows: Sequence[Row], point: str) -> list[str]:
    """What was not measured at a point stays empty."""
    here = [row.values for row in rows if str(row.point[table.along]) == point]
    found = [[values[name] for values in here if name in values] for name in table.columns.values()]
    return [f"{_short(fmean(values))}" if values else "" for values in found]


def _short(value: float) -> str:
    """Three digits, without powers of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
