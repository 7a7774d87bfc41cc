"""Features on tiny frames against what can be counted by hand or by the obvious loop."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.model.relation import Relation
from coterie.pipeline import features, interests, similarity
from coterie.pipeline.schemas import TIME
from coterie.pipeline.stays import Period
from coterie.pipeline.storage import write_rows
from coterie.pipeline.tasks import part_name


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


PUBLICATIONS = "publisher string, topic string, time timestamp, count bigint, bytes bigint"
SUBSCRIPTIONS = "subscriber string, topic string, since timestamp, until timestamp"


def write_subscriptions(folder, *parts):
    for index, rows in enumerate(parts):
        columns = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
        kinds = [pa.string(), pa.string(), TIME, TIME]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        write_rows(pa.table(arrays, names=["subscriber", "topic", "since", "until"]), folder / part_name(index))


def collected(folder) -> list[tuple]:
    rows = [row for path in sorted(folder.glob("part-*.parquet")) for row in pq.read_table(path).to_pylist()]
    return [tuple(row.values()) for row in rows]


@pytest.mark.spark
def test_events_are_counted_by_window_including_borders_and_times_before_1970(spark):
    rows = [
        ("a", "x", at(0), 1, 10),
        ("a", "x", at(9.999999), 2, None),
        ("b", "x", at(10), 1, 5),
        ("b", "y", at(-0.5), 1, 5),
        ("b", "y", None, 7, 5),
    ]
    found = features.events_by_window(spark.createDataFrame(rows, PUBLICATIONS), 10.0)
    assert found.columns == ["topic", "window", "events", "bytes"]
    assert sorted(map(tuple, found.collect())) == [("x", 0, 3, 10), ("x", 1, 1, 5), ("y", -1, 1, 5)]


def test_a_window_must_be_positive():
    with pytest.raises(ConfigError, match="window_s"):
        features.window_index(None, 0.0)


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 6), st.integers(0, 50)), max_size=30),
    st.sampled_from([0.3, 0.5, 1.0]),
)
def test_ewma_follows_equation_8_window_by_window(rows, alpha):
    events = pa.table(
        {
            "topic": pa.array([row[0] for row in rows], pa.string()),
            "window": pa.array([row[1] for row in rows], pa.int64()),
            "events": pa.array([row[2] for row in rows], pa.int64()),
        }
    )
    found = features.ewma_rates(events, pa.array(["x", "y"]), 0, 6, alpha)
    for index, topic in enumerate("xy"):
        observed = [sum(count for name, k, count in rows if name == topic and k == window) for window in range(7)]
        expected = float(observed[0])
        for count in observed[1:]:
            expected = (1 - alpha) * expected + alpha * count
        assert found[index] == pytest.approx(expected, abs=1e-9)


@pytest.mark.spark
def test_interests_get_dense_ids_by_name(spark, tmp_path):
    write_subscriptions(
        tmp_path / "in",
        [("bob", "x", None, None), ("bob", "b", None, None), ("bob", "x", at(5), None), ("ann", "x", None, None)],
        [],
        [("cid", "a", None, None)],
    )
    relation, is_timed = interests.encode_interests(spark, tmp_path / "in", tmp_path / "out")
    assert not is_timed
    assert interests.names_in(tmp_path / "out").to_pylist() == ["a", "b", "x"]
    assert interests.names_in(tmp_path / "out", "subscriber").to_pylist() == ["ann", "bob", "cid"]
    assert relation == Relation.from_rows([[2], [1, 2], [0]], 3)
    assert interests.load_interests(tmp_path / "out") == relation
    assert pq.read_table(tmp_path / "out/topics.parquet")["size"].to_pylist() == [1, 1, 2]
    assert collected(tmp_path / "out/subscribers") == [(0, "ann", [2]), (1, "bob", [1, 2]), (2, "cid", [0])]


@pytest.mark.spark
def test_marks_say_in_which_period_a_wish_was_alive(spark, tmp_path):
    write_subscriptions(
        tmp_path / "in",
        [
            ("a", "before", at(0), at(10)),
            ("a", "across", at(0), at(11)),
            ("a", "inside", at(12), at(13)),
            ("a", "after", at(20), None),
            ("a", "always", None, None),
        ],
    )
    periods = [Period(0, 10), Period(10, 20)]
    _, is_timed = interests.encode_interests(spark, tmp_path / "in", tmp_path / "out", periods)
    marks = np.load(tmp_path / "out/marks.npy").tolist()
    names = interests.names_in(tmp_path / "out").to_pylist()
    assert is_timed
    assert dict(zip(names, marks, strict=True)) == {"across": 3, "after": 0, "always": 3, "before": 1, "inside": 2}


def random_relation(seed: int, rows: int = 60, columns: int = 15) -> Relation:
    draw = np.random.default_rng(seed)
    popular = 1 / np.arange(1, columns + 1)
    return Relation.from_pairs(
        draw.integers(0, rows, 400), draw.choice(columns, 400, p=popular / popular.sum()), rows, columns
    )


@pytest.mark.spark
def test_co_subscriptions_in_many_tasks_are_the_product_of_the_matrix_with_itself(spark, tmp_path):
    relation = random_relation(3)
    dense = np.zeros((relation.row_count, relation.column_count), int)
    dense[relation.rows, relation.columns] = 1
    shared = dense.T @ dense
    expected = [(a, b, shared[a, b]) for a in range(15) for b in range(a + 1, 15) if shared[a, b] >= 5]
    assert similarity.co_subscriptions(spark, relation, tmp_path, 5, tasks=4) == len(expected)
    assert collected(tmp_path) == expected
    assert not (tmp_path / "arrays").exists()


@pytest.mark.spark
def test_interest_neighbours_are_unique_exact_and_complete_for_equals(spark, tmp_path):
    relation = random_relation(4)
    bands = similarity.Bands(bands=12, rows=1, similarity_min=0.4)
    count = similarity.interest_neighbours(spark, relation, tmp_path, bands)
    found = {(a, b): score for a, b, score in collected(tmp_path)}
    assert len(found) == count == len(collected(tmp_path))
    sets = [set(relation.row(row).tolist()) for row in range(relation.row_count)]
    exact = {
        (a, b): len(sets[a] & sets[b]) / len(sets[a] | sets[b])
        for a in range(60)
        for b in range(a + 1, 60)
        if min(len(sets[a]), len(sets[b])) >= 2
    }
    assert all(score == np.float32(exact[pair]) for pair, score in found.items())
    # With 12 independent hashes a pair of similarity 0.7 is missed once in two million times.
    assert {pair for pair, score in exact.items() if score >= 0.7} <= set(found)


def test_senseless_settings_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"neighbours\.bands"):
        similarity.Bands(bands=0)
    with pytest.raises(ConfigError, match="count_min"):
        similarity.co_subscriptions(None, random_relation(1), tmp_path, 0)
