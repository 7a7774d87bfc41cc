"""Sentences of the DYNATOPS paper, each on an instance of its own."""

from __future__ import annotations

import numpy as np

from coterie.accounting.price import price
from coterie.kernels.rings import slotcost
from coterie.lab.dynatops import EXPERIMENTS
from coterie.lab.dynatops_runs import run_poisson
from coterie.systems.dynatops import SYSTEM
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.systems.dynatops.positions import Slots, hashed_slots, slot_positions
from coterie.workloads import make_workload

SMALL = {"nodes": 20, "subscribers": 1000, "topics": 100, "modes": 10}


def test_figure_2_reconfiguration_removes_unrelated_relays() -> None:
    """Section 3.1: moving brokers on the ring changes the trees, which still follow Chord's routing rules."""
    workload = make_workload("dynatops", SMALL, 1)
    relayed = {}
    for positions in ("hash", "paper", "fall-through"):
        design = SYSTEM.plan(workload, DynatopsParameters(positions=positions), 1)
        relayed[positions] = price(design, workload).dissemination.relayed
    assert relayed["fall-through"] < relayed["paper"] < relayed["hash"]


def test_equation_12_broker_costs_add_up_to_the_total() -> None:
    """Section 5.1.1: C(X) is the sum of the broker SSBR costs."""
    workload = make_workload("dynatops", SMALL, 2)
    slots = Slots.at(slot_positions(20, "random", 2))
    instance = slots.instance(workload.node_interests(), workload.rates, 0.7)
    slot_of = hashed_slots(20, 2)
    relays, hops = slotcost.full_cost(instance, slot_of)
    costs = slotcost.broker_costs(slotcost.stand(instance, slot_of))
    assert np.isclose(costs.sum(), relays + 0.7 * hops)


def test_users_with_similar_subscriptions_gather_and_brokers_change_less() -> None:
    """Section 4: grouping similar users stabilises the subscriptions of brokers and shrinks the trees."""
    point = {**SMALL, "pattern": "multimodal", "change_rate": 0.1, "duration_h": 5, "sample_h": 5, "tco": False}
    values = run_poisson({**point, "systems": "static,up"}, 1)
    assert values["up_changes"] < 0.5 * values["static_changes"]
    assert values["up_overhead"] < 0.5 * values["static_overhead"]


def test_every_claim_names_an_experiment_of_its_own() -> None:
    identifiers = [claim.id for experiment in EXPERIMENTS for claim in experiment.claims]
    assert len(set(identifiers)) == len(identifiers)
    assert {experiment.paper for experiment in EXPERIMENTS} == {"dynatops"}
