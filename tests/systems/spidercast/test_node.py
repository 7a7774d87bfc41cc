"""The protocol: equal to the bulk form with a plan, close to it from nothing, and it heals what is in pieces."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.lab.spidercast_runs import links_in, start_from_contacts
from coterie.model import Overlay, Relation
from coterie.model.latency import Latency
from coterie.model.plan import slices
from coterie.sim.engine import Simulation
from coterie.sim.faults import FaultMix
from coterie.sim.run import simulate
from coterie.systems.spidercast import SYSTEM, coverage, measures
from coterie.systems.spidercast.entry import next_hop
from coterie.systems.spidercast.parameters import LINKS, SpiderCastParameters
from coterie.systems.spidercast.partitions import Labels
from coterie.systems.spidercast.view import InterestView
from coterie.workloads import make_workload
from tests.bills import differing
from tests.conftest import small_workload

# Of two copies that arrive in the same moment either may be the first, and so be the one that none is sent back for.
# And the first plan tells everybody's interest with the first heartbeats.
TASTE = ("load.messages", "setup")


@settings(max_examples=25)
@given(nodes=st.integers(1, 30), topics=st.integers(1, 6), seed=st.integers(0, 10**6), peers=st.booleans())
def test_simulated_ledger_equals_priced_ledger(nodes: int, topics: int, seed: int, peers: bool) -> None:
    workload = small_workload(nodes, topics, seed, None if peers else 2 * nodes)
    design = SYSTEM.plan(workload, seed=seed)
    latency = Latency.matrix(np.random.default_rng(seed).integers(1, 200, (5, 5)).astype(float))
    outcome = simulate(SYSTEM, SYSTEM.parameters(), design, workload, seed, latency)
    assert differing(outcome.ledger, price(design, workload, latency), TASTE) == {}
    assert outcome.ledger.dissemination.relayed == outcome.ledger.dissemination.filtered == 0


@pytest.mark.parametrize("links", [kind for kind in LINKS if kind != "similarity"])
def test_every_overlay_runs_as_it_is_priced(links: str) -> None:
    workload = small_workload(20, 5, 7)
    parameters = SpiderCastParameters(links=links)
    design = SYSTEM.plan(workload, parameters, seed=7)
    assert differing(simulate(SYSTEM, parameters, design, workload, 7).ledger, price(design, workload), TASTE) == {}


@pytest.mark.parametrize("seed", range(3))
def test_recovers_from_a_storm(seed: int) -> None:
    workload = small_workload(24, 5, seed)
    design = SYSTEM.plan(workload, seed=seed)
    outcome = simulate(SYSTEM, SYSTEM.parameters(), design, workload, seed, faults=FaultMix(crash_share=0.2))
    assert outcome.probes > 0


@pytest.mark.parametrize(("k_random", "is_adaptive"), [(0, False), (1, False), (0, True)])
def test_links_learned_from_three_contacts_are_as_few_as_in_bulk(k_random: int, is_adaptive: bool) -> None:
    workload = make_workload("rss", {"nodes": 150, "topics": 40, "subscriptions": 8}, 1)
    parameters = SpiderCastParameters(
        is_planned=False, k_random=k_random, is_adaptive=is_adaptive, link_heartbeat_s=2.0, beacon_s=0.0
    )
    simulation = start_from_contacts(workload, parameters, 1)
    simulation.run_until(30.0)
    learned = links_in(simulation)
    bulk = coverage.build(workload.interests, parameters, 1).links()
    assert measures.connectivity(learned, workload.interests).partitioned_count == 0
    assert learned.lengths.mean() == pytest.approx(bulk.lengths.mean(), rel=0.05)


def in_pieces(beacon_s: float) -> Simulation:
    """One topic whose planned links leave two cliques, tied only through a node that does not want it."""
    cliques = [(a, b) for part in (range(1, 6), range(6, 11)) for a in part for b in part if a != b]
    ties = [(0, 1), (1, 0), (0, 6), (6, 0)]
    rows, columns = zip(*cliques, *ties, strict=True)
    workload = small_workload(11, 1, 0, wanted=0.0)
    design = SYSTEM.plan(workload, seed=1)
    overlay = Overlay(Relation.from_pairs(rows, columns, 11, 11))
    planned = slices(type(design)(**{**vars(design), "overlay": overlay}))
    simulation = Simulation(SYSTEM, SpiderCastParameters(beacon_s=beacon_s), planned, 1)
    simulation.start()
    for node in range(1, 11):
        simulation.subscribe(node, 0)
    return simulation


@pytest.mark.parametrize(("beacon_s", "is_healed"), [(20.0, True), (0.0, False)])
def test_a_topic_in_pieces_is_found_and_joined(beacon_s: float, is_healed: bool) -> None:
    simulation = in_pieces(beacon_s)
    simulation.run_until(400.0)
    links_before = 2 * 20 // 2 + 2
    repairs = links_in(simulation).pair_count // 2 - links_before
    simulation.publish(1, 0)
    simulation.run_until(420.0)
    assert (simulation.book.missing() == []) is is_healed
    assert repairs == (1 if is_healed else 0)  # one link per join, not one per witness


def test_a_new_subscriber_finds_the_topic() -> None:
    workload = small_workload(20, 4, 3)
    design = SYSTEM.plan(workload, seed=3)
    simulation = Simulation(SYSTEM, SYSTEM.parameters(), slices(design), 3, through_wire=True)
    simulation.start()
    for node in range(20):
        for topic in workload.interests.row(node).tolist():
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 1000.0)
    for node in range(20):
        if 0 not in simulation.book.wanting[node]:
            simulation.subscribe(node, 0)
    simulation.settle(5.0, 1000.0)
    simulation.publish(0, 0)
    simulation.run_until(simulation.now_s + 10)
    assert simulation.book.missing() == []


def test_the_walk_goes_back_where_it_is_stuck() -> None:
    links = {0: [1, 4], 1: [0, 2], 2: [1], 4: [0, 5], 5: [4]}
    trail = [0]
    while trail[-1] != 5:
        onward = next_hop(trail, links[trail[-1]], lambda node: node == 5)
        assert onward is not None
        trail.append(onward)
    assert trail == [0, 1, 2, 1, 0, 4, 5]
    assert next_hop([2], [], lambda node: True) is None


def test_a_view_is_bounded_and_believes_the_latest_word() -> None:
    view = InterestView(0, capacity=5, exchange_size=3, random=Random(1))
    for node in range(1, 40):
        view.learn(node, (node,), 10.0)
    assert len(view) == 5
    known = next(node for node, _ in view.items())
    view.learn(known, (7,), 12.0)
    view.learn(known, (8,), 11.0)
    assert dict(view.items())[known] == ((7,), 12.0)
    view.forget(known, 20.0)
    view.learn(known, (7,), 19.0)
    assert known not in dict(view.items())
    assert len(view.offer((1,), 20.0)) == 3


def test_labels_follow_the_lowest_member_and_give_it_up_when_it_falls_silent() -> None:
    labels = Labels(owner=5, period_s=10.0)
    assert labels.beacons(["t"], 0.0) == [("t", 5, 0)]
    assert labels.hear("t", 2, 1, 1.0)
    assert not labels.hear("t", 2, 1, 2.0)
    assert not labels.hear("t", 3, 9, 2.0)
    assert labels.beacons(["t"], 10.0) == []
    assert labels.stable(20.0) == (("t", 2),)
    assert labels.beacons(["t"], 40.0) == [("t", 5, 40000)]
    assert labels.stable(41.0) == ()
