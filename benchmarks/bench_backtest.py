"""The back-test on real traces: the default at 8, 32 and 128 brokers, and at other traffic than the log's.

    python benchmarks/bench_backtest.py              # all readings (set COTERIE_TRACES), a hundredth to 100 times
    python benchmarks/bench_backtest.py --reading gowalla --brokers 32 --traffic 1
    python benchmarks/bench_backtest.py --held-out   # readings on which nothing was tuned, 32 brokers
    python benchmarks/bench_backtest.py --reading wiki-month --brokers 32 --traffic 1 --policies   # all of them

Windows and rows are those of `coterie backtest`; "by hash" are copies per delivery before. "Asked" is what admission
with priced, capped moves netted in an independent count (32 brokers). That count told net as a share of the copies
alone; in brackets stands what the default nets so. A row fails if the default costs more than it saves, nets less than
asked, or its hottest broker has more than 1.7 times the mean of the messages (or than the heaviest client alone comes
to, wherever it sits: every event that it wants comes in once and goes out once; or than by hash) or 1.2 times the mean
of the connections (or more than by hash).
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from coterie.accounting.overtime import Course, LogWindow
from coterie.api.logs import request_of
from coterie.lab.coterie_ablation import intervals
from coterie.pipeline.backtest import BacktestChoices, cutting_steps, follow, read_windows, terms_of, try_all
from coterie.pipeline.latesession import session_for
from coterie.pipeline.shapes import Choices
from coterie.pipeline.steps import run_steps
from coterie.pipeline.windows import spread_over
from coterie.substrate.attaching import COTERIE, HASH, REGIMES
from coterie.workloads.traces import trace_table

BROKERS, TRAFFIC = (8, 32, 128), (0.01, 0.1, 1.0, 10.0, 100.0)
MESSAGES, CONNECTIONS = 1.7, 1.2
DAY_S, BEGIN_S = 86_400.0, 1_400_000_000  # an epoch for times that count from 0


@dataclass(frozen=True)
class Reading:
    """A trace and how it is read; what an independent count netted and had by hash, at 32 brokers."""

    trace: str
    asked: float = 0.0
    by_hash: float = 0.0
    cell: float = 1.0  # degrees
    lease_days: float = 0.0  # a wish ends so long after the last act; 0: never
    topic: str = ""  # the column, where it is not the trace's usual one
    is_tuned_on: bool = False


READINGS = {
    "wiki-month": Reading("wiki-month", 0.37, 0.485, is_tuned_on=True),
    "wiki-month, leases": Reading("wiki-month", 0.34, 0.547, lease_days=7),
    "wiki-day, by language": Reading("wiki-day", 0.55, 0.039, topic="channel"),
    "wiki-day": Reading("wiki-day"),  # by pages, which hardly two share: the least is to lose nothing
    "gowalla": Reading("gowalla", 0.48, 0.319, is_tuned_on=True),
    "gowalla, fine": Reading("gowalla", 0.36, 0.375, cell=0.25),
    "foursquare": Reading("foursquare", 0.42, 0.090, is_tuned_on=True),
    "foursquare, fine": Reading("foursquare", 0.28, 0.189, cell=0.25),
}
EDITS = {
    "wiki-month": ("wiki_edits_1month.csv.gz", "t_seconds", "page"),
    "wiki-day": ("wiki_edits_24h_multilang.csv.gz", "unix_time", "page"),
}
CHECK_INS = {"gowalla": "checkins_gowalla_1000u.csv.gz", "foursquare": "checkins_foursquare_us_5000u.csv.gz"}


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
    def of_copies(self) -> float:
        return self.mine.saved(self.before) / self.before.total("copies")

    @property
    def failures(self) -> list[str]:
        found = ["loses"] if self.net < 0 else []
        found += ["nets less than asked"] if self.of_copies < self.asked else []
        for what, most in (("messages", max(MESSAGES, self.heaviest)), ("connections", CONNECTIONS)):
            hottest, by_hash = (getattr(one, f"hottest_{what}") for one in (self.mine, self.before))
            if hottest > max(most, by_hash) + 0.005:
                found.append(f"hottest in {what}")
        return found

    def __str__(self) -> str:
        mine, before = self.mine, self.before
        return (
            f"| {self.trace} | {self.brokers} | {self.traffic:g} | {before.copies_per_delivery:.3f} "
            f"| {mine.gross(before):.1%} | {self.net:.1%} "
            f"| {f'{self.asked:.0%} ({self.of_copies:.1%})' if self.asked else ''} | {mine.of_handling(before):.1%} "
            f"| {mine.moves_per_client_day:.2g} "
            f"| {mine.hottest_messages:.2f} ({before.hottest_messages:.2f}, {self.heaviest:.2f}) "
            f"| {mine.hottest_connections:.2f} ({before.hottest_connections:.2f}) | {', '.join(self.failures)} |"
        )


HEADER = (
    "| reading | brokers | traffic | by hash | gross | net | asked | of all handling | moves/client/day "
    "| hottest, messages (hash, heaviest client) | connections (hash) | fails |\n" + "|---" * 12 + "|"
)


def inputs_of(reading: Reading, folder: Path) -> list[str]:
    """The trace as two files such as anybody has: small, so that no Spark is needed to read them."""
    if reading.trace in EDITS:
        who, names, what, time_s = edits(reading)
        lease_s = reading.lease_days * DAY_S or np.inf
        pair, since, until = intervals(who * len(names) + what, time_s, lease_s)
        stays = pair // len(names), pair % len(names), since, until
    else:
        who, names, what, time_s = check_ins(reading)
        stays = visits(who, what, time_s)
    folder.mkdir(parents=True, exist_ok=True)
    columns = (column.tolist() for column in stays)
    wishes = (
        (one, names[to], int(begin), int(end) if end < np.inf else "")
        for one, to, begin, end in zip(*columns, strict=True)
    )
    _write(folder / "subscriptions.csv", ("subscriber", "topic", "since", "until"), wishes)
    acts = ((one, names[to], int(at)) for one, to, at in zip(who.tolist(), what.tolist(), time_s.tolist(), strict=True))
    _write(folder / "publications.csv", ("publisher", "topic", "time"), acts)
    return [f"{table}={folder / table}.csv" for table in ("subscriptions", "publications")]


Acts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # who, names of topics, about which, when


def edits(reading: Reading) -> Acts:
    """Who edits follows, from the first edit on."""
    file, when, usual = EDITS[reading.trace]
    topic = reading.topic or usual
    table = trace_table(file, ("user", topic, when))
    names, what = np.unique(table[topic].astype(str), return_inverse=True)
    time_s = table[when].astype(np.float64)
    return table["user"].astype(np.int64), names, what, time_s + BEGIN_S - time_s.min()


def check_ins(reading: Reading) -> Acts:
    """In the order of people and times; cells are named by their south-west corner."""
    table = trace_table(CHECK_INS[reading.trace], ("user", "unix_time", "lat", "lon"))
    corner = [np.floor(table[axis].astype(np.float64) / reading.cell + 1e-9) * reading.cell for axis in ("lat", "lon")]
    cells, what = np.unique(np.stack(corner, axis=1), axis=0, return_inverse=True)
    names = np.array([f"cell/{lat:.2f}/{lon:.2f}" for lat, lon in cells.tolist()])
    order = np.lexsort((what, table["unix_time"], table["user"]))
    time_s = table["unix_time"].astype(np.float64)
    return table["user"].astype(np.int64)[order], names, what.ravel()[order], time_s[order]


def visits(who: np.ndarray, what: np.ndarray, time_s: np.ndarray) -> Acts:
    """(who, where, since, until): from the check-in that enters a cell to the one that leaves it; the last is open."""
    enters = np.flatnonzero(np.concatenate([[True], (who[1:] != who[:-1]) | (what[1:] != what[:-1])]))
    is_last = np.concatenate([who[enters[1:]] != who[enters[:-1]], [True]])
    until = np.where(is_last, np.inf, np.concatenate([time_s[enters[1:]], [np.inf]]))
    return who[enters], what[enters], time_s[enters], until


def _write(path: Path, header: Sequence[str], rows) -> None:  # type: ignore[no-untyped-def]
    with path.open("w", newline="") as file:
        told = csv.writer(file)
        told.writerow(header)
        told.writerows(rows)


def cut(reading: Reading, out: Path) -> Path:
    """The windows, as `coterie backtest` cuts them."""
    if kept := sorted((out / "work" / "overtime").glob("*/spans.json")):
        return kept[0].parent
    request = replace(
        request_of(inputs_of(reading, out / "log"), None, None, "auto", "UTC", False),
        readers=Choices(cell_degrees=reading.cell),
    )
    with session_for(request, "local[*]") as session:
        steps = cutting_steps(session, request, BacktestChoices(brokers=(32,)))
        return Path(run_steps(steps, out / "work", spark=session)["overtime"].path)


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


def spread(folder: Path, brokers: int, traffic: float) -> list[LogWindow]:
    return [replace(one, demand=spread_over(one.demand, brokers, 1)) for one in read_windows(folder, traffic)]


def row(name: str, windows: Sequence[LogWindow], traffic: float, reading: Reading) -> Row:
    terms, by_name = terms_of(windows, 1), {one.name: one for one in REGIMES}
    before = follow(by_name[HASH], windows, terms)
    mine = follow(by_name[COTERIE], windows, terms, before)
    heaviest, brokers = heaviest_client(windows) / float(mine.handled.mean()), windows[0].demand.node_count
    is_asked = (brokers, traffic) == (32, 1.0)
    return Row(name, brokers, traffic, mine, before, heaviest, reading.asked if is_asked else 0.0)


def all_policies(windows: Sequence[LogWindow]) -> None:
    found = try_all(windows)
    for one in found.courses:
        print(f"  {one.policy}: gross {one.gross(found.before):.1%}, net {one.net(found.before):.1%}, "
              f"hottest {one.hottest_messages:.2f}, {one.moves_per_client_day:.2g} moves a client and day")  # fmt: skip
    print(f"  bound: gross {found.possible:.1%}", flush=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--reading", choices=READINGS, action="append")
    asked.add_argument("--brokers", type=int, action="append")
    asked.add_argument("--traffic", type=float, action="append")
    asked.add_argument("--held-out", action="store_true")
    asked.add_argument("--policies", action="store_true")
    asked.add_argument("--work", type=Path, help="where windows are kept from run to run")
    choices = asked.parse_args()
    held_out = [name for name, one in READINGS.items() if not one.is_tuned_on]
    names = choices.reading or (held_out if choices.held_out else READINGS)
    brokers = choices.brokers or ((32,) if choices.held_out else BROKERS)
    traffic = choices.traffic or ((1.0,) if choices.held_out else TRAFFIC)
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    failed = 0
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            reading = READINGS[name]
            cuts = cut(reading, (choices.work or Path(folder)) / name.replace(", ", "-").replace(" ", "-"))
            for count in brokers:
                for times in traffic:
                    windows = spread(cuts, count, times)
                    found = row(name, windows, times, reading)
                    failed += bool(found.failures)
                    print(found, flush=True)
                    if choices.policies:
                        all_policies(windows)
    print(f"{failed} rows fail")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
