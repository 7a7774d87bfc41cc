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
from coterie.accounting.overtime import Course, LogWindow, Spent, announcement_copies, least_copies, reannounced, spend
from coterie.errors import ConfigError, InputError
from coterie.model import Workload
from coterie.model.relation import Index
from coterie.model.store import load_workload, save_workload
from coterie.pipeline.brokers import read_brokers
from coterie.pipeline.job import Request, tables_step
from coterie.pipeline.steps import Facts, Progress, Step, run_steps
from coterie.pipeline.windows import build_windows, spread_over
from coterie.substrate.attaching import HASH, REGIMES, Regime, Sight, Terms, first_sight, look
from coterie.substrate.experience import F64, MOVES, REDIRECTS, Experience, SeatedDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOWS = 60
CHANGES_MIN = 20  # fewer prove nothing
PROVED = 2.0  # times its cost that a change must have promised to bring in before any is made in earnest
RETURNED = 0.5  # of what changes cost: what must have come back, on paper, before any is made in earnest
RELIEF = 0.2  # of what was saved so far: so much may be spent at once to relieve brokers that were hot
REACH_MIN = 12  # windows for which what a change saves is believed to last, before it is known
EVENTS_MIN = 100  # of a window on average: fewer say nothing
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
    if regime.is_careful and before is not None:
        return _carefully(regime, windows, terms, before)
    seats = np.full(windows[0].demand.subscriber_count, -1, np.int32)
    sight = first_sight(windows[0].demand, windows[0].span_s)
    spent: list[Spent] = []
    for number, window in enumerate(windows):
        mine = terms.within(len(windows) - number)
        if regime.is_told:
            seats, one = _told(regime, window, seats, mine)
        else:
            moved = regime.move(sight, seats, mine) if (number == 1 if regime.is_once else number > 0) else seats
            arrived = regime.arrive(sight, window.demand, _present(window, moved), mine)
            placed = _present(window, arrived.seats)
            one = spend(window, placed, seats, int(np.count_nonzero(moved != seats)), len(arrived.sent))
            seats = placed
        spent.append(one)
        if regime.has_memory:
            sight = look(sight if number else None, window.demand, window.span_s, terms)
    return Course(regime.name, tuple(spent))


def _present(window: LogWindow, seats: Index) -> Index:
    return np.where(window.is_present, seats, -1).astype(np.int32)


def _carefully(regime: Regime, windows: Sequence[LogWindow], terms: Terms, before: Course) -> Course:
    """First on paper, in a fleet that nobody has; in earnest once that pays, and as long as it does."""
    nobody = np.full(windows[0].demand.subscriber_count, -1, np.int32)
    fleet, sight = nobody, first_sight(windows[0].demand, windows[0].span_s)
    known = Experience((terms.move_lasts, terms.redirect_lasts), (terms.move_cost, terms.redirect))
    tried, spent, is_earnest = list[Spent](), list[Spent](), False
    handled = np.zeros(windows[0].demand.node_count)
    for number, window in enumerate(windows):
        left = len(windows) - number
        then = before.windows[number - len(tried) : number]
        pays = is_paying(tried, then, left, 1.0 if is_earnest else PROVED, 0.0 if is_earnest else RETURNED)
        if pays and not is_earnest:
            is_earnest, fleet, tried = True, _last_seats(windows[number - 1]), list[Spent]()
            known.forget_who()
            handled = np.sum([one.handled for one in before.windows[:number]], axis=0)
        acts = pays or not is_earnest or changes_of(tried) < CHANGES_MIN
        seen = replace(sight, heat=heat(handled))
        saved = sum(_costs(was) - _costs(now) for was, now in zip(then, tried, strict=False)) if pays else None
        fleet, one = _step(regime, window, fleet, seen, terms, known, left if acts else 0, saved)
        handled = handled + np.array(one.handled)
        tried.append(one)
        spent.append(one if is_earnest else before.windows[number])
        sight = look(sight if number else None, window.demand, window.span_s, terms)
    return Course(regime.name, tuple(spent))


def heat(handled: F64) -> F64:
    """What brokers handled, as a multiple of the mean; empty while nothing was."""
    return np.asarray(handled / handled.mean()) if handled.any() else np.zeros(0)


def _last_seats(window: LogWindow) -> Index:
    """Where everybody is who was there by hash."""
    return _present(window, window.demand.attachment)


