"""Placement block by block against the form that sees everybody."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.kernels import fanout
from coterie.kernels.fanout_blocks import refine_block, refine_blocks

USERS, TOPICS, BROKERS, EACH = 4000, 200, 10, 4


def crowd(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Users of ten kinds, each kind with twenty topics of its own."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(10, size=USERS)
    topics = np.concatenate([20 * k + draw.choice(20, EACH, replace=False) for k in kind]).astype(np.int32)
    return np.arange(0, USERS * EACH + 1, EACH, dtype=np.int64), topics


def cost_of(indptr: np.ndarray, topics: np.ndarray, part: np.ndarray) -> float:
    return float(fanout.touched(fanout.pin_counts(indptr, topics, part, TOPICS, BROKERS), np.ones(TOPICS)))


@pytest.mark.parametrize("block_count", [1, 4, 16])
def test_blocks_gather_users_within_capacity(block_count: int) -> None:
    indptr, topics = crowd(1)
    start = np.random.default_rng(2).integers(BROKERS, size=USERS).astype(np.int32)
    size = USERS // block_count
    blocks = [
        (indptr[: size + 1], topics[first * EACH : (first + size) * EACH], start[first : first + size])
        for first in range(0, USERS, size)
    ]
    capacity = int(1.2 * USERS * EACH / BROKERS)
    part = np.concatenate(refine_blocks(blocks, np.ones(TOPICS), BROKERS, capacity, seed=3))
    assert cost_of(indptr, topics, part) < 0.4 * cost_of(indptr, topics, start)
    assert np.bincount(part, minlength=BROKERS).max() * EACH <= capacity


def test_a_block_changes_nothing_it_was_lent() -> None:
    indptr, topics = crowd(4)
    part = np.random.default_rng(5).integers(BROKERS, size=USERS).astype(np.int32)
    counts = fanout.pin_counts(indptr, topics, part, TOPICS, BROKERS)
    load = np.bincount(part, minlength=BROKERS) * EACH
    before = part.copy(), counts.copy(), load.copy()
    moved = refine_block(indptr, topics, part, np.ones(TOPICS), counts, load, 2 * USERS, 2, 0.7, seed=6)
    assert (moved != part).any()
    for lent, copy in zip((part, counts, load), before, strict=True):
        assert np.array_equal(lent, copy)
