"""Tamara's bulk form: coverage at every step, updates that lower the true cost, static clusters, determinism."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.model import Change, Relation
from coterie.systems.tamara.bulk import TopicClusters
from coterie.systems.tamara.costs import SIMPLE, scribe_average, scribe_worst
from coterie.systems.tamara.parameters import TamaraParameters
from coterie.workloads.rates import per_interval
from coterie.workloads.tamara import Clustered, arrivals, shift

EXACT = TamaraParameters(survey_size=0, confidence=1.0)


def random_operations(seed: int, users: int, topics: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subscriptions with taste (half of the topics each) and now and then the opposite."""
    draw = np.random.default_rng(seed)
    who = draw.integers(0, users, count).astype(np.int32)
    what = ((draw.integers(0, max(topics // 2, 1), count) * 2 + who % 2) % topics).astype(np.int32)
    change = np.where(draw.random(count) < 0.25, Change.UNSUBSCRIBE, Change.SUBSCRIBE).astype(np.uint8)
    return change, who, what


def recomputed(clusters: TopicClusters, rate: np.ndarray) -> tuple[float, float]:
    """MC and DC of section 2 from the relations alone, in plain Python."""
    topics, members, direct = clusters.clusters(), clusters.memberships(), clusters.direct()
    size = np.bincount(direct.columns, minlength=len(rate))
    cluster_size = np.bincount(members.columns, minlength=topics.row_count)
    maintenance = float(size.sum() + cluster_size.sum() + topics.pair_count)
    dissemination = sum(
        rate[t] * (1 + size[t] + sum(1 + cluster_size[c] for c in topics.transposed.row(t))) for t in range(len(rate))
    )
    return maintenance, float(dissemination)


def arriving(clusters: TopicClusters) -> np.ndarray:
    """User x topic: what comes to a user, directly or through a cluster, before its filter."""
    topics, members, direct = clusters.clusters(), clusters.memberships(), clusters.direct()
    received = np.zeros(clusters.state.interest.shape, bool)
    received[direct.rows, direct.columns] = True
    for user, cluster in zip(members.rows.tolist(), members.columns.tolist(), strict=True):
        received[user, topics.row(cluster)] = True
    return received


def filtered_out(clusters: TopicClusters) -> int:
    """Topics that users get by a cluster and drop."""
    state = clusters.state
    return int(((state.cover > 0) & (state.interest == 0)).sum())


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), users=st.integers(1, 40), topics=st.integers(1, 12), sampled=st.booleans())
def test_interests_stay_covered_and_costs_are_what_the_model_says(
    seed: int, users: int, topics: int, sampled: bool
) -> None:
    rate = np.random.default_rng(seed).uniform(0.01, 0.5, topics)
    clusters = TopicClusters(users, rate, TamaraParameters(survey_size=5 if sampled else 0), seed=seed)
    change, who, what = random_operations(seed, users, topics, 200)
    wanted = np.zeros((users, topics), bool)
    for at in range(200):
        clusters.apply(change[at : at + 1], who[at : at + 1], what[at : at + 1])
        wanted[who[at], what[at]] = change[at] == Change.SUBSCRIBE
        clusters.check()
        assert np.array_equal(clusters.state.interest == 1, wanted)
        received = arriving(clusters)
        assert np.all(received[wanted])
        assert int((received & ~wanted).sum()) == filtered_out(clusters)
    assert (clusters.maintenance, clusters.dissemination) == pytest.approx(recomputed(clusters, rate))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), functions=st.sampled_from([SIMPLE, scribe_average(500), scribe_worst(500)]))
def test_every_update_lowers_the_true_overall_cost(seed: int, functions: object) -> None:
    """Section 3: "all the updates that we decide to perform are guaranteed to improve the system's overall state"."""
    rate = np.random.default_rng(seed).uniform(0.01, 0.3, 14)
    clusters = TopicClusters(60, rate, EXACT, functions, seed, is_audited=True)  # type: ignore[arg-type]
    clusters.apply(*random_operations(seed, 60, 14, 1500))
    counts = clusters.counts()
    assert counts["audited"] > 0
    assert counts["raised"] == 0
    clusters.check()


def test_every_kind_of_update_happens_when_interests_shift() -> None:
    timeline = shift(Clustered(nodes=600, topics=60, rates="frequent"), seed=2)
    clusters = TopicClusters(
        600, per_interval(timeline.start), TamaraParameters(survey_size=0), seed=2, is_audited=True
    )
    rows = timeline.start.interests
    clusters.apply(np.zeros(rows.pair_count, np.uint8), rows.rows, rows.columns)
    clusters.follow(timeline)
    clusters.check()
    counts = clusters.counts()
    assert min(counts[name] for name in ("created", "added", "removed", "merged", "destroyed")) > 0
    assert counts["raised"] == 0


def test_static_clusters_never_change_but_users_move() -> None:
    timeline = shift(Clustered(nodes=200, topics=24, clusters=4), seed=1)
    given_clusters = Relation.from_rows([range(6 * c, 6 * c + 6) for c in range(4)], 24)
    still = TopicClusters(200, per_interval(timeline.start), TamaraParameters(is_adaptive=False))
    still.start_with(timeline.start.interests, given_clusters)
    still.check()
    before = still.memberships()
    still.follow(timeline)
    still.check()
    assert still.clusters() == given_clusters
    assert still.memberships() != before


def test_same_seed_same_clusters() -> None:
    def run(seed: int) -> tuple[Relation, Relation]:
        timeline = arrivals(Clustered(nodes=200, topics=30, clusters=5), 4)
        clusters = TopicClusters(200, per_interval(timeline.start), TamaraParameters(survey_size=20), seed=seed)
        clusters.follow(timeline)
        return clusters.clusters(), clusters.memberships()

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_too_much_for_the_bulk_form_is_said() -> None:
    with pytest.raises(ConfigError, match="planner"):
        TopicClusters(10_000_000, np.ones(1000))
