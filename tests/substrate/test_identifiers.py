"""Identifiers: hashing in bulk equals hashing one by one; distances around the ring."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coterie.substrate import identifiers as ids

# Few enough points that they often coincide, and all the awkward ones.
POINTS = st.one_of(
    st.sampled_from([0, 1, 2, 1 << 63, (1 << 63) - 1, (1 << 63) + 1, ids.MASK - 1, ids.MASK]),
    st.integers(0, ids.MASK),
)


@given(POINTS, POINTS)
def test_distance_is_symmetric_and_short(one: int, other: int) -> None:
    distance = ids.ring_distance(one, other)
    assert distance == ids.ring_distance(other, one) <= 1 << 63
    assert (one + distance) & ids.MASK == other or (one - distance) & ids.MASK == other


@given(POINTS, POINTS, POINTS)
def test_closer_is_a_strict_order(key: int, one: int, other: int) -> None:
    assert ids.is_closer(key, one, other) + ids.is_closer(key, other, one) == (one != other)


@given(st.integers(0, 300), st.integers(0, ids.MASK))
def test_bulk_hashing_equals_one_by_one(count: int, seed: int) -> None:
    assert ids.node_positions(count, seed).tolist() == [ids.node_position(node, seed) for node in range(count)]
    assert ids.topic_keys(count).tolist() == [ids.topic_key(topic) for topic in range(count)]


def test_positions_are_distinct_and_spread() -> None:
    positions = ids.node_positions(100_000, 7)
    assert len(np.unique(positions)) == 100_000
    eighths = np.bincount((positions >> np.uint64(61)).astype(int), minlength=8)
    assert eighths.min() > 12_000


def test_seeds_move_nodes_and_names_have_keys() -> None:
    assert ids.node_position(3, 1) != ids.node_position(3, 2)
    assert ids.topic_key("news/sport") == 0x5D460ADD83499F82  # a network relies on keys never changing
    assert ids.topic_key(0) == 0xE220A8397B1DCDAF  # the first output of splitmix64 seeded with 0


def test_even_positions_have_one_gap() -> None:
    positions = ids.even_positions(8)
    assert positions.tolist() == [node << 61 for node in range(8)]
