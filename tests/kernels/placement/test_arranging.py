"""Groups on a given network: who shares much ends near each other, and no exchange is left that shortens the ways."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.kernels.placement.arranging import arrange, exchange_gain

NODES = 12


def ring_ways() -> np.ndarray:
    apart = np.abs(np.arange(NODES)[:, None] - np.arange(NODES))
    return np.minimum(apart, NODES - apart).astype(np.float64)


def length(together: np.ndarray, distance: np.ndarray, where: np.ndarray) -> float:
    return float((together * distance[np.ix_(where, where)]).sum()) / 2


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    half = np.triu(draw.random((NODES, NODES)) * (draw.random((NODES, NODES)) < 0.3), 1)
    return half + half.T, draw.permutation(NODES).astype(np.int32)


@pytest.mark.parametrize("seed", range(5))
def test_a_gain_is_what_the_ways_get_shorter_by(seed: int) -> None:
    together, where = drawn(seed)
    before = length(together, ring_ways(), where)
    for one, other in ((0, 1), (3, 9), (5, 6)):
        gain = exchange_gain(together, ring_ways(), where, one, other)
        exchanged = where.copy()
        exchanged[[one, other]] = where[[other, one]]
        assert gain == pytest.approx(before - length(together, ring_ways(), exchanged))


@pytest.mark.parametrize("seed", range(5))
def test_it_ends_where_no_exchange_is_shorter(seed: int) -> None:
    together, where = drawn(seed)
    before = length(together, ring_ways(), where)
    assert arrange(together, ring_ways(), np.zeros(NODES, np.int32), where) > 0
    assert sorted(where.tolist()) == list(range(NODES))
    assert length(together, ring_ways(), where) < before
    pairs = [(one, other) for one in range(NODES) for other in range(one)]
    assert max(exchange_gain(together, ring_ways(), where, *pair) for pair in pairs) < 1e-6


def test_pairs_that_share_end_side_by_side() -> None:
    together = np.zeros((NODES, NODES))
    for one in range(NODES // 2):
        together[one, one + NODES // 2] = together[one + NODES // 2, one] = 1.0
    where = np.arange(NODES, dtype=np.int32)
    arrange(together, ring_ways(), np.zeros(NODES, np.int32), where)
    assert length(together, ring_ways(), where) == NODES // 2


def test_groups_stay_in_their_region() -> None:
    together, where = drawn(1)
    region = (np.arange(NODES) % 3).astype(np.int32)
    before = region[where]
    arrange(together, ring_ways(), region, where)
    assert (region[where] == before).all()
