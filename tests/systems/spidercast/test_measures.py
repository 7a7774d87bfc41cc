"""Kernels against slow oracles: components, diameters, cut vertices, tdi(d)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.systems.spidercast import SYSTEM, measures
from coterie.systems.spidercast.parameters import SpiderCastParameters
from coterie.workloads import make_workload
from tests.systems.spidercast import oracles


@settings(max_examples=60)
@given(nodes=st.integers(1, 14), topics=st.integers(1, 4), seed=st.integers(0, 10**6), share=st.floats(0.05, 0.6))
def test_topic_measures_equal_their_oracles(nodes: int, topics: int, seed: int, share: float) -> None:
    interests, links = oracles.random_interests(nodes, topics, seed), oracles.random_links(nodes, seed, share)
    rows = [row for row in (interests.transposed.row(topic).tolist() for topic in range(topics)) if row]
    state = measures.connectivity(links, interests)
    assert state.components.tolist() == [oracles.component_count(row, links) for row in rows]
    assert measures.topic_diameter(links, interests) == max((oracles.diameter(row, links) for row in rows), default=0)
    mean = measures.topic_paths(links, interests).mean[interests.transposed.lengths > 0]
    assert mean.tolist() == pytest.approx([oracles.mean_distance(row, links) for row in rows])
    cut = measures.cut_vertices(links, interests)
    assert cut[interests.transposed.lengths > 0].tolist() == [oracles.cut_vertices(row, links) for row in rows]


@settings(max_examples=30)
@given(nodes=st.integers(2, 12), seed=st.integers(0, 10**6), depth=st.integers(1, 5))
def test_top_intersection_equals_its_oracle(nodes: int, seed: int, depth: int) -> None:
    interests = oracles.random_interests(nodes, 6, seed)
    assert measures.top_intersection(interests, depth) == pytest.approx(oracles.top_intersection(interests, depth))


def test_crashed_members_do_not_count() -> None:
    interests = oracles.random_interests(3, 1, 0, wanted=1.1)
    chain = oracles.random_links(3, 0, 0.0)
    chain = type(chain).from_pairs([0, 1, 1, 2], [1, 0, 2, 1], 3, 3)
    assert measures.after_crashes(chain, interests, np.array([1])).cut_off.tolist() == [1]
    assert measures.after_crashes(chain, interests, np.array([2])).cut_off.tolist() == [0]


def test_the_ledger_tells_what_floods_find() -> None:
    workload = make_workload("rss", {"nodes": 60, "topics": 10, "subscriptions": 3}, 1)
    design = SYSTEM.plan(workload, seed=1)
    ledger, links = price(design, workload), design.overlay.undirected
    assert ledger.topics.diameter == measures.topic_diameter(links, workload.interests) > 1
    assert ledger.topics.partitioned == 0
    assert ledger.topics.top_intersection == pytest.approx(oracles.top_intersection(workload.interests, 20))
    parameters = SpiderCastParameters(links="similarity", k_greedy=1)
    assert price(SYSTEM.plan(workload, parameters, seed=1), workload).topics.partitioned > 0
