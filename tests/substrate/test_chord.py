"""Chord in bulk against a slow obvious version, and one node at a time against the bulk form."""

import random as module_random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.substrate.chord import ChordRouter, chord_ring
from coterie.substrate.identifiers import MASK, even_positions, node_positions
from coterie.substrate.rings import ClockwiseRing
from tests.substrate.rings_of_nodes import KEYS, POSITIONS, clockwise_owner

SHAPES = st.sampled_from([(1, 1), (4, 1), (4, 4), (8, 3)])


def slow_links(positions: list[int], node: int, successors: int) -> list[int]:
    """Look all 64 fingers up one by one, and the successors by sorting."""
    upwards = sorted(range(len(positions)), key=lambda other: (positions[other] - positions[node]) & MASK)
    fingers = {clockwise_owner(positions, (positions[node] + (1 << bit)) & MASK) for bit in range(64)}
    return [other for other in upwards if other in fingers | set(upwards[1 : successors + 1]) and other != node]


def slow_hop(positions: list[int], node: int, key: int, successors: int) -> int:
    """The last link in (node, key], else the successor; `node` itself means it is the owner."""
    if clockwise_owner(positions, key) == node:
        return node
    links = slow_links(positions, node, successors)
    on_the_way = [
        link
        for link in links
        if 0 < (positions[link] - positions[node]) & MASK <= ((key - positions[node]) & MASK or MASK + 1)
    ]
    return on_the_way[-1] if on_the_way else links[0]


def row_of(ring: ClockwiseRing, node: int) -> list[tuple[int, int]]:
    return [(peer, int(ring.positions[peer])) for peer in ring.overlay.links.row(node).tolist()]


@settings(max_examples=60, deadline=None)
@given(POSITIONS, SHAPES)
def test_links_equal_slow_ones(positions: np.ndarray, shape: tuple[int, int]) -> None:
    near, successors = shape
    ring = chord_ring(positions, near, successors)
    count = len(positions)
    for node in range(min(count, 8)):
        slow = slow_links(positions.tolist(), node, successors)
        assert ring.links_of(node).tolist() == slow
        upwards = sorted(range(count), key=lambda other: (int(positions[other]) - int(positions[node])) & MASK)[1:]
        assert ring.overlay.links.row(node).tolist() == sorted({*slow, *upwards[:near], *upwards[::-1][:near]})


@settings(max_examples=60, deadline=None)
@given(POSITIONS, SHAPES, KEYS)
def test_paths_follow_the_rule_and_end_at_the_owner(
    positions: np.ndarray, shape: tuple[int, int], keys: list[int]
) -> None:
    ring = chord_ring(positions, *shape)
    as_list = positions.tolist()
    starts = (np.arange(len(keys)) * 7 % len(positions)).astype(np.int32)
    paths = ring.paths(starts, np.array(keys, np.uint64))
    for i, key in enumerate(keys):
        path = paths.path(i).tolist()
        assert path[0] == starts[i]
        assert path[-1] == clockwise_owner(as_list, key)
        for node, following in zip(path, [*path[1:], path[-1]], strict=True):
            assert slow_hop(as_list, node, key, shape[1]) == following


@settings(max_examples=60, deadline=None)
@given(POSITIONS, SHAPES, KEYS, st.randoms(use_true_random=False))
def test_router_equals_bulk(
    positions: np.ndarray, shape: tuple[int, int], keys: list[int], random: module_random.Random
) -> None:
    ring = chord_ring(positions, *shape)
    everybody = list(enumerate(positions.tolist()))
    starts = (np.arange(len(keys)) * 7 % len(positions)).astype(np.int32)
    paths = ring.paths(starts, np.array(keys, np.uint64))
    for i, key in enumerate(keys):
        node = int(starts[i])
        seeded = ChordRouter(node, int(positions[node]), *shape)
        seeded.learn_all(row_of(ring, node))
        complete = ChordRouter(node, int(positions[node]), *shape)
        random.shuffle(everybody)
        complete.learn_all(everybody)
        assert seeded.neighbours() == complete.neighbours() == row_of(ring, node)
        assert [peer for peer, _ in complete.links()] == ring.links_of(node).tolist()
        path = paths.path(i).tolist()
        assert seeded.next_hop(key) == complete.next_hop(key) == (path[1] if len(path) > 1 else None)


def test_eight_even_nodes_have_the_fingers_of_the_textbook() -> None:
    ring = chord_ring(even_positions(8))
    assert ring.links_of(0).tolist() == [1, 2, 4]
    paths = ring.paths(np.zeros(8, np.int32), ring.positions)
    assert (np.diff(paths.indptr) - 1).tolist() == [0, 1, 1, 2, 1, 2, 2, 3]  # one hop per one bit of the distance


def test_ten_thousand_nodes_route_in_half_log2_hops() -> None:
    ring = chord_ring(node_positions(10_000, 3))
    draw = np.random.default_rng(1)
    paths = ring.paths(np.arange(10_000, dtype=np.int32), ring.positions[draw.permutation(10_000)])
    assert (np.diff(paths.indptr) - 1).mean() == pytest.approx(np.log2(10_000) / 2, abs=0.4)


@pytest.mark.parametrize(("near", "successors"), [(0, 1), (4, 0), (4, 5)])
def test_bad_shapes_are_refused(near: int, successors: int) -> None:
    with pytest.raises(ConfigError):
        chord_ring(node_positions(3, 0), near, successors)
    with pytest.raises(ConfigError):
        ChordRouter(0, 0, near, successors)
