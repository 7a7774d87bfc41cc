"""Two windows over the same ids, against the obvious loop over tiny random tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from coterie.errors import ConfigError, InputError
from coterie.pipeline import windows
from coterie.pipeline.interests import subscriber_names, topic_names
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.tasks import write_part
from coterie.pipeline.windows import OUTSIDE, WindowChoices, build_workloads, cut_windows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SUBSCRIPTIONS, PUBLICATIONS = ("subscriber", "topic", "since", "until"), ("publisher", "topic", "time", "count")


def write(folder: Path, table: str, names: tuple[str, ...], rows: list[tuple], parts: int = 2) -> None:
    """Rows as the canonical table, cut by the first column like the ingest does."""
    schema = table_schema(table).arrow
    for part in range(parts):
        mine = [row for row in rows if sum(map(ord, row[0] or "")) % parts == part]
        records = [
            {
                name: datetime.fromtimestamp(value, UTC) if isinstance(value, float) else value
                for name, value in zip(names, row, strict=True)
            }
            for row in mine
        ]
        write_part(pa.Table.from_pylist(records, schema), folder / table, part)


def build(spark, tmp_path, subscriptions, publications=None, **choices):
    tables = tmp_path / "tables"
    write(tables, "subscriptions", SUBSCRIPTIONS, subscriptions)
    if publications is not None:
        write(tables, "publications", PUBLICATIONS, publications)
    return build_workloads(spark, tables, tmp_path / "out", "tiny", WindowChoices(**choices))


def named_pairs(workload, out: Path) -> set[tuple[str, str]]:
    people, topics = subscriber_names(out / "interests").to_pylist(), topic_names(out / "interests").to_pylist()
    relation = workload.interests
    return {(people[row], topics[column]) for row, column in zip(relation.rows, relation.columns, strict=True)}


def named_rates(workload, out: Path) -> dict[str, float]:
    topics = topic_names(out / "interests").to_pylist()
    return {topics[topic]: rate for topic, rate in enumerate(workload.rates) if rate}


@pytest.mark.parametrize("seed", range(3))
def test_timed_tables_agree_with_the_obvious_loop(spark, tmp_path, seed):
    draw = np.random.default_rng(seed)
    people, topics = [f"s{i}" for i in range(7)], [f"t{i}" for i in range(5)]
    subscriptions = []
    for _ in range(25):
        since, until = sorted(float(t) for t in draw.integers(0, 1000, 2))
        ends = [(since, until), (None, until), (since, None), (None, None)][int(draw.integers(4))]
        subscriptions.append((str(draw.choice(people)), str(draw.choice(topics)), *ends))
    publications = [
        (
            str(draw.choice([*people, "stranger", "other"])) if draw.random() < 0.8 else None,
            str(draw.choice([*topics, "unwanted"])),
            float(draw.integers(0, 1000)),
            int(draw.integers(1, 4)),
        )
        for _ in range(60)
    ]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications, interval_s=10.0, publishers_per_topic=2)
    out = tmp_path / "out"
    start, cut, end = facts["start_s"], facts["cut_s"], facts["end_s"]
    assert start == min(row[2] for row in publications)
    assert end > max(row[2] for row in publications)
    wanted = {row[1] for row in subscriptions}
    for workload, low, high in ((learn, start, cut), (later, cut, end)):
        alive = {
            (who, topic)
            for who, topic, since, until in subscriptions
            if (since is None or since < high) and (until is None or until > low)
        }
        assert named_pairs(workload, out) == alive
        inside = [row for row in publications if low <= row[2] < high]
        events = Counter()
        by_publisher = defaultdict(Counter)
        for who, topic, _, count in inside:
            if topic in wanted:
                events[topic] += count
                by_publisher[topic][who or OUTSIDE] += count
        expected = {topic: count / ((high - low) / 10.0) for topic, count in events.items()}
        assert named_rates(workload, out) == pytest.approx(expected)
        used = Counter(workload.publications.topic.tolist())
        assert max(used.values()) <= 2
        names = topic_names(out / "interests").to_pylist()
        assert {names[topic]: count for topic, count in used.items()} == {
            topic: min(2, len(who)) for topic, who in by_publisher.items()
        }
    unwanted = sum(row[3] for row in publications if row[1] not in wanted)
    assert facts["events_on_topics_nobody_wants"] == pytest.approx(unwanted / ((end - start) / 10.0))


def test_ids_and_sizes_are_the_same_in_both_windows_and_outsiders_come_last(spark, tmp_path):
    subscriptions = [("ann", "x", 0.0, 40.0), ("bob", "y", 95.0, None)]
    publications = [("bob", "x", 0.0, 1), ("eve", "x", 10.0, 1), ("dan", "y", 90.0, 1), (None, "y", 100.0, 1)]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications, learn_share=0.6)
    assert learn.interests.row_count == later.interests.row_count == 2 + 3
    assert learn.interests.lengths.tolist() == [1, 0, 0, 0, 0]
    assert later.interests.lengths.tolist() == [0, 1, 0, 0, 0]
    assert learn.publications.publisher.tolist() == [1, 4]  # bob is a subscriber; (outside), dan, eve follow
    assert later.publications.publisher.tolist() == [2, 3]
    assert facts["publishers_outside"] == 3
    assert learn.is_peer_network


def test_untimed_tables_hold_out_a_tenth_and_show_the_same_rates_twice(spark, tmp_path):
    subscriptions = [(f"s{i}", f"t{j}", None, None) for i in range(40) for j in range(10)]
    publications = [("s0", "t0", None, 3), ("s1", "t0", None, 1), ("x", "t1", None, 2)]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications)
    assert later.interests.pair_count == 400
    assert 330 < learn.interests.pair_count < 390
    assert named_pairs(learn, tmp_path / "out") < named_pairs(later, tmp_path / "out")
    assert not facts["is_timed"]
    for workload in (learn, later):
        assert named_rates(workload, tmp_path / "out") == {"t0": 4.0, "t1": 2.0}


def test_publications_without_a_time_are_spread_over_both_windows(spark, tmp_path):
    subscriptions = [("ann", "x", 0.0, None), ("bob", "y", 300.0, None), ("cid", "x", 100.0, 399.0)]
    publications = [("ann", "x", None, 40)]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications, interval_s=10.0)
    intervals = (facts["end_s"] - facts["start_s"]) / 10.0
    assert named_rates(learn, tmp_path / "out") == pytest.approx({"x": 40 / intervals})
    assert named_rates(later, tmp_path / "out") == pytest.approx({"x": 40 / intervals})


def test_without_publications_every_topic_has_one_event_from_outside(spark, tmp_path):
    learn, later, facts = build(spark, tmp_path, [("ann", "x", None, None), ("ann", "y", None, None)])
    assert learn.rates.tolist() == later.rates.tolist() == [1.0, 1.0]
    assert facts["publishers_outside"] == 1
    assert learn.publications.publisher.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("counts", "share", "cut"),
    [
        ([1] * 10, 0.5, 4.0),
        ([1] * 9 + [91], 0.5, 9.0),  # events decide, not rows
        ([91] + [1] * 9, 0.5, 1.0),
    ],
)
def test_the_cut_lies_where_the_share_of_events_has_happened(spark, tmp_path, counts, share, cut):
    write(tmp_path, "publications", PUBLICATIONS, [("p", "t", float(s), n) for s, n in enumerate(counts)])
    found = cut_windows(spark, tmp_path, WindowChoices(learn_share=share))
    assert (found.start_s, found.cut_s, found.end_s) == (0.0, pytest.approx(cut), 10.0)
    assert found.interval_s == windows.HOUR_S


def test_long_traces_are_counted_by_day(spark, tmp_path):
    write(tmp_path, "publications", PUBLICATIONS, [("p", "t", 0.0, 1), ("p", "t", 61 * windows.DAY_S, 1)])
    assert cut_windows(spark, tmp_path, WindowChoices()).interval_s == windows.DAY_S
    assert cut_windows(spark, tmp_path, WindowChoices(interval_s=60.0)).interval_s == 60.0


def test_brokers_get_an_even_share_of_subscribers(spark, tmp_path):
    subscriptions = [(f"s{i}", "t", None, None) for i in range(400)]
    learn, later, _ = build(spark, tmp_path, subscriptions, nodes=4)
    assert learn.node_count == 4
    assert np.array_equal(learn.attachment, later.attachment)
    assert np.bincount(learn.attachment).min() > 60


def test_nothing_to_plan_for_is_an_input_error(spark, tmp_path):
    with pytest.raises(InputError, match="no subscriptions"):
        build_workloads(spark, tmp_path, tmp_path / "out", "none", WindowChoices())
    with pytest.raises(InputError, match="no subscription is left"):
        build(spark, tmp_path, [])


@pytest.mark.parametrize(
    "wrong", [{"learn_share": 1.0}, {"interval_s": -1.0}, {"nodes": -1}, {"publishers_per_topic": 0}]
)
def test_choices_outside_their_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        WindowChoices(**wrong)
