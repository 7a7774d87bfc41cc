"""Samples of interest on the control ring, and moving house when interests change."""

from __future__ import annotations

from bisect import bisect_left
from random import Random

import numpy as np
import pytest

from coterie.model import Publications, Relation, Workload
from coterie.model.plan import slices
from coterie.protocol.events import Received
from coterie.protocol.system import System
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash
from coterie.substrate.identifiers import MASK, clockwise, topic_key
from coterie.systems.magnet.node import PLACES_MAX, another_of_crowd, place_behind
from coterie.systems.magnet.system import INTEREST_RING, SYSTEM
from coterie.systems.magnet.wire import Graft, TellPlace
from coterie.trace import Traffic
from tests.systems.magnet.trees_of_nodes import assert_rings_agree, assert_trees_are_greedy_paths

TOPICS = 6


def two_camps(nodes: int) -> Workload:
    interests = Relation.from_rows([[0, 1, 2] if node % 2 else [3, 4, 5] for node in range(nodes)], TOPICS)
    return Workload(
        "camps",
        interests,
        Publications.of([0] * TOPICS, range(TOPICS), [1.0] * TOPICS),
        np.arange(nodes, dtype=np.int32),
        nodes,
    )


def running(nodes: int, system: System = SYSTEM, **settings: int) -> Simulation:
    workload = two_camps(nodes)
    parameters = system.configure({"links": 8, "near": 2, **settings})
    simulation = Simulation(system, parameters, slices(system.plan(workload, parameters, 1)), 1)
    simulation.start()
    for node in range(nodes):
        for topic in workload.interests.row(node).tolist():
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 10_000.0)
    return simulation


def change_camp(simulation: Simulation, node: int) -> None:
    for topic in range(TOPICS):
        if topic in simulation.book.wanting[node]:
            simulation.unsubscribe(node, topic)
        else:
            simulation.subscribe(node, topic)


def neighbours_on_ring(simulation: Simulation, node: int) -> list[int]:
    nodes = [at for at in range(simulation.node_count) if simulation.is_up(at)]
    order = sorted(nodes, key=lambda at: simulation.nodes[at].ring.position)
    at = order.index(node)
    return [order[at - 1], order[(at + 1) % len(order)]]


def test_subscribers_hear_of_a_bounded_sample_of_the_others() -> None:
    simulation = running(40, sample_rounds=4, samples=5)
    simulation.run_until(simulation.now_s + 240)
    for node in range(40):
        views = simulation.nodes[node]._views
        assert sorted(views) == sorted(simulation.book.wanting[node])
        for topic, view in views.items():
            assert 1 <= len(view) <= 5
            assert any(descriptor.node != node for descriptor in view)
            assert all(topic in simulation.book.wanting[descriptor.node] for descriptor in view)


def test_no_sampling_without_rounds() -> None:
    simulation = running(20)
    simulation.run_until(simulation.now_s + 200)
    assert simulation.book.sent[Traffic.MEMBERSHIP] == 0


@pytest.mark.parametrize("system", [SYSTEM, INTEREST_RING], ids=lambda system: system.name)
def test_who_changes_camp_moves_to_the_other_one(system: System) -> None:
    simulation = running(40, system, sample_rounds=4, rejoin_every=1)
    simulation.run_until(simulation.now_s + 200)
    before = simulation.nodes[7].ring.position
    change_camp(simulation, 7)
    simulation.run_until(simulation.now_s + 400)
    simulation.settle(65.0, 10_000.0)
    assert simulation.nodes[7].ring.position != before
    assert any(peer % 2 == 0 for peer in neighbours_on_ring(simulation, 7))
    assert_rings_agree(simulation)
    assert_trees_are_greedy_paths(simulation)
    for topic in range(TOPICS):
        simulation.publish(11, topic)
    simulation.run_until(simulation.now_s + 60)
    assert simulation.book.missing() == []


def test_nobody_moves_by_default() -> None:
    simulation = running(30)
    before = simulation.nodes[7].ring.position
    change_camp(simulation, 7)
    simulation.run_until(simulation.now_s + 300)
    assert simulation.nodes[7].ring.position == before


def test_moves_only_after_so_many_changes() -> None:
    simulation = running(30, sample_rounds=4, rejoin_every=4)
    simulation.run_until(simulation.now_s + 200)
    before = simulation.nodes[7].ring.position
    for topic in (3, 4, 5):
        simulation.subscribe(7, topic)
    simulation.run_until(simulation.now_s + 100)
    assert simulation.nodes[7].ring.position == before
    for topic in (0, 1, 2):
        simulation.unsubscribe(7, topic)
    simulation.run_until(simulation.now_s + 100)
    assert simulation.nodes[7].ring.position != before


def test_many_move_at_once_and_some_crash() -> None:
    simulation = running(60, sample_rounds=4, rejoin_every=2)
    simulation.run_until(simulation.now_s + 200)
    random = Random(5)
    movers = random.sample(range(60), 15)
    for node in movers:
        change_camp(simulation, node)
    for node in random.sample([node for node in range(60) if node not in movers], 4):
        for topic in list(simulation.book.wanting[node]):
            simulation.unsubscribe(node, topic)
        simulation.inject(Crash(simulation.now_s + 6.0, node))
    before = simulation.book.sent.copy()
    simulation.run_until(simulation.now_s + 900)
    simulation.settle(65.0, 10_000.0)
    assert_rings_agree(simulation)
    assert_trees_are_greedy_paths(simulation)
    spent = simulation.book.sent - before
    assert spent[Traffic.SUBSCRIPTION] < 60 * 3 * 20, "grafts do not go round in circles"
    assert spent[Traffic.LINK_KEEPALIVE] < 60 * 30 * 20, "nor do movers tell each other for ever where they sit"


