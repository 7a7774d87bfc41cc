"""Placement block by block: room, books and share of the gain."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.kernels.placement.blocks import Here, Picture, PlacementTask, Round, pass_block, place_blocks
from coterie.kernels.placement.passes import auctioned
from coterie.kernels.placement.problem import Problem

USERS, TOPICS, BROKERS, EACH = 4000, 200, 10, 4


def task_of(seed: int, block_users: int, room: float = 1.2, *, publish: bool = False) -> PlacementTask:
    """Clients of ten kinds, each kind with twenty topics of its own."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(10, size=USERS)
    topics = np.concatenate([20 * k + draw.choice(20, EACH, replace=False) for k in kind]).astype(np.int32)
    indptr = np.arange(0, USERS * EACH + 1, EACH, dtype=np.int64)
    who, said = np.arange(0, USERS, 3, dtype=np.int32), topics[: USERS * EACH : 3 * EACH]
    rows = (who, said, np.ones(len(who))) if publish else (who[:0], said[:0], np.zeros(0))
    rate = np.bincount(said, minlength=TOPICS).astype(float) if publish else np.ones(TOPICS)
    weight = np.ones((USERS, 1))
    capacity = np.full((BROKERS, 1), room * USERS / BROKERS)
    return PlacementTask(Problem(indptr, topics, rate, weight, capacity, *rows), 3, block_users)


@pytest.mark.parametrize("block_count", [1, 4, 16])
@pytest.mark.parametrize("publish", [False, True])
def test_blocks_gather_clients_within_capacity(block_count: int, publish: bool) -> None:
    task = task_of(1, USERS // block_count, publish=publish)
    assert task.block_count == block_count
    problem, even = task.problem, (np.arange(USERS) % BROKERS).astype(np.int32)
    found = place_blocks(task, Here(task))
    assert problem.is_within(found)
    assert problem.copies(found) < 0.1 * problem.copies(even)
    assert np.array_equal(found, place_blocks(task, Here(task)))


def test_blocks_are_hardly_behind_one_after_the_other() -> None:
    draw = np.random.default_rng(3)
    modes, each = draw.integers(60, size=6000), 8
    cells = (modes[:, None] * 10 + draw.geometric(0.08, (6000, each))) % 600
    rows = [np.unique(row) for row in cells]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    weight, capacity = np.diff(indptr).astype(float)[:, None], np.full((16, 1), 1.05 * indptr[-1] / 16)
    problem = Problem.of(indptr, np.concatenate(rows).astype(np.int32), np.ones(600), weight, capacity)
    task = PlacementTask(problem, 3, 750)
    assert problem.copies(place_blocks(task, Here(task))) < 1.05 * problem.copies(auctioned(problem, 3))


def test_every_client_is_in_one_block_and_every_block_in_one_wave() -> None:
    task = task_of(1, 1000)
    listed = np.concatenate([task.users(block) for block in range(task.block_count)])
    assert sorted(listed.tolist()) == list(range(USERS))
    for waves in (task.growing, task.waves(0), task.waves(1)):
        assert sorted(block for wave in waves for block in wave) == [0, 1, 2, 3]
    assert task.waves(0) != task.waves(1)


def test_a_block_changes_nothing_it_was_lent() -> None:
    task = task_of(4, 2000, room=2.0, publish=True)
    part = np.random.default_rng(5).integers(BROKERS, size=USERS).astype(np.int32)
    picture = Picture.empty(task.problem)
    np.add.at(picture.counts, (task.rank[task.problem.topics], np.repeat(part, EACH)), 1)
    before, own = [array.copy() for array in picture], part[task.users(1)]
    passed = pass_block(task, Round(3, 0.3, picture, (0, 1), 2), 1, own)
    assert (passed.part != own).any()
    for lent, copy in zip(picture, before, strict=True):
        assert np.array_equal(lent, copy)


def sites(sensors: int = 4000, topics: int = 200, dashboards: int = 400, brokers: int = 8) -> Problem:
    """Sensors that only publish take the connections, dashboards that only listen the messages."""
    draw = np.random.default_rng(1)
    wanted = np.concatenate([np.sort(draw.choice(topics, 10, replace=False)) for _ in range(dashboards)])
    indptr = np.concatenate([np.arange(dashboards + 1) * 10, np.full(sensors, dashboards * 10)])
    said = draw.integers(0, topics, sensors)
    rate = np.bincount(said, minlength=topics).astype(float)
    weight = np.ones((dashboards + sensors, 2))
    weight[:dashboards, 1] = rate[wanted].reshape(dashboards, 10).sum(axis=1)
    capacity = np.array([1.1, 1.3]) * np.tile(weight.sum(axis=0) / brokers, (brokers, 1))
    who = np.arange(dashboards, dashboards + sensors)
    rows = who.astype(np.int32), said.astype(np.int32), np.ones(sensors)
    return Problem(indptr.astype(np.int64), wanted.astype(np.int32), rate, weight, capacity, *rows)


def test_brokers_full_in_different_ways_do_not_lock_each_other() -> None:
    problem = sites()
    even = (np.arange(problem.client_count) % problem.broker_count).astype(np.int32)
    one_by_one = auctioned(problem, 1)
    task = PlacementTask(problem, 1, problem.client_count // 4)
    for found in (one_by_one, place_blocks(task, Here(task))):
        assert problem.is_within(found)
        assert problem.copies(found) < 0.75 * problem.copies(even)
