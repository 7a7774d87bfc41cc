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
from coterie.cli.bills import Unit, bill_tables, lost
from coterie.cli.console import out, print_json, progress, settings_of
from coterie.cli.fleetfile import ASSUMED_ZONES, known_fleet
from coterie.errors import ConfigError
from coterie.model.prices import EXAMPLE, Prices, read_prices
from coterie.model.wires import COTERIE
from coterie.pipeline.embedded import embedded_request
from coterie.pipeline.job import AGAINST, Outcome, Request, publish_plan, run_job
from coterie.pipeline.mapping import Source, parse_columns, read_sources
from coterie.pipeline.planning import PLACED, STAY, Candidate, Priced
from coterie.pipeline.plans import PlanStore
from coterie.pipeline.report import comparison
from coterie.pipeline.schemas import TABLES
from coterie.pipeline.session import open_session
from coterie.pipeline.shapes import SHAPES, Choices, find_trace, shape_of
from coterie.pipeline.verdict import month_of, sentences, verdict
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
Zone = Annotated[str, typer.Option("--zone", help="Time zone for timestamps without one.", rich_help_panel=INPUT)]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.", rich_help_panel=INPUT)]
Machines = Annotated[
    int, typer.Option("--machines", help="Subscribers drawn for the Debian trace.", rich_help_panel=INPUT)
]
Cell = Annotated[
    float, typer.Option("--cell", help="Edge of a grid cell in degrees, for positions.", rich_help_panel=INPUT)
]
BrokerCount = Annotated[
    int,
    typer.Option(
        "--brokers",
        "--nodes",
        "-b",
        help="Brokers, where the log names none; 0 chooses by the number of clients.",
        rich_help_panel=WINDOWS,
    ),
]
Peers = Annotated[
    bool,
    typer.Option("--peers", help="No brokers: every client is a node (peer-to-peer).", rich_help_panel=WINDOWS),
]
ZoneCount = Annotated[
    int | None,
    typer.Option(
        "--zones",
        help="Brokers stand in so many zones in turn, where neither the log nor --fleet says it; "
        f"{ASSUMED_ZONES}, with --fleet or --for 1.",
        show_default=False,
        rich_help_panel=WINDOWS,
    ),
]
Against = Annotated[
    str,
    typer.Option(
        "--against",
        "-a",
        help="What you run now: mesh, star, nats, emqx, vernemq, mosquitto, or any system.",
        rich_help_panel=WINDOWS,
    ),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for",
        help="Plan only what this target of `coterie export` can express: haproxy, mosquitto-acl, nats-users ...",
        rich_help_panel=WINDOWS,
    ),
]
FleetFile = Annotated[
    Path | None,
    typer.Option(
        "--fleet", help="The fleet file: it knows the hub of a star and the brokers' zones.", rich_help_panel=WINDOWS
    ),
]
PriceFile = Annotated[
    Path | None,
    typer.Option("--prices", help="A price file (`coterie prices` prints an example).", rich_help_panel=WINDOWS),
]
Interval = Annotated[
    float,
    typer.Option(
        "--interval",
        help="Show rates per so many seconds (60, 3600, 86400 ...); changes no ratio.",
        rich_help_panel=WINDOWS,
    ),
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
        against: Against = AGAINST,
        brokers: BrokerCount = 0,
        zones: ZoneCount = None,
        peers: Peers = False,
        target: For = None,
        fleet: FleetFile = None,
        prices: PriceFile = None,
        interval: Interval = 3600.0,
        learn_share: LearnShare = 0.5,
        seed: choices.Seed = 1,
        spark: Spark = "local[*]",
        as_json: choices.Json = False,
    ) -> None:
        known = known_fleet(fleet)
        request = replace(
            request_of(inputs or [], columns, mapping, time_unit, zone, peers),
            readers=Choices(seed=seed, subscribers=machines, cell_degrees=cell, strict=strict),
            windows=WindowChoices(
                learn_share=learn_share,
                brokers=brokers,
                is_peers=peers,
                zones=1 if peers else known.zones(zones, target is not None),
                zone_of=known.zone_of,
                seed=seed,
            ),
            seed=seed,
            strict=strict,
        )
        unit, paid = Unit(interval), EXAMPLE if prices is None else read_prices(prices)
        now, wire = running_now(against)
        folder = out_folder / (f"{request.name}-peers" if peers else request.name)
        candidates, now = _with([known.around(one) for one in _expressed(systems, target)], known.around(now))
        allowed = (STAY, PLACED) if target is None else (PLACED,)
        request = replace(request, against=now.system.name, wire=wire, allowed=allowed)
        outcome = _run(request, candidates, folder, spark, as_json)
        page = comparison(outcome, paid, unit.seconds, unit.name).write(outcome.folder / "report.html")
        version = publish_plan(outcome, PlanStore(outcome.folder), sentences(outcome, paid)) if publishes else None
        _show(outcome, page, version, as_json, paid, unit)
        if version is not None and not as_json:
            out.print(f"next: {_next_step(folder, target, fleet)}")

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
            placer = SYSTEMS["coterie"]
            return run_job(session, request, candidates, folder, report, Candidate(placer, placer.parameters()))
        finally:
            session.stop()


