"""Two windows over the same ids, against the obvious loop over tiny random tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

from coterie.errors import ConfigError, InputError
from coterie.pipeline import ingest, windows
from coterie.pipeline.interests import names_in
from coterie.pipeline.latesession import LateSession
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.storage import write_rows
from coterie.pipeline.tasks import part_name
from coterie.pipeline.windows import (
    WindowChoices,
    build_rolling,
    build_workloads,
    cut_windows,
    plan_tables,
)
from coterie.plans.tables import OUTSIDE

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SUBSCRIPTIONS, PUBLICATIONS = (
    ("subscriber", "topic", "since", "until"),
    ("publisher", "topic", "time", "count", "bytes"),
)


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
        write_rows(pa.Table.from_pylist(records, schema), folder / table / part_name(part))


def build(spark, tmp_path, subscriptions, publications=None, **choices):
    tables = tmp_path / "tables"
    write(tables, "subscriptions", SUBSCRIPTIONS, subscriptions)
    if publications is not None:
        write(tables, "publications", PUBLICATIONS, publications)
    return build_workloads(spark, tables, tmp_path / "out", "tiny", WindowChoices(**choices))


def named_pairs(workload, out: Path) -> set[tuple[str, str]]:
    people, topics = names_in(out / "interests", "subscriber").to_pylist(), names_in(out / "interests").to_pylist()
    relation = workload.interests
    return {(people[row], topics[column]) for row, column in zip(relation.rows, relation.columns, strict=True)}


def named_rates(workload, out: Path) -> dict[str, float]:
    topics = names_in(out / "interests").to_pylist()
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
            int(draw.integers(0, 500)) if draw.random() < 0.7 else None,
        )
        for _ in range(60)
    ]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications)
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
        counted, sized = Counter(), defaultdict(lambda: [0, 0])
        for who, topic, time, count, size in publications:
            if low <= time < high and topic in wanted:
                counted[who or OUTSIDE, topic] += count
                if size is not None:
                    sized[who or OUTSIDE, topic][0] += size
                    sized[who or OUTSIDE, topic][1] += count
        rows = named_publications(workload, out)
        assert {pair: rate for pair, (rate, _) in rows.items()} == pytest.approx(
            {pair: count / (high - low) for pair, count in counted.items()}
        )
        known = {pair: total / count for pair, (total, count) in sized.items()}
        assert {pair: size for pair, (_, size) in rows.items()} == pytest.approx(
            {pair: known.get(pair, 200.0) for pair in counted}
        )
        assert workload.topic_bytes.tolist() == [2.0] * workload.topic_count
        assert stays_of(workload, out) == expected_stays(subscriptions, low, high)
    unwanted = sum(row[3] for row in publications if row[1] not in wanted)
    assert facts["events_on_topics_nobody_wants"] == pytest.approx(unwanted / (end - start))
    assert 0 < facts["sizes_assumed"] < 1
    assert not facts["is_rate_assumed"]


def expected_stays(subscriptions: list[tuple], low: float, high: float) -> list[tuple]:
    """Second by second: is the wish there?"""
    found = []
    for pair in sorted({row[:2] for row in subscriptions}):
        spans = [
            (
                since if since is not None and since > low else -np.inf,
                until if until is not None and until < high else np.inf,
            )
            for who, topic, since, until in subscriptions
            if (who, topic) == pair and (since is None or since < high) and (until is None or until > low)
        ]
        joined: list[list[float]] = []
        for begin, end in sorted(spans):
            if joined and begin <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([begin, end])
        found += [(*pair, begin - low, end - low) for begin, end in joined if np.isfinite(begin) or np.isfinite(end)]
    return found


def stays_of(workload, out: Path) -> list[tuple]:
    people, names = (names_in(out / "interests", what).to_pylist() for what in ("subscriber", "filter"))
    stays = workload.stays
    rows = zip(stays.client, stays.filter, stays.begin_s.tolist(), stays.end_s.tolist(), strict=True)
    return sorted((people[client], names[wish], begin, end) for client, wish, begin, end in rows)


def clients_of(out: Path) -> dict[str, str]:
    table = pq.read_table(out / "interests" / "clients.parquet")
    return dict(zip(table["client"].to_pylist(), table["kind"].to_pylist(), strict=True))


def named_publications(workload, out: Path) -> dict[tuple[str, str], tuple[float, float]]:
    people, names = list(clients_of(out)), names_in(out / "interests").to_pylist()
    listed = workload.publications
    rows = zip(listed.publisher, listed.topic, listed.rate, listed.size, strict=True)
    return {(people[who], names[topic]): (rate, size) for who, topic, rate, size in rows}


def test_ids_and_sizes_are_the_same_in_both_windows_and_outsiders_come_last(spark, tmp_path):
    subscriptions = [("ann", "x", 0.0, 40.0), ("bob", "y", 95.0, None)]
    publications = [
        ("bob", "x", 0.0, 1, None),
        ("eve", "x", 10.0, 1, None),
        ("dan", "y", 90.0, 1, None),
        (None, "y", 100.0, 1, None),
    ]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications, learn_share=0.6, is_peers=True)
    assert learn.interests.row_count == later.interests.row_count == 2 + 3
    assert learn.interests.lengths.tolist() == [1, 0, 0, 0, 0]
    assert later.interests.lengths.tolist() == [0, 1, 0, 0, 0]
    assert learn.publications.publisher.tolist() == [1, 4]  # bob is a subscriber; (outside), dan, eve follow
    assert later.publications.publisher.tolist() == [2, 3]
    assert facts["publishers_outside"] == 3
    assert (facts["clients"], facts["publishers"]) == (5, 4)
    kinds = clients_of(tmp_path / "out")
    assert kinds == {"ann": "subscriber", "bob": "both", OUTSIDE: "publisher", "dan": "publisher", "eve": "publisher"}
    assert learn.is_peer_network


def test_untimed_tables_hold_out_a_tenth_and_show_the_same_rates_twice(spark, tmp_path):
    subscriptions = [(f"s{i}", f"t{j}", None, None) for i in range(40) for j in range(10)]
    publications = [("s0", "t0", None, 3, 30), ("s1", "t0", None, 1, None), ("x", "t1", None, 2, None)]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications)
    assert later.interests.pair_count == 400
    assert 330 < learn.interests.pair_count < 390
    assert named_pairs(learn, tmp_path / "out") < named_pairs(later, tmp_path / "out")
    assert not facts["is_timed"]
    assert facts["is_rate_assumed"]
    assert facts["sizes_assumed"] == pytest.approx(0.5)
    for workload in (learn, later):
        assert named_rates(workload, tmp_path / "out") == pytest.approx({"t0": 4.0 / 3600, "t1": 2.0 / 3600})
        assert named_publications(workload, tmp_path / "out")["s0", "t0"][1] == 10.0
        assert workload.stays is None


def test_wishes_that_hold_all_the_time_are_not_cut_by_chance(spark, tmp_path):
    subscriptions = [(f"s{i}", f"t{j}", 1.0, None) for i in range(20) for j in range(5)]
    publications = [("p", "t0", 10.0 * n, 1, None) for n in range(10, 30)]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications)
    assert learn.interests == later.interests
    assert not facts["is_held_out"]
    untimed = [(*row[:2], None, None) for row in subscriptions]
    learn, later, facts = build(spark, tmp_path / "untimed", untimed, publications)
    assert learn.interests.pair_count < later.interests.pair_count
    assert facts["is_held_out"]


def test_publications_without_a_time_are_spread_over_both_windows(spark, tmp_path):
    subscriptions = [("ann", "x", 0.0, None), ("bob", "y", 300.0, None), ("cid", "x", 100.0, 399.0)]
    publications = [("ann", "x", None, 40, None)]
    learn, later, facts = build(spark, tmp_path, subscriptions, publications)
    span_s = facts["end_s"] - facts["start_s"]
    assert named_rates(learn, tmp_path / "out") == pytest.approx({"x": 40 / span_s})
    assert named_rates(later, tmp_path / "out") == pytest.approx({"x": 40 / span_s})


def test_without_publications_every_topic_has_one_event_an_hour_from_outside(spark, tmp_path):
    learn, later, facts = build(spark, tmp_path, [("ann", "x", None, None), ("ann", "y", None, None)])
    assert learn.rates.tolist() == later.rates.tolist() == [1 / 3600, 1 / 3600]
    assert facts["publishers_outside"] == 1
    assert facts["is_rate_assumed"]
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
    write(tmp_path, "publications", PUBLICATIONS, [("p", "t", float(s), n, None) for s, n in enumerate(counts)])
    found = cut_windows(spark, tmp_path, WindowChoices(learn_share=share))
    assert found.edges_s == (0.0, pytest.approx(cut), 10.0)


def test_a_session_that_is_not_open_yet_is_opened_to_cut(spark, tmp_path, monkeypatch):
    """Where the tables were kept, nobody else has opened it."""
    write(tmp_path, "publications", PUBLICATIONS, [("p", "t", float(s), 1, None) for s in range(10)])
    context = SparkContext._active_spark_context
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)

    def opened(_: str) -> object:
        monkeypatch.setattr(SparkContext, "_active_spark_context", context)
        return spark

    found = cut_windows(LateSession(opened=opened), tmp_path, WindowChoices(learn_share=0.5))
    assert found.edges_s == (0.0, pytest.approx(4.0), 10.0)


BUSY = [("bob", "x", 1.7e9 + 10.0 * n, 1, None) for n in range(200)]


@pytest.mark.parametrize("strays", [(), (0.0,), (-62135596800.0, 86400.0), (0.0, 1.9e9), (2.5e9,)])
def test_times_far_from_all_others_do_not_stretch_the_windows(spark, tmp_path, strays):
    write(tmp_path, "publications", PUBLICATIONS, BUSY + [("bob", "x", time, 1, None) for time in strays])
    found = cut_windows(spark, tmp_path, WindowChoices())
    assert found.edges_s == (1.7e9, pytest.approx(1.7e9 + 990), 1.7e9 + 1991)
    assert found.strays.rows == len(strays)
    if strays:
        assert found.strays[1:] == (min(strays), max(strays))


def test_strays_are_left_out_of_the_rates_and_told(spark, tmp_path):
    learn, later, facts = build(spark, tmp_path, [("ann", "x", None, None)], [*BUSY, ("bob", "x", 0.0, 7, None)])
    events = [workload.rates.sum() * length for workload, length in zip((learn, later), (990, 1001), strict=True)]
    assert sum(events) == pytest.approx(200)
    assert facts["times_set_aside"] == 1
    assert facts["times_set_aside_first_s"] == 0.0


def test_a_long_thin_beginning_is_no_stray(spark, tmp_path):
    """Half a year with an event a week and then a busy day: sparse, but without a gap."""
    day = 86_400.0
    rows = [("p", "t", 7 * day * week, 1, None) for week in range(26)]
    rows += [("p", "t", 26 * 7 * day + second, 1, None) for second in range(1000)]
    write(tmp_path, "publications", PUBLICATIONS, rows)
    found = cut_windows(spark, tmp_path, WindowChoices())
    assert found.edges_s[0] == 0.0
    assert found.strays.rows == 0


FILTERED = [
    ("ann", "site/+/temp", None, None),
    ("bob", "#", None, None),
    ("bob", "site/1/temp", None, None),
    ("cid", "$share/g/site/#", None, None),
    ("dan", "$share/g/site/#", 500.0, None),
    ("dan", "$share/h/site/1/temp", None, None),
    ("eve", "never/seen", None, None),
    ("fay", "nothing/like/+", None, None),
]
EVENTS = [("p1", "site/1/temp", 100.0 * n, 1, 10) for n in range(10)] + [
    ("p2", "site/2/temp", 950.0, 3, None),
    ("p3", "$SYS/load", 951.0, 1, None),
    ("p4", "other", 952.0, 1, None),
]


def test_filters_come_to_the_topics_that_are_published(spark, tmp_path):
    learn, later, facts = build(spark, tmp_path, FILTERED, EVENTS, learn_share=0.25)
    out = tmp_path / "out"
    topics = names_in(out / "interests").to_pylist()
    assert topics == ["never/seen", "other", "site/1/temp", "site/2/temp"]
    assert names_in(out / "interests", "filter").to_pylist() == sorted({row[1] for row in FILTERED})
    seen = {"other", "site/1/temp", "site/2/temp", "never/seen"}
    expected = {("ann", "site/1/temp"), ("ann", "site/2/temp"), ("eve", "never/seen"), ("dan", "site/1/temp")}
    expected |= {("bob", topic) for topic in seen}
    expected |= {("cid", topic) for topic in seen if topic.startswith("site")}
    assert facts["cut_s"] < 500
    assert named_pairs(learn, out) == expected
    assert named_pairs(later, out) == expected | {("dan", "site/2/temp")}
    people = names_in(out / "interests", "subscriber").to_pylist()

    def weights(workload) -> dict[tuple[str, str], float]:
        pairs = zip(workload.interests.rows, workload.interests.columns, workload.weights, strict=True)
        return {(people[who], topics[topic]): weight for who, topic, weight in pairs}

    assert weights(learn)["cid", "site/1/temp"] == 1.0  # alone in its group
    assert weights(learn)["dan", "site/1/temp"] == 1.0
    assert weights(later)["cid", "site/1/temp"] == 0.5
    assert weights(later)["dan", "site/2/temp"] == 0.5
    assert weights(later)["dan", "site/1/temp"] == 1.0  # half of one group, all of another
    assert weights(later)["bob", "site/1/temp"] == 1.0  # two filters, one delivery
    assert later.wishes.of.pair_count == len(FILTERED)
    assert later.wishes.matches.row_count == facts["filters"] == 7
    assert (facts["shared_filters"], facts["filters_without_topics"], facts["topics"]) == (2, 1, 4)
    assert facts["events_on_topics_nobody_wants"] == pytest.approx(1 / (facts["end_s"] - facts["start_s"]))
    assert stays_of(learn, out) == []
    assert stays_of(later, out) == [("dan", "$share/g/site/#", 500.0 - facts["cut_s"], np.inf)]


def test_plain_names_are_names_whatever_letters_they_have(spark, tmp_path):
    write(tmp_path / "tables", "subscriptions", SUBSCRIPTIONS, [("ann", "g++", None, None), ("bob", "#", None, None)])
    (tmp_path / "tables" / "subscriptions" / ingest.PLAIN_MARK).touch()
    _, later, facts = build_workloads(spark, tmp_path / "tables", tmp_path / "out", "tiny", WindowChoices())
    assert facts["topics"] == 2
    assert later.wishes is None
    assert later.interests.pair_count == 2


def test_too_many_publishers_leave_the_busiest_who_carry_all_events(spark, tmp_path):
    subscriptions = [("ann", "x", None, None), ("ann", "y", None, None)]
    publications = [(f"p{n}", "x", None, n + 1, n + 1) for n in range(10)] + [("q", "y", None, 5, None)]
    whole, _, facts = build(spark, tmp_path / "a", subscriptions, publications)
    assert whole.publications.count == 11
    assert facts["publishers_per_topic"] is None
    few, _, facts = build(spark, tmp_path / "b", subscriptions, publications, publisher_pairs_max=8)
    assert facts["publishers_per_topic"] == 3
    assert few.publications.count == 4
    assert few.rates == pytest.approx(whole.rates)
    assert named_publications(few, tmp_path / "b" / "out")["p9", "x"][1] == pytest.approx(1.0)


def test_rolling_windows_learn_on_one_and_price_on_the_next(spark, tmp_path):
    subscriptions = [("ann", "x", 0.0, None), ("bob", "x", 450.0, None), ("cid", "y", None, 150.0)]
    publications = [("p", "x", float(10 * n), 1, None) for n in range(100)]
    write(tmp_path, "subscriptions", SUBSCRIPTIONS, subscriptions)
    write(tmp_path, "publications", PUBLICATIONS, publications)
    pairs = build_rolling(spark, tmp_path, tmp_path / "out", "tiny", WindowChoices(), 3)
    assert len(pairs) == 3
    for (_, later, told), (learn, _, facts) in pairwise(pairs):
        assert later is learn
        assert (told["cut_s"], told["end_s"]) == (facts["start_s"], facts["cut_s"])
    assert [len(learn.interests.columns) for learn, _, _ in pairs] == [2, 2, 2]
    assert named_pairs(pairs[-1][1], tmp_path / "out") == {("ann", "x"), ("bob", "x")}
    for learn, _, facts in pairs:
        inside = [row for row in publications if facts["start_s"] <= row[2] < facts["cut_s"]]
        assert learn.rates.sum() == pytest.approx(len(inside) / (facts["cut_s"] - facts["start_s"]))
    with pytest.raises(ConfigError, match="windows"):
        build_rolling(spark, tmp_path, tmp_path / "out", "tiny", WindowChoices(), 0)


def test_a_plan_names_everybody_and_says_who_wants_what(spark, tmp_path):
    _, later, _ = build(spark, tmp_path, FILTERED, EVENTS, learn_share=0.25)
    found = plan_tables(tmp_path / "out", tmp_path / "tables", later)
    clients = found["clients"].to_pylist()
    assert [row["client"] for row in clients if row["kind"] == "publisher"] == ["p1", "p2", "p3", "p4"]
    assert {row["client"] for row in clients if row["kind"] == "subscriber"} == {row[0] for row in FILTERED}
    rows = found["wishes"].to_pylist()
    assert {(row["client"], row["filter"]): (row["is_learned"], row["is_later"]) for row in rows} == {
        row[:2]: (row[2] is None, True) for row in FILTERED
    }
    assert found["topics"]["topic"].to_pylist()[0] == "never/seen"


def test_brokers_get_an_even_share_of_subscribers(spark, tmp_path):
    subscriptions = [(f"s{i}", "t", None, None) for i in range(400)]
    learn, later, facts = build(spark, tmp_path, subscriptions, brokers=4)
    assert learn.node_count == 4
    assert not facts["brokers_assumed"]
    assert np.array_equal(learn.attachment, later.attachment)
    assert np.bincount(learn.attachment).min() > 60


@pytest.mark.parametrize(("clients", "brokers"), [(10, 4), (2_001, 5), (10_000, 20), (10**6, 64)])
def test_without_a_list_the_number_of_brokers_follows_the_clients(clients, brokers):
    assert windows.node_count_of(clients, WindowChoices()) == brokers
    assert windows.node_count_of(clients, WindowChoices(brokers=7)) == 7


def test_peers_are_many_but_not_any_number(spark, tmp_path):
    assert windows.node_count_of(20_000, WindowChoices(is_peers=True)) == 20_000
    with pytest.raises(ConfigError, match="20,001 clients"):
        windows.node_count_of(20_001, WindowChoices(is_peers=True))


def test_nothing_to_plan_for_is_an_input_error(spark, tmp_path):
    with pytest.raises(InputError, match="no subscriptions"):
        build_workloads(spark, tmp_path, tmp_path / "out", "none", WindowChoices())
    with pytest.raises(InputError, match="no subscription is left"):
        build(spark, tmp_path, [])


@pytest.mark.parametrize("wrong", [{"learn_share": 1.0}, {"brokers": -1}, {"publisher_pairs_max": 0}])
def test_choices_outside_their_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        WindowChoices(**wrong)
    with pytest.raises(ConfigError, match="brokers"):
        WindowChoices(brokers=3, is_peers=True)
