"""Oscar in bulk and for one node: one checks the other, and skewed positions cost nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.model import Relation
from coterie.substrate.identifiers import MASK, node_positions
from coterie.substrate.oscar import OscarRouter, OscarShape, oscar_ring
from coterie.substrate.rings import ClockwiseRing
from tests.substrate.rings_of_nodes import KEYS, POSITIONS, clockwise_owner

SHAPES = st.builds(
    OscarShape,
    links=st.integers(0, 12),
    near=st.integers(1, 3),
    samples=st.sampled_from([0, 1, 5]),
    choices=st.integers(1, 2),
    is_balanced=st.booleans(),
)


def skewed_positions(count: int, seed: int) -> np.ndarray:
    """Half of all nodes in a thousandth of the ring."""
    share = np.random.default_rng(seed).random(count) ** 10
    return np.unique((share * 2.0**63).astype(np.uint64))


def mean_hops(ring: ClockwiseRing) -> float:
    count = len(ring.positions)
    targets = ring.positions[np.random.default_rng(0).permutation(count)]
    return float((np.diff(ring.paths(np.arange(count, dtype=np.int32), targets).indptr) - 1).mean())


def row_of(ring: ClockwiseRing, node: int) -> list[tuple[int, int]]:
    return [(peer, int(ring.positions[peer])) for peer in ring.overlay.links.row(node).tolist()]


@settings(max_examples=60, deadline=None)
@given(POSITIONS, SHAPES, KEYS, st.integers(0, 99))
def test_rows_are_sound_and_paths_end_at_the_owner(
    positions: np.ndarray, shape: OscarShape, keys: list[int], seed: int
) -> None:
    ring = oscar_ring(positions, seed, shape)
    count, as_list = len(positions), positions.tolist()
    for node in range(count):
        ahead = [(as_list[peer] - as_list[node]) & MASK for peer in ring.links_of(node).tolist()]
        assert ahead == sorted(set(ahead))
        assert 0 not in ahead
        assert min(count - 1, 2 * shape.near) <= len(ahead) <= 2 * shape.near + shape.links
        assert sorted(ring.links_of(node).tolist()) == ring.overlay.links.row(node).tolist()
    starts = (np.arange(len(keys)) * 7 % count).astype(np.int32)
    paths = ring.paths(starts, np.array(keys, np.uint64))
    for i, key in enumerate(keys):
        path = paths.path(i).tolist()
        assert path[-1] == clockwise_owner(as_list, key)
        router = OscarRouter(path[0], as_list[path[0]], shape)
        router.learn_all(row_of(ring, path[0]))
        assert router.neighbours() == row_of(ring, path[0])
        assert router.next_hop(key) == (path[1] if len(path) > 1 else None)


def test_the_most_similar_of_two_wins() -> None:
    positions, shape = node_positions(200, 1), OscarShape(links=9, choices=2)
    draw = np.random.default_rng(2)
    interests = Relation.from_rows([draw.choice(20, 5, replace=False) for _ in range(200)], 20)
    weights = draw.integers(1, 5, 20).astype(float)
    similar, random = oscar_ring(positions, 3, shape, interests, weights), oscar_ring(positions, 3, shape)

    def likeness(one: int, other: int) -> float:
        here, there = set(interests.row(one).tolist()), set(interests.row(other).tolist())
        return float(weights[sorted(here & there)].sum() / weights[sorted(here | there)].sum())

    def mean_likeness(ring: ClockwiseRing) -> float:
        links = ring.overlay.links
        pairs = zip(links.rows.tolist(), links.columns.tolist(), strict=True)
        return float(np.mean([likeness(*pair) for pair in pairs]))

    assert mean_likeness(similar) > mean_likeness(random) * 1.2


def test_two_choices_even_out_who_is_linked_to() -> None:
    positions = node_positions(3000, 1)
    most = {
        choices: np.bincount(oscar_ring(positions, 3, OscarShape(choices=choices)).links).max() for choices in (1, 2)
    }
    assert most[2] < 0.75 * most[1]


@pytest.mark.parametrize("samples", [0, 5])
def test_skew_costs_nothing(samples: int) -> None:
    shape = OscarShape(links=12, samples=samples)
    skewed = skewed_positions(4000, 4)
    even = node_positions(len(skewed), 4)
    assert mean_hops(oscar_ring(skewed, 1, shape)) == pytest.approx(mean_hops(oscar_ring(even, 1, shape)), rel=0.1)
    assert mean_hops(oscar_ring(skewed, 1, shape)) < 12  # log2 of 4000


def test_seeds_decide() -> None:
    positions = node_positions(300, 1)
    one, same, other = (oscar_ring(positions, seed).links.tolist() for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize("wrong", [{"links": -1}, {"near": 0}, {"samples": -1}, {"choices": 0}])
def test_bad_shapes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        OscarShape(**wrong)  # type: ignore[arg-type]
