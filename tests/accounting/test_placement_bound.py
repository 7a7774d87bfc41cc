"""The bound over all placements against all placements, one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.placement_bound import copies_by_client, copies_by_topic, copies_in_company, least_copies
from coterie.model import Publications, Relation, Workload


def tiny(seed: int, clients: int, topics: int, nodes: int) -> tuple[Workload, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    rows = [np.flatnonzero(draw.random(topics) < 0.5).tolist() for _ in range(clients)]
    count = int(draw.integers(1, 7))
    who, what = draw.integers(clients, size=count), draw.integers(topics, size=count)
    publications = Publications.of(who, what, draw.integers(1, 6, count))
    workload = Workload("tiny", Relation.from_rows(rows, topics), publications, np.zeros(clients, np.int32), nodes)
    weight = np.stack([np.ones(clients), draw.random(clients)], axis=1)
    spread = draw.random((nodes, 2)) * 0.5 + 1.0
    return workload, weight, spread * weight.sum(axis=0) / nodes


@given(st.integers(0, 100_000), st.integers(2, 6), st.integers(1, 4), st.integers(2, 3))
@settings(max_examples=60, deadline=None)
def test_no_placement_is_below_the_bound(seed: int, clients: int, topics: int, nodes: int) -> None:
    workload, weight, capacity = tiny(seed, clients, topics, nodes)
    bounds = [bound(workload, weight, capacity) for bound in (copies_by_topic, copies_by_client, copies_in_company)]
    for node_of in product(range(nodes), repeat=clients):
        part = np.array(node_of, np.int32)
        load = np.zeros_like(capacity)
        np.add.at(load, part, weight)
        if (load <= capacity).all():
            copies = lower_bounds(workload, part).dissemination.wanted
            assert max(bounds) <= copies * (1 + 1e-9) + 1e-9


def test_a_topic_needs_the_nodes_its_clients_need() -> None:
    """Ten clients of one topic on nodes of four: three nodes, so two copies of each event."""
    interests = Relation.from_rows([[0]] * 10, 1)
    workload = Workload("one", interests, Publications.of([0], [0], [5.0]), np.zeros(10, np.int32), 4)
    assert least_copies(workload, np.ones((10, 1)), np.full((4, 1), 4.0)) == pytest.approx(10.0)


def test_publishers_without_room_beside_the_wishes_pay_a_copy_more() -> None:
    """Three clients fill a node; one of two publishers who want nothing finds room on it."""
    interests = Relation.from_rows([[0], [0], [0], [], []], 1)
    publications = Publications.of([3, 4], [0, 0], [2.0, 3.0])
    workload = Workload("two", interests, publications, np.zeros(5, np.int32), 2)
    assert least_copies(workload, np.ones((5, 1)), np.full((2, 1), 4.0)) == pytest.approx(2.0)


def test_clients_that_share_little_cost_more_than_their_topics_tell() -> None:
    """Everybody shares one topic each with two others, and a node holds two: no topic is whole anywhere."""
    pairs = [(a, b) for a in range(6) for b in range(a + 1, 6)]  # clients are pairs of topics
    interests = Relation.from_rows(pairs, 6)
    publications = Publications.of(np.zeros(6), np.arange(6), np.ones(6))
    workload = Workload("pairs", interests, publications, np.zeros(15, np.int32), 8)
    weight, capacity = np.ones((15, 1)), np.full((8, 1), 2.0)
    assert copies_by_client(workload, weight, capacity) > copies_by_topic(workload, weight, capacity) > 0


def crowded() -> tuple[Workload, np.ndarray, np.ndarray]:
    """Three clients are like everybody else, who are like each other in one wish of two at most; four to a node."""
    rows = [list(range(8))] * 3 + [[a, b] for a in range(8) for b in range(a + 1, 8)]
    publications = Publications.of(np.zeros(8), np.arange(8), np.ones(8))
    workload = Workload("crowded", Relation.from_rows(rows, 8), publications, np.zeros(len(rows), np.int32), 10)
    return workload, np.ones((len(rows), 1)), np.full((10, 1), 4.0)


def test_who_is_like_everybody_is_not_beside_everybody() -> None:
    """By client, everybody sits with these three; in company, three do."""
    workload, weight, capacity = crowded()
    assert copies_in_company(workload, weight, capacity) > 1.05 * copies_by_client(workload, weight, capacity) > 0


def test_too_many_pairs_are_left_alone() -> None:
    workload, weight, capacity = crowded()
    assert copies_in_company(workload, weight, capacity, pairs_max=20) == 0.0
    assert least_copies(workload, weight, capacity, pairs_max=20) > 0.0
