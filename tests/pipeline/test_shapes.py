"""Known traces and journals become canonical tables with the numbers that were counted from them."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from coterie.errors import ConfigError, InputError
from coterie.model.relation import Relation
from coterie.pipeline import deriving, shapes
from coterie.workloads.traces import traces_folder

TRACES = traces_folder() or Path()
needs_traces = pytest.mark.skipif(traces_folder() is None, reason="no folder of traces; set COTERIE_TRACES")


def table(out, name):
    return pq.read_table(out / name)


def distinct(column) -> int:
    return len(column.unique())


def test_a_trace_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match="set COTERIE_TRACES"):
        shapes.find_trace("debian", tmp_path)
    with pytest.raises(ConfigError, match="wiki-month"):
        shapes.find_trace("nothing", tmp_path)


def test_shapes_are_recognised_by_name_and_by_header(tmp_path):
    for name, shape in [
        ("wiki_edits_1month.csv.gz", "wiki-month"),
        ("debian12_depends.csv.gz", "debian"),
        ("checkins_gowalla_1000u.csv.gz", "gowalla"),
    ]:
        found = shapes.shape_of(tmp_path / name)
        assert found is not None
        assert found.name == shape
    (tmp_path / "edits.csv").write_text("user,page,t_seconds\n1,2,3\n")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    assert shapes.shape_of(tmp_path / "edits.csv").name == "wiki-month"
    assert shapes.shape_of(tmp_path / "other.csv") is None
    with pytest.raises(InputError, match="column mapping"):
        shapes.read_shape(None, tmp_path / "other.csv", tmp_path)


def test_closures_follow_dependencies_through_cycles():
    needs = Relation.from_rows([[1], [2], [0], [0], []], 5)
    assert shapes.closure(needs.indptr, needs.columns, np.array([3, 3])) == [0, 1, 2, 3]
    assert shapes.closure(needs.indptr, needs.columns, np.array([4])) == [4]


@pytest.mark.spark
def test_stays_join_sightings_in_one_cell(spark):
    def at(hour):
        return datetime(2020, 1, 1, hour, tzinfo=UTC)

    rows = [("a", at(1), 48.2, 16.4), ("a", at(2), 48.9, 16.1), ("a", at(3), -0.5, -0.5), ("a", at(4), 48.2, 16.4)]
    positions = spark.createDataFrame(rows, "subscriber string, time timestamp, lat double, lon double")
    found = sorted(map(tuple, deriving.stays(deriving.cells(positions, 1.0)).collect()), key=lambda row: row[2])
    assert [(row[1], row[2].hour, row[3] and row[3].hour) for row in found] == [
        ("cell/48/16", 1, 3),
        ("cell/-1/-1", 3, 4),
        ("cell/48/16", 4, None),
    ]


@pytest.mark.spark
@pytest.mark.parametrize("cell", [0.001, 0.01, 0.25, 1.0, 2.0])
def test_cells_of_any_size_have_names_of_their_own(spark, cell):
    rows = [("a", None, 40.0 + number * cell, -74.0 + number * cell) for number in range(5)]
    positions = spark.createDataFrame(rows, "subscriber string, time timestamp, lat double, lon double")
    names = [row["topic"] for row in deriving.cells(positions, cell).collect()]
    assert len(set(names)) == 5
    corners = [[float(part) for part in name.split("/")[1:]] for name in names]
    assert np.array(corners) == pytest.approx(np.array([row[2:] for row in rows], float))


@pytest.mark.spark
def test_a_journal_folder_is_a_shape(spark, tmp_path):
    folder = tmp_path / "journal" / "node-a"
    folder.mkdir(parents=True)
    lines = [
        {"t": 1, "kind": "subscribe"},
        {"t": 2, "kind": "publish", "bytes": 3},
        {"t": 2, "kind": "publish", "bytes": 3},
    ]
    (folder / "000000000001.jsonl").write_text(
        "".join(json.dumps({**line, "client": "ann", "topic": "x"}) + "\n" for line in lines)
    )
    accounts = shapes.read_shape(spark, tmp_path / "journal", tmp_path / "out")
    assert (accounts["subscriptions"].kept, accounts["publications"].kept) == (1, 2)
    assert table(tmp_path / "out", "publications")["bytes"].to_pylist() == [3, 3]


@pytest.mark.spark
@pytest.mark.traces
@needs_traces
def test_wiki_month_has_the_counted_pairs(spark, tmp_path):
    accounts = shapes.read_shape(spark, shapes.find_trace("wiki-month"), tmp_path)
    assert accounts["publications"].kept == 157_474
    assert accounts["subscriptions"].kept == 18_257
    subscriptions = table(tmp_path, "subscriptions")
    assert (distinct(subscriptions["subscriber"]), distinct(subscriptions["topic"])) == (8_227, 1_000)


@pytest.mark.spark
@pytest.mark.traces
@needs_traces
def test_check_ins_have_the_counted_cells(spark, tmp_path):
    accounts = shapes.read_shape(spark, shapes.find_trace("gowalla"), tmp_path)
    assert accounts["positions"].rows_in == accounts["publications"].kept == 157_251
    subscriptions = table(tmp_path, "subscriptions")
    assert (distinct(subscriptions["subscriber"]), distinct(subscriptions["topic"])) == (1_000, 388)
    ends = subscriptions.filter(pc.is_null(subscriptions["until"]))
    assert len(ends) == 1_000


@pytest.mark.spark
@pytest.mark.traces
@needs_traces
def test_debian_machines_are_drawn_by_seed(spark, tmp_path):
    drawn = shapes.Choices(subscribers=30, seed=4)
    first = shapes.read_shape(spark, shapes.find_trace("debian"), tmp_path / "a", drawn)
    assert first["publications"].kept == 67_127
    shapes.read_shape(spark, shapes.find_trace("debian"), tmp_path / "b", drawn)
    assert table(tmp_path / "a", "subscriptions").equals(table(tmp_path / "b", "subscriptions"))
    interests = table(tmp_path / "a", "subscriptions")
    assert distinct(interests["subscriber"]) == 30
    # Nearly everything depends on the C library.
    libc = [row["subscriber"] for row in interests.to_pylist() if row["topic"] == "glibc"]
    assert len(libc) > 25


@pytest.mark.spark
@pytest.mark.traces
@needs_traces
def test_citeulike_has_documents_with_words(spark, tmp_path):
    accounts = shapes.read_shape(spark, shapes.find_trace("citeulike"), tmp_path)
    assert accounts["subscriptions"].kept == 134_860
    documents = table(tmp_path, "documents")
    # Documents without a word cannot match anything and are set aside.
    assert len(documents) + accounts["documents"].quarantined == 25_975
    lengths = [len(words) for words in documents["keywords"].to_pylist()]
    assert np.mean(lengths) == pytest.approx(18.9, abs=0.1)


def test_a_broken_bag_of_words_names_its_line(tmp_path):
    with gzip.open(tmp_path / "bow.txt.gz", "wt") as file:
        file.write("1 0:3\n2 0:1 9:1\n")
    with pytest.raises(InputError, match=r"line 2: not a line of word:times"):
        shapes._bags_of_words(tmp_path / "bow.txt.gz", ["a"])
