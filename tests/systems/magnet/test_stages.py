"""Magnet in bulk: places by similarity, two rings in one overlay, trees of greedy paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.errors import ConfigError
from coterie.kernels.rings.bisection import bisect_order
from coterie.kernels.rings.settling import settle_by_interest
from coterie.kernels.trees.interested import interested_trees
from coterie.model import Relation
from coterie.substrate.identifiers import node_positions, topic_keys
from coterie.substrate.oscar import OscarShape, oscar_ring
from coterie.systems.magnet.orderings import ORDERINGS, hilbert_order
from coterie.systems.magnet.parameters import MagnetParameters, RingParameters
from coterie.systems.magnet.stages import control_ring, join_order, skewed_part, spread_evenly, two_rings
from coterie.systems.magnet.system import INTEREST_RING, SYSTEM, UNIFORM
from coterie.workloads import make_workload
from tests.conftest import small_workload

TWO_CAMPS = Relation.from_rows([[0, 1, 2] if node % 2 else [3, 4, 5] for node in range(60)], 6)


def settle(interests: Relation, samples: int, rounds: int = 0) -> list[int]:
    by_topic = np.argsort(interests.columns, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(interests.columns, minlength=interests.column_count))])
    arrivals = np.arange(interests.row_count, dtype=np.int32)
    weights = np.ones(interests.column_count)
    return settle_by_interest(
        np.uint64(7),
        arrivals,
        samples,
        rounds,
        interests.indptr,
        interests.columns,
        starts,
        interests.rows[by_topic],
        weights,
    ).tolist()


@pytest.mark.parametrize("samples", [1, 3, 100])
@pytest.mark.parametrize("rounds", [0, 2])
def test_two_camps_sit_apart(samples: int, rounds: int) -> None:
    """Whoever knows one of its own camp sits beside it, so there are two runs on the ring."""
    order = settle(TWO_CAMPS, samples, rounds)
    assert sorted(order) == list(range(60))
    changes = sum((order[at] % 2) != (order[at - 1] % 2) for at in range(60))
    assert changes == 2


def test_the_most_similar_one_wins() -> None:
    interests = Relation.from_rows([[0, 1, 2, 3], [0], [3], [0, 1, 2]], 4)
    order = settle(interests, samples=10)
    assert order[(order.index(0) + 1) % 4] == 3


def test_weights_decide_what_is_similar() -> None:
    workload = small_workload(40, 6, seed=3)
    weighted = MagnetParameters(is_rate_weighted=True)
    plain = MagnetParameters(is_rate_weighted=False)
    interests = workload.node_interests()
    assert join_order(workload, interests, weighted, 1).tolist() != join_order(workload, interests, plain, 1).tolist()


@given(nodes=st.integers(1, 80), near=st.integers(1, 4), links=st.integers(0, 12), seed=st.integers(0, 2**32))
def test_both_rings_can_be_told_apart_in_one_overlay(nodes: int, near: int, links: int, seed: int) -> None:
    control = control_ring(nodes, 4)
    order = np.random.default_rng(seed).permutation(nodes).astype(np.int32)
    skewed = oscar_ring(spread_evenly(order), seed, OscarShape(links, near))
    overlay = two_rings(control, skewed)
    found = skewed_part(overlay, control, near)
    own = control.overlay.links
    close = found.circle.near(near)
    for node in range(nodes):
        expected = (set(skewed.links_of(node).tolist()) - set(own.row(node).tolist())) | set(close.row(node).tolist())
        assert set(found.links_of(node).tolist()) == expected
        distance = found.positions[found.links_of(node)] - found.positions[node]
        assert np.all(np.diff(distance.astype(object)) > 0)


@given(nodes=st.integers(2, 50), topics=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_paths_that_prefer_the_interested_form_trees_with_all_members(nodes: int, topics: int, seed: int) -> None:
    """Against a walk in plain Python over the links that count: the interested ones and those before the first."""
    members = small_workload(nodes, topics, seed).interests.transposed
    ring = oscar_ring(node_positions(nodes, seed), seed, OscarShape(4, 1))
    draw = np.random.default_rng(seed)
    roots = draw.integers(0, nodes, topics).astype(np.int32)
    indptr, node, parent = interested_trees(
        ring.positions, ring.indptr, ring.links, roots, members.indptr, members.columns
    )
    positions = ring.positions.tolist()
    for topic in range(topics):
        wanting = set(members.row(topic).tolist())
        edges = {}
        for member in sorted(wanting):
            at = int(roots[topic])
            while at != member:
                links, left = ring.links_of(at).tolist(), gap(positions, at, member)
                ahead = [link for link in links if gap(positions, at, link) <= left]
                liked = [link for link in ahead if link in wanting]
                following = (liked or ahead or links[:1])[-1]
                assert edges.setdefault(following, at) == at
                at = following
        low, high = indptr[topic], indptr[topic + 1]
        assert dict(zip(node[low:high].tolist(), parent[low:high].tolist(), strict=True)) == edges


@given(nodes=st.integers(2, 50), topics=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_trees_begin_with_the_first_subscriber_after_the_home(nodes: int, topics: int, seed: int) -> None:
    workload = small_workload(nodes, topics, seed)
    design = INTEREST_RING.plan(workload, seed=seed)
    positions, trees = design.overlay.positions.tolist(), design.trees
    homes = control_ring(nodes, 4).owners(topic_keys(topics))
    assert trees.root.tolist() == homes.tolist()
    for topic in range(topics):
        wanting = trees.members.row(topic).tolist()
        home, low, high = int(homes[topic]), trees.indptr[topic], trees.indptr[topic + 1]
        below = trees.node[low:high][trees.parent[low:high] == home].tolist()
        if not wanting:
            assert low == high
        elif home not in wanting:
            assert below == [min(wanting, key=lambda member: gap(positions, home, member))]


def gap(positions: list[int], one: int, other: int) -> int:
    return (positions[other] - positions[one]) % 2**64


@pytest.mark.parametrize("name", [name for name in ORDERINGS if name != "hilbert"])
@pytest.mark.parametrize("nodes", [1, 2, 7, 60])
def test_every_ordering_orders_everybody(name: str, nodes: int) -> None:
    workload = small_workload(nodes, 8, seed=nodes)
    order = ORDERINGS[name](workload, workload.node_interests(), MagnetParameters(), 1)
    assert sorted(order.tolist()) == list(range(nodes))


def test_hilbert_order_stays_close() -> None:
    workload = make_workload("spatial", {"nodes": 1024, "subscriptions": 8}, 1)
    assert workload.coordinates is not None
    order = hilbert_order(workload, workload.interests, MagnetParameters(), 1)
    steps = np.linalg.norm(np.diff(workload.coordinates[order], axis=0), axis=1)
    assert sorted(order.tolist()) == list(range(1024))
    assert steps.mean() < 2 / np.sqrt(1024)
    with pytest.raises(ConfigError, match="coordinates"):
        hilbert_order(small_workload(5, 3, 1), workload.interests, MagnetParameters(), 1)


def test_bisection_shortens_gaps() -> None:
    order = np.random.default_rng(0).permutation(60).astype(np.int32)
    after = bisect_order(order, 20, 2, TWO_CAMPS.indptr, TWO_CAMPS.columns, np.ones(6))
    assert sum((after[at] % 2) != (after[at - 1] % 2) for at in range(60)) <= 4


@pytest.mark.parametrize(
    ("key", "bad"), [("links", 1), ("samples", 0), ("near", 0), ("choices", 0), ("rounds", -1), ("median_samples", -1)]
)
def test_bad_parameters_are_named(key: str, bad: int) -> None:
    with pytest.raises(ConfigError, match=key):
        SYSTEM.configure({key: bad})


def test_rejoining_needs_samples() -> None:
    with pytest.raises(ConfigError, match="rejoin_every"):
        MagnetParameters(rejoin_every=1)


def test_power_of_two_choices_and_sampled_medians_still_reach_everybody() -> None:
    workload = make_workload("multimodal", {"nodes": 300, "topics": 60, "subscriptions": 6, "modes": 6}, 2)
    design = SYSTEM.plan(workload, MagnetParameters(choices=2, median_samples=5, near=2), 2)
    assert price(design, workload).loss.lost == 0
    assert design.overlay.entry_counts.max() <= 19 + 8 + 16


def test_the_strawman_knows_nothing_of_interests() -> None:
    one, other = (small_workload(50, 5, seed) for seed in (1, 2))
    first, second = (UNIFORM.plan(workload, RingParameters(), 3).overlay for workload in (one, other))
    assert first.links == second.links
