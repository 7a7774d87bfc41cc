"""The papers' figures drawn again: our means with their confidence intervals, the paper's points beside them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from coterie.lab.experiment import Experiment, Plot, Row, is_at
from coterie.lab.judging import confidence
from coterie.lab.printed import printed_points
from coterie.pipeline import charts
from coterie.pipeline.charts import Spot

SMALLER = " (measured smaller)"
HEADER = ("who", "line", "x", "y", "error", "seeds")


@dataclass(frozen=True)
class DrawnFigure:
    """A picture, and the table that it was drawn from."""

    plot: Plot
    ours: dict[str, list[Spot]]
    theirs: dict[str, list[Spot]]
    seeds: int
    is_small: bool = False  # some of it was measured at a smaller size than its axis or its lines say

    @cached_property
    def svg(self) -> str:
        return self.picture()

    def picture(self, is_lettered: bool = False) -> str:
        plot = self.plot
        return charts.spots(
            f"{plot.title}{SMALLER if self.is_small else ''}",
            self.ours,
            self.theirs,
            plot.x_label or plot.x or "",
            plot.y_label or _name(plot),
            plot.log_x,
            plot.log_y,
            is_lettered,
        )

    @property
    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(HEADER)
        for who, lines, seeds in (("coterie", self.ours, str(self.seeds)), ("paper", self.theirs, "")):
            for line, spots in lines.items():
                writer.writerows((who, line, spot.x, spot.y, spot.error, seeds) for spot in spots)
        return text.getvalue()


def _name(plot: Plot) -> str:
    return plot.y if isinstance(plot.y, str) else ""


def figures_of(experiment: Experiment, rows: Sequence[Row]) -> list[tuple[str, DrawnFigure]]:
    """All of an experiment's that have a point of ours, each with the name of its files."""
    name = experiment.id.replace("/", "-")
    made = [(f"{name}-{at}", drawn(experiment.short, plot, rows)) for at, plot in enumerate(experiment.plots, 1)]
    return [(file, figure) for file, figure in made if figure.ours]


def drawn(paper: str, plot: Plot, rows: Sequence[Row]) -> DrawnFigure:
    """From the finished rows of an experiment, and what was read off the paper."""
    series: dict[str, dict[float | str, list[float]]] = {}
    named = {"": plot.y} if isinstance(plot.y, str) else plot.y
    for label, value in named.items():
        for row in rows:
            if value in row.values and _is_asked(plot, row) and _unit(plot, row):
                line, x = _where(plot, row, label)
                series.setdefault(line, {}).setdefault(x, []).append(row.values[value] / _unit(plot, row))
    ours = {line: [_spot(x, found) for x, found in points.items()] for line, points in series.items()}
    theirs: dict[str, list[Spot]] = {}
    for point in printed_points(paper, plot.figure) if plot.figure else ():
        theirs.setdefault(point.line, []).append(Spot(point.x, point.y, point.error))
    is_small = any(row.is_small for row in rows if _is_asked(plot, row))
    return DrawnFigure(plot, ours, theirs, len({row.seed for row in rows}), is_small)


def _is_asked(plot: Plot, row: Row) -> bool:
    if plot.x is not None and plot.x not in row.point:
        return False
    if callable(plot.only):
        return plot.only(row.point)
    return is_at(row.point, plot.only)


def _where(plot: Plot, row: Row, label: str) -> tuple[str, float | str]:
    """The line that a value belongs to, and its place on the axis."""
    keys = (plot.line,) if isinstance(plot.line, str) else plot.line
    told = " ".join(str(row.point[key]) for key in keys if key in row.point)
    if plot.x is not None:
        return f"{label} {told}".strip(), _place(row.point[plot.x])
    line, _, x = label.rpartition(" @ ")
    return f"{line} {told}".strip(), float(x)


def _unit(plot: Plot, row: Row) -> float:
    """What a value is divided by; 0 where that was not measured or is nothing."""
    return row.values.get(plot.over, 0.0) if plot.over else 1.0


def _place(x: float | int | str | bool) -> float | str:
    return float(x) if isinstance(x, int | float) and not isinstance(x, bool) else str(x)


def _spot(x: float | str, found: Sequence[float]) -> Spot:
    return Spot(x, sum(found) / len(found), confidence(found) if len(found) > 1 else 0.0)
