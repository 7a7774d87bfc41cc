"""What attaching clients by interest would have gained on a log, over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from coterie.api.logs import Log, Report, check_log
from coterie.errors import ConfigError
from coterie.model.prices import Prices, chosen_prices
from coterie.pipeline.backtest import Backtest, BacktestChoices, Trial, run_backtest
from coterie.pipeline.backtest_report import HEADER, cells, figures, page_of, rests_on, sentences
from coterie.pipeline.page import figure


@dataclass(frozen=True, eq=False, repr=False)
class PastRun:
    """Every policy through the same windows of a log, a trial for each number of brokers."""

    found: Backtest
    prices: Prices

    @property
    def trials(self) -> Sequence[Trial]:
        return self.found.trials

    @property
    def facts(self) -> dict[str, Any]:
        """How many clients, topics, windows ..."""
        return self.found.facts

    @property
    def sentences(self) -> list[str]:
        """What it comes to, and what that rests on."""
        return [*(line for trial in self.trials for line in self.told(trial)), *self.rests_on]

    @property
    def rests_on(self) -> list[str]:
        return rests_on(self.facts, self.prices)

    def told(self, trial: Trial) -> list[str]:
        """What it comes to at one number of brokers."""
        return sentences(trial, self.facts, self.prices)

    def rows(self, trial: Trial, short: Callable[[float], str] = figure) -> list[list[str]]:
        """A row for each policy under `header`, and the bound that no placement goes below."""
        bound = ["bound", "", f"{trial.possible:.0%}"]
        bound += [""] * (len(self.header) - len(bound))
        return [*(cells(trial, one, self.prices, short) for one in trial.courses), bound]

    @property
    def header(self) -> Sequence[str]:
        return HEADER

    def document(self) -> dict[str, Any]:
        """Everything as plain values; rates are per second."""
        return {
            "schema": 1,
            "input": self.found.name,
            "about": self.facts,
            "accounts": self.found.accounts,
            "brokers": {str(trial.brokers): self._document(trial) for trial in self.trials},
            "rests_on": self.rests_on,
        }

    def _document(self, trial: Trial) -> dict[str, Any]:
        return {
            "policies": {one.policy: figures(trial, one, self.prices) for one in trial.courses},
            "bound": {"gross": trial.possible},
            "sentences": self.told(trial),
        }

    def report(self) -> Any:
        """The page to send on; `.write(path)` writes it."""
        return page_of(self.found, self.prices)

    def __repr__(self) -> str:
        brokers = ", ".join(str(trial.brokers) for trial in self.trials)
        return f"<PastRun of {self.found.name}: {self.facts['windows']} windows, {brokers} brokers>"

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
    check_log(log)
    if log.request is None:
        raise ConfigError("log", log.name, "a log of files", do="write the data to Parquet and read_log that")
    from coterie.pipeline.latesession import session_for

    asked = BacktestChoices(windows, tuple(brokers), traffic, zones, seed)
    request = replace(log.request, seed=seed)
    paid, home = chosen_prices(prices), log.home if folder is None else Path(folder)
    with session_for(request, log.spark) as session:
        return PastRun(run_backtest(session, request, asked, home, progress), paid)
