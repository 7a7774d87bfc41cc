"""`coterie reproduce`: run the papers' experiments and print a verdict per claim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.choices import Json
from coterie.cli.console import out, print_json, progress, table
from coterie.lab.experiment import Verdict
from coterie.lab.registry import experiments
from coterie.lab.reproduce import Finding, as_document, chosen, report, reproduce
from coterie.pipeline.session import open_session

COLOURS = {Verdict.REPRODUCED: "green", Verdict.PARTLY: "yellow", Verdict.NOT: "red", Verdict.MISSING: "dim"}


def reproduce_command(
    paper: Annotated[
        str | None, typer.Argument(help="tamara, magnet, dynatops, content or spidercast; else all.")
    ] = None,
    claim: Annotated[str | None, typer.Option(help="Only the experiment or claim whose id starts like this.")] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="The papers' sizes, or small ones in seconds.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Instead of each experiment's own number.", min=1)] = None,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Results and the report.")] = Path("out/claims"),
    spark: Annotated[str, typer.Option("--spark", help="Master: local[*], spark://... or sc://...")] = "local[*]",
    as_json: Json = False,
) -> None:
    """Run the experiments of the papers and print the paper's value, ours, the spread over seeds and a verdict.

    Each (point, seed) is a Spark task; what is already in OUT is not run again, so an interrupted run goes on.
    """
    picked = chosen(experiments(paper), claim)
    with progress("claims", as_json) as tell:
        tell("starting Spark", 0.0)
        session = open_session(spark)
        try:
            findings = reproduce(session, picked, out_folder, full, seeds, tell)
        finally:
            session.stop()
    page = report(findings, full, out_folder)
    if as_json:
        print_json({"form": "full" if full else "quick", "claims": as_document(findings), "report": str(page)})
        return
    for finding in findings:
        if finding.judgements:
            out.print(_table(finding))
            out.print()
    out.print(f"report: {page}")


def _table(finding: Finding) -> object:
    rows = [
        [
            judgement.claim.statement,
            f"{judgement.claim.expected:g} ± {judgement.claim.tolerance:g}",
            f"{judgement.mean:.4g} ± {judgement.spread:.2g}" if judgement.measured else "",
            f"[{COLOURS[judgement.verdict]}]{judgement.verdict.value}[/]",
        ]
        for judgement in finding.judgements
    ]
    title = f"{finding.experiment.id}: {finding.experiment.title}"
    return table(title, ["claim", "paper", "ours", "verdict"], rows)