# What people run, as (system and its settings, the wire its bytes are counted on).
RUNNING = {
    "nats": ("mesh", "nats"),
    "emqx": ("mesh", "mqtt"),
    "vernemq": ("mesh", "mqtt"),
    "mosquitto": ("star", "mqtt"),
}


def running_now(name: str) -> tuple[Candidate, str]:
    """The system that stands for what the user runs, and on whose wire bytes are counted."""
    if name in RUNNING:
        system, wire = RUNNING[name]
        return candidates_of([system])[0], wire
    try:
        return candidates_of([name])[0], COTERIE.name
    except ConfigError:
        raise ConfigError("--against", name, f"one of {', '.join((*RUNNING, *SYSTEMS))}") from None


def _expressed(systems: list[str] | None, target: str | None) -> list[Candidate]:
    """What to plan with: what was asked for, or what the target of an export can say."""
    if target is None:
        return candidates_of(systems)
    from coterie.fleets.export.registry import expressible

    if systems:
        raise ConfigError("--for", target, "without --system: the target says which systems it can express")
    return candidates_of(list(expressible(target).systems))


def _with(candidates: list[Candidate], now: Candidate) -> tuple[list[Candidate], Candidate]:
    """What runs now is always in the table, under a name of its own where the same system is planned otherwise."""
    same = [one for one in candidates if one.system.name == now.system.name]
    if any(one.parameters == now.parameters for one in same):
        return candidates, now
    if same:
        now = replace(now, system=replace(now.system, name=f"{now.system.name}-now"))
    return [now, *candidates], now


def candidates_of(systems: list[str] | None) -> list[Candidate]:
    """NAME or NAME:key=value,key=value; all systems by default."""
    chosen = []
    for entry in systems or list(SYSTEMS):
        name, _, settings = entry.partition(":")
        system = system_named(name)
        pairs = [pair for pair in settings.split(",") if pair]
        chosen.append(Candidate(system, system.configure(settings_of(pairs, "--system"))))
    return chosen


def request_of(
    inputs: list[str], columns: list[str] | None, mapping: Path | None, time_unit: str, zone: str, is_peers: bool
) -> Request:
    if mapping is not None:
        return Request(mapping.stem, sources=tuple(read_sources(mapping)))
    if not inputs:
        return embedded_request(is_peers)
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


def _show(outcome: Outcome, page: Path, version: int | None, as_json: bool, prices: Prices, unit: Unit) -> None:
    if as_json:
        print_json(msgspec.to_builtins(_document(outcome, page, version, prices)))
        return
    facts = outcome.facts
    sizes = f"{facts['clients']:,} clients, {facts['topics']:,} topics, {facts['subscriptions']:,} subscriptions"
    out.print(f"[bold]{outcome.name}[/]: {sizes}, {facts['nodes']:,} {'peers' if facts['is_peers'] else 'brokers'}")
    for name, account in outcome.accounts.items():
        if account["quarantined"]:
            common = sorted(account["reasons"].items(), key=lambda told: -told[1])
            reasons = "; ".join(f"{reason}: {count:,}" for reason, count in common)
            out.print(
                f"[yellow]{name}: {account['quarantined']:,} of {account['rows_in']:,} rows set aside[/] ({reasons})"
            )
    for sentence in sentences(outcome, prices):
        out.print(f"- {sentence}", soft_wrap=False)
    for table in bill_tables(outcome, unit):
        out.print()
        out.print(table)
    for told in lost(outcome):
        out.print(f"[yellow]{told}[/]")
    for entry in outcome.priced:
        if entry.problem and entry.placement != PLACED:
            out.print(f"{entry.system} has no bill: {entry.problem}")
    if version is not None:
        out.print(f"\nplan {version} is current in {outcome.folder / 'plans'}")
    out.print(f"\nreport: {page}")


def _next_step(folder: Path, target: str | None, fleet: Path | None) -> str:
    if target is None:
        return (
            f"coterie apply {folder} --dry-run (our nodes), or coterie export {folder} --to ... (the brokers you have)"
        )
    return f"coterie export {folder} --to {target} --fleet {fleet or 'fleet.toml'} --out export --check"


def _document(outcome: Outcome, page: Path, version: int | None, prices: Prices) -> dict[str, object]:
    found = verdict(outcome, prices)
    saved = found and {"bytes": found.saved, "money_a_month": found.saved_money, "paid_back_s": found.paid_back_s}
    return {
        "schema": 2,
        "input": outcome.name,
        "about": outcome.facts,
        "accounts": outcome.accounts,
        "against": outcome.against and outcome.against.name,
        "systems": {entry.name: _bill(entry, outcome, prices) for entry in outcome.priced},
        "cheapest": outcome.chosen and outcome.chosen.name,
        "saved": saved,
        "sentences": sentences(outcome, prices),
        "plan": version,
        "report": str(page),
    }


def _bill(entry: Priced, outcome: Outcome, prices: Prices) -> dict[str, object]:
    """Rates are per second, whatever is shown to people."""
    if entry.learn is None or entry.later is None or entry.later_bound is None:
        return {"problem": entry.problem}
    return {
        "learn": entry.learn.columns(),
        "later": entry.later.columns(),
        "later_bound": entry.later_bound.columns(),
        "month": month_of(entry.later, prices, outcome.facts),
        "plan_s": entry.plan_s,
        "price_s": entry.price_s,
    }
