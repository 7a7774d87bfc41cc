"""The stream: the same features as in batch however the journal is cut, decisions that say why, plans exactly once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError, InputError
from coterie.model import Channels, Relation
from coterie.pipeline import features, forecasts, journal, progress, reconfiguration, shards, watch
from coterie.pipeline.clock import TimeRules
from coterie.pipeline.planning import Candidate
from coterie.pipeline.portions import Portion, portions_of
from coterie.pipeline.progress import Progress, load_progress, save_progress
from coterie.pipeline.reconfiguration import DecisionRules, change_cost, difference
from coterie.pipeline.views import Gathered, StreamView
from coterie.pipeline.watch import Watch, WatchLock
from coterie.plans.fitting import brought_over, renumbered
from coterie.plans.plan import Plan
from coterie.plans.store import PlanStore
from coterie.systems import SYSTEMS
from coterie.systems.dynatops.monitoring import reconfiguration_cost

WINDOW_S = 10.0
NODES = ("a", "b", "c", "d")


class Killed(BaseException):
    """Stands for a process that ends here."""


# --- a journal, and its micro-batches without Spark ---


def say(t: float, kind: str, client: str, topic: str) -> dict:
    return {"t": t, "kind": kind, "client": client, "topic": topic}


LINES = pa.schema(
    [
        ("shard", pa.int32()),
        ("window", pa.int64()),
        ("time_us", pa.int64()),
        ("node", pa.string()),
        ("kind", pa.string()),
        ("client", pa.string()),
        ("topic", pa.string()),
        ("count", pa.int64()),
        ("bytes", pa.int64()),
        ("segment", pa.string()),
        ("position", pa.int64()),
        ("priority", pa.int64()),
        ("is_good", pa.bool_()),
    ]
)


class Memory(dict):
    """Stands for one variable in the state store; counts what is written."""

    written = 0

    def put(self, key: int, value: bytes) -> None:
        self.written += 1
        self[key] = value

    def remove(self, key: int) -> None:
        self.pop(key, None)


class Here:
    """Spark's part in this process: lines to portions to shards, which keep their state in dictionaries."""

    def __init__(self, late_s: float = 0.0, period: int = 3, is_planned: bool = False, count: int = 3) -> None:
        self.rules = TimeRules(round(WINDOW_S * 1e6), round(late_s * 1e6), period, is_planned)
        self.kept = [{part: Memory() for part in shards.PARTS} for _ in range(count)]

    def report(self, lines: list[tuple[str, int, dict]]) -> pa.Table:
        """What a micro-batch of (node, position, line) tells, read by two tasks."""
        portions = [portions_of(self._rows(half), len(self.kept)) for half in (lines[::2], lines[1::2]) if half]
        rows = []
        for number, kept in enumerate(self.kept):
            # As they travel.
            mine = [msgspec.msgpack.decode(msgspec.msgpack.encode(one[number]), type=Portion) for one in portions]
            rows += [(number, *told) for told in shards.Shard(number, kept, 0.3, self.rules).take(mine)]
        columns = zip(*rows, strict=True)
        return pa.table(dict(zip(("shard", "window", "told"), map(list, columns), strict=True)))

    def _rows(self, lines: list[tuple[str, int, dict]]) -> pa.Table:
        rows = []
        for node, position, line in lines:
            kind, key = line["kind"], line["topic"] + ("" if line["kind"] == "publish" else line["client"])
            rows.append(
                {
                    **line,
                    "shard": zlib.crc32(key.encode()) % len(self.kept),
                    "window": int(line["t"] // WINDOW_S),
                    "time_us": round(line["t"] * 1e6),
                    "node": node,
                    "kind": kind,
                    "count": 1,
                    "segment": "1",
                    "position": position,
                    "priority": zlib.crc32(f"{node}{position}".encode()),
                    "is_good": True,
                }
            )
        return pa.Table.from_pylist(rows, LINES)

    def views(self, lines: list[tuple[str, int, dict]]) -> dict[int, StreamView]:
        """How things stand after the windows that a micro-batch closes and tells of."""
        report = self.report(lines).to_pylist()
        (first,) = [self.about(row) for row in report if row["window"] == shards.ABOUT and row["shard"] == 0]
        gathered, found = Gathered(WINDOW_S, 0.3, first.clock.nodes), {}
        for window in [] if first.closing is None else first.closing.moments:
            gathered.add(row["told"] for row in report if row["window"] == window)
            found[window] = gathered.view(window)
        return found

    @staticmethod
    def about(row: dict) -> shards.ShardAbout:
        return msgspec.msgpack.decode(row["told"], type=shards.ShardAbout)

    @property
    def late_count(self) -> int:
        return sum(self.about({"told": kept["about"][0]}).late_count for kept in self.kept)


def batches(lines: dict[str, list[dict]], take: list[int]) -> list[list[tuple[str, int, dict]]]:
    """Cut as the journal source does: every node that has more is part of every batch."""
    at = dict.fromkeys(lines, 0)
    found = []
    while any(at[node] < len(lines[node]) for node in lines):
        size = take[len(found) % len(take)]
        batch = []
        for node, listed in lines.items():
            batch += [(node, index, line) for index, line in enumerate(listed)][at[node] : at[node] + size]
            at[node] = min(at[node] + size, len(listed))
        found.append(batch)
    return found


def demand(node: str, busy: str, start: int, stop: int, rate: int) -> list[dict]:
    """Publications on one topic at one node, evenly over windows start..stop."""
    times = np.linspace(start * WINDOW_S, stop * WINDOW_S - 0.1, (stop - start) * rate)
    return [say(float(t), "publish", f"pub-{node}", busy) for t in times]


def lively() -> dict[str, list[dict]]:
    """Four nodes; first everybody wants x, which is busy; then interest and events move to y."""
    lines: dict[str, list[dict]] = {node: [] for node in NODES}
    for index, node in enumerate(NODES):
        lines[node] += [say(0.1 + index, "subscribe", f"{node}1", "x"), say(1.0 + index, "subscribe", f"{node}2", "z")]
        lines[node] += demand(node, "x" if index else "z", 0, 8, 3)
    lines["a"] += [say(80.5, "unsubscribe", "a1", "x"), say(81.0, "subscribe", "a1", "y")]
    lines["b"] += [say(80.6, "subscribe", "b1", "y")]
    lines["c"] += [say(80.7, "unsubscribe", "c1", "x"), say(80.8, "unsubscribe", "c2", "z")]
    for node in NODES:
        lines[node] += demand(node, "y", 9, 20, 40)
        lines[node].append(say(250.0, "publish", f"pub-{node}", "y"))
    return lines


# --- state ---


def states(lines: dict[str, list[dict]], take: list[int], late_s: float = 0.0) -> dict[int, tuple]:
    """What is known after each window that somebody may ask about."""
    here, known = Here(late_s), {}
    for batch in batches(lines, take):
        for window, view in here.views(batch).items():
            rates = dict(zip(view.topics, view.rates.tolist(), strict=True))
            known[window] = (rates, view.wanted.rows(), view.sample.to_pylist())
    return known


times = st.integers(0, 1500).map(lambda tenth: tenth / 10)
entries = st.builds(
    say,
    times,
    st.sampled_from(["publish", "publish", "subscribe", "unsubscribe"]),
    st.sampled_from(["u", "v", "w"]),
    st.sampled_from("xyz"),
)
journals = st.dictionaries(
    st.sampled_from("ab"), st.lists(entries, min_size=1, max_size=25).map(lambda v: sorted(v, key=lambda e: e["t"]))
)


@given(journals, st.lists(st.integers(1, 9), min_size=1, max_size=4))
@settings(max_examples=60)
def test_however_the_journal_is_cut_every_window_leaves_the_same_state(lines, take):
    whole, pieces = states(lines, [1000]), states(lines, take)
    assert all(pieces[window] == whole[window] for window in whole if window in pieces)
    assert set(whole) <= set(pieces)  # small pieces let a node that has ended step aside


@given(journals)
@settings(max_examples=60)
def test_rates_and_interests_are_those_of_the_batch_functions(lines):
    everything = [line for listed in lines.values() for line in listed]
    counts = Counter((int(e["t"] // WINDOW_S), e["topic"]) for e in everything if e["kind"] == "publish")
    events = pa.table(
        {
            "topic": pa.array([topic for _, topic in counts], pa.string()),
            "window": pa.array([window for window, _ in counts], pa.int64()),
            "events": pa.array(list(counts.values()), pa.int64()),
        }
    )
    topics = pa.array(["x", "y", "z"])
    for window, (rates, wanted, _) in states(lines, [3]).items():
        first = min((found for found, _ in counts), default=window)
        expected = features.ewma_rates(events, topics, min(first, window), window)
        assert [rates.get(topic, 0.0) for topic in topics.to_pylist()] == expected.tolist()  # the same bits
        on: dict[tuple[str, str], tuple] = {}
        for node, listed in lines.items():
            for position, line in enumerate(listed):
                if line["kind"] != "publish" and line["t"] < (window + 1) * WINDOW_S:
                    pair = (line["client"], line["topic"])
                    said = (line["t"], position, node, line["kind"] == "subscribe")
                    on[pair] = max(on.get(pair, said), said)
        assert {pair[:2] for pair in wanted} == {pair for pair, said in on.items() if said[3]}


def test_events_of_closed_windows_are_counted_as_late_and_changes_still_count():
    here = Here(5.0)
    # 14 - 5 < 10: the window may still get lines
    assert not here.views([("a", 0, say(1, "publish", "p", "x")), ("a", 1, say(14, "publish", "p", "x"))])
    assert list(here.views([("b", 0, say(25, "publish", "p", "x"))])) == [0, 1]
    late = [("b", 1, say(3, "publish", "p", "x")), ("b", 2, say(4, "subscribe", "u", "x"))]
    found = here.views([*late, ("b", 3, say(40, "publish", "p", "x"))])
    assert here.late_count == 2
    assert list(found) == [2]
    assert found[2].rates.tolist() == [(1 * 0.7 + 0.3 * 1) * 0.7 + 0.3 * 1]
    assert found[2].wanted.rows() == [("u", "x", "b")]


def test_a_busy_node_with_a_backlog_holds_the_clock():
    here = Here()
    lines = [("quiet", 0, say(1000, "publish", "p", "x")), ("busy", 0, say(5, "publish", "p", "x"))]
    assert not here.views(lines)
    assert list(here.views([("busy", 1, say(25, "publish", "p", "x"))])) == [0]
    assert here.late_count == 0


def test_years_of_silence_are_skipped():
    here = Here()
    here.views([("a", 0, say(1, "publish", "p", "x"))])
    again = [("a", 1, say(1.7e9, "publish", "p", "y")), ("a", 2, say(1.7e9 + 10, "publish", "p", "y"))]
    found = here.views(again)
    assert list(found) == [0, 2, 170_000_000]
    assert found[2].rates.tolist() == [0.7 * 0.7]  # the end of the first period
    assert found[170_000_000].topics == ["y"]
    assert found[170_000_000].rates.tolist() == [0.3]


def test_with_a_plan_only_ends_of_periods_are_told_and_they_are_as_before():
    every, ends = Here(), Here(is_planned=True)
    for batch in batches(lively(), [40]):
        all_of_them, some = every.views(batch), ends.report(batch).to_pylist()
        told = {row["window"] for row in some} - {shards.ABOUT}
        assert told == {window for window in all_of_them if (window + 1) % 3 == 0}
    assert [kept == other for kept, other in zip(every.kept, ends.kept, strict=True)] == [True] * 3


def test_a_micro_batch_writes_only_what_it_touches():
    here = Here(count=1)
    wishes = [("a", index, say(1.0, "subscribe", f"c{index}", f"t{index}")) for index in range(5000)]
    here.views([*wishes, ("a", 5000, say(11.0, "publish", "p", "x"))])
    kept = here.kept[0]
    assert len(kept["wishes"]) == shards.BUCKETS
    for one in kept.values():
        one.written = 0
    here.views([("a", 5001, say(12.0, "subscribe", "c7", "new")), ("a", 5002, say(40.0, "publish", "p", "x"))])
    assert {name: one.written for name, one in kept.items()} == {
        "events": 1, "changes": 1, "sample": 1, "rates": 1, "wishes": 1, "about": 1,
    }  # fmt: skip


def test_an_ended_wish_and_a_silent_topic_are_forgotten_in_the_end():
    here = Here(count=1)
    here.views([("a", 0, say(1, "subscribe", "u", "x")), ("a", 1, say(2, "publish", "p", "x"))])
    here.views([("a", 2, say(15, "unsubscribe", "u", "x")), ("a", 3, say(25, "publish", "p", "y"))])
    assert len(here.kept[0]["wishes"]) == 1
    for number, window in enumerate((30, 300, 301)):
        here.views([("a", 4 + number, say(window * WINDOW_S, "publish", "p", "y"))])
    assert not here.kept[0]["wishes"]
    listed = [topic for packed in here.kept[0]["rates"].values() for topic in msgspec.msgpack.decode(packed)]
    assert listed == ["x", "y"]  # nobody has looked at the bucket of x since


def test_progress_survives_being_saved_and_settings_hold(tmp_path):
    fresh = Progress(WINDOW_S, 0.3, 8)
    assert load_progress(tmp_path, fresh) is fresh
    saved = msgspec.structs.replace(fresh, batch=7, plan=3, has_news=True, next_window=12)
    save_progress(tmp_path, saved)
    assert load_progress(tmp_path, fresh) == saved
    with pytest.raises(ConfigError, match=r"alpha: expected 0\.3 as this stream began with.*, got 0\.5"):
        load_progress(tmp_path, Progress(WINDOW_S, 0.5, 8))
    (tmp_path / progress.NAME).write_text("{torn")
    with pytest.raises(InputError, match="damaged"):
        load_progress(tmp_path, fresh)
    (tmp_path / progress.OLDER).mkdir()
    with pytest.raises(InputError, match="another version"):
        load_progress(tmp_path, fresh)


# --- decisions ---


def report_on_disk(folder: Path, report: pa.Table) -> None:
    """As Spark leaves it."""
    folder.mkdir(parents=True)
    half = len(report) // 2
    for number, part in enumerate((report.slice(0, half), report.slice(half))):
        pq.write_table(part, folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()


def test_more_subscriptions_than_one_memory_takes_are_told_before_they_are_gathered(tmp_path):
    here = Here()
    said = [("a", number, say(1, "subscribe", f"u{number}", "x")) for number in range(5)]
    said += [("a", 8, say(2, "publish", "p", "x")), ("a", 9, say(300, "publish", "p", "x"))]
    one = watcher(tmp_path)
    report_on_disk(tmp_path / "out" / "reports" / "000000000", here.report(said))
    one.watch = replace(one.watch, wanted_max=4)
    decided: list = []
    one._reconfigurer.decide = lambda view, plan: decided.append(view)
    with pytest.raises(ConfigError, match="expected at most 4, because watch decides in one memory, got 5"):
        one.take_all()
    assert not decided
    assert one.progress().batch == -1  # nothing is lost: with more room it goes on from here


def test_the_last_word_on_a_pair_counts_and_names_that_nobody_uses_are_gone():
    words = [("v", "y", "a", True), ("u", "x", "a", True), ("u", "x", "b", True), ("w", "z", "c", True)]
    later = [("w", "z", "c", False), ("v", "y", "a", False), ("v", "y", "b", True)]
    gathered = Gathered(WINDOW_S, 0.3, {})
    gathered.add(msgspec.msgpack.encode(shards.ViewPiece(list(told), [], [])) for told in (words, later))
    wanted = gathered.view(0).wanted
    assert wanted.rows() == [("u", "x", "b"), ("v", "y", "b")]
    assert [names.to_pylist() for names in (wanted.clients, wanted.topics, wanted.nodes)] == [
        ["u", "v"],
        ["x", "y"],
        ["b"],
    ]
    assert len(Gathered(WINDOW_S, 0.3, {}).view(0).wanted) == 0


def test_the_cost_of_change_is_that_of_the_paper():
    for nodes, topics, moved in ((100, 1000, 3), (2, 1, 2), (17, 40, 0)):
        assert change_cost(nodes, topics, moved) == pytest.approx(float(reconfiguration_cost(nodes, topics, moved)))
    assert change_cost(4, 3, 0, moved_subscriptions=5) == 9


def expected_after(window: int) -> forecasts.Forecast:
    here = Here()
    for batch in batches(lively(), [50]):
        views = here.views(batch)
        if window in views:
            found = forecasts.forecast(views[window])
            assert found is not None
            return found
    raise AssertionError(window)


def test_the_forecast_is_the_workload_of_the_window():
    found = expected_after(7)
    assert (found.topics, found.nodes) == (["x", "z"], list(NODES))
    assert found.clients.to_pylist() == [
        *sorted(f"{node}{index}" for node in NODES for index in (1, 2)),
        *(f"pub-{node}" for node in NODES),
    ]
    assert found.workload.rates.tolist() == pytest.approx([0.9, 0.3])  # a second
    assert found.workload.attachment.tolist()[:8] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_filters_and_groups_come_to_what_is_published():
    said = [("ann", "site/+/temp"), ("bob", "$share/g/site/#"), ("cid", "$share/g/site/#"), ("dan", "never/seen")]
    lines = [("a", number, say(1, "subscribe", *pair)) for number, pair in enumerate(said)]
    lines += [("a", 10, say(2, "publish", "p", "site/1/temp")), ("a", 11, say(3, "publish", "p", "other"))]
    views = Here().views([*lines, ("a", 12, say(20, "publish", "p", "site/2/temp"))])
    assert list(views) == [0]
    found = forecasts.forecast(views[0])
    assert found is not None
    assert found.topics == ["never/seen", "site/1/temp"]
    assert found.filters == ["$share/g/site/#", "never/seen", "site/+/temp"]
    assert found.clients.to_pylist() == ["ann", "bob", "cid", "dan", "p"]
    interests = found.workload.interests
    assert [interests.row(row).tolist() for row in range(5)] == [[1], [1], [1], [0], []]
    assert found.workload.weights.tolist() == [1.0, 0.5, 0.5, 1.0]
    assert found.workload.wishes.matches.row(0).tolist() == [1]


@pytest.mark.parametrize("name", ["flooding", "scribe", "tamara", "dynatops", "spidercast"])
def test_an_older_design_can_be_adopted_for_other_topics_and_subscribers(name):
    if name not in SYSTEMS:
        pytest.skip(f"there is no system {name} here")
    before, after = expected_after(7), expected_after(15)
    assert before.topics != after.topics
    system = SYSTEMS[name]
    design = system.plan(before.workload, seed=1)
    plan = Plan.of(design, before.named)
    moved = brought_over(plan, after.named)
    adopted = system.adopt(moved, after.workload, seed=1)
    bill = reconfiguration.price(adopted, after.workload)
    assert bill.loss.lost == 0
    assert bill.loss.owed > 0
    same = brought_over(plan, before.named)
    assert difference(same, design, before) == (0, 0)
    assert difference(adopted, system.plan(after.workload, seed=1), after)[0] <= len(NODES)


def test_clusters_keep_their_topics_under_new_numbers():
    old = Channels(Relation.from_rows([[0], [1], [2], [0, 2], [1]], 3)).topics
    found = renumbered(old, ["b", "c", "d"], ["a", "b", "d"])
    assert [found.row(row).tolist() for row in range(found.row_count)] == [[0], [1], [2], [1, 2]]
    plain = renumbered(Relation.from_rows([[0, 1], [2]], 3), ["b", "c", "d"], ["a", "b", "d"])
    assert [plain.row(row).tolist() for row in range(plain.row_count)] == [[1], [2], [0]]
    whole = renumbered(Relation.from_rows([[0, 1, 2]], 3), ["b", "c", "d"], ["a", "b"])
    assert [whole.row(row).tolist() for row in range(whole.row_count)] == [[0, 1]]


# --- the watcher, one micro-batch after the other ---


@pytest.fixture
def local(monkeypatch):
    """Tasks in this process instead of Spark's."""
    monkeypatch.setattr(reconfiguration, "run_tasks", lambda _, tasks, work, __: pa.concat_tables(map(work, tasks)))


def rules(period: int = 3, beta: float = 0.1, names=("scribe", "flooding")) -> DecisionRules:
    return DecisionRules(
        [Candidate(SYSTEMS[name], SYSTEMS[name].parameters()) for name in names], SYSTEMS, beta, period
    )


def watcher(tmp_path: Path, told: list | None = None, **choices) -> WatchLock:
    (tmp_path / "journal").mkdir(exist_ok=True)
    wanted = Watch(tmp_path / "journal", tmp_path / "out", rules(**choices), WINDOW_S, late_s=0.0)
    return WatchLock(None, wanted, (told if told is not None else []).append)


def run(tmp_path: Path, take: list[int], **choices) -> list:
    told: list = []
    one, here = watcher(tmp_path, told, **choices), Here()
    for number, batch in enumerate(batches(lively(), take)):
        one.take(here.report(batch), number)
    return told


def published(tmp_path: Path) -> list[tuple]:
    store = PlanStore(tmp_path / "out")
    return [(version, store.facts(version).key, store.facts(version).design_digest) for version in store.versions()]


def test_every_decision_says_why(tmp_path, local):
    told = run(tmp_path, [40])
    assert [decision.window for decision in told if (decision.window + 1) % 3] == [0]  # the first plan does not wait
    assert told[0].is_published
    assert told[0].reason == "there is no plan yet"
    for decision in told[1:]:
        assert decision.period_s == 3 * WINDOW_S
        if decision.cost_now <= decision.threshold:
            assert not decision.is_published
            assert decision.cost_new is None
        else:
            assert decision.is_published == (decision.benefit > decision.change_cost)
            assert decision.benefit == decision.cost_now - decision.cost_new
        assert decision.reason
    kinds = Counter(decision.reason for decision in told)
    assert kinds["the change would cost more than it saves"]
    assert kinds["the change saves more than it costs"]
    store = PlanStore(tmp_path / "out")
    assert store.current() == told[-1].plan == sum(decision.is_published for decision in told)
    assert store.facts(told[-1].plan).decision["window"] < told[-1].window + 1


def test_a_high_beta_saves_the_computation(tmp_path, local):
    told = run(tmp_path, [40], beta=1e6)
    assert [decision.is_published for decision in told] == [True] + [False] * (len(told) - 1)
    assert {decision.reason for decision in told[1:]} == {"the current plan costs too little to look for another"}


def test_decisions_do_not_depend_on_how_the_journal_was_cut(tmp_path, local):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole, pieces = run(tmp_path / "one", [1000]), run(tmp_path / "two", [11, 3])
    assert whole == pieces[: len(whole)]
    assert published(tmp_path / "one") == published(tmp_path / "two")


MOMENTS = {
    "before planning": (reconfiguration.Reconfigurer, "_planned"),
    "while the plan is written": (forecasts.Forecast, "write_names"),
    "before the plan appears": (Path, "rename"),
    "before CURRENT": (PlanStore, "_point_to"),
    "before the state is saved": (watch, "save_progress"),
    "after the state is saved": (WatchLock, "_tell_all"),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("take", [[1000], [60]])
def test_killed_anywhere_and_restarted_it_publishes_the_same_plans_once(tmp_path, local, monkeypatch, moment, take):
    (tmp_path / "calm").mkdir()
    (tmp_path / "wild").mkdir()
    calm = run(tmp_path / "calm", take)
    owner, name = MOMENTS[moment]
    original, calls = getattr(owner, name), Counter()

    def mortal(*arguments, **options):
        calls["all"] += 1
        if calls["all"] in (1, 3, 6, 10, 15, 21, 28):  # every attempt gets a little further
            raise Killed
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, mortal)
    told: list = []
    here = Here()
    for number, batch in enumerate(batches(lively(), take)):
        report = here.report(batch)
        for _ in range(50):
            try:
                watcher(tmp_path / "wild", told).take(report, number)
                break
            except Killed:
                continue
        else:
            raise AssertionError("never got through")
    monkeypatch.undo()
    assert calls["all"]
    assert published(tmp_path / "wild") == published(tmp_path / "calm")
    assert PlanStore(tmp_path / "wild/out").current() == PlanStore(tmp_path / "calm/out").current()
    assert watcher(tmp_path / "wild").progress() == watcher(tmp_path / "calm").progress()
    if moment != "after the state is saved":  # else a batch was done, but nobody was left to tell
        assert told == calm


def test_reports_are_taken_in_order_once_they_are_whole(tmp_path, local):
    one, here, folder = watcher(tmp_path), Here(), tmp_path / "out" / watch.REPORTS
    listed = [here.report(batch) for batch in batches(lively(), [100])]

    def write(batch: int, is_whole: bool = True) -> None:
        (folder / f"{batch:09d}").mkdir(parents=True)
        pq.write_table(listed[batch], folder / f"{batch:09d}" / "part-0.parquet")
        if is_whole:
            (folder / f"{batch:09d}" / watch.WHOLE).touch()

    write(1, is_whole=False)
    write(0)
    one.take_all()
    assert one.progress().batch == 0
    assert [place.name for place in folder.iterdir()] == ["000000001"]
    (folder / "000000001" / watch.WHOLE).touch()
    one.take_all()
    taken = one.progress()
    assert taken.batch == 1
    write(1)  # Spark has repeated it
    one.take_all()
    assert one.progress() == taken
    assert not list(folder.iterdir())
    for wrong in (0, 3):
        write(wrong)
        with pytest.raises(InputError, match=f"report 2 of the stream is due, this is {wrong}; output and checkpoint"):
            one.take_all()
        shutil.rmtree(folder / f"{wrong:09d}")


def test_without_a_plan_and_without_a_view_nothing_is_decided(tmp_path, local):
    """Somebody has thrown the plans away while shards tell of ends of periods only."""
    told: list = []
    one, here = watcher(tmp_path, told), Here(is_planned=True)
    for number, batch in enumerate(batches(lively(), [40])):
        one.take(here.report(batch), number)
    assert told
    assert all((decision.window + 1) % 3 == 0 for decision in told)


def test_a_plan_that_somebody_else_went_back_to_is_the_one_that_counts(tmp_path, local):
    told: list = []
    one, here = watcher(tmp_path, told), Here()
    listed = [here.report(batch) for batch in batches(lively(), [40])]
    for number, batch in enumerate(listed):
        if PlanStore(tmp_path / "out").current() == 2:
            break
        one.take(batch, number)
    one.store.make_current(1)
    count = len(told)
    for later in range(number, len(listed)):
        one.take(listed[later], later)
    assert told[count].is_published  # 2 is still worth it, so it is published again
    assert told[count].plan == 3
    assert one.store.facts(2).design_digest == one.store.facts(3).design_digest


def test_a_new_node_needs_a_new_plan(tmp_path, local):
    told: list = []
    one = watcher(tmp_path, told)
    here = Here()
    one.take(here.report([row for batch in batches(lively(), [1000]) for row in batch]), 0)
    one.take(here.report([("e", 0, say(300, "subscribe", "e1", "y")), ("e", 1, say(400, "publish", "pub", "y"))]), 1)
    (found,) = [decision for decision in told if decision.reason == "the current plan is for other nodes (e is new)"]
    assert found.is_published
    assert found.nodes == 5


@pytest.mark.parametrize(
    ("wrong", "says"), [({"window_s": 0.0}, "window"), ({"alpha": 0.0}, "alpha"), ({"late_s": -1.0}, "late")]
)
def test_wrong_settings_are_refused(tmp_path, wrong, says):
    with pytest.raises(ConfigError, match=says):
        Watch(tmp_path, tmp_path / "out", rules(), **wrong)
    with pytest.raises(InputError, match="no such journal folder"):
        Watch(tmp_path / "none", tmp_path / "out", rules())


# --- the same with Spark ---


def write_journal(root: Path, lines: dict[str, list[dict]]) -> None:
    for node, listed in lines.items():
        half = len(listed) // 2
        for segment, part in ((1, listed[:half]), (2, listed[half:])):
            path = root / node / f"{segment:012d}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(line) + "\n" for line in part))
    torn = root / "a" / "000000000001.jsonl"
    torn.write_text(torn.read_text() + "torn li")


def spark_watch(tmp_path: Path, batch_bytes: int) -> Watch:
    return Watch(
        tmp_path / "journal", tmp_path / "out", rules(), WINDOW_S, late_s=0.0, batch_bytes=batch_bytes, shards=4
    )


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_batch_and_stream_give_the_same_features_and_the_plans_of_the_plain_run(spark, tmp_path):
    write_journal(tmp_path / "journal", lively())
    told: list = []
    one = WatchLock(spark, spark_watch(tmp_path, 50_000), told.append)
    views, decide = [], one._reconfigurer.decide
    one._reconfigurer.decide = lambda view, plan: views.append(view) or decide(view, plan)
    one.run_until_idle()
    known = one.progress()
    assert known.batch >= 2  # several micro-batches
    assert (known.bad_count, known.late_count) == (1, 0)
    assert known.line_count == sum(map(len, lively().values())) + 1
    lines = journal.read_journal(spark, tmp_path / "journal")
    events = features.events_by_window(journal.publications_of(lines), WINDOW_S).toArrow()
    assert known.event_count == sum(events["events"].to_pylist())
    assert len(views) >= 3
    for view in (views[0], views[-1]):
        expected = features.ewma_rates(events, pa.array(view.topics), 0, view.window)
        assert view.rates.tolist() == expected.tolist()
        end = f"timestamp_seconds({(view.window + 1) * WINDOW_S})"
        alive = journal.subscriptions_of(lines).where(f"since < {end} and (until is null or until >= {end})")
        assert sorted((row["subscriber"], row["topic"]) for row in alive.collect()) == [
            w[:2] for w in view.wanted.rows()
        ]
    with pytest.MonkeyPatch.context() as patch:
        (tmp_path / "plain").mkdir()
        patch.setattr(reconfiguration, "run_tasks", lambda _, tasks, work, __: pa.concat_tables(map(work, tasks)))
        plain = run(tmp_path / "plain", [60])
    assert [(d.window, d.is_published, d.plan) for d in told] == [(d.window, d.is_published, d.plan) for d in plain]
    with open(tmp_path / "journal" / "d" / "000000000002.jsonl", "a") as file:
        file.write(json.dumps(say(290.0, "publish", "pub-d", "y")) + "\n")
    assert WatchLock(spark, spark_watch(tmp_path, 50_000)).run_once() == 1
    with one._locked(), pytest.raises(ConfigError, match="no other watcher uses"):
        one.run_once()


def last_view(spark, tmp_path: Path) -> tuple:
    """How things stand after two more lines of everybody, from the state that a stream was left with."""
    for node in NODES:
        with open(tmp_path / "journal" / node / "000000000002.jsonl", "a") as file:
            file.write("".join(json.dumps(say(t, "publish", f"pub-{node}", "y")) + "\n" for t in (260.0, 320.0)))
    views, one = [], WatchLock(spark, spark_watch(tmp_path, 50_000))
    decide = one._reconfigurer.decide
    one._reconfigurer.decide = lambda view, plan: views.append(view) or decide(view, plan)
    one.run_once()
    return views[-1].wanted.rows(), views[-1].topics, views[-1].rates.tolist(), views[-1].sample.to_pylist()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("moment", ["before CURRENT", "before the state is saved", "after the state is saved"])
def test_kill_9_and_restart_with_spark(spark, tmp_path, moment):
    write_journal(tmp_path / "journal", lively())
    script = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_watch as tests
from coterie.pipeline.session import open_session
owner, name = tests.MOMENTS[sys.argv[3]]
original, calls = getattr(owner, name), []
def mortal(*arguments, **options):
    calls.append(1)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **options)
setattr(owner, name, mortal)
spark = open_session("local[1]", profile="test")
tests.WatchLock(spark, tests.spark_watch(Path(sys.argv[2]), 50_000)).run_once()
"""
    killed = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path), moment],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2] / 'src'}:{Path(__file__).parents[2]}"},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = WatchLock(spark, spark_watch(tmp_path, 50_000))
    again.run_until_idle()
    calm = tmp_path / "calm"
    calm.mkdir()
    write_journal(calm / "journal", lively())
    other = WatchLock(spark, spark_watch(calm, 50_000))
    other.run_until_idle()
    assert published(tmp_path) == published(calm)
    assert again.store.current() == other.store.current()
    assert again.progress() == other.progress()
    assert last_view(spark, tmp_path) == last_view(spark, calm)