def is_paying(tried: Sequence[Spent], before: Sequence[Spent], left: int, times: float, returned: float = 0.0) -> bool:
    """Whether changes bring in so many times what they cost, if all goes on like the last window for as long again;
    and whether such a share of the cost has come back already.

    Few changes prove less than many: of the fewest that count, twice as much is asked.
    """
    changed = [at for at, one in enumerate(tried) if one.moves + one.redirects]
    if changes_of(tried) < CHANGES_MIN:
        return False
    saved = [_costs(then) - _costs(one) + one.moved for one, then in zip(tried, before, strict=True)]
    reach = min(left, max(len(tried) - changed[0], REACH_MIN))
    asked, cost = times * (1 + CHANGES_MIN / changes_of(tried)), sum(one.moved for one in tried)
    return sum(saved) >= returned * cost and sum(saved) + saved[-1] * reach > asked * cost


def changes_of(tried: Sequence[Spent]) -> int:
    return sum(one.moves + one.redirects for one in tried)


def _costs(one: Spent) -> float:
    return one.copies + one.upheaval


def _step(
    regime: Regime, window: LogWindow, seats: Index, sight: Sight, terms: Terms, known: Experience, left: int,
    saved: float | None,
) -> tuple[Index, Spent]:  # fmt: skip
    """One window of a careful policy; with no windows left nothing is changed. All changes are followed.

    `saved`, net and so far, is what evenness is paid with (None: nothing is): newcomers leave full brokers whether that
    pays or not, and hot brokers are relieved.
    """
    lasts = [known.lasts(kind, left) for kind in (MOVES, REDIRECTS)]
    mine = replace(terms, move_lasts=lasts[MOVES], redirect_lasts=lasts[REDIRECTS], is_strict=saved is not None)
    moved = regime.move(sight, seats, mine) if left else seats
    if saved is not None and _cost_of(sight, seats, moved, mine) > max(RELIEF * saved, 0.0):
        moved = regime.move(sight, seats, replace(mine, is_strict=False))
    who = np.flatnonzero(moved != seats).astype(np.int32)
    saved = SeatedDemand.of(sight.demand, moved).worth(who, seats[who], moved[who])
    known.note(MOVES, who, seats[who], moved[who], saved * sight.span_s)
    arrived = (regime if left else REGIMES[0]).arrive(sight, window.demand, _present(window, moved), mine)
    home, gains = window.demand.attachment[arrived.sent], arrived.promised > 0
    promised = float(arrived.promised[gains].sum()) / max(mine.redirect_lasts, 1e-30)
    known.note(REDIRECTS, arrived.sent[gains], home[gains], arrived.to[gains], promised)
    placed = _present(window, arrived.seats)
    known.learn(window.demand, window.span_s, placed)
    return placed, spend(window, placed, seats, len(who), len(arrived.sent))


def _cost_of(sight: Sight, seats: Index, moved: Index, terms: Terms) -> float:
    """What moves cost beyond what they save, in copies, every wish that is announced anew counted."""
    who = np.flatnonzero(moved != seats).astype(np.int32)
    if not len(who):
        return 0.0
    announced = terms.announcement * reannounced(sight.demand, moved, seats, moved != seats)
    worth = SeatedDemand.of(sight.demand, moved).worth(who, seats[who], moved[who])
    return terms.move * len(who) + announced - worth * sight.span_s * terms.move_lasts


def _told(regime: Regime, window: LogWindow, seats: Index, terms: Terms) -> tuple[Index, Spent]:
    now = np.where(seats >= 0, seats, window.demand.attachment)
    now = np.where(window.is_present, now, -1).astype(np.int32)
    nothing = np.zeros(0, np.int64)
    placed = regime.move(Sight(window.demand, window.span_s, nothing, np.zeros(0)), now, terms)
    return placed, spend(window, placed, np.full(len(placed), -1, np.int32))


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
    tried = {"brokers": list(choices.brokers), "traffic": choices.traffic, "seed": choices.seed}
    steps = [
        *cutting_steps(spark, request, choices),
        Step("courses", _try_all(choices, progress), ("tables", "overtime"), tried | {"coterie": coterie.__version__}),
    ]
    done = run_steps(steps, out / "work", progress=progress, spark=spark)
    trials = [msgspec.convert(one, Trial) for one in done["courses"].facts["trials"]]
    facts = done["overtime"].facts | {"traffic": choices.traffic}
    return Backtest(request.name, out, trials, facts, done["tables"].facts["accounts"])


Run = Callable[[Path, Mapping[str, Path]], Facts]


def cutting_steps(spark: SparkSession, request: Request, choices: BacktestChoices) -> list[Step]:
    """Tables and windows of a log, before any policy; `read_windows` reads what the second one leaves."""
    request = replace(request, windows=replace(request.windows, brokers=choices.brokers[0], zones=choices.zones))
    cut = {"windows": choices.windows, "brokers": choices.brokers[0], "zones": choices.zones, "name": request.name}
    return [tables_step(spark, request), Step("overtime", _cut(spark, request, choices), ("tables",), cut)]


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
