"""Users to brokers: Algorithm 1 against a plain rendering of it, timelines, and hypergraph partitioning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.kernels.placement import books, joining
from coterie.kernels.placement.search import Search
from coterie.model import Relation, Workload
from coterie.systems.dynatops import SYSTEM, positions, stages
from coterie.systems.dynatops.hypergraph import partition_of, partitioned, subscription_limits
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.systems.dynatops.placement import Clusters, Follower, join_all, place_by_similarity, population, settle_at
from coterie.workloads import make_timeline, make_workload

SMALL = {"nodes": 12, "subscribers": 300, "topics": 60, "modes": 6, "duration_s": 6 * 3600.0, "change_rate": 0.5}


def small(pattern: str, seed: int = 1) -> Workload:
    return make_workload("dynatops", {**SMALL, "pattern": pattern}, seed)


def plain_algorithm_1(workload: Workload, clusters: Clusters, load_weight: float) -> list[int]:
    wanted = [set(workload.interests.row(user).tolist()) for user in range(workload.subscriber_count)]
    hosted: list[set[int]] = [set() for _ in range(workload.node_count)]
    load = [0] * workload.node_count
    placed = []
    for user, asked in enumerate(workload.attachment.tolist()):
        members = clusters.brokers.row(int(clusters.cluster_of[asked])).tolist()
        total = max(sum(load[broker] for broker in members), 1)

        def utility(broker: int, user: int = user, members: list[int] = members, total: int = total) -> float:
            similarity = len(hosted[broker] & wanted[user]) / len(wanted[user])
            return similarity - load_weight * load[broker] * len(members) / total

        best = max([asked, *members], key=utility)
        placed.append(best)
        hosted[best] |= wanted[user]
        load[best] += len(wanted[user])
    return placed


@pytest.mark.parametrize("load_weight", [0.0, 0.5, 1.0])
def test_algorithm_1(load_weight: float) -> None:
    workload = small("multimodal")
    clusters = Clusters.of_size(12, 4)
    assert clusters.brokers.lengths.tolist() == [4, 4, 4]
    assert clusters.messages_per_update == 3 * 4 * 3
    expected = plain_algorithm_1(workload, clusters, load_weight)
    assert place_by_similarity(workload, 4, load_weight).tolist() == expected


def test_load_weight_repairs_imbalance() -> None:
    workload = small("zipf")
    rates = workload.rates
    free, weighted = (
        partition_of(workload.interests, rates, place_by_similarity(workload, 12, weight), 12) for weight in (0.0, 1.0)
    )
    assert free.imbalance > 2 * weighted.imbalance


def test_stale_views_are_as_of_the_last_exchange() -> None:
    workload = small("multimodal")
    users, live = population(workload), population(workload)
    clusters = Clusters.of_size(12, 12)
    join_all(users, clusters, 1.0, joins_per_update=1000, rounds=1)
    join_all(live, clusters, 1.0, joins_per_update=1, rounds=1)
    rates = workload.rates
    stale_cost = partition_of(workload.interests, rates, users.node_of, 12).cost
    assert stale_cost > partition_of(workload.interests, rates, live.node_of, 12).cost
    assert np.array_equal(users.seen, users.counts > 0)


@pytest.mark.parametrize("policy", ["static", "similarity", "fanout"])
@pytest.mark.parametrize("change", ["topic", "mode"])
def test_following_a_timeline_keeps_the_books(policy: str, change: str) -> None:
    timeline = make_timeline("dynatops", {**SMALL, "change": change}, 3)
    users = population(timeline.start)
    settle_at(users, timeline.start.attachment)
    follower = Follower(timeline, users, Clusters.of_size(12, 4), policy, 1.0, update_s=3600.0)
    before = follower.interests()
    pairs = {tuple(pair) for pair in zip(before.rows.tolist(), before.columns.tolist(), strict=True)}
    handovers = 0
    for hour in range(1, 7):
        step = follower.advance(hour * 3600.0)
        handovers += step.handovers
        for broker, topic, sign in zip(step.broker.tolist(), step.topic.tolist(), step.sign.tolist(), strict=True):
            assert ((broker, topic) in pairs) == (sign < 0)
            (pairs.add if sign > 0 else pairs.discard)((broker, topic))
        assert step.cluster_messages == (36 if policy == "similarity" else 0)
    now = timeline.at(6 * 3600.0)
    expected = now.node_interests(users.node_of)
    assert follower.interests() == expected
    assert pairs == set(zip(expected.rows.tolist(), expected.columns.tolist(), strict=True))
    assert (handovers > 0) == (policy != "static")
    assert users.load.tolist() == np.bincount(users.node_of, now.interests.lengths, 12).tolist()


def test_location_policy_follows_moves() -> None:
    timeline = make_timeline("dynatops-location", {"subscribers": 60, "rows": 4, "columns": 5, "duration_s": 2e6}, 1)
    users = population(timeline.start, width=5)
    settle_at(users, timeline.start.attachment)
    clusters = Clusters.of_size(20, 5, timeline.start.coordinates)
    follower = Follower(timeline, users, clusters, "location", 1.0, update_s=1e9)
    follower.advance(2e6)
    assert np.array_equal(users.node_of, timeline.at(2e6).attachment)


@pytest.mark.parametrize("pattern", ["multimodal", "zipf", "uniform"])
def test_partitioning_beats_static_and_keeps_balance(pattern: str) -> None:
    workload = small(pattern)
    interests, rates = workload.interests, workload.rates
    static = partition_of(interests, rates, workload.attachment, 12)
    best = partitioned(workload, 0.05, seed=1)
    assert best.cost < static.cost
    assert best.load.max() <= subscription_limits(interests, 12, 0.05).capacity.max() <= 1.05 * best.load.mean()
    again = partition_of(interests, rates, best.node_of, 12)
    assert (again.cost, again.load.tolist()) == (best.cost, best.load.tolist())


def test_a_placement_that_needs_more_messages_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = small("uniform")
    hypergraph = DynatopsParameters(placement="hypergraph")
    assert (stages.place_users(workload, hypergraph, 1).node_of != workload.attachment).any()
    spread = partition_of(workload.interests, workload.rates, np.arange(300, dtype=np.int32) % 12, 12)
    monkeypatch.setattr(stages, "partitioned", lambda workload, imbalance, seed: spread)
    gathered = replace(workload, attachment=np.zeros(300, np.int32))
    assert stages.place_users(gathered, hypergraph, 1).node_of.tolist() == [0] * 300


def test_networks_beyond_the_tables_stay_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = small("multimodal")
    paper, hashed = (SYSTEM.plan(workload, DynatopsParameters(positions=name), 1) for name in ("paper", "hash"))
    assert paper.overlay.positions is not None
    assert paper.overlay.positions.tolist() != hashed.overlay.positions.tolist()
    monkeypatch.setattr(positions, "BROKER_MAX", 11)
    large = SYSTEM.plan(workload, DynatopsParameters(positions="paper"), 1)
    assert large.overlay.positions.tolist() == hashed.overlay.positions.tolist()


def test_looking_over_stays_close_to_solving_anew_with_fewer_handovers() -> None:
    timeline = make_timeline("dynatops", {**SMALL, "pattern": "zipf"}, 5)
    handovers, costs = [], []
    for price in (0.25 / 60, 1e9):
        users = population(timeline.start)
        settle_at(users, partitioned(timeline.start, 0.03, 1).node_of)
        follower = Follower(timeline, users, Clusters.of_size(12, 4), "fanout", 1.0, 3600.0, handover_price=price)
        handovers.append(sum(follower.advance(hour * 3600.0).handovers for hour in range(1, 7)))
        now = timeline.at(6 * 3600.0)
        costs.append(partition_of(now.interests, now.rates, users.node_of, 12).cost)
    fresh = partitioned(now, 0.03, 1)
    assert costs[0] < 1.35 * fresh.cost < costs[1]
    assert 0 == handovers[1] < handovers[0] < np.count_nonzero(fresh.node_of != users.node_of)


def test_the_cost_is_rate_times_brokers_touched_but_one() -> None:
    workload = small("zipf")
    limits = subscription_limits(workload.interests, 12, 0.05)
    crowd = books.crowd_of(workload.interests.indptr, workload.interests.columns, limits.weight)
    search = Search(crowd, workload.rates, 12, limits.capacity, np.random.default_rng(2))
    seats = search.refined(workload.attachment)
    members = workload.node_interests(seats.part).transposed
    assert np.array_equal(np.count_nonzero(seats.counts, axis=1), members.lengths)
    expected = float((workload.rates * np.maximum(members.lengths - 1, 0)).sum())
    assert search.cost(seats) == pytest.approx(expected)


def test_online_choice_waits_for_a_gain_worth_a_handover() -> None:
    interests = Relation.from_rows([[0, 1], [0, 1], [0, 1], [2, 3]], 4)
    base = small("uniform")
    workload = Workload("tiny", interests, base.publications, np.array([0, 1, 1, 0], np.int32), 2)
    users = population(workload)
    settle_at(users, workload.attachment)
    users.counts[0, :2] -= 1  # the first user is asked: all others are there
    users.load[0] -= 2
    rate = np.ones(4)
    assert joining.choose_by_fanout(users, users.held[0], 0, rate, 0.5, 10.0) == 1
    assert joining.choose_by_fanout(users, users.held[0], 0, rate, 5.0, 10.0) == 0
    assert joining.choose_by_fanout(users, users.held[0], 0, rate, 0.5, 1.0) == 0
