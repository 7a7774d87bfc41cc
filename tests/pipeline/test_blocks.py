"""Placement through Spark: the same places as block after block in one process, from canonical tables to a plan."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import ConfigError
from coterie.kernels import fanout
from coterie.kernels.fanout_blocks import Here, Task, place
from coterie.model import Workload
from coterie.model.store import load_design, save_workload
from coterie.pipeline import planning
from coterie.pipeline.blocks import BlockChoices, place_tables, place_users
from coterie.pipeline.interests import load_interests, subscriber_names
from coterie.pipeline.planning import LATER, LEARN, Candidate, Ways, design_file, price_all
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.tasks import part_files, write_part
from coterie.systems import SYSTEMS
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.workloads import make_workload

SETTINGS = {"subscribers": 600, "nodes": 8, "topics": 80, "modes": 8}
CHOICES = BlockChoices(imbalance=0.05, block_users=200, sample_users=150, seed=4)


@pytest.fixture(scope="module")
def crowd() -> Workload:
    return make_workload("dynatops", SETTINGS, 3)


def placed_here(workload: Workload) -> fanout.Seats:
    interests = workload.interests
    largest = int(interests.lengths.max())
    capacity = fanout.capacity_of(interests.pair_count, largest, workload.node_count, CHOICES.imbalance)
    cut = (workload.node_count, capacity, CHOICES.seed, CHOICES.block_users, CHOICES.sample_users)
    task = Task(interests.indptr, interests.columns, workload.rates, *cut)
    assert task.block_count == 3
    return place(task, workload.attachment, Here(task))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_tasks_place_like_one_process(spark, tmp_path, crowd):
    network = (crowd.interests, crowd.rates, crowd.attachment, crowd.node_count)
    found = place_users(spark, *network, tmp_path / "rounds", CHOICES)
    here = placed_here(crowd)
    assert found.node_of.tolist() == here.part.tolist()
    assert found.copies == fanout.touched(here.counts, crowd.rates) < 0.2 * found.copies_before
    assert found.imbalance <= 0.05 + 5 / (crowd.interests.pair_count / 8)
    assert not (tmp_path / "rounds").exists()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_from_canonical_tables_to_a_table_of_places(spark, tmp_path, crowd):
    interests = crowd.interests
    names = [f"u{user:04d}" for user in interests.rows]
    topics = [f"t{topic:02d}" for topic in interests.columns]
    rows = pa.table({"subscriber": names, "topic": topics})
    schema = table_schema("subscriptions").arrow
    empty = {
        name: pa.nulls(len(rows), schema.field(name).type) for name in schema.names if name not in rows.schema.names
    }
    whole = pa.table({**{name: rows[name] for name in rows.schema.names}, **empty}).select(schema.names).cast(schema)
    half = interests.indptr[300]
    for index, part in enumerate((whole.slice(0, half), whole.slice(half))):
        write_part(part, tmp_path / "tables" / "subscriptions", index)
    heard = [{"topic": "t00", "count": 40}, {"topic": "t01", "count": 2}, {"topic": "unheard", "count": 9}]
    events = pa.Table.from_pylist(heard, table_schema("publications").arrow)
    write_part(events, tmp_path / "tables" / "publications", 0)
    placed = place_tables(spark, tmp_path / "tables", tmp_path / "out", 8, CHOICES)
    table = pa.concat_tables([pq.read_table(path) for path in part_files(tmp_path / "out" / "placement")])
    assert table["subscriber"].to_pylist() == subscriber_names(tmp_path / "out" / "interests").to_pylist()
    assert table["node"].to_pylist() == placed.node_of.tolist()
    # Only two topics are published: all that matters is where their subscribers are.
    interests = load_interests(tmp_path / "out" / "interests")
    brokers = [len(set(placed.node_of[interests.rows[interests.columns == topic]].tolist())) for topic in (0, 1)]
    assert placed.copies == 40 * (brokers[0] - 1) + 2 * (brokers[1] - 1)
    assert placed.copies < placed.copies_before


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_planner_places_big_crowds_through_spark(spark, tmp_path, crowd, monkeypatch):
    for name in (LEARN, LATER):
        save_workload(crowd, tmp_path / name)
    asked = [Candidate(SYSTEMS["dynatops"], DynatopsParameters(placement="hypergraph"))]
    few = price_all(spark, tmp_path, asked, tmp_path / "few", Ways(seed=2))[0]
    assert not (tmp_path / "few" / "node-of-dynatops.npy").exists()
    monkeypatch.setattr(planning, "PLACED_USERS_MIN", 500)
    many = price_all(spark, tmp_path, asked, tmp_path / "many", Ways(seed=2))[0]
    assert not few.problem
    assert not many.problem
    node_of = np.load(tmp_path / "many" / "node-of-dynatops.npy")
    design = load_design(design_file(tmp_path / "many", "dynatops"))
    assert design.placement.node_of.tolist() == node_of.tolist()


def test_a_picture_too_large_is_refused(crowd, tmp_path):
    with pytest.raises(ConfigError, match="fewer brokers"):
        place_users(None, crowd.interests, crowd.rates, crowd.attachment, 1 << 26, tmp_path)
