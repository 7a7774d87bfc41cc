"""`coterie frontier`: what can be had for what, cost against hops against sturdiness against moves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.choices import Json
from coterie.cli.console import LOG_STAGES, out, print_json, progress, table
from coterie.cli.logoptions import ComparisonOptions

if TYPE_CHECKING:
    from coterie.api.frontier import Frontier

HEADER = ("design", "GB/month", "across", "hops", "p99", "links", "crash", "moved")
LEGEND = (
    "GB/month: between nodes; across: of these between zones. Hops: mean, and p99. Links: most at a node. Crash: "
    "deliveries among all others that the worst crash of one node cuts. Moved: clients that move once."
)


def frontier_command(
    asked: ComparisonOptions,
    everything: Annotated[
        bool, typer.Option("--all", help="Also show designs that others beat in every respect.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the trade-offs: cost against hops, crashes and moves.

    Plans each kind of links with no client moved, a few, or all, and every other system. Marks the designs that no
    other beats in every respect. `coterie plan ... --system WORDS` makes the one you pick.

    Examples:
      coterie frontier
      coterie frontier subscriptions=subs.csv publications=pubs.jsonl.gz \\
          --map subscriber=user --brokers 16
    """
    from coterie.api.frontier import frontier

    log = asked.log(asked.peers)
    with progress(log.name, as_json, LOG_STAGES) as report:
        found = frontier(asked.compared(log, report), report)
        report("report", 1.0)
        page = found.report().write(log.home / "frontier.html")
    if as_json:
        print_json(found.document() | {"report": str(page)})
    else:
        _show(found, page, everything)


def _show(found: Frontier, page: Path, everything: bool) -> None:
    from coterie.api.frontier_report import cells, shown

    points = list(found.points) if everything else shown(found)
    rows = [[f"{'*' if point.is_best else ' '} {point.label}", *cells(point)[1:-1]] for point in points]
    out.print(table("what can be had for what (* nothing beats it in all respects)", HEADER, rows))
    out.print(LEGEND, width=min(out.width, 80))
    out.print("\nTo make one of them: coterie plan ... --system WORDS, with the same input. The words:")
    for point in found.best:
        out.print(f"  {point.label}: {point.system}", soft_wrap=True)
    out.print(f"\nreport: {page}", soft_wrap=True)