def test_a_graft_to_who_has_moved_before_its_sender_is_refused() -> None:
    simulation = running(20)
    node = simulation.nodes[7]
    node.now_s = simulation.now_s
    own = node.ring.position
    topic = next(topic for topic in range(TOPICS) if node.root_hop(topic_key(topic)) is not None)
    before = node.state().parents
    graft = Graft(topic, (own - 100) & MASK, MASK, 9, (own + 50) & MASK, (own + 10) & MASK, 77)
    told = node.step(Received(8, graft), simulation.now_s)
    assert [type(effect.message).__name__ for effect in told] == ["TreeLeave", "Ping"]
    assert all(effect.to == (8,) for effect in told)
    assert node.state().parents == before


def test_a_silent_contact_is_left_out_and_the_next_one_asked() -> None:
    """Whether it is known to be down, or only does not answer."""
    simulation = running(20, sample_rounds=4, rejoin_every=1)
    simulation.run_until(simulation.now_s + 200)
    mover = simulation.nodes[7]
    mover._ask_best()
    first = mover._asked
    assert first is None, "no places are left to ask for before a move begins"
    mover._places_left = 5
    for lose in (lambda peer: mover.on_timer("answer"), mover.on_neighbour_lost):
        mover._refused = set()
        mover._ask_best()
        first = mover._asked
        lose(first)
        assert mover._asked not in (None, first)
        assert first in mover._refused


def test_who_finds_its_favourite_dead_moves_beside_another() -> None:
    simulation = running(40, sample_rounds=4, rejoin_every=1)
    simulation.run_until(simulation.now_s + 200)
    before = simulation.nodes[7].ring.position
    for dead in (2, 4, 6, 8, 10, 12):
        for topic in list(simulation.book.wanting[dead]):
            simulation.unsubscribe(dead, topic)
        simulation.inject(Crash(simulation.now_s + 8.5, dead))  # samples name them, then nobody answers
    change_camp(simulation, 7)
    simulation.run_until(simulation.now_s + 400)
    simulation.settle(65.0, 10_000.0)
    assert simulation.nodes[7].ring.position != before
    assert any(peer % 2 == 0 for peer in neighbours_on_ring(simulation, 7))
    assert_trees_are_greedy_paths(simulation)


def publish_for(simulation: Simulation, topic: int, count: int, seconds: float) -> None:
    for _ in range(count):
        simulation.publish(1, topic)
        simulation.run_until(simulation.now_s + seconds / count)


def test_homes_count_rates_and_tell_them() -> None:
    simulation = running(20, sample_rounds=2)
    publish_for(simulation, 0, 120, 360.0)
    simulation.run_until(simulation.now_s + 1)
    rates = [simulation.nodes[node]._rates[0] for node in range(1, 20, 2)]
    assert all(rate == pytest.approx(20.0, rel=0.25) for rate in rates), "120 events in six intervals"
    assert all(simulation.nodes[node]._rates[1] == 0.0 for node in range(1, 20, 2))
    simulation.run_until(simulation.now_s + 1200)
    assert all(simulation.nodes[node]._rates[0] < 0.1 for node in range(1, 20, 2)), "and forget them"


@pytest.mark.parametrize(("is_rate_weighted", "camp"), [(True, 1), (False, 0)])
def test_a_busy_topic_weighs_more_than_two_quiet_ones(is_rate_weighted: bool, camp: int) -> None:
    """Who wants two topics of one camp and one, very busy, of the other (section 2.1, lambda)."""
    simulation = running(30, sample_rounds=4, rejoin_every=1, is_rate_weighted=is_rate_weighted)
    publish_for(simulation, 0, 200, 200.0)
    undecided = 8
    simulation.unsubscribe(undecided, 3)
    simulation.subscribe(undecided, 0)
    publish_for(simulation, 0, 60, 60.0)
    best = max(
        (it for view in simulation.nodes[undecided]._views.values() for it in view if it.node != undecided),
        key=lambda it: simulation.nodes[undecided].similarity(it.interest, it.weight),
    )
    assert best.node % 2 == camp


def test_identifiers_never_run_out() -> None:
    """Where there is no room between two nodes, the next gap is asked for."""
    simulation = running(20, sample_rounds=4, rejoin_every=1)
    mover = simulation.nodes[7]
    asked, successor = neighbours_on_ring(simulation, 3)[0], 3
    full = TellPlace(100, successor, 101, ())
    mover._asked, mover._places_left = asked, 5
    mover.now_s = simulation.now_s
    mover.on_receive(asked, full)
    assert mover._asked == successor
    own = simulation.nodes[3].ring.position
    mover.on_receive(successor, TellPlace(own, 4, (own + 4096) & MASK, ()))
    assert 0 < clockwise(own, mover.ring.position) < 4096


def test_ten_thousand_at_one_spot_find_room() -> None:
    """All want to sit behind the same node; each knows of the ring what the asked one tells it."""
    random = Random(1)
    places = [0, 1 << 63]  # ascending; node 0 sits at 0
    names = [0, 1]
    asked_most = 0
    for newcomer in range(2, 10_000):
        at, asked = 0, 0
        while True:
            asked += 1
            following = (at + 1) % len(places)
            jumps = [1 << power for power in range(14) if at + (1 << power) < len(places)]
            contacts = tuple((names[at + jump], places[at + jump]) for jump in jumps)
            told = TellPlace(places[at], names[following], places[following], contacts)
            found = place_behind(told, random)
            if found is not None:
                break
            at = names.index(another_of_crowd(names[at], told, newcomer, random))
        asked_most = max(asked_most, asked)
        index = bisect_left(places, found)
        places.insert(index, found)
        names.insert(index, newcomer)
    assert places == sorted(set(places))
    assert asked_most <= PLACES_MAX
