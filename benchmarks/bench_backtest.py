"""The back-test on real traces: every policy at 8, 32 and 128 brokers, and the default at other traffic.

    python benchmarks/bench_backtest.py              # three traces (set COTERIE_TRACES), a hundredth to 100 times
    python benchmarks/bench_backtest.py --trace gowalla --brokers 32 --traffic 1
    python benchmarks/bench_backtest.py --held-out   # readings on which nothing was tuned

Rows are those of `coterie backtest TRACE -b 8 -b 32 -b 128`; "asked" is what admission with priced, capped moves netted
in an independent count (32 brokers). A row fails if the default loses copies, nets less than asked, or its hottest
broker has more than 1.7 times the mean of the messages (or than the heaviest client alone comes to, wherever it sits:
every event that it wants comes in once and goes out once; or than by hash) or 1.2 times the mean of the connections (or
more than by hash).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from coterie.accounting.overtime import Course, LogWindow
from coterie.pipeline.backtest import follow, read_windows, terms_of
from coterie.pipeline.windows import spread_over
from coterie.substrate.attaching import COTERIE, HASH, REGIMES

TRACES = ("wiki-month", "gowalla", "foursquare")
BROKERS, TRAFFIC = (8, 32, 128), (0.01, 0.1, 1.0, 10.0, 100.0)
ASKED = {"wiki-month": 0.37, "gowalla": 0.48, "foursquare": 0.42}
HELD_OUT = (
    ("wiki-day", "wiki-day", (), 0.0),  # by pages, which hardly two share: the least is to lose nothing
    ("gowalla fine", "gowalla", ("--cell", "0.25"), 0.36),
    ("foursquare fine", "foursquare", ("--cell", "0.25"), 0.28),
)
MESSAGES, CONNECTIONS = 1.7, 1.2


@dataclass(frozen=True)
class Row:
    """The default on one trace, at one number of brokers and one traffic."""

    trace: str
    brokers: int
    traffic: float
    mine: Course
    before: Course
    heaviest: float  # client, as a multiple of what a broker handles on average
    asked: float = 0.0

    @property
    def net(self) -> float:
        return self.mine.net(self.before)

    @property
    def failures(self) -> list[str]:
        found = ["nets less than asked"] if self.net < self.asked else []
        for what, most in (("messages", max(MESSAGES, self.heaviest)), ("connections", CONNECTIONS)):
            hottest, by_hash = (getattr(one, f"hottest_{what}") for one in (self.mine, self.before))
            if hottest > max(most, by_hash) + 0.005:
                found.append(f"hottest in {what}")
        return found

    def __str__(self) -> str:
        mine, before = self.mine, self.before
        return (
            f"| {self.trace} | {self.brokers} | {self.traffic:g} | {mine.gross(before):.1%} | {self.net:.1%} "
            f"| {f'{self.asked:.0%}' if self.asked else ''} | {mine.of_handling(before):.1%} "
            f"| {mine.moves_per_client_day:.2g} "
            f"| {mine.hottest_messages:.2f} ({before.hottest_messages:.2f}, {self.heaviest:.2f}) "
            f"| {mine.hottest_connections:.2f} ({before.hottest_connections:.2f}) | {', '.join(self.failures)} |"
        )


HEADER = (
    "| trace | brokers | traffic | gross | net | asked | of all handling | moves/client/day "
    "| hottest, messages (hash, heaviest client) | connections (hash) | fails |\n" + "|---" * 11 + "|"
)


def cut(trace: str, options: tuple[str, ...], out: Path) -> Path:
    """The windows, as `coterie backtest` cuts them; unless they are kept, all its policies are run, at 32 brokers."""
    if kept := sorted((out / trace / "work" / "overtime").glob("*/spans.json")):
        return kept[0].parent
    command = [sys.executable, "-m", "coterie", "backtest", trace, "-b", "32", "--json", "-o", str(out), *options]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    for policy, found in json.loads(told.stdout)["brokers"]["32"]["policies"].items():
        print(f"  {policy}: gross {found['gross']:.1%}, net {found['net']:.1%}", flush=True)
    return next((out / trace / "work" / "overtime").glob("*/spans.json")).parent


def heaviest_client(windows: Sequence[LogWindow]) -> float:
    """Messages that its broker must handle for it over all windows, whoever else is there."""
    total = np.zeros(windows[0].demand.subscriber_count)
    for window in windows:
        demand, said = window.demand, window.demand.publications
        each = demand.rates[demand.interests.columns]
        each = each * (2.0 if demand.weights is None else 1.0 + demand.weights)
        pairs = demand.interests.rows.astype(np.int64) * demand.topic_count + demand.interests.columns
        is_heard = np.isin(said.publisher.astype(np.int64) * demand.topic_count + said.topic, pairs)
        total += window.span_s * np.bincount(demand.interests.rows, each, len(total))
        total += window.span_s * np.bincount(said.publisher, said.rate * ~is_heard, len(total))
    return float(total.max())


def row(name: str, folder: Path, brokers: int, traffic: float, asked: float) -> Row:
    windows = read_windows(folder, traffic)
    windows = [replace(one, demand=spread_over(one.demand, brokers, 1)) for one in windows]
    terms, by_name = terms_of(windows, 1), {one.name: one for one in REGIMES}
    before = follow(by_name[HASH], windows, terms)
    mine = follow(by_name[COTERIE], windows, terms, before)
    heaviest = heaviest_client(windows) / float(mine.handled.mean())
    return Row(name, brokers, traffic, mine, before, heaviest, asked)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--trace", choices=TRACES, action="append")
    asked.add_argument("--brokers", type=int, action="append")
    asked.add_argument("--traffic", type=float, action="append")
    asked.add_argument("--held-out", action="store_true")
    asked.add_argument("--work", type=Path, help="where windows are kept from run to run")
    choices = asked.parse_args()
    readings = HELD_OUT if choices.held_out else tuple((one, one, (), ASKED[one]) for one in choices.trace or TRACES)
    brokers = choices.brokers or ((32,) if choices.held_out else BROKERS)
    traffic = choices.traffic or ((1.0,) if choices.held_out else TRAFFIC)
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, trace, options, least in readings:
            print(f"{name}:")
            windows = cut(trace, options, (choices.work or Path(folder)) / name.replace(" ", "-"))
            print(HEADER, flush=True)
            for count in brokers:
                for times in traffic:
                    found = row(name, windows, count, times, least if (count, times) == (32, 1.0) else 0.0)
                    failed += bool(found.failures)
                    print(found, flush=True)
    print(f"{failed} rows fail")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
