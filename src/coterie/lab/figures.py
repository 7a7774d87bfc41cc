"""The papers' figures drawn again: our means with their confidence intervals, the paper's points beside them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from coterie.lab.experiment import Plot, Row
from coterie.lab.judging import confidence
from coterie.lab.printed import printed_points
from coterie.pipeline import charts
from coterie.pipeline.charts import Spot

HEADER = ("who", "line", "x", "y", "error", "seeds")


@dataclass(frozen=True)
class DrawnFigure:
    """A picture, and the table that it was drawn from."""

    plot: Plot
    ours: dict[str, list[Spot]]
    theirs: dict[str, list[Spot]]
    seeds: int

    @property
    def svg(self) -> str:
        plot = self.plot
        return charts.spots(
            plot.title, self.ours, self.theirs, plot.x_label or plot.x, plot.y_label or plot.y, plot.log_x
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


def drawn(paper: str, plot: Plot, rows: Sequence[Row]) -> DrawnFigure:
    """From the finished rows of an experiment, and what was read off the paper."""
    series: dict[str, dict[float | str, list[float]]] = {}
    for row in rows:
        if plot.x in row.point and plot.y in row.values:
            line = str(row.point.get(plot.line, "")) if plot.line else ""
            series.setdefault(line, {}).setdefault(_place(row.point[plot.x]), []).append(row.values[plot.y])
    ours = {line: [_spot(x, found) for x, found in points.items()] for line, points in series.items()}
    theirs: dict[str, list[Spot]] = {}
    for point in printed_points(paper, plot.figure) if plot.figure else ():
        theirs.setdefault(point.line, []).append(Spot(point.x, point.y, point.error))
    return DrawnFigure(plot, ours, theirs, len({row.seed for row in rows}))


def _place(x: float | int | str | bool) -> float | str:
    return float(x) if isinstance(x, int | float) and not isinstance(x, bool) else str(x)


def _spot(x: float | str, found: Sequence[float]) -> Spot:
    return Spot(x, sum(found) / len(found), confidence(found) if len(found) > 1 else 0.0)
