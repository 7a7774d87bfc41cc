"""`coterie frontier`: what can be had for what, cost against hops against sturdiness against moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.api.logs import AGAINST
from coterie.cli import choices
from coterie.cli.console import LOG_STAGES, out, print_json, progress, table
from coterie.cli.planning import (
    Against,
    BrokerCount,
    Cell,
    FleetFile,
    Inputs,
    LearnShare,
    Machines,
    Map,
    Mapping,
    Out,
    Peers,
    PriceFile,
    Spark,
    Strict,
    Systems,
    TimeUnit,
    Zone,
    ZoneCount,
    log_of_words,
)

if TYPE_CHECKING:
    from coterie.api.frontier import Frontier

HEADER = ("design", "GB/month", "across", "hops", "p99", "links", "crash", "moved")
Everything = Annotated[bool, typer.Option("--all", help="Also show designs that others beat in every respect.")]


def frontier_command(
    inputs: Inputs = None,
    out_folder: Out = Path("out"),
    systems: Systems = None,
    columns: Map = None,
    mapping: Mapping = None,
    time_unit: TimeUnit = "auto",
    zone: Zone = "UTC",
    strict: Strict = False,
    machines: Machines = 1000,
    cell: Cell = 1.0,
    against: Against = AGAINST,
    brokers: BrokerCount = 0,
    zones: ZoneCount = None,
    peers: Peers = False,
    fleet: FleetFile = None,
    prices: PriceFile = None,
    learn_share: LearnShare = 0.5,
    everything: Everything = False,
    seed: choices.Seed = 1,
    spark: Spark = "local[*]",
    conf: choices.Conf = None,
    as_json: choices.Json = False,
) -> None:
    """Show the trade-offs: cost against hops, crashes and moves.

    Plans every kind of links, with nobody moved, a few, or all, beside every other system; marks what nothing else
    beats in all respects. `coterie plan ... --system WORDS` makes the one you pick.

    Examples:
      coterie frontier
      coterie frontier subscriptions=subs.csv publications=pubs.jsonl.gz --map subscriber=user --brokers 16
    """
    from coterie.api.comparing import compare
    from coterie.api.frontier import frontier
    from coterie.pipeline.shapes import Choices

    readers = Choices(seed=seed, subscribers=machines, cell_degrees=cell, strict=strict)
    log = log_of_words(inputs, out_folder, columns, mapping, time_unit, zone, readers, spark, peers)
    learn = replace(log, brokers=brokers).split(learn_share)[0]
    with progress(log.name, as_json, LOG_STAGES) as report:
        compared = compare(
            learn, systems=systems, against=against, prices=prices, zones=zones, fleet=fleet, seed=seed, progress=report
        )
        found = frontier(compared, report)
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
    out.print("\nTo make one of them: coterie plan ... --system WORDS, with the same input. The words:")
    for point in found.best:
        out.print(f"  {point.label}: {point.system}", soft_wrap=True)
    out.print(f"\nreport: {page}", soft_wrap=True)
