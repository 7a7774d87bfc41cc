"""Brokers placed by distance: the cost is that of hops where all brokers are one apart, and descending lowers it."""

from __future__ import annotations

import numpy as np

from coterie.kernels.rings import slotcost, slotdistance
from coterie.kernels.rings.slotcost import Instance
from coterie.lab.dynatops_runs import broker_interests
from coterie.model.relation import Index
from coterie.systems.dynatops.positions import Slots, hashed_slots, slot_positions

BROKERS, TOPICS = 30, 20


def _problem() -> tuple[Instance, Index]:
    slots = Slots.at(slot_positions(BROKERS, "random", 1))
    interests = broker_interests(BROKERS, TOPICS, 4, "uniform", 1)
    return slots.instance(interests, np.ones(TOPICS), 1.0), hashed_slots(BROKERS, 1)


def _cost(instance: Instance, slot_of: Index, far: np.ndarray) -> float:
    return slotdistance.add_costs(
        instance, slotdistance.members_of(instance), np.argsort(slot_of).astype(np.int32), far, np.zeros(BROKERS)
    )


def test_with_all_brokers_one_apart_it_is_the_cost_of_hops() -> None:
    instance, slot_of = _problem()
    relays, hops = slotcost.full_cost(instance, slot_of)
    assert _cost(instance, slot_of, np.ones((BROKERS, BROKERS))) == relays + hops


def test_descending_lowers_the_cost_and_tells_it_right() -> None:
    instance, slot_of = _problem()
    plane = np.random.default_rng(1).random((BROKERS, 2))
    far = np.linalg.norm(plane[:, None] - plane[None], axis=2)
    found = {}
    for tries in (1, BROKERS):
        one, other, costs = slotdistance.descend_far(instance, slot_of, far, tries, 200)
        assert np.all(np.diff(costs) < 0)
        assert costs[0] < _cost(instance, slot_of, far)
        moved = slot_of.copy()
        for a, b in zip(one, other, strict=True):
            moved[a], moved[b] = moved[b], moved[a]
        assert np.isclose(_cost(instance, moved, far), costs[-1])
        found[tries] = costs[-1]
    assert found[BROKERS] <= found[1]
