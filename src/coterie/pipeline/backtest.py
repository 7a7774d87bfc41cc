"""The back-test: what attaching clients by interest would have gained on a log, window by window, policy by policy.

The fleet begins empty: every client comes with its first wish. A policy knows what happened before a window, never what
happens in it. Windows are made once, by Spark; from there on it is one pass over them for every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

import coterie
from coterie.accounting.overtime import Course, LogWindow, Spent, announcement_copies, least_copies, spend
from coterie.errors import ConfigError, InputError
from coterie.model import Workload
from coterie.model.relation import Index
from coterie.model.store import load_workload, save_workload
from coterie.pipeline.brokers import read_brokers
from coterie.pipeline.job import Request, tables_step
from coterie.pipeline.steps import Facts, Progress, Step, run_steps
from coterie.pipeline.windows import build_windows, spread_over
from coterie.substrate.attaching import HASH, REGIMES, Regime, Sight, Terms, first_sight, look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOWS = 60
EVENTS_MIN = 100  # of a window on average: fewer say nothing
EVEN_FROM = 0.05  # net of the copies saved so far: from here on there is something to pay evenness with
SPANS = "spans.json"


class Trial(msgspec.Struct, frozen=True):
    """All policies at one number of brokers; `least` is what no placement goes below, copies by window."""

    brokers: int
    courses: tuple[Course, ...]
    least: tuple[float, ...]

    def course(self, policy: str) -> Course:
        return next(one for one in self.courses if one.policy == policy)

    @property
    def before(self) -> Course:
        return self.course(HASH)

    @property
    def possible(self) -> float:
        """The share of the copies that no policy can save more than."""
        copies = self.before.total("copies")
        return 1 - sum(self.least) / copies if copies else 0.0


@dataclass(frozen=True)
class Backtest:
    """What was found, and what it rests on."""

    name: str
    folder: Path
    trials: Sequence[Trial]
    facts: Facts
    accounts: dict[str, Facts]


@dataclass(frozen=True)
class BacktestChoices:
    """What a user may decide."""

    windows: int = WINDOWS
    brokers: tuple[int, ...] = (0,)  # 0: as the log says, or by the number of clients
    traffic: float = 1.0  # times the log's rates
    zones: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        if self.windows < 2:
            raise ConfigError("windows", self.windows, "at least 2")
        if not 0 < self.traffic < float("inf"):
            raise ConfigError("traffic", self.traffic, "a factor above 0")
        if len(set(self.brokers)) < len(self.brokers):
            raise ConfigError("brokers", list(self.brokers), "each number once")


# --- one policy through all windows ---


def follow(regime: Regime, windows: Sequence[LogWindow], terms: Terms, before: Course | None = None) -> Course:
    """`before` is what a careful policy compares itself with: the same windows by hash."""
    seats = np.full(windows[0].demand.subscriber_count, -1, np.int32)
    sight = first_sight(windows[0].demand, windows[0].span_s)
    spent: list[Spent] = []
    for number, window in enumerate(windows):
        ahead = _ahead(spent, before) if regime.is_careful and before is not None else 0.0
        mine = replace(terms.within(len(windows) - number), is_strict=ahead > EVEN_FROM)
        if regime.is_told:
            seats, one = _told(regime, window, seats, mine)
        else:
            acts = ahead >= 0 or number < terms.horizon  # changes that had the time to pay should have
            is_time = number == 1 if regime.is_once else number > 0
            moved = regime.move(sight, seats, mine) if acts and is_time else seats
            moves = int(np.count_nonzero(moved != seats))
            there = np.where(window.is_present, moved, -1).astype(np.int32)
            arrive = regime.arrive if acts else REGIMES[0].arrive
            placed, redirects = arrive(sight, window.demand, there, mine)
            placed = np.where(window.is_present, placed, -1).astype(np.int32)
            one = spend(window, placed, seats, moves, redirects)
            seats = placed
        spent.append(one)
        if regime.has_memory:
            sight = look(sight if number else None, window.demand, window.span_s, terms)
    return Course(regime.name, tuple(spent))


def _told(regime: Regime, window: LogWindow, seats: Index, terms: Terms) -> tuple[Index, Spent]:
    now = np.where(seats >= 0, seats, window.demand.attachment)
    now = np.where(window.is_present, now, -1).astype(np.int32)
    nothing = np.zeros(0, np.int64)
    placed = regime.move(Sight(window.demand, window.span_s, nothing, np.zeros(0)), now, terms)
    return placed, spend(window, placed, np.full(len(placed), -1, np.int32))


def _ahead(spent: Sequence[Spent], before: Course) -> float:
    """What was saved net so far."""
    return Course("", tuple(spent)).net(Course("", before.windows[: len(spent)]))


def try_all(windows: Sequence[LogWindow], seed: int = 1, regimes: Sequence[Regime] = REGIMES) -> Trial:
    """Every policy through the same windows; the first one is what all are compared with."""
    terms = terms_of(windows, seed)
    courses = [follow(regimes[0], windows, terms)]
    courses += [follow(regime, windows, terms, courses[0]) for regime in regimes[1:]]
    least = tuple(least_copies(one, terms.connections) for one in windows)
    return Trial(windows[0].demand.node_count, tuple(courses), least)


def terms_of(windows: Sequence[LogWindow], seed: int) -> Terms:
    return Terms(announcement=announcement_copies([one.demand for one in windows]), seed=seed)


# --- all of them, as steps of a job ---


def run_backtest(
    spark: SparkSession, request: Request, choices: BacktestChoices, out: Path, progress: Progress | None = None
) -> Backtest:
    """Everything lands below `out`; tables are shared with `compare` and `plan`."""
    request = replace(request, windows=replace(request.windows, brokers=choices.brokers[0], zones=choices.zones))
    cut = {"windows": choices.windows, "brokers": choices.brokers[0], "zones": choices.zones, "name": request.name}
    tried = {"brokers": list(choices.brokers), "traffic": choices.traffic, "seed": choices.seed}
    steps = [
        tables_step(spark, request),
        Step("overtime", _cut(spark, request, choices), ("tables",), cut),
        Step("courses", _try_all(choices, progress), ("tables", "overtime"), tried | {"coterie": coterie.__version__}),
    ]
    done = run_steps(steps, out / "work", progress=progress, spark=spark)
    trials = [msgspec.convert(one, Trial) for one in done["courses"].facts["trials"]]
    facts = done["overtime"].facts | {"traffic": choices.traffic}
    return Backtest(request.name, out, trials, facts, done["tables"].facts["accounts"])


Run = Callable[[Path, Mapping[str, Path]], Facts]


def _cut(spark: SparkSession, request: Request, choices: BacktestChoices) -> Run:
    def run(out: Path, inputs: Mapping[str, Path]) -> Facts:
        tables, count = inputs["tables"], choices.windows
        made, spans_s, facts = build_windows(spark, tables, out / "log", request.name, request.windows, count)
        events = sum(float(one.publications.rate.sum()) * span_s for one, span_s in zip(made, spans_s, strict=True))
        fewer = max(2, min(count, int(events // EVENTS_MIN)))
        if facts["is_timed"] and fewer < len(made):
            made, spans_s, facts = build_windows(spark, tables, out / "less", request.name, request.windows, fewer)
        if events == 0:
            raise InputError(request.name, "nothing is published on any topic that somebody wants")
        for number, one in enumerate(made):
            save_workload(one, out / f"{number:03d}.npz")
        (out / SPANS).write_bytes(msgspec.json.encode(spans_s))
        return facts | {"windows": len(made), "spans_s": spans_s, "events": events}

    return run


def read_windows(folder: Path, traffic: float = 1.0) -> list[LogWindow]:
    spans_s = msgspec.json.decode((folder / SPANS).read_bytes(), type=list[float])
    return [
        LogWindow(with_traffic(load_workload(path), traffic), span_s)
        for path, span_s in zip(sorted(folder.glob("*.npz")), spans_s, strict=True)
    ]


def with_traffic(workload: Workload, factor: float) -> Workload:
    publications = workload.publications
    return replace(workload, publications=replace(publications, rate=publications.rate * factor))


def _try_all(choices: BacktestChoices, progress: Progress | None) -> Run:
    def run(out: Path, inputs: Mapping[str, Path]) -> Facts:
        if len(choices.brokers) > 1 and read_brokers(inputs["tables"]) is not None:
            raise ConfigError("brokers", list(choices.brokers), "nothing, because the input lists its nodes itself")
        given = read_windows(inputs["overtime"], choices.traffic)
        trials = []
        for number, brokers in enumerate(choices.brokers):
            if progress is not None:
                progress("courses", number / len(choices.brokers))
            windows = given
            if number:
                windows = [replace(one, demand=spread_over(one.demand, brokers, choices.zones)) for one in given]
            trials.append(try_all(windows, choices.seed))
        return {"trials": msgspec.to_builtins(trials)}

    return run
