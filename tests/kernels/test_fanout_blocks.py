"""Placement block by block: room, books and share of the gain."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.kernels import fanout
from coterie.kernels.fanout_blocks import Here, Round, Task, move_block, place

USERS, TOPICS, BROKERS, EACH = 4000, 200, 10, 4


def crowd(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Users of ten kinds, each kind with twenty topics of its own."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(10, size=USERS)
    topics = np.concatenate([20 * k + draw.choice(20, EACH, replace=False) for k in kind]).astype(np.int32)
    return np.arange(0, USERS * EACH + 1, EACH, dtype=np.int64), topics


def task_of(seed: int, block_users: int, room: float = 1.2) -> Task:
    capacity = int(room * USERS * EACH / BROKERS)
    return Task(*crowd(seed), np.ones(TOPICS), BROKERS, capacity, 3, block_users, sample_users=800)


def cost_of(task: Task, part: np.ndarray) -> float:
    whole = fanout.crowd_of(task.indptr, task.topics)
    return fanout.touched(fanout.pin_counts(whole, part, TOPICS, BROKERS), task.rate)


@pytest.mark.parametrize("block_count", [1, 4, 16])
def test_blocks_gather_users_within_capacity(block_count: int) -> None:
    task = task_of(1, USERS // block_count)
    assert task.block_count == block_count
    start = np.random.default_rng(2).integers(BROKERS, size=USERS).astype(np.int32)
    found = place(task, start, Here(task))
    assert fanout.touched(found.counts, task.rate) == cost_of(task, found.part) < 0.1 * cost_of(task, start)
    assert found.load.tolist() == (np.bincount(found.part, minlength=BROKERS) * EACH).tolist()
    assert found.load.max() <= task.capacity


def test_every_user_is_in_one_block() -> None:
    task = task_of(1, 1000)
    listed = np.concatenate([task.users(block) for block in range(task.block_count)])
    assert sorted(listed.tolist()) == list(range(USERS))
    some = task.crowd(task.users(2))
    assert some.topics[some.indptr[5] : some.indptr[6]].tolist() == task.topics[22 * EACH : 23 * EACH].tolist()


def test_a_block_changes_nothing_it_was_lent() -> None:
    task = task_of(4, 2000, room=2.0)
    part = np.random.default_rng(5).integers(BROKERS, size=USERS).astype(np.int32)
    seats = fanout.seats_of(fanout.crowd_of(task.indptr, task.topics), part, TOPICS, BROKERS)
    before = [array.copy() for array in seats]
    moved = move_block(task, Round(3, 0.3, seats), 1)
    assert (moved != part[task.users(1)]).any()
    for lent, copy in zip(seats, before, strict=True):
        assert np.array_equal(lent, copy)


def test_a_given_placement_that_is_better_stays() -> None:
    task = task_of(6, 1000)
    ideal = (task.topics[::EACH] // 20).astype(np.int32)
    kept = place(task, ideal, Here(task))
    assert kept.part.tolist() == ideal.tolist()
