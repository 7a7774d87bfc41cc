"""Bounds on degree: below the best overlay there is, and not far below those we make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from coterie.accounting import topic_links
from coterie.accounting.bounds import lower_bounds
from coterie.model import Relation
from coterie.systems.spidercast import greedy
from coterie.workloads import make_workload
from tests.systems.spidercast import oracles

tiny = {"nodes": st.integers(2, 5), "topics": st.integers(1, 4), "seed": st.integers(0, 10**6)}


@settings(max_examples=40)
@given(**tiny)
def test_no_overlay_connects_every_topic_with_fewer_links(nodes: int, topics: int, seed: int) -> None:
    interests = oracles.random_interests(nodes, topics, seed, wanted=0.6)
    fewest = oracles.fewest_links(interests, lambda links: oracles.connects(interests, links))
    assert fewest >= topic_links.connected_degree(interests) * nodes / 2 - 1e-6


@settings(max_examples=40)
@given(coverage=st.integers(1, 3), **tiny)
def test_no_overlay_covers_every_interest_with_fewer_links(coverage: int, nodes: int, topics: int, seed: int) -> None:
    interests = oracles.random_interests(nodes, topics, seed, wanted=0.6)
    fewest = oracles.fewest_links(interests, lambda links: oracles.covers(interests, links, coverage))
    assert fewest >= topic_links.covered_degree(interests, coverage) * nodes / 2 - 1e-6


def covering_programme(interests: Relation, coverage: int) -> float:
    """The mean degree of the linear programme over all links, solved exactly."""
    nodes = interests.row_count
    wants = [set(interests.row(node).tolist()) for node in range(nodes)]
    links = [(one, other) for one in range(nodes) for other in range(one) if wants[one] & wants[other]]
    rows = [
        [-1.0 if node in link and topic in wants[link[0]] & wants[link[1]] else 0.0 for link in links]
        for node in range(nodes)
        for topic in sorted(wants[node])
    ]
    needed = np.minimum(coverage, interests.transposed.lengths[interests.columns] - 1)
    return 2 * float(linprog(np.ones(len(links)), rows, -needed, bounds=(0, 1)).fun) / nodes


def test_the_climb_reaches_the_linear_programme() -> None:
    interests = make_workload("rss", {"nodes": 40, "topics": 20, "subscriptions": 5}, 1).interests
    exact = covering_programme(interests, 3)
    assert topic_links.covered_degree(interests, 3, steps=300) == pytest.approx(exact, rel=0.01)
    assert topic_links.covered_degree(interests, 3) < exact + 1e-9


def test_bounds_lie_close_below_the_overlays() -> None:
    interests = make_workload("rss", {"nodes": 300}, 1).interests
    merged = greedy.greedy_merge(interests, 1).lengths.mean()
    assert 0.8 * merged < topic_links.connected_degree(interests) < merged
    for coverage, links in ((3, greedy.lean(interests, 3, 1)), (2, greedy.two_connected(interests, 1))):
        bound = topic_links.covered_degree(interests, coverage)
        assert topic_links.covered_degree(interests, coverage, steps=0) < bound < links.lengths.mean() < 1.3 * bound


def test_the_ledger_of_bounds_has_it_in_links() -> None:
    workload = make_workload("rss", {"nodes": 100, "topics": 20, "subscriptions": 5}, 1)
    bound = lower_bounds(workload).topics.links
    assert bound == np.ceil(50 * topic_links.connected_degree(workload.interests, steps=10) - 1e-6)
    assert 0 < bound < greedy.greedy_merge(workload.interests, 1).pair_count / 2
