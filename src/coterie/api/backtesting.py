"""What attaching clients by interest would have gained on a log, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from coterie.api.logs import Log, Report
from coterie.errors import ConfigError
from coterie.model.prices import EXAMPLE, Prices, read_prices
from coterie.pipeline.backtest import Backtest, BacktestChoices, Trial, run_backtest
from coterie.pipeline.backtest_report import page_of, rests_on, sentences


@dataclass(frozen=True, eq=False, repr=False)
class PastRun:
    """Every policy through the same windows of a log, a trial for each number of brokers."""

    found: Backtest
    prices: Prices

    @property
    def trials(self) -> Sequence[Trial]:
        return self.found.trials

    @property
    def sentences(self) -> list[str]:
        told = [line for trial in self.trials for line in sentences(trial, self.found.facts, self.prices)]
        return [*told, *rests_on(self.found.facts, self.prices)]

    def report(self) -> Any:
        return page_of(self.found, self.prices)

    def __repr__(self) -> str:
        brokers = ", ".join(str(trial.brokers) for trial in self.trials)
        return f"<PastRun of {self.found.name}: {self.found.facts['windows']} windows, {brokers} brokers>"

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in self.sentences)}</ul>"


def backtest(
    log: Log,
    *,
    brokers: Sequence[int] = (0,),
    windows: int = 60,
    traffic: float = 1.0,
    zones: int = 1,
    prices: Prices | str | Path | None = None,
    seed: int = 1,
    folder: str | Path | None = None,
    progress: Report | None = None,
) -> PastRun:
    """Run through a log window by window: what would each way of attaching clients have cost, moves included?

    For logs of files, which go through the pipeline. A policy knows what happened before a window, never what happens
    in it.
    """
    if log.request is None:
        raise ConfigError("log", log.name, "a log of files", do="write the data to Parquet and read_log that")
    from coterie.pipeline.here import is_small
    from coterie.pipeline.latesession import LateSession

    asked = BacktestChoices(windows, tuple(brokers), traffic, zones, seed)
    request = replace(log.request, seed=seed)
    session: Any = LateSession(log.spark, is_small=is_small(request))
    try:
        found = run_backtest(session, request, asked, log.home if folder is None else Path(folder), progress)
    finally:
        session.stop()
    paid = EXAMPLE if prices is None else prices if isinstance(prices, Prices) else read_prices(Path(prices))
    return PastRun(found, paid)
