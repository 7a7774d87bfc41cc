"""Placement through Spark: the same places as block after block in one process, from canonical tables to a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting.bounds import lower_bounds
from coterie.errors import ConfigError
from coterie.kernels.placement.blocks import Here, PlacementTask, place_blocks
from coterie.kernels.placement.limits import limits_of
from coterie.kernels.placement.moves import renamed
from coterie.model import Relation, Workload
from coterie.model.store import load_design, save_workload
from coterie.pipeline import blocks, planning
from coterie.pipeline.blocks import BlockChoices, place_users
from coterie.pipeline.planning import LATER, LEARN, Candidate, Ways, design_file, price_all
from coterie.substrate.placing import Balance, client_weights, problem_of
from coterie.systems import SYSTEMS
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.workloads import make_workload

SETTINGS = {"subscribers": 600, "nodes": 8, "topics": 80, "modes": 8}
CHOICES = BlockChoices(Balance(0.05, 0.3), block_users=200, seed=4)


@pytest.fixture(scope="module")
def crowd() -> Workload:
    return make_workload("dynatops", SETTINGS, 3)


def placed_here(workload: Workload) -> np.ndarray:
    weight = client_weights(workload)
    limits = limits_of(weight, np.ones((workload.node_count, weight.shape[1])), CHOICES.balance.by_dimension)
    problem = problem_of(workload, limits.weight, limits.capacity)
    task = PlacementTask(problem, CHOICES.seed, CHOICES.block_users)
    assert task.block_count == 3
    found = place_blocks(task, Here(task))
    return renamed(found, workload.attachment, problem.loads(found), limits.capacity)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_tasks_place_like_one_process(spark, tmp_path, crowd):
    found = place_users(spark, crowd, tmp_path / "rounds", CHOICES)
    assert found.node_of.tolist() == placed_here(crowd).tolist()
    assert found.copies < 0.3 * found.copies_before
    assert lower_bounds(crowd, found.node_of).dissemination.wanted == pytest.approx(found.copies)
    assert (found.load <= found.capacity * (1 + 1e-9)).all()
    assert found.hottest[0] <= 1.05
    assert not (tmp_path / "rounds").exists()


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


def test_what_travels_in_files_is_all_a_block_needs(crowd, tmp_path, monkeypatch):
    """The same jobs without Spark between them."""
    monkeypatch.setattr(blocks, "run_tasks", lambda spark, tasks, work, schema: [work(task) for task in tasks])
    found = place_users(None, crowd, tmp_path / "rounds", CHOICES)
    assert found.node_of.tolist() == placed_here(crowd).tolist()
    assert not (tmp_path / "rounds").exists()


def test_a_picture_too_large_is_refused(crowd, tmp_path):
    with pytest.raises(ConfigError, match="fewer brokers"):
        place_users(None, replace(crowd, node_count=1 << 26), tmp_path)


def by_blocks(workload: Workload, tmp_path, monkeypatch, **settings: object) -> np.ndarray | None:
    """As the planner places clients through Spark, with nothing between the tasks."""
    monkeypatch.setattr(blocks, "run_tasks", lambda spark, tasks, work, schema: [work(task) for task in tasks])
    monkeypatch.setattr(planning, "PLACED_USERS_MIN", 100)
    save_workload(workload, tmp_path / LEARN)
    asked = Candidate(SYSTEMS["coterie"], SYSTEMS["coterie"].configure(settings))
    found = planning._place_on_spark(None, tmp_path, asked, tmp_path / "out", 1)
    return None if found is None else np.load(found)


def test_blocks_keep_clients_in_their_zones(crowd, tmp_path, monkeypatch):
    zoned = replace(crowd, zone_of=np.arange(8, dtype=np.int32) % 2, zones=("a", "b"))
    node_of = by_blocks(zoned, tmp_path, monkeypatch)
    assert (zoned.zone_of[node_of] == zoned.zone_of[zoned.attachment]).all()
    problem = problem_of(zoned, client_weights(zoned), np.ones((8, 3)))
    assert problem.copies(node_of) < 0.6 * problem.copies(zoned.attachment)
    counts = np.bincount(node_of, minlength=8)
    for zone in (0, 1):
        inside = counts[zoned.zone_of == zone]
        assert inside.max() <= np.ceil(1.1 * inside.mean())
    assert by_blocks(zoned, tmp_path, monkeypatch, leaving="paid") is None  # one process knows what that costs
    assert by_blocks(zoned, tmp_path, monkeypatch, moves_per_day=0.1) is None


def test_blocks_pack_those_who_want_everything(crowd, tmp_path, monkeypatch):
    everything = list(range(crowd.topic_count))
    rows = [crowd.interests.row(client).tolist() for client in range(crowd.subscriber_count)] + [everything] * 4
    home = np.append(crowd.attachment, np.arange(4)).astype(np.int32)
    watched = replace(crowd, interests=Relation.from_rows(rows, crowd.topic_count), attachment=home, modes=None)
    node_of = by_blocks(watched, tmp_path, monkeypatch)
    assert len(set(node_of[-4:].tolist())) == 1
    apart = by_blocks(watched, tmp_path, monkeypatch, node_messages=0.0)  # no node handles them with ease
    problem = problem_of(watched, client_weights(watched), np.ones((8, 3)))
    assert problem.copies(node_of) <= problem.copies(apart)
