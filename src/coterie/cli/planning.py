"""`coterie compare` and `coterie plan`: logs in, bills and a priced plan out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from coterie.cli import choices
from coterie.cli.console import number, out, print_json, progress, settings_of, table
from coterie.errors import ConfigError
from coterie.pipeline.embedded import embedded_request
from coterie.pipeline.job import BASELINE, Outcome, Request, publish_plan, run_job
from coterie.pipeline.mapping import Source, parse_columns, read_sources
from coterie.pipeline.planning import Candidate, Priced
from coterie.pipeline.plans import PlanStore
from coterie.pipeline.report import comparison
from coterie.pipeline.schemas import TABLES
from coterie.pipeline.session import open_session
from coterie.pipeline.shapes import SHAPES, Choices, find_trace, shape_of
from coterie.pipeline.windows import WindowChoices
from coterie.systems import SYSTEMS, system_named

INPUT, WINDOWS = "Input", "Windows and network"

Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files, folders, globs, a journal folder, or the name of a known trace; TABLE=PATH says what a file "
        "holds. Nothing: the embedded Debian data.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for tables, designs, ledgers, plans and the report.")]
Spark = Annotated[str, typer.Option("--spark", help="Master: local[*], spark://..., or sc://... (Spark Connect).")]
Systems = Annotated[
    list[str] | None,
    typer.Option("--system", "-s", help="Repeatable; all systems by default. NAME or NAME:key=value,..."),
]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NAME=COLUMN", help="Column mapping, e.g. subscriber=user.", rich_help_panel=INPUT),
]
Mapping = Annotated[
    Path | None,
    typer.Option("--mapping", help="A TOML file that says it all, see docs/PIPELINE.md.", rich_help_panel=INPUT),
]
TimeUnit = Annotated[str, typer.Option("--time-unit", help="auto, s, ms, us, ns or iso.", rich_help_panel=INPUT)]
Zone = Annotated[str, typer.Option("--zone", help="Zone of times that carry none.", rich_help_panel=INPUT)]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.", rich_help_panel=INPUT)]
Machines = Annotated[
    int, typer.Option("--machines", help="Subscribers drawn for the Debian trace.", rich_help_panel=INPUT)
]
Cell = Annotated[
    float, typer.Option("--cell", help="Edge of a grid cell in degrees, for positions.", rich_help_panel=INPUT)
]
NodeCount = Annotated[
    int, typer.Option("--nodes", help="Brokers; 0 chooses by the number of clients.", rich_help_panel=WINDOWS)
]
Interval = Annotated[
    float, typer.Option("--interval", help="Seconds per interval; 0 chooses an hour or a day.", rich_help_panel=WINDOWS)
]
LearnShare = Annotated[
    float, typer.Option("--learn-share", help="Share of the publications to learn from.", rich_help_panel=WINDOWS)
]


def planning_command(publishes: bool, says: str) -> Callable[..., None]:
    """The two commands differ in what they do with the outcome."""

    def command(
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
        nodes: NodeCount = 0,
        interval: Interval = 0.0,
        learn_share: LearnShare = 0.5,
        seed: choices.Seed = 1,
        spark: Spark = "local[*]",
        as_json: choices.Json = False,
    ) -> None:
        request = replace(
            _request(inputs or [], columns, mapping, time_unit, zone),
            readers=Choices(seed=seed, subscribers=machines, cell_degrees=cell, strict=strict),
            windows=WindowChoices(learn_share=learn_share, interval_s=interval, brokers=nodes, seed=seed),
            seed=seed,
            strict=strict,
        )
        outcome = _run(request, candidates_of(systems), out_folder / request.name, spark, as_json)
        page = comparison(outcome).write(outcome.folder / "report.html")
        version = publish_plan(outcome, PlanStore(outcome.folder)) if publishes else None
        _show(outcome, page, version, as_json)

    command.__doc__ = says
    return command


compare_command = planning_command(
    False,
    """Plan with every system on the first part of a log, price the plans on the rest, show the bills side by side.

    Examples: 'coterie compare', 'coterie compare wiki-month', 'coterie compare subscriptions=subs.csv
    publications=pubs.jsonl.gz --map subscriber=user'
    """,
)
plan_command = planning_command(
    True,
    """Like compare, and publish the cheapest design as a new version of the plan in OUT/NAME/plans.

    Planning the same data again publishes nothing new.
    """,
)


def _run(request: Request, candidates: Sequence[Candidate], folder: Path, master: str, is_quiet: bool) -> Outcome:
    with progress(request.name, is_quiet) as report:
        report("starting Spark", 0.0)
        session = open_session(master)
        try:
            return run_job(session, request, candidates, folder, report)
        finally:
            session.stop()


def candidates_of(systems: list[str] | None) -> list[Candidate]:
    """NAME or NAME:key=value,key=value; all systems by default."""
    chosen = []
    for entry in systems or list(SYSTEMS):
        name, _, settings = entry.partition(":")
        system = system_named(name)
        pairs = [pair for pair in settings.split(",") if pair]
        chosen.append(Candidate(system, system.configure(settings_of(pairs, "--system"))))
    return chosen


def _request(inputs: list[str], columns: list[str] | None, mapping: Path | None, time_unit: str, zone: str) -> Request:
    if mapping is not None:
        return Request(mapping.stem, sources=tuple(read_sources(mapping)))
    if not inputs:
        return embedded_request()
    if len(inputs) == 1 and inputs[0] in {shape.name for shape in SHAPES}:
        return Request(inputs[0], trace=find_trace(inputs[0]))
    if len(inputs) == 1 and "=" not in inputs[0] and os.path.exists(inputs[0]) and not columns:
        path = Path(inputs[0])
        shape = shape_of(path)
        if shape is not None:
            return Request(path.name if shape.name == "journal" else shape.name, trace=path)
    return Request(_name(inputs), sources=_sources(inputs, columns or [], time_unit, zone))


def _sources(inputs: list[str], columns: list[str], time_unit: str, zone: str) -> tuple[Source, ...]:
    by_table: dict[str, list[str]] = {}
    for entry in inputs:
        name, separator, path = entry.partition("=")
        is_named = bool(separator) and name in TABLES
        if separator and not is_named and not os.path.exists(entry):
            raise ConfigError("input", entry, f"TABLE=PATH with a table of {', '.join(TABLES)}")
        by_table.setdefault(name if is_named else "subscriptions", []).append(path if is_named else entry)
    sources = []
    for name, paths in by_table.items():
        mine = [word for word in columns if word.partition("=")[0].strip() in TABLES[name].names]
        mapped = parse_columns(mine, name)
        sources.append(Source(tuple(paths), name, mapped, time_unit=time_unit, zone=zone))
    for word in columns:
        if not any(word.partition("=")[0].strip() in TABLES[name].names for name in by_table):
            raise ConfigError("--map", word, f"a column of {', '.join(by_table)}")
    return tuple(sources)


def _name(inputs: list[str]) -> str:
    stem = Path(inputs[0].partition("=")[2] or inputs[0]).name.split(".")[0]
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in stem) or "input"


def _show(outcome: Outcome, page: Path, version: int | None, as_json: bool) -> None:
    if as_json:
        document = {
            "input": outcome.name,
            "about": outcome.facts,
            "accounts": outcome.accounts,
            "systems": {entry.system: _document(entry) for entry in outcome.priced},
            "cheapest": outcome.chosen.system if outcome.chosen else None,
            "plan": version,
            "report": str(page),
        }
        print_json(msgspec.to_builtins(document))
        return
    facts = outcome.facts
    out.print(
        f"[bold]{outcome.name}[/]: {facts['subscribers']:,} subscribers, {facts['topics']:,} topics, "
        f"{facts['subscriptions']:,} subscriptions, {facts['nodes']:,} nodes"
    )
    for name, account in outcome.accounts.items():
        if account["quarantined"]:
            common = sorted(account["reasons"].items(), key=lambda told: -told[1])
            reasons = "; ".join(f"{reason}: {count:,}" for reason, count in common)
            out.print(
                f"[yellow]{name}: {account['quarantined']:,} of {account['rows_in']:,} rows set aside[/] ({reasons})"
            )
    out.print()
    out.print(_bills(outcome))
    for entry in outcome.priced:
        if entry.problem:
            out.print(f"{entry.system} has no bill: {entry.problem}")
    if version is not None:
        out.print(f"\nplan {version} is current in {outcome.folder / 'plans'}")
    out.print(f"\nreport: {page}")


def _document(entry: Priced) -> dict[str, object]:
    if entry.learn is None or entry.later is None or entry.later_bound is None:
        return {"problem": entry.problem}
    return {
        "learn": entry.learn.columns(),
        "later": entry.later.columns(),
        "later_bound": entry.later_bound.columns(),
        "plan_s": entry.plan_s,
        "price_s": entry.price_s,
    }


def _bills(outcome: Outcome) -> object:
    """One row per system, cheapest first; what a person asks first is in the first columns."""
    usable = [entry for entry in outcome.priced if entry.learn and entry.later and entry.later_bound]
    base = next((entry.later.overall for entry in usable if entry.system == BASELINE and entry.later), 0.0)
    rows = []
    for entry in sorted(usable, key=lambda entry: entry.later.overall if entry.later else 0.0):
        later = entry.later
        assert entry.learn is not None
        assert later is not None
        assert entry.later_bound is not None
        rows.append(
            [
                f"[bold]{entry.system}[/]"
                if outcome.chosen and entry.system == outcome.chosen.system
                else entry.system,
                number(entry.learn.overall),
                number(later.overall),
                f"{1 - later.overall / base:+.0%}" if base else "",
                f"{later.overall / entry.later_bound.overall:.2f}x" if entry.later_bound.overall else "",
                number(later.dissemination.copies),
                number(later.dissemination.relayed + later.dissemination.filtered + later.dissemination.duplicate),
                f"{later.delay.hops.mean:.1f}",
                f"{later.state.degree.mean:.1f}",
                number(later.loss.lost),
            ]
        )
    header = ["system", "learned", "later", "saved", "of bound", "copies", "unwanted", "hops", "links", "lost"]
    title = f"messages per interval of {outcome.facts['interval_s']:g} s (saved: against {BASELINE}, later window)"
    return table(title, header, rows)
