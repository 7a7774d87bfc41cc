"""The protocol: the same bill as the bulk form, changes while it runs, replacement without loss, repair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.model import Workload
from coterie.model.latency import Latency
from coterie.model.ledger import HEARTBEAT_S
from coterie.model.plan import slices
from coterie.model.store import load_design, save_design
from coterie.protocol.events import Received, Send
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash, FaultMix, Restart
from coterie.sim.run import simulate, subscribe_all
from coterie.systems.content import SYSTEM, ContentNode, ContentParameters
from coterie.systems.content.coordinator import link_costs
from coterie.systems.content.messages import Amend, BrokerHere, Entry, Install, Ready, UseVersion
from coterie.systems.content.routing import Outlook
from coterie.systems.content.stages import learn
from coterie.trace import Traffic
from coterie.workloads import make_workload
from tests.bills import differing
from tests.conftest import small_workload


def content_topics(seed: int, **more: object) -> Workload:
    """Documents as topics on a given network; brokers are told topics, not keywords."""
    settings = {"nodes": 25, "network": "flat", "degree": 4, "topics": 30, "keywords": 12, "locality": 30.0}
    return replace(make_workload("content", settings | more, seed), content=None)


@given(st.integers(0, 10_000), st.sampled_from(["keyword", "node"]), st.integers(0, 25))
@settings(max_examples=25)
def test_simulated_and_priced_bill_agree(seed: int, unit: str, nodes: int) -> None:
    """A broker away from the coordinator needs two messages to be known and four to be switched to the first version.

    Brokers report what their links cost, so the trees they get are those of the bulk form there too.
    """
    given = content_topics(seed, cost="length" if seed % 2 else "unit")
    workload = small_workload(nodes, 8, seed, None if seed % 2 else 2 * nodes) if nodes > 8 else given
    parameters = ContentParameters(unit=unit, groups_max=6 * (seed % 3))
    design = SYSTEM.plan(workload, parameters, seed)
    latency = Latency.matrix(np.random.default_rng(seed).integers(1, 200, (7, 7)).astype(float))
    others = workload.node_count - 1
    priced = price(design, workload, latency)
    outcome = simulate(SYSTEM, parameters, design, workload, seed, latency)
    assert not outcome.missing
    assert outcome.ledger.setup.messages == 6 * others
    assert differing(outcome.ledger, priced, ("setup",)) == {}


@pytest.mark.parametrize("unit", ["keyword", "node"])
def test_recovers_from_loss_crashes_and_a_partition(unit: str) -> None:
    workload = content_topics(1)
    parameters = ContentParameters(unit=unit)
    design = SYSTEM.plan(workload, parameters, 1)
    outcome = simulate(SYSTEM, parameters, design, workload, 1, faults=FaultMix(), through_wire=True)
    assert outcome.probes == len(np.unique(workload.interests.columns))


def running(workload: Workload, parameters: ContentParameters, seed: int = 0) -> Simulation:
    design = SYSTEM.plan(workload, parameters, seed)
    simulation = Simulation(SYSTEM, parameters, slices(design), seed)
    simulation.start()
    subscribe_all(simulation, workload.attachment, workload.interests)
    simulation.settle(5.0, 600.0)
    return simulation


def coordinator(simulation: Simulation) -> ContentNode:
    node = simulation.nodes[0]
    assert isinstance(node, ContentNode)
    return node


def version(simulation: Simulation) -> int:
    desk = coordinator(simulation)._desk
    assert desk is not None
    assert desk.active is not None
    return desk.active.version


@pytest.mark.parametrize("unit", ["keyword", "node"])
def test_subscriptions_that_come_and_go_amend_the_tables(unit: str) -> None:
    workload = content_topics(2)
    simulation = running(workload, ContentParameters(unit=unit))
    before = version(simulation)
    random = np.random.default_rng(0)
    for _ in range(40):
        node, topic = int(random.integers(25)), int(random.integers(40))  # topics from 30 on are new
        if topic in simulation.book.wanting[node]:
            simulation.unsubscribe(node, topic)
        else:
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 600.0)
    for topic in range(40):
        simulation.publish(int(random.integers(25)), topic)
    simulation.run_until(simulation.now_s + 10)
    assert not simulation.book.missing()
    assert version(simulation) == before, "changed subscriptions do not need a new strategy"


@pytest.mark.parametrize(("unit", "groups_max"), [("keyword", 1), ("keyword", 3), ("node", 3)])
def test_documents_published_while_groups_are_replaced_all_arrive(unit: str, groups_max: int) -> None:
    """Section VI: reviews install new strategies all the time here, one event every 10 ms."""
    workload = content_topics(3)
    parameters = ContentParameters(
        unit=unit, groups_max=groups_max, sampling=1.0, review_s=3.0, window_s=5.0, threshold=0.0
    )
    simulation = running(workload, parameters)
    first = version(simulation)
    random = np.random.default_rng(1)
    start_s = simulation.now_s
    focus = np.repeat(np.arange(6), 500)  # what is published, and from where, changes with time
    for at in range(3000):
        node, topic = int((focus[at] * 4 + random.integers(4)) % 25), int((focus[at] * 5 + random.integers(5)) % 30)
        simulation.at(start_s + at / 100, lambda node=node, topic=topic: simulation.publish(node, topic))
    simulation.run_until(start_s + 60)
    assert version(simulation) >= first + 2, "the test must see replacements"
    assert not simulation.book.missing()
    assert simulation.book.tally.owed > 3000


def test_large_documents_weigh_more() -> None:
    """Section III: a document costs its size. On a ring the tree leaves out a link on the way of the small ones."""
    ring = {node: {(node - 1) % 6: 1.0, (node + 1) % 6: 1.0} for node in range(6)}
    wanted: dict[int, list[int]] = {node: [0] if node == 3 else [] for node in range(6)}
    for large, small in ((1, 5), (5, 1)):
        samples = [(large, 0, {}, 5000), (small, 0, {}, 0), (large, 0, {}, 5000), (small, 0, {}, 0)] * 20
        outlook = Outlook.of(ring, wanted, samples, "keyword")
        assert sorted(set(outlook.demand.weight.tolist())) == [1.0, (64 + 5000) / 64]
        [tree] = learn(outlook.terrain, outlook.demand, ContentParameters(algorithm="single"), 0).trees
        used = {frozenset((node, int(tree.parent[node]))) for node in range(6)}
        middle = 2 if large == 1 else 4
        assert {frozenset((large, middle)), frozenset((middle, 3))} <= used


def test_plans_carry_what_links_cost(tmp_path: Path) -> None:
    workload = content_topics(5, cost="length")
    design = SYSTEM.plan(workload, ContentParameters(), 0)
    save_design(design, tmp_path / "design")
    assert workload.graph is not None
    for kept in (design, load_design(tmp_path / "design")):
        told = [neighbour.cost for part in slices(kept) for neighbour in part.neighbours]
        assert told == workload.graph.neighbour_costs.tolist()
    plain = SYSTEM.plan(content_topics(5), ContentParameters(), 0)
    assert {neighbour.cost for part in slices(plain) for neighbour in part.neighbours} == {1.0}


def test_brokers_tell_what_links_cost() -> None:
    simulation = running(content_topics(5, cost="length"), ContentParameters())
    graph = content_topics(5, cost="length").graph
    desk = coordinator(simulation)._desk
    assert graph is not None
    assert desk is not None
    assert desk.active is not None
    assert np.allclose(desk.active.outlook.terrain.graph.cost, graph.cost)
    assert link_costs((1, 2), (0.0, 3.0)) == link_costs((1, 2), (1.0,)) == {1: 1.0, 2: 1.0}, "nonsense counts as 1"


def test_a_strategy_that_saves_too_little_is_not_installed() -> None:
    workload = content_topics(4)
    simulation = running(workload, ContentParameters(sampling=1.0, review_s=5.0, threshold=0.99))
    first = version(simulation)
    for topic in range(30):
        simulation.publish(topic % 25, topic)
        simulation.publish((topic + 7) % 25, topic)
    simulation.run_until(simulation.now_s + 60)
    assert version(simulation) == first
    assert not simulation.book.missing()


def test_what_is_reinstalled_is_cheaper_for_the_documents_of_the_window() -> None:
    """Section VI: all documents come from one broker, which subscriptions alone could not tell."""
    falls = 0
    for seed in range(4):
        workload = content_topics(seed, subscribers_per_keyword=2, keywords_per_document=1)
        parameters = ContentParameters(groups_max=1, sampling=1.0, review_s=50.0, threshold=0.05)
        simulation = running(workload, parameters)
        first = version(simulation)
        copies = []
        for _ in range(2):
            before = simulation.book.sent.copy()
            for topic in (*range(30), *range(30)):
                simulation.publish(7, topic)
            simulation.run_until(simulation.now_s + 20)
            copies.append(simulation.book.sent[Traffic.EVENT] - before[Traffic.EVENT])
            simulation.run_until(simulation.now_s + 50)
        assert not simulation.book.missing()
        if version(simulation) == first:
            assert copies[1] == copies[0]
        else:
            assert copies[1] < 0.95 * copies[0]
            falls += 1
    assert falls > 0


def test_a_broker_that_fails_is_routed_around() -> None:
    workload = content_topics(6)
    simulation = running(workload, ContentParameters())
    before = version(simulation)
    simulation.inject(Crash(simulation.now_s + 1, 9))
    simulation.run_until(simulation.now_s + 5 * HEARTBEAT_S)
    assert version(simulation) > before
    simulation.book.events.clear()
    for topic in range(30):
        simulation.publish((topic * 7) % 9, topic)
    simulation.run_until(simulation.now_s + 10)
    reachable = [missing for missing in simulation.book.missing() if missing.node != 9]
    assert not reachable
    simulation.inject(Restart(simulation.now_s + 1, 9))
    simulation.run_until(simulation.now_s + 3 * HEARTBEAT_S)
    simulation.book.events.clear()
    for topic in range(30):
        simulation.publish((topic * 7) % 25, topic)
    simulation.run_until(simulation.now_s + 10)
    assert not simulation.book.missing()


def test_a_new_coordinator_learns_everything_again() -> None:
    workload = content_topics(7)
    simulation = running(workload, ContentParameters())
    before = version(simulation)
    simulation.inject(Crash(simulation.now_s + 1, 0))
    simulation.run_until(simulation.now_s + 10)
    for topic in range(30):
        simulation.publish(1 + topic % 20, topic)  # the others go on without it
    simulation.inject(Restart(simulation.now_s + 20, 0))
    simulation.run_until(simulation.now_s + 4 * HEARTBEAT_S)
    assert version(simulation) > before
    simulation.book.events.clear()
    for topic in range(30):
        simulation.publish((topic * 3) % 25, topic)
    simulation.run_until(simulation.now_s + 10)
    assert not simulation.book.missing()


def test_old_orders_do_not_undo_new_ones() -> None:
    node = ContentNode(5, ContentParameters(), Random(1))

    def told(message: object) -> list[object]:
        done = node.step(Received(0, message), 1.0)  # type: ignore[arg-type]
        said = [effect.message for effect in done if isinstance(effect, Send)]
        return [one for one in said if not isinstance(one, BrokerHere)]  # by which it says which version it uses

    fresh = Install(3, 4, (), (Entry(0, "a", (7,), False),))
    assert told(fresh) == [Ready(3, 4)]
    assert told(UseVersion(3)) == []
    assert told(Amend(3, 6, (Entry(0, "a", (), False), Entry(0, "b", (8,), True)))) == [Ready(3, 6)]
    assert told(fresh) == [Ready(3, 6)], "an order that comes late is acknowledged, not followed"
    assert told(Amend(3, 5, (Entry(0, "a", (7,), False),))) == [Ready(3, 6)]
    assert node.state().memberships == (0,)
    for later in range(4, 10):
        told(Install(later, 7, (), ()))
    assert sorted(node._tables) == [3, 9], "of versions that never came into force only the newest is kept"
    assert told(UseVersion(2)) == []
    assert told(Amend(2, 9, ())) == [], "what is not known is not acknowledged"
