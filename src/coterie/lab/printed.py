"""The points that the papers print: read off their figures and tables, with how far the reading may be off.

One CSV file per paper in `points/`: `figure,line,x,y,error`. Cells of tables have no reading error beyond their last
digit. A figure of the report shows them beside ours.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class PrintedPoint:
    """One point of a paper's figure. `x` is text where the axis is one of names."""

    figure: str
    line: str
    x: float | str
    y: float
    error: float


def printed_points(paper: str, figure: str) -> list[PrintedPoint]:
    """What the paper prints for this figure; nothing if nobody has read it off."""
    return [point for point in _all(paper) if point.figure == figure]


@cache
def _all(paper: str) -> tuple[PrintedPoint, ...]:
    file = files("coterie.lab").joinpath("points", f"{paper}.csv")
    if not file.is_file():
        return ()
    with file.open(encoding="utf-8") as lines:
        return tuple(
            PrintedPoint(row["figure"], row["line"], _number(row["x"]), float(row["y"]), float(row["error"]))
            for row in csv.DictReader(lines)
        )


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
