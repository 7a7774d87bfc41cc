"""Trees and ways in: unions of paths against sets of edges collected one by one."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.model import Relation, Spread, Trees
from coterie.substrate import trees as module
from coterie.substrate.chord import chord_ring
from coterie.substrate.identifiers import node_positions, topic_keys
from coterie.substrate.oscar import oscar_ring
from coterie.substrate.pastry import PastryRing
from coterie.substrate.rings import Ring
from coterie.substrate.trees import bottom_up_trees, entries, path_union, top_down_trees
from tests.substrate.rings_of_nodes import POSITIONS

MAKERS = {"pastry": PastryRing.of, "chord": chord_ring, "oscar": lambda positions: oscar_ring(positions, 5)}
Make = Callable[[np.ndarray], Ring]
rings = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def some_members(channels: int, nodes: int, seed: int) -> Relation:
    draw = np.random.default_rng(seed)
    return Relation.from_rows(
        [draw.choice(nodes, draw.integers(0, min(nodes, 9) + 1), replace=False) for _ in range(channels)], nodes
    )


def check_shape(trees: Trees, keys: np.ndarray, ring: Ring) -> None:
    """Rooted, parents before children, every member on board, every leaf a member, sorted by depth and node."""
    assert trees.spread is Spread.ROOTED
    assert trees.root.tolist() == ring.owners(keys).tolist()
    for channel in range(len(keys)):
        low, high = trees.indptr[channel], trees.indptr[channel + 1]
        depth = {int(trees.root[channel]): 0}
        for node, parent in zip(trees.node[low:high].tolist(), trees.parent[low:high].tolist(), strict=True):
            assert node not in depth
            depth[node] = depth[parent] + 1
        assert list(depth.items())[1:] == sorted(list(depth.items())[1:], key=lambda item: (item[1], item[0]))
        members = set(trees.members.row(channel).tolist())
        assert members <= depth.keys()
        leaves = depth.keys() - set(trees.parent[low:high].tolist()) - {int(trees.root[channel])}
        assert leaves <= members


def edges(trees: Trees, channel: int) -> set[tuple[int, int]]:
    own = slice(trees.indptr[channel], trees.indptr[channel + 1])
    return set(zip(trees.node[own].tolist(), trees.parent[own].tolist(), strict=True))


@rings
@settings(max_examples=40, deadline=None)
@given(positions=POSITIONS, channels=st.integers(1, 6), seed=st.integers(0, 99))
def test_bottom_up_trees_are_reversed_paths(make: Make, positions: np.ndarray, channels: int, seed: int) -> None:
    ring = make(positions)
    members, keys = some_members(channels, len(positions), seed), topic_keys(channels)
    trees = bottom_up_trees(ring, keys, members)
    check_shape(trees, keys, ring)
    for channel in range(channels):
        own = members.row(channel)
        paths = ring.paths(own, np.repeat(keys[channel], len(own)))
        each = [paths.path(i).tolist() for i in range(paths.count)]
        assert edges(trees, channel) == {pair for path in each for pair in pairwise(path)}


@rings
@settings(max_examples=40, deadline=None)
@given(positions=POSITIONS, channels=st.integers(1, 6), seed=st.integers(0, 99))
def test_top_down_trees_are_paths_from_the_root(make: Make, positions: np.ndarray, channels: int, seed: int) -> None:
    ring = make(positions)
    members, keys = some_members(channels, len(positions), seed), topic_keys(channels)
    trees = top_down_trees(ring, keys, members)
    check_shape(trees, keys, ring)
    for channel in range(channels):
        own = members.row(channel)
        paths = ring.paths(np.repeat(trees.root[channel], len(own)).astype(np.int32), positions[own])
        each = [paths.path(i).tolist() for i in range(paths.count)]
        union = {(child, parent) for path in each for parent, child in pairwise(path)}
        if isinstance(ring, PastryRing):
            assert edges(trees, channel) <= union
        else:
            assert edges(trees, channel) == union


@rings
def test_entries_lead_from_publisher_to_root(make: Make) -> None:
    ring, keys = make(node_positions(200, 1)), topic_keys(5)
    publisher = np.array([3, 199, int(ring.owners(keys)[2])], np.int32)
    ways = entries(ring, publisher, np.array([0, 4, 2], np.int32), keys)
    assert ways.hops[ways.indptr[:-1]].tolist() == publisher.tolist()
    assert ways.hops[ways.indptr[1:] - 1].tolist() == ring.owners(keys)[[0, 4, 2]].tolist()
    assert ways.hop_counts[2] == 0
    assert ways.after.tolist() == [-1, -1, -1]


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    ring, keys, members = PastryRing.of(node_positions(80, 2)), topic_keys(30), some_members(30, 80, 4)
    whole = bottom_up_trees(ring, keys, members)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 10)
    parts = bottom_up_trees(ring, keys, members)
    for name in ("root", "indptr", "node", "parent"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))


def test_chosen_roots() -> None:
    ring, members = PastryRing.of(node_positions(80, 2)), some_members(3, 80, 4)
    roots = np.array([5, 6, 7], np.int32)
    trees = path_union(ring, roots, members, is_upward=True)
    assert trees.root.tolist() == roots.tolist()


def test_no_channels_no_edges() -> None:
    trees = bottom_up_trees(PastryRing.of(node_positions(4, 2)), topic_keys(0), Relation.empty(0, 4))
    assert trees.indptr.tolist() == [0]
    assert trees.node.dtype == np.int32
