"""`coterie backtest`: what attaching clients by interest would have gained on a log, over time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import choices
from coterie.cli.bills import short
from coterie.cli.console import out, print_json, progress, table
from coterie.cli.planning import (
    WINDOWS,
    Cell,
    Inputs,
    Machines,
    Map,
    Mapping,
    Out,
    PriceFile,
    Spark,
    Strict,
    TimeUnit,
    Zone,
    request_of,
)
from coterie.model.prices import EXAMPLE, Prices, read_prices
from coterie.pipeline.backtest import Backtest, BacktestChoices, Trial, run_backtest
from coterie.pipeline.backtest_report import HEADER, cells, figures, page_of, rests_on, sentences
from coterie.pipeline.session import open_session
from coterie.pipeline.shapes import Choices

BrokerCounts = Annotated[
    list[int] | None,
    typer.Option(
        "--brokers",
        "-b",
        help="Repeatable. Brokers, where the log names none; by default as many as its clients ask for.",
        rich_help_panel=WINDOWS,
    ),
]
Traffic = Annotated[float, typer.Option("--traffic", help="Times what the log published.", rich_help_panel=WINDOWS)]
WindowCount = Annotated[
    int,
    typer.Option(
        "--windows",
        help="Windows of equally many publications (2 to 63); fewer where the log is short.",
        rich_help_panel=WINDOWS,
    ),
]
Zones = Annotated[
    int,
    typer.Option(
        "--zones",
        help="Brokers stand in so many zones in turn, where the log says nothing of zones; nobody leaves its own.",
        rich_help_panel=WINDOWS,
    ),
]


def backtest_command(
    inputs: Inputs = None,
    out_folder: Out = Path("out"),
    columns: Map = None,
    mapping: Mapping = None,
    time_unit: TimeUnit = "auto",
    zone: Zone = "UTC",
    strict: Strict = False,
    machines: Machines = 1000,
    cell: Cell = 1.0,
    brokers: BrokerCounts = None,
    windows: WindowCount = 60,
    traffic: Traffic = 1.0,
    zones: Zones = 1,
    prices: PriceFile = None,
    seed: choices.Seed = 1,
    spark: Spark = "local[*]",
    conf: choices.Conf = None,
    as_json: choices.Json = False,
) -> None:
    """Run through a log window by window: what would each way of attaching clients have cost, moves included?

    The fleet begins empty; a policy knows what happened before a window, never what happens in it.

    Examples:
      coterie backtest
      coterie backtest subscriptions=subs.csv publications=pubs.csv --map subscriber=user -b 4 -b 8 --windows 4
    """
    asked = BacktestChoices(windows, tuple(brokers or [0]), traffic, zones, seed)
    request = replace(
        request_of(inputs or [], columns, mapping, time_unit, zone, False),
        readers=Choices(seed=seed, subscribers=machines, cell_degrees=cell, strict=strict),
        seed=seed,
        strict=strict,
    )
    paid = EXAMPLE if prices is None else read_prices(prices)
    with progress(request.name, as_json) as report:
        report("starting Spark", 0.0)
        session = open_session(spark)
        try:
            found = run_backtest(session, request, asked, out_folder / request.name, report)
        finally:
            session.stop()
    page = page_of(found, paid).write(found.folder / "backtest.html")
    if as_json:
        print_json(_document(found, page, paid))
    else:
        _show(found, page, paid)


def _show(found: Backtest, page: Path, prices: Prices) -> None:
    facts = found.facts
    sizes = f"{facts['clients']:,} clients, {facts['topics']:,} topics, {facts['subscriptions']:,} subscriptions"
    out.print(f"[bold]{found.name}[/]: {sizes}, {facts['windows']} windows")
    for trial in found.trials:
        out.print()
        rows = [list(cells(trial, one, prices, short)) for one in trial.courses]
        rows.append(["bound", "", f"{trial.possible:.0%}", *[""] * (len(HEADER) - 3)])
        out.print(table(f"{trial.brokers} brokers", HEADER, rows))
        for sentence in sentences(trial, facts, prices):
            out.print(f"- {sentence}", soft_wrap=False)
    out.print()
    for sentence in rests_on(facts, prices):
        out.print(f"- {sentence}", soft_wrap=False)
    out.print(f"\nreport: {page}")


def _document(found: Backtest, page: Path, prices: Prices) -> dict[str, object]:
    return {
        "schema": 1,
        "input": found.name,
        "about": found.facts,
        "accounts": found.accounts,
        "brokers": {str(trial.brokers): _trial(trial, found, prices) for trial in found.trials},
        "rests_on": rests_on(found.facts, prices),
        "report": str(page),
    }


def _trial(trial: Trial, found: Backtest, prices: Prices) -> dict[str, object]:
    return {
        "policies": {one.policy: figures(trial, one, prices) for one in trial.courses},
        "bound": {"gross": trial.possible},
        "sentences": sentences(trial, found.facts, prices),
    }
