"""Pastry in bulk against a slow obvious version, and one node at a time against the bulk form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.substrate.identifiers import MASK, node_positions, topic_keys
from coterie.substrate.pastry import PastryRing, PastryRouter
from tests.substrate.rings_of_nodes import KEYS, POSITIONS, common_prefix, digits, nearest_owner

SHAPES = st.sampled_from([(4, 16), (4, 2), (2, 4), (1, 2), (8, 8)])


def slow_table(positions: list[int], node: int, bits: int) -> dict[tuple[int, int], int]:
    """Sort every other node into its slot and keep the smallest exclusive-or."""
    table: dict[tuple[int, int], int] = {}
    own = digits(positions[node], bits)
    for other, position in enumerate(positions):
        if other != node:
            row = common_prefix(own, digits(position, bits))
            slot = row, digits(position, bits)[row]
            if slot not in table or position ^ positions[node] < positions[table[slot]] ^ positions[node]:
                table[slot] = other
    return table


def slow_leaves(positions: list[int], node: int, leaves: int) -> tuple[list[int], list[int]]:
    upwards = sorted(range(len(positions)), key=lambda other: _gap(positions, node, other))[1:]
    return upwards[: leaves // 2], upwards[::-1][: leaves // 2]


def _gap(positions: list[int], source: int, target: int) -> int:
    return (positions[target] - positions[source]) & MASK


def slow_hop(positions: list[int], node: int, key: int, bits: int, leaves: int) -> int:
    """Pastry's routing rule word for word; `node` itself means it is the owner."""
    right, left = slow_leaves(positions, node, leaves)
    if len(positions) - 1 < leaves or (key - positions[left[-1]]) & MASK <= _gap(positions, left[-1], right[-1]):
        near = sorted({node, *right, *left})
        return near[nearest_owner([positions[other] for other in near], key)]
    table = slow_table(positions, node, bits)
    row = common_prefix(digits(positions[node], bits), digits(key, bits))
    slot = row, digits(key, bits)[row]
    if slot in table:
        return table[slot]
    known = sorted({node, *right, *left, *table.values()})
    able = [other for other in known if common_prefix(digits(positions[other], bits), digits(key, bits)) >= row]
    return able[nearest_owner([positions[other] for other in able], key)]


def row_of(ring: PastryRing, node: int) -> list[tuple[int, int]]:
    return [(peer, int(ring.positions[peer])) for peer in ring.overlay.links.row(node).tolist()]


@settings(max_examples=60, deadline=None)
@given(POSITIONS, SHAPES)
def test_tables_equal_slow_ones(positions: np.ndarray, shape: tuple[int, int]) -> None:
    ring = PastryRing.of(positions, *shape)
    as_list = positions.tolist()
    for node in range(min(len(positions), 8)):
        filled = {(int(r), int(d)): int(ring.table[node, r, d]) for r, d in np.argwhere(ring.table[node] >= 0)}
        slow = slow_table(as_list, node, shape[0])
        assert filled == slow
        right, left = slow_leaves(as_list, node, shape[1])
        assert ring.overlay.links.row(node).tolist() == sorted({*right, *left, *slow.values()})


@settings(max_examples=60, deadline=None)
@given(POSITIONS, SHAPES, KEYS)
def test_paths_follow_the_rule_and_end_at_the_owner(
    positions: np.ndarray, shape: tuple[int, int], keys: list[int]
) -> None:
    ring = PastryRing.of(positions, *shape)
    as_list = positions.tolist()
    starts = (np.arange(len(keys)) * 7 % len(positions)).astype(np.int32)
    paths = ring.paths(starts, np.array(keys, np.uint64))
    for i, key in enumerate(keys):
        path = paths.path(i).tolist()
        assert path[0] == starts[i]
        assert path[-1] == nearest_owner(as_list, key) == ring.owners(np.array([key], np.uint64))[0]
        assert len(set(path)) == len(path)
        for node, following in zip(path, [*path[1:], path[-1]], strict=True):
            assert slow_hop(as_list, node, key, *shape) == following


@settings(max_examples=60, deadline=None)
@given(POSITIONS, SHAPES, KEYS, st.randoms(use_true_random=False))
def test_router_equals_bulk(positions: np.ndarray, shape: tuple[int, int], keys: list[int], random: object) -> None:
    ring = PastryRing.of(positions, *shape)
    everybody = list(enumerate(positions.tolist()))
    starts = (np.arange(len(keys)) * 7 % len(positions)).astype(np.int32)
    paths = ring.paths(starts, np.array(keys, np.uint64))
    for i, key in enumerate(keys):
        node = int(starts[i])
        seeded = PastryRouter(node, int(positions[node]), *shape)
        seeded.learn_all(row_of(ring, node))
        complete = PastryRouter(node, int(positions[node]), *shape)
        random.shuffle(everybody)  # type: ignore[attr-defined]
        complete.learn_all(everybody)
        assert seeded.neighbours() == complete.neighbours() == row_of(ring, node)
        path = paths.path(i).tolist()
        expected = path[1] if len(path) > 1 else None
        assert seeded.next_hop(key) == complete.next_hop(key) == expected


def test_ten_thousand_nodes_route_in_about_log16_hops() -> None:
    ring = PastryRing.of(node_positions(10_000, 3))
    starts = np.arange(10_000, dtype=np.int32)
    paths = ring.paths(starts, topic_keys(10_000))
    hops = np.diff(paths.indptr) - 1
    assert 2.5 < hops.mean() < 3.5  # log16 of 10,000 is 3.32, and leaf sets shorten the end
    assert hops.max() <= 7
    assert np.bincount(ring.overlay.links.columns).max() < 600  # nobody is everybody's favourite


def test_table_of_router_is_the_row_of_the_ring() -> None:
    ring = PastryRing.of(node_positions(300, 5))
    router = PastryRouter(17, int(ring.positions[17]))
    router.learn_all(enumerate(ring.positions.tolist()))
    assert router.table() == {(int(r), int(d)): int(ring.table[17, r, d]) for r, d in np.argwhere(ring.table[17] >= 0)}


@pytest.mark.parametrize(("digit_bits", "leaves"), [(3, 16), (0, 16), (4, 15), (4, 0)])
def test_bad_shapes_are_refused(digit_bits: int, leaves: int) -> None:
    with pytest.raises(ConfigError):
        PastryRing.of(node_positions(3, 0), digit_bits, leaves)
    with pytest.raises(ConfigError):
        PastryRouter(0, 0, digit_bits, leaves)


def test_positions_must_be_distinct() -> None:
    with pytest.raises(ValueError, match="same position"):
        PastryRing.of(np.array([5, 5], np.uint64))
