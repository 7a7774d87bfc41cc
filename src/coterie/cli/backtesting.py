"""`coterie backtest`: what attaching clients by interest would have gained on a log, over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli.choices import Json
from coterie.cli.console import out, print_json, print_wide, progress, short, spans
from coterie.cli.logoptions import WINDOWS, LogOptions, PriceFile

if TYPE_CHECKING:
    from coterie.api.backtesting import PastRun

# What each stage takes of the time.
STAGES = spans(tables=0.1, overtime=0.4, courses=0.5)

BrokerCounts = Annotated[
    list[int] | None,
    typer.Option(
        "--brokers",
        "-b",
        help="How many brokers, if the log names none; repeatable. By default chosen by the number of clients.",
        rich_help_panel=WINDOWS,
    ),
]
Traffic = Annotated[
    float, typer.Option("--traffic", help="Multiply the log's traffic by this.", rich_help_panel=WINDOWS)
]
WindowCount = Annotated[
    int,
    typer.Option(
        "--windows",
        help="How many windows of equally many publications (2 to 63); fewer if the log is short.",
        rich_help_panel=WINDOWS,
    ),
]
Zones = Annotated[
    int,
    typer.Option(
        "--zones",
        help="Spread the brokers over this many zones, if the log names none; clients stay in their zone.",
        rich_help_panel=WINDOWS,
    ),
]


def backtest_command(
    asked: LogOptions,
    brokers: BrokerCounts = None,
    windows: WindowCount = 60,
    traffic: Traffic = 1.0,
    zones: Zones = 1,
    prices: PriceFile = None,
    as_json: Json = False,
) -> None:
    """Run through a log window by window, moves included.

    What would each way of attaching clients have cost? The fleet begins empty. A policy knows what happened before a
    window, never what happens in it.

    Examples:
      coterie backtest
      coterie backtest subscriptions=subs.csv publications=pubs.csv \\
          --map subscriber=user -b 4 -b 8 --windows 4
    """
    from coterie.api.backtesting import backtest

    log = asked.log()
    with progress(log.name, as_json, STAGES) as report:
        found = backtest(
            log, brokers=brokers or [0], windows=windows, traffic=traffic, zones=zones, prices=prices, seed=asked.seed,
            progress=report,
        )  # fmt: skip
        report("report", 1.0)
        page = found.report().write(log.home / "backtest.html")
    if as_json:
        print_json(found.document() | {"report": str(page)})
    else:
        _show(found, page)


def _show(found: PastRun, page: Path) -> None:
    facts = found.facts
    sizes = f"{facts['clients']:,} clients, {facts['topics']:,} topics, {facts['subscriptions']:,} subscriptions"
    out.print(f"[bold]{found.found.name}[/]: {sizes}, {facts['windows']} windows")
    for trial in found.trials:
        out.print()
        print_wide(f"{trial.brokers} brokers", found.header, found.rows(trial, short))
        for sentence in found.told(trial):
            out.print(f"- {sentence}", soft_wrap=False)
    out.print()
    for sentence in found.rests_on:
        out.print(f"- {sentence}", soft_wrap=False)
    out.print(f"\nreport: {page}", soft_wrap=True)
