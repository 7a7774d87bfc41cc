"""`coterie observe`: from the brokers that run today to the journal that the planner reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape as plain

from coterie.cli import choices
from coterie.cli.console import err, number, out, print_json, progress, table
from coterie.errors import ConfigError
from coterie.fleets.observe.following import LogObserver, Totals
from coterie.fleets.observe.gathering import LineAccount
from coterie.fleets.observe.journalstore import JournalStore
from coterie.fleets.observe.places import BrokerPlace, places_of

KINDS = ("mosquitto", "nats", "emqx", "haproxy", "tap")
ENGINES = ("auto", "python", "spark")
TIME, HOW = "Time", "How it is read"

Sources = Annotated[
    list[str] | None,
    typer.Argument(help="Logs, folders of logs, or addresses (mqtt://, http://, unix://).", show_default=False),
]
Kind = Annotated[str, typer.Option("--as", help=f"What they are: {', '.join(KINDS)}.")]
Journal = Annotated[Path, typer.Option("--out", "-o", help="Folder for the journal; the next run continues in it.")]
Named = Annotated[
    list[str] | None,
    typer.Option("--broker", "-b", metavar="NAME=PLACE", help="A broker and its log or address; repeatable."),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep observing until Ctrl-C.")]
Every = Annotated[float, typer.Option("--every", min=0.05, help="Seconds between two looks.", rich_help_panel=TIME)]
Seconds = Annotated[
    float,
    typer.Option("--seconds", min=0.1, help="How long to listen or poll, without --follow.", rich_help_panel=TIME),
]
Zone = Annotated[str, typer.Option("--zone", help="Time zone for timestamps without one.", rich_help_panel=TIME)]
TimeFormat = Annotated[
    str | None,
    typer.Option("--time-format", help="The log_timestamp_format, if it is not ISO.", rich_help_panel=TIME),
]
Engine = Annotated[
    str,
    typer.Option("--engine", help="auto (by size), python (one pass here) or spark.", rich_help_panel=HOW),
]
Spark = Annotated[str, typer.Option("--spark", help="Master for big logs.", rich_help_panel=HOW)]


def observe_command(
    sources: Sources = None,
    kind: Kind = "mosquitto",
    journal: Journal = Path("journal"),
    named: Named = None,
    follow: Follow = False,
    every: Every = 2.0,
    seconds: Seconds = 30.0,
    zone: Zone = "UTC",
    time_format: TimeFormat = None,
    engine: Engine = "auto",
    spark: Spark = "local[*]",
    as_json: choices.Json = False,
) -> None:
    """Record what the brokers you have are doing, without touching them.

    The journal is what 'coterie compare' and 'plan' read. Logs that were rotated and compressed are read first. It may
    be stopped at any moment; the same command goes on where it was. Every line is accounted for.

    Examples:
      coterie observe /var/log/mosquitto/mosquitto.log --out journal
      coterie observe -b north=n/mosquitto.log -b south=s/mosquitto.log --follow
      coterie observe --as nats http://host:8222 --seconds 60
      coterie observe --as haproxy unix:///run/haproxy.sock
      coterie observe --as emqx subscriptions.json publishes.jsonl
      coterie observe --as tap -b b1=mqtt://host:1883
    """
    if kind not in KINDS:
        raise ConfigError("--as", kind, f"one of {', '.join(KINDS)}")
    if engine not in ENGINES:
        raise ConfigError("--engine", engine, f"one of {', '.join(ENGINES)}")
    places = places_of(sources or [], named or [], names_files=kind == "mosquitto")
    with JournalStore(journal, kind) as store:
        if kind == "mosquitto" and not any(place.is_address for place in places):
            logs = LogObserver(store, places, time_format, zone, engine, spark)
            totals = _logs(logs, follow, every, as_json)
        else:
            totals = _live(store, kind, places, follow, every, seconds)
        _show(totals, store, as_json)


def _logs(logs: LogObserver, follow: bool, every: float, as_json: bool) -> Totals:
    logs.check_readable()
    with progress("observing", as_json) as report:
        logs.observe(report)
    if follow:
        err.print(f"following {len(logs.places)} brokers; Ctrl-C ends it")
        _until_interrupted(lambda: logs.follow(every, _tell))
    logs.advise()
    return logs.totals


def _live(
    store: JournalStore, kind: str, places: list[BrokerPlace], follow: bool, every: float, seconds: float
) -> Totals:
    from coterie.fleets.observe.live import observe_live

    totals = Totals()
    length_s = None if follow else seconds
    _until_interrupted(lambda: observe_live(store, kind, places, every, length_s, totals))
    return totals


def _until_interrupted(work: Callable[[], None]) -> None:
    """Ctrl-C is how following ends; what was seen is committed already."""
    try:
        work()
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on from here")


def _tell(totals: Totals) -> None:
    used = sum(account.used for account in totals.accounts.values())
    err.print(f"{number(sum(account.lines for account in totals.accounts.values()))} lines, {number(used)} used")


def _show(totals: Totals, store: JournalStore, as_json: bool) -> None:
    if as_json:
        brokers = {node: account.as_facts() for node, account in sorted(totals.accounts.items())}
        print_json({"journal": str(store.folder), "lines_written": store.line_count, "brokers": brokers})
        return
    header = ["broker", "lines", "used", "not ours", "not understood", "what they were"]
    rows = [_row(node, account) for node, account in sorted(totals.accounts.items())]
    shown = table("what became of every line", header, rows)
    shown.columns[-1].justify = "left"
    out.print(shown)
    for node, account in sorted(totals.accounts.items()):
        for text in account.examples:
            out.print(f"  {plain(node)}: not understood: {plain(repr(text))}", soft_wrap=True)
        for note in account.told_notes():
            out.print(f"  {plain(node)}: {plain(note)}", soft_wrap=True)
    out.print(f"\n{number(store.line_count)} lines added to {store.folder}")
    out.print(f"next: coterie compare {store.folder}")


def _row(node: str, account: LineAccount) -> list[str]:
    facts = account.as_facts()
    kinds = ", ".join(f"{name} {number(count)}" for name, count in facts["by_category"].items())
    cells = [number(facts[name]) for name in ("lines", "used", "not_ours", "not_understood")]
    return [plain(node), *cells, kinds]
