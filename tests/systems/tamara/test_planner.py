"""The central planner: true costs, monotone steps, close to the exact optimum, never below the bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.model import Relation
from coterie.systems.tamara.bulk import TopicClusters
from coterie.systems.tamara.exact import optimal_cost
from coterie.systems.tamara.kmeans import join_by_cost, join_by_majority, kmeans_clusters
from coterie.systems.tamara.planner import (
    ClusterSearch,
    PlannedClusters,
    cover_with,
    lower_bound,
    plain_cost,
    plan_clusters,
)
from coterie.workloads.rates import per_interval
from coterie.workloads.tamara import Clustered, arrivals, generate


def tasteful(seed: int, users: int, topics: int) -> tuple[Relation, np.ndarray]:
    """Users of two tastes with noise, and rates."""
    draw = np.random.default_rng(seed)
    taste = draw.random((2, topics)) < 0.6
    wants = np.where(draw.random((users, topics)) < 0.85, taste[draw.integers(0, 2, users)], draw.random(topics) < 0.3)
    rows, columns = np.nonzero(wants)
    return Relation.from_pairs(rows, columns, users, topics), draw.uniform(0.005, 0.4, topics)


def recomputed(plan: PlannedClusters, rate: np.ndarray) -> float:
    size = np.bincount(plan.direct.columns, minlength=len(rate))
    members = np.bincount(plan.memberships.columns, minlength=plan.topics.row_count)
    cost = float(size.sum() + members.sum() + plan.topics.pair_count)
    for topic in range(len(rate)):
        cost += rate[topic] * (1 + size[topic] + sum(1 + members[c] for c in plan.topics.transposed.row(topic)))
    return cost


def assert_covers(plan: PlannedClusters, interests: Relation) -> None:
    for user in range(interests.row_count):
        received = set(plan.direct.row(user).tolist())
        for cluster in plan.memberships.row(user).tolist():
            received |= set(plan.topics.row(cluster).tolist())
        assert set(interests.row(user).tolist()) <= received


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), users=st.integers(1, 80), topics=st.integers(1, 20))
def test_plans_cover_and_cost_what_they_say(seed: int, users: int, topics: int) -> None:
    interests, rate = tasteful(seed, users, topics)
    plan = plan_clusters(interests, rate)
    assert_covers(plan, interests)
    assert plan.overall == pytest.approx(recomputed(plan, rate))
    assert lower_bound(interests, rate) - 1e-9 <= plan.overall <= plain_cost(interests, rate) + 1e-9


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.0, 0.3, 0.7]))
def test_no_step_raises_the_cost(seed: int, share: float) -> None:
    interests, rate = tasteful(seed, 60, 15)
    search = ClusterSearch(interests, rate)
    cost = search.result().overall
    for step in (search.cover_users, lambda: search.grow(share), search.adjust, search.cover_users, search.adjust):
        step()
        assert search.result().overall == pytest.approx(recomputed(search.result(), rate))
        assert search.result().overall <= cost + 1e-9
        cost = search.result().overall


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_within_a_twelfth_of_the_exact_optimum(seed: int) -> None:
    interests, rate = tasteful(seed, 14, 5)
    best = optimal_cost(interests, rate)
    found = plan_clusters(interests, rate).overall
    assert lower_bound(interests, rate) - 1e-9 <= best <= found + 1e-9
    assert found <= best * 13 / 12


@pytest.mark.parametrize("rates", ["average", "frequent", "infrequent"])
def test_cheaper_than_the_distributed_algorithm_and_kmeans(rates: str) -> None:
    parameters = Clustered(nodes=600, rates=rates)
    timeline = arrivals(parameters, 1)
    clusters = TopicClusters(600, per_interval(timeline.start), seed=1)
    clusters.follow(timeline)
    workload = generate(parameters, 1)
    interests, rate = workload.interests, per_interval(workload)
    plan = plan_clusters(interests, rate, starts=[clusters.clusters()])
    assert plan.overall < clusters.overall
    assert cover_with(clusters.clusters(), interests, rate).overall <= clusters.overall
    split = kmeans_clusters(interests, 10, seed=1)
    assert sorted(split.columns.tolist()) == list(range(120))
    by_cost, by_majority = join_by_cost(split, interests, rate), join_by_majority(split, interests, rate)
    assert plan.overall < by_cost.overall <= by_majority.overall
    assert by_majority.overall == pytest.approx(recomputed(by_majority, rate))
    assert_covers(by_majority, interests)
