"""The frontier as a page: a picture of cost against hops, and the points in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.model.prices import MONTH_S
from coterie.pipeline import charts
from coterie.pipeline.page import PageSection, Report, ReportTable, TableRow, figure

if TYPE_CHECKING:
    from coterie.api.frontier import Frontier, FrontierPoint

HEADER = ("design", "GB a month", "across zones", "hops", "p99", "links", "crash cuts", "moved", "--system")
SHOWN_TIMES = 8  # points dearer than so many times the cheapest would hide the others


def frontier_page(found: Frontier) -> Report:
    """Best points in bold colours, what they beat in grey."""
    outcome = found.comparison.outcome
    text = (
        "Every point is a design that can be had, learned on the first part of the log and priced on the rest.",
        "Best are those that no other beats in bytes, hops, what the crash of one node cuts and clients moved at once. "
        "coterie plan ... --system WORDS makes the one you pick.",
    )
    rows = [TableRow(cells(point), "best" if point.is_best else "") for point in shown(found)]
    return Report(
        title=f"{outcome.name}: what can be had for what",
        subtitle=f"{len(found.points)} designs, {len(found.best)} of them best in something",
        sections=[
            PageSection("The frontier", text, (picture(found),)),
            PageSection("The points", (), (), (ReportTable(HEADER, rows, text=(0, 8)),)),
        ],
    )


def shown(found: Frontier) -> list[FrontierPoint]:
    """The best ones, and of every other system its cheapest."""
    seen = set[str]()
    kept = []
    for point in found.points:
        if point.is_best or not (point.is_ours or point.system in seen):
            kept.append(point)
            seen.add(point.system)
    return kept


def cells(point: FrontierPoint) -> tuple[str, ...]:
    later, month = point.later, MONTH_S / 1e9
    return (
        point.label,
        figure(later.volume.total * month),
        figure(later.crossing.bytes * month),
        f"{later.delay.hops.mean:.2f}",
        f"{later.delay.hops.p99:.0f}",
        f"{later.state.degree.max:.0f}",
        f"{point.cut.node:.0%}",
        f"{point.moves:.0%}",
        point.system,
    )


def picture(found: Frontier) -> str:
    least = min((point.burden for point in found.points), default=0.0)
    near = [point for point in found.points if point.burden <= SHOWN_TIMES * least]
    groups = {
        "best, a crash cuts nobody": [one for one in near if one.is_best and one.cut.node == 0],
        "best, a crash cuts somebody": [one for one in near if one.is_best and one.cut.node > 0],
        "coterie, beaten": [one for one in near if not one.is_best and one.is_ours],
        "others": [one for one in near if not one.is_best and not one.is_ours],
    }
    dots = {
        name: [(one.later.volume.total * MONTH_S / 1e9, one.later.delay.hops.mean, one.label) for one in some]
        for name, some in groups.items()
        if some
    }
    named = {one.label for one in shown(found)}
    return charts.scatter("Cost against hops", dots, "GB a month between nodes", "hops of a delivery, mean", named)
