"""The cost of configurations: incremental against whole, kernels against the substrate, optimisers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.kernels.rings import slotcost
from coterie.kernels.rings.slotcost import Instance
from coterie.model import Relation
from coterie.substrate.chord import chord_ring
from coterie.substrate.identifiers import topic_keys
from coterie.substrate.trees import top_down_trees
from coterie.systems.dynatops.monitoring import decide, reconfiguration_cost
from coterie.systems.dynatops.positions import (
    Slots,
    annealed,
    cost_bound,
    hashed_slots,
    optimise,
    slot_positions,
    ssbr_greedy,
)


def problem(brokers: int, topics: int, each: int, seed: int, spacing: str = "random") -> tuple[Slots, Instance]:
    draw = np.random.default_rng(seed)
    interests = Relation.from_rows(
        [draw.choice(topics, min(each, topics), replace=False) for _ in range(brokers)], topics
    )
    slots = Slots.at(slot_positions(brokers, spacing, seed))
    return slots, slots.instance(interests, draw.integers(1, 5, topics).astype(float), 1.5)


def cost_of(instance: Instance, slot_of: np.ndarray) -> float:
    relayed, hops = slotcost.full_cost(instance, slot_of.astype(np.int32))
    return relayed + instance.delay_weight * hops


@given(st.integers(1, 24), st.integers(1, 12), st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_swaps_are_judged_like_whole_recomputations(brokers: int, topics: int, each: int, seed: int) -> None:
    _, instance = problem(brokers, topics, each, seed)
    draw = np.random.default_rng(seed)
    standing = slotcost.stand(instance, hashed_slots(brokers, seed))
    for _ in range(8):
        one, other = (int(index) for index in draw.integers(brokers, size=2))
        before = cost_of(instance, standing.slot_of)
        assert slotcost.total_cost(standing) == pytest.approx(before)
        delta = slotcost.swap_delta(instance, standing, one, other)
        slotcost.swap(instance, standing, one, other)
        assert cost_of(instance, standing.slot_of) - before == pytest.approx(delta, abs=1e-9)
    fresh = slotcost.stand(instance, standing.slot_of)
    assert np.array_equal(fresh.counts, standing.counts)
    assert slotcost.broker_costs(standing) == pytest.approx(slotcost.broker_costs(fresh))


@given(st.integers(2, 30), st.integers(1, 10), st.integers(0, 10_000), st.sampled_from(["random", "even"]))
@settings(max_examples=40, deadline=None)
def test_costs_are_those_of_the_trees(brokers: int, topics: int, seed: int, spacing: str) -> None:
    slots, instance = problem(brokers, topics, 3, seed, spacing)
    slot_of = hashed_slots(brokers, seed)
    interests = Relation(instance.indptr, instance.topics, topics)
    members = interests.transposed
    trees = top_down_trees(chord_ring(slots.positions[slot_of]), topic_keys(topics), members)
    relays = hops = 0.0
    for topic in range(topics):
        edges = slice(trees.indptr[topic], trees.indptr[topic + 1])
        depth = {int(trees.root[topic]): 0}
        wanting = set(members.row(topic).tolist())
        for node, parent in zip(trees.node[edges].tolist(), trees.parent[edges].tolist(), strict=True):
            depth[node] = depth[parent] + 1
            relays += instance.rate[topic] * (node not in wanting)
        hops += instance.rate[topic] * sum(depth[node] for node in wanting)
    assert slotcost.full_cost(instance, slot_of) == pytest.approx((relays, hops))


@pytest.mark.parametrize("seed", range(4))
def test_improvement_path_descends_and_ends_where_it_says(seed: int) -> None:
    _, instance = problem(40, 30, 5, seed)
    start = hashed_slots(40, seed)
    for is_fall_through in (False, True):
        path = ssbr_greedy(instance, start, is_fall_through=is_fall_through)
        assert path.final_cost == pytest.approx(cost_of(instance, path.final))
        assert np.all(np.diff([path.start_cost, *path.costs]) < 0)
        half = len(path.one) // 2
        assert int(np.count_nonzero(path.configuration(half + 1) != start)) == path.moved()[half]
        assert sorted(path.final.tolist()) == list(range(40))


@pytest.mark.parametrize("seed", range(3))
def test_methods_rank_as_expected_and_respect_the_bound(seed: int) -> None:
    slots, instance = problem(60, 60, 5, seed)
    start = hashed_slots(60, seed)
    cost = {
        method: cost_of(instance, optimise(slots, instance, start, method, seed))
        for method in ("hash", "paper", "fall-through", "annealed")
    }
    assert cost["hash"] > cost["paper"] > cost["fall-through"]
    assert cost["annealed"] <= cost["fall-through"]
    assert cost["annealed"] >= cost_bound(instance)


def test_annealing_finds_the_optimum_of_small_rings() -> None:
    slots, instance = problem(6, 5, 2, seed=3)
    best = min(cost_of(instance, np.array(order)) for order in permutations(range(6)))
    assert cost_of(instance, annealed(slots, instance, hashed_slots(6, 3), seed=1)) == pytest.approx(best)


def test_unknown_method_and_too_many_brokers_are_refused() -> None:
    slots, instance = problem(5, 3, 2, 0)
    with pytest.raises(ConfigError, match="positions"):
        optimise(slots, instance, hashed_slots(5, 0), "magic", 0)
    with pytest.raises(ConfigError, match="nodes"):
        Slots.at(np.arange(9000, dtype=np.uint64))


def test_nothing_changes_unless_it_pays() -> None:
    slots, instance = problem(40, 30, 5, seed=1)
    start = hashed_slots(40, 1)
    quiet = decide(slots, instance, start, beta=0.1)
    assert not quiet.is_reconfigured
    loud = instance._replace(rate=instance.rate * 1e5)
    decision = decide(slots, loud, start, beta=0.1)
    assert decision.is_reconfigured
    assert decision.cost_before - decision.cost_after > decision.price > 0
    assert decision.moved == np.count_nonzero(decision.slot_of != start)
    stronger = decide(slots, loud, start, beta=0.1, method="annealed")
    assert stronger.cost_after + stronger.price <= decision.cost_after + decision.price
    in_between = decide(slots, instance._replace(rate=instance.rate * 30), start, beta=0.0)
    assert in_between.cost_before - in_between.cost_after >= in_between.price


def test_cost_of_change_follows_section_5_1_2() -> None:
    assert reconfiguration_cost(64, 10, np.array([0, 2])).tolist() == [0.0, 64 + (36 + 60) * 2]
