"""A crowd is placed by its classes: everybody once, within the limits, for fewer copies, most where they were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.kernels.placement.blocks import Picture
from coterie.model.store import load_workload
from coterie.pipeline.crowds import grouping, placing
from coterie.pipeline.crowds.building import load_outline
from coterie.pipeline.crowds.condensing import CrowdSeats, condense
from coterie.pipeline.crowds.grouping import ClassBlock, packed_block
from coterie.pipeline.crowds.roster import STAYING, number_wishes
from coterie.pipeline.crowds.seating import seat_clients
from coterie.pipeline.crowds.speaking import number_publishers
from coterie.pipeline.cutting import WindowChoices, cut_windows
from coterie.pipeline.here import NoSession
from coterie.pipeline.ingest import write_table
from coterie.pipeline.planning import LEARN


def one_class(at: list[int], number: list[int]) -> ClassBlock:
    nothing = np.zeros(0, np.int32)
    pieces = len(number)
    return ClassBlock(
        np.arange(pieces + 1), np.zeros(pieces, np.int32), np.array(number), np.ones(pieces), np.ones(pieces),
        nothing, nothing, np.zeros(0), np.zeros(pieces, np.int64), np.arange(len(at)) + 100, np.array([0, len(at)]),
        np.array(at, np.int32),
    )  # fmt: skip


def test_who_is_where_the_class_has_a_place_stays():
    placed = placing.members_placed(one_class([0, 1, 1, 2, 1], [2, 3]), np.array([1, 0]), np.array([0, 1, 2]))
    assert sorted(placed.tolist()) == [0, 0, 0, 1, 1]
    assert placed[0] == 0
    assert placed[1] == placed[2] == 1


def test_clients_of_one_kind_are_one_class_cut_into_pieces():
    kind = np.array([5, 5, 5, 9], np.uint64)
    arrays = {
        "client": np.arange(4), "at": np.zeros(4, np.int32), "kind": kind, "lengths": np.array([2, 2, 2, 1]),
        "topics": np.array([0, 1, 0, 1, 0, 1, 1], np.int32), "publisher": np.array([3]),
        "said_topic": np.array([0], np.int32), "said_rate": np.array([7.0]), "said_volume": np.array([70.0]),
    }  # fmt: skip
    block = packed_block([arrays], np.array([1.0, 10.0]), np.array([5.0, 50.0]), piece=2)
    assert block.number.tolist() == [2, 1, 1]
    assert block.messages.tolist() == [22.0, 11.0, 17.0]
    assert block.volume.tolist() == [110.0, 55.0, 120.0]
    assert block.publisher.tolist() == [2]
    assert [block.topics[a:b].tolist() for a, b in zip(block.indptr, block.indptr[1:], strict=False)] == [
        [0, 1],
        [0, 1],
        [1],
    ]


@pytest.mark.parametrize("blocks", [1, 2, 3, 8, 13])
def test_every_block_joins_once_and_no_wave_is_larger_than_what_is_there(blocks):
    waves = placing.growing(blocks)
    assert [block for wave in waves for block in wave] == list(range(blocks))
    assert all(len(wave) <= wave[0] for wave in waves[1:])


@pytest.mark.parametrize("files", [1, 2, 5, 40])
@pytest.mark.parametrize("is_counted", [True, False])
def test_what_tasks_add_up_is_what_the_driver_would(tmp_path, monkeypatch, files, is_counted):
    monkeypatch.setattr(placing, "ADDED", 2)
    draw = np.random.default_rng(files)
    shape = (30, 4)

    def some(scale: int) -> Picture:
        entering = draw.integers(0, scale, shape if is_counted else (0, 4)).astype(np.float32)
        load, price = draw.random((4, 3)), draw.random((4, 3)).astype(np.float32)
        return Picture(draw.integers(-scale, scale, shape).astype(np.int32), entering, load, price)

    picture, paths = some(50), [tmp_path / f"changed-{number:05d}.npz" for number in range(files)]
    for path in paths:
        placing._save_changed(some(3), path)
    alone = placing._changed(picture, paths, files)
    rounds = object.__new__(placing._Rounds)
    rounds.spark = NoSession()
    left = rounds._added(paths, picture)
    assert len(left) <= 2
    assert sorted(tmp_path.iterdir()) == sorted(left)
    for one, other in zip(alone, placing._changed(picture, left, files), strict=True):
        assert one.dtype == other.dtype
        assert np.allclose(one, other, rtol=1e-6)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("gangs", [256, 1])
def test_a_crowd_is_placed_within_limits_for_fewer_copies(spark, tmp_path, monkeypatch, gangs):
    monkeypatch.setattr(grouping, "BLOCK_USERS", 1200)
    monkeypatch.setattr(placing, "GANGS", gangs)
    draw = np.random.default_rng(5)
    count, kinds = 3000, 40
    tastes = [draw.choice(60, 4, replace=False) for _ in range(kinds)]
    kind = draw.integers(0, kinds, count)
    kind[:600] = 0  # a fifth of all wants the same
    rows = [(f"u{user:05d}", f"t{topic}") for user in range(count) for topic in tastes[kind[user]]]
    tables = tmp_path / "tables"
    table = {"subscriber": [row[0] for row in rows], "topic": [row[1] for row in rows]}
    none = pa.nulls(len(rows), pa.timestamp("us", "UTC"))
    write_table(spark.createDataFrame(pa.table({**table, "since": none, "until": none})), "subscriptions", tables)
    said = {
        "publisher": [f"u{user:05d}" for user in draw.integers(0, count + 500, 200)],
        "topic": [f"t{topic}" for topic in draw.integers(0, 60, 200)],
        "time": pa.nulls(200, pa.timestamp("us", "UTC")),
        "count": np.ones(200, np.int64),
        "bytes": np.ones(200, np.int64),
    }
    write_table(spark.createDataFrame(pa.table(said)), "publications", tables, keep_duplicates=True)
    choices = WindowChoices(brokers=6)
    roster = number_wishes(spark, tables, tmp_path / "crowd", cut_windows(spark, tables, choices), 1)
    roster, _ = number_publishers(spark, roster)
    stay = CrowdSeats(roster.folder / STAYING, seat_clients(spark, roster, choices))
    counted = condense(spark, roster, stay, tmp_path / "before", "crowd")
    outline = load_outline(tmp_path / "before", 0)
    placed = placing.place_crowd(spark, roster, stay, outline, counted.clients, tmp_path / "out")
    seats = pq.read_table(placed.folder)
    assert sorted(seats["client_id"].to_pylist()) == list(range(roster.clients))
    moved = condense(spark, roster, CrowdSeats(placed.folder, stay.ground), tmp_path / "after", "crowd")
    assert sum(moved.clients) == roster.clients
    assert placed.is_within
    assert max(moved.clients) <= 1.1 * roster.clients / 6 + 1 + roster.clients // 600
    before, after = (load_workload(tmp_path / name / LEARN) for name in ("before", "after"))
    assert copies(after) < 0.6 * copies(before)
    assert load_outline(tmp_path / "after", 0).copies[0] == pytest.approx(copies(after))
    assert 0 < moved.moves < 0.9 * roster.clients


def copies(workload) -> float:
    audience = np.zeros((workload.topic_count, workload.node_count), bool)
    audience[workload.interests.columns, workload.interests.rows] = True
    said = workload.publications
    return float(((audience[said.topic].sum(axis=1) - audience[said.topic, said.publisher]) * said.rate).sum())
