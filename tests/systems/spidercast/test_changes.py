"""What nodes do when the network changes: join, leave, crash, fall silent, want something else, have too few links."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from coterie.lab.spidercast_runs import links_in, start_from_contacts
from coterie.model import Relation, Workload
from coterie.model.plan import Neighbour, Slice, slices
from coterie.protocol.events import Received, Send, Started, Stopping, Subscribed, TimerFired
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash, Restart, Stop
from coterie.systems.spidercast import SYSTEM, measures
from coterie.systems.spidercast.messages import Heartbeat, LinkLeave
from coterie.systems.spidercast.node import SpiderCastNode
from coterie.systems.spidercast.parameters import SpiderCastParameters
from coterie.systems.spidercast.task import GREEDY, Task
from coterie.systems.spidercast.view import GONE_S, InterestView
from coterie.workloads import make_workload
from tests.conftest import small_workload
from tests.systems.spidercast import oracles

LEARNING = SpiderCastParameters(is_planned=False, link_heartbeat_s=5.0, gossip_s=5.0)


def learned(workload: Workload, parameters: SpiderCastParameters = LEARNING) -> Simulation:
    simulation = start_from_contacts(workload, parameters, 1)
    simulation.run_until(30.0)
    return simulation


def wanted_now(simulation: Simulation, topic_count: int) -> Relation:
    """Interests of the nodes that are up."""
    wanting = simulation.book.wanting
    rows = [sorted(wanting[node]) if simulation.is_up(node) else [] for node in range(simulation.node_count)]
    return Relation.from_rows(rows, topic_count)  # type: ignore[arg-type]


def test_who_joins_is_in_every_topic_within_two_seconds() -> None:
    """Section 3.8 leaves out of a snapshot who joined in the last two seconds."""
    workload = make_workload("rss", {"nodes": 120, "topics": 20, "subscriptions": 6}, 1)
    simulation = learned(workload)
    simulation.inject(Stop(31.0, 0))
    simulation.run_until(60.0)
    simulation.slices[0] = Slice(version=0, system="spidercast", node=0, neighbours=(Neighbour(5), Neighbour(9)))
    simulation.inject(Restart(60.0, 0))
    simulation.run_until(62.0)
    links = links_in(simulation)
    assert measures.connectivity(links, wanted_now(simulation, 20)).partitioned_count == 0
    assert len(links.row(0)) > 0


@pytest.mark.parametrize("fault", [Stop, Crash])
def test_neighbours_replace_who_has_gone(fault: type[Stop] | type[Crash]) -> None:
    workload = make_workload("rss", {"nodes": 100, "topics": 20, "subscriptions": 6}, 1)
    simulation = learned(workload)
    for node in range(20):
        simulation.inject(fault(30.0 + node / 10, node))
    simulation.run_until(70.0)
    links = links_in(simulation)
    assert all(len(links.row(node)) == 0 for node in range(20))
    assert oracles.covers(wanted_now(simulation, 20), links, 3)


def test_an_orderly_leave_is_told_to_every_neighbour() -> None:
    node = started((1, 2))
    assert node.step(Stopping(), 1.0) == [Send((1, 2), LinkLeave(is_final=True))]


def started(peers: tuple[int, ...]) -> SpiderCastNode:
    node = SpiderCastNode(0, SpiderCastParameters(), Random(1))
    node.step(Started(Slice(version=0, system="spidercast", node=0, neighbours=tuple(map(Neighbour, peers)))), 0.0)
    node.step(Subscribed(7), 0.0)
    return node


def test_a_silent_neighbour_is_suspected() -> None:
    node = started((1, 2))
    for minute in range(6):
        node.step(TimerFired("heartbeat"), 60.0 * minute)
        node.step(Received(1, Heartbeat((1, 1), (0, 0), (7,))), 60.0 * minute + 1)
    assert node.state().links == (1,)


def test_word_of_departures_spreads_and_whoever_speaks_again_is_back() -> None:
    teller, listener = (InterestView(owner, 10, 5, Random(1)) for owner in (0, 1))
    listener.learn(5, (7,), 10.0)
    listener.learn(6, (7,), 21.0)
    for node in (5, 6):
        teller.forget(node, 20.0)
    listener.bury(teller.gone(22.0), 22.0)
    assert listener.members(7) == [6]  # it has spoken since
    assert not listener.learn(5, (7,), 19.0)
    assert listener.learn(5, (7,), 23.0)
    assert teller.gone(20.0 + GONE_S) == ()


def test_a_refuser_is_left_alone_for_a_while_and_whom_it_named_is_asked_first() -> None:
    task = Task(GREEDY, coverage=3, margin=5, quarantine_s=30.0, is_strict=False)
    task.interest = frozenset({1, 2})
    view = InterestView(0, 10, 5, Random(1))
    for node, interest in ((1, (1, 2)), (2, (1,)), (3, (2,))):
        view.learn(node, interest, 0.0)
    assert task.next_neighbour(view, 0.0, Random(1)) == 1
    task.refused(1, 3, 0.0)
    assert task.next_neighbour(view, 1.0, Random(1)) == 3
    assert task.next_neighbour(view, 1.2, Random(1)) == 2
    assert task.next_neighbour(view, 1.4, Random(1)) is None
    assert task.next_neighbour(view, 30.1, Random(1)) == 1


@pytest.mark.parametrize("is_adaptive", [False, True])
def test_nodes_with_as_few_links_as_coverage_asks_for_raise_k_r(is_adaptive: bool) -> None:
    """Section 3.3.1: when everybody wants the same, K_g links cover everything and say nothing about connectivity."""
    everything = Relation.from_rows([range(10)] * 40, 10)
    workload = Workload("alike", everything, small_workload(40, 10, 1).publications, np.arange(40, dtype=np.int32), 40)
    parameters = SpiderCastParameters(is_planned=False, link_heartbeat_s=2.0, is_adaptive=is_adaptive, beacon_s=0.0)
    degree = links_in(learned(workload, parameters)).lengths.mean()
    assert degree > 4.5 if is_adaptive else degree < 4.0


def test_a_node_that_wants_something_else_gets_other_neighbours() -> None:
    """Section 2.4."""
    workload = make_workload("rss", {"nodes": 80, "topics": 20, "subscriptions": 5}, 1)
    simulation = learned(workload)
    held = workload.interests.row(0).tolist()
    for topic in held:
        simulation.unsubscribe(0, topic)
    for topic in [topic for topic in range(20) if topic not in held][:5]:
        simulation.subscribe(0, topic)
    simulation.run_until(60.0)
    interests, links = wanted_now(simulation, 20), links_in(simulation)
    assert oracles.covers(interests, links, 3)
    assert measures.connectivity(links, interests).partitioned_count == 0
    assert len(links.row(0)) <= 15


@pytest.mark.parametrize("crashed", range(14))
def test_two_connected_topics_lose_nothing_to_any_single_crash(crashed: int) -> None:
    """An event published right after the crash, before anybody can have noticed it, reaches all that are left."""
    workload = small_workload(14, 4, 5)
    parameters = SpiderCastParameters(links="two-connected")
    simulation = Simulation(SYSTEM, parameters, slices(SYSTEM.plan(workload, parameters, 5)), 5)
    simulation.start()
    for node in range(14):
        for topic in workload.interests.row(node).tolist():
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 1000.0)
    simulation.inject(Crash(simulation.now_s + 0.001, crashed))
    simulation.run_until(simulation.now_s + 0.002)
    for topic in workload.interests.row(crashed).tolist():
        simulation.unsubscribe(crashed, topic)  # it is owed nothing
    for topic in range(4):
        others = [node for node in workload.interests.transposed.row(topic).tolist() if node != crashed]
        if others:
            simulation.publish(others[0], topic)
    simulation.run_until(simulation.now_s + 0.9)  # failures are found after a second
    assert simulation.book.missing() == []
