"""`coterie reproduce`: run the papers' experiments and print a verdict per claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

from coterie.cli.choices import Json
from coterie.cli.console import out, print_json, progress, table
from coterie.lab.experiment import Experiment, Row
from coterie.lab.judging import Verdict
from coterie.lab.pages import write_pages
from coterie.lab.registry import experiments
from coterie.lab.reproduce import (
    SMALL_NOTE,
    TOTALS_HEADER,
    Finding,
    as_document,
    chosen,
    report,
    reproduce,
    shown,
    totals_rows,
)
from coterie.lab.tables import measured_tables
from coterie.pipeline.sweep import Progress, in_processes, in_spark

COLOURS = {Verdict.REPRODUCED: "green", Verdict.PARTLY: "yellow", Verdict.NOT: "red", Verdict.UNDECIDED: "magenta"}
COLOURS[Verdict.MISSING] = "dim"


def reproduce_command(
    paper: Annotated[
        str | None,
        typer.Argument(help="tamara, magnet, dynatops, content, spidercast, coterie or survey; all by default."),
    ] = None,
    claim: Annotated[str | None, typer.Option(help="Only PAPER/FIGURE or PAPER/FIGURE/CLAIM.")] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="The papers' sizes, or small ones in seconds.")] = False,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, instead of each experiment's own number.", min=1)
    ] = None,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Results and the report.")] = Path("out/claims"),
    spark: Annotated[
        str | None, typer.Option("--spark", help="Run on a cluster: spark://... or sc://...; this machine by default.")
    ] = None,
    pages: Annotated[
        Path | None, typer.Option(help="Also write verdicts and figures into the papers' pages of this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the papers' experiments.

    Prints what is claimed, what we measure and a verdict. What is already in OUT is not run again, so an interrupted
    run goes on where it was.

    Examples:
      coterie reproduce magnet
      coterie reproduce tamara --full
    """
    picked = chosen(experiments(paper), claim)
    with progress("claims", as_json) as tell:
        if spark is None:
            findings = reproduce(in_processes(), picked, out_folder, full, seeds, tell)
        else:
            findings = _on_cluster(spark, picked, out_folder, full, seeds, tell)
        tell("report", 1.0)
        page = report(findings, full, out_folder)
    if pages is not None:
        write_pages(findings, full, pages, seeds)
    if as_json:
        print_json({"form": "full" if full else "quick", "claims": as_document(findings), "report": str(page)})
        return
    for finding in findings:
        if finding.judgements:
            out.print(_table(finding))
            out.print()
        if finding.experiment.shown:
            out.print(_values(finding))
            out.print()
        for measured in measured_tables(finding):
            out.print(table(f"{finding.experiment.id}: {measured.title}", measured.header, measured.rows))
            out.print()
    out.print(table("Verdicts", TOTALS_HEADER, totals_rows(findings)))
    if any(judgement.is_small for finding in findings for judgement in finding.judgements):
        out.print(SMALL_NOTE)
    out.print(f"report: {page}")


def _on_cluster(
    master: str, picked: Sequence[Experiment], folder: Path, full: bool, seeds: int | None, tell: Progress
) -> list[Finding]:
    from coterie.pipeline.session import close_session, open_session

    tell("starting Spark", 0.0)
    session = open_session(master)
    try:
        return reproduce(in_spark(session), picked, folder, full, seeds, tell)
    finally:
        close_session(session)


def _values(finding: Finding) -> object:
    """One column a point, one row a value: means over seeds; what a point has not measured stays empty."""
    points = list(dict.fromkeys(str(dict(row.point)) for row in finding.rows))
    means = {
        (name, point): fmean(found)
        for name in finding.experiment.shown
        for point in points
        if (found := [row.values[name] for row in finding.rows if str(dict(row.point)) == point and name in row.values])
    }
    rows = [
        [name, *(f"{means[name, point]:.4g}" if (name, point) in means else "" for point in points)]
        for name in finding.experiment.shown
    ]
    names = [" ".join(str(it) for it in dict(row.point).values()) for row in _first_of_each(finding, points)]
    return table(f"{finding.experiment.id}: what was measured", ["", *names], rows)


def _first_of_each(finding: Finding, points: Sequence[str]) -> list[Row]:
    return [next(row for row in finding.rows if str(dict(row.point)) == point) for point in points]


def _table(finding: Finding) -> object:
    rows = [
        [
            judgement.claim.statement,
            judgement.paper,
            judgement.ours,
            f"[{COLOURS[judgement.verdict]}]{shown(judgement)}[/]",
        ]
        for judgement in finding.judgements
    ]
    title = f"{finding.experiment.id}: {finding.experiment.title}"
    return table(title, ["claim", "claimed", "ours", "verdict"], rows)
