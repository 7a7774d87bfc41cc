"""The message protocol against the bulk form, and against what the rings of the running nodes say."""

from __future__ import annotations

from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.model import Ledger, Workload
from coterie.model.latency import Latency
from coterie.model.ledger import Control
from coterie.model.plan import slices
from coterie.protocol.system import Parameters, System
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash, FaultPlan
from coterie.sim.run import simulate
from coterie.substrate.identifiers import topic_key
from coterie.systems.magnet.system import SYSTEM, UNIFORM
from coterie.trace import Traffic
from tests.conftest import small_workload

BOTH = pytest.mark.parametrize("system", [SYSTEM, UNIFORM], ids=lambda system: system.name)
FEW_LINKS = {"links": 6, "near": 2}


def without_control(ledger: Ledger) -> Ledger:
    """Joining costs what the way to the grafting point costs, which pricing does not follow."""
    return msgspec.structs.replace(ledger, control=Control())


def started(system: System, parameters: Parameters, workload: Workload, seed: int) -> Simulation:
    design = system.plan(workload, parameters, seed)
    simulation = Simulation(system, parameters, slices(design), seed)
    simulation.start()
    interests = workload.node_interests()
    for node in range(workload.node_count):
        for topic in interests.row(node).tolist():
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 10_000.0)
    return simulation


@BOTH
@settings(max_examples=60)
@given(nodes=st.integers(1, 60), topics=st.integers(1, 8), seed=st.integers(0, 2**32), is_small=st.booleans())
def test_simulated_ledger_equals_priced_ledger(
    system: System, nodes: int, topics: int, seed: int, is_small: bool
) -> None:
    workload = small_workload(nodes, topics, seed, None if seed % 2 else 2 * nodes)
    parameters = system.configure(FEW_LINKS if is_small else {})
    design = system.plan(workload, parameters, seed)
    latency = Latency.matrix(np.random.default_rng(seed).integers(1, 200, (7, 7)).astype(float))
    outcome = simulate(system, parameters, design, workload, seed, latency)
    assert outcome.missing == []
    assert without_control(outcome.ledger) == without_control(price(design, workload, latency))


def routers(simulation: Simulation) -> dict[int, object]:
    return {node: simulation.nodes[node] for node in range(simulation.node_count) if simulation.is_up(node)}


def greedy_union(simulation: Simulation, topic: int) -> dict[int, int]:
    """Child -> parent of the union of greedy paths from the home to the subscribers, by the nodes' own rings."""
    nodes = routers(simulation)
    key = topic_key(topic)
    homes = [node for node, it in nodes.items() if it.home_hop(key) is None]
    assert len(homes) == 1, "the control ring is not agreed on"
    parents: dict[int, int] = {}
    for member in simulation.book.audience.get(topic, {}):
        if member not in nodes:
            continue
        at, hops = homes[0], 0
        while at != member:
            following = nodes[at].ring.next_hop(nodes[member].ring.position)
            assert following is not None
            assert parents.setdefault(following, at) == at, "two greedy paths reach a node by different ways"
            at, hops = following, hops + 1
            assert hops <= len(nodes)
    return parents


def protocol_tree(simulation: Simulation, topic: int) -> dict[int, int]:
    return {
        node: parent for node, it in routers(simulation).items() for on, parent in it.state().parents if on == topic
    }


def assert_no_own_ancestor(simulation: Simulation) -> None:
    """By what parents believe as well as by what children believe."""
    states = {node: it.state() for node, it in routers(simulation).items()}
    for topic in range(8):
        below: dict[int, list[int]] = {
            node: [child for on, child in state.children if on == topic] for node, state in states.items()
        }
        above = {node: parent for node, state in states.items() for on, parent in state.parents if on == topic}
        for node in above:
            at, seen = node, {node}
            while at in above:
                at = above[at]
                assert at not in seen, f"node {node} is its own ancestor in topic {topic}"
                seen.add(at)
        assert all(node not in children for node, children in below.items())


def assert_trees_are_greedy_paths(simulation: Simulation) -> None:
    for topic in sorted(simulation.book.audience):
        assert protocol_tree(simulation, topic) == greedy_union(simulation, topic)


def change_interests(simulation: Simulation, topics: int, count: int, seed: int) -> None:
    random = Random(seed)
    for _ in range(count):
        node, topic = random.randrange(simulation.node_count), random.randrange(topics)
        if topic in simulation.book.wanting[node]:
            simulation.unsubscribe(node, topic)
        else:
            simulation.subscribe(node, topic)
        simulation.run_until(simulation.now_s + random.random() * 3)
        assert_no_own_ancestor(simulation)


@BOTH
@settings(max_examples=15)
@given(nodes=st.integers(2, 50), seed=st.integers(0, 2**32))
def test_trees_are_greedy_paths_after_interests_have_changed(system: System, nodes: int, seed: int) -> None:
    simulation = started(system, system.configure(FEW_LINKS), small_workload(nodes, 5, seed), seed)
    change_interests(simulation, topics=5, count=30, seed=seed)
    simulation.settle(5.0, 10_000.0)
    assert_trees_are_greedy_paths(simulation)


@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_trees_heal_after_a_tenth_has_crashed(system: System, seed: int) -> None:
    """Every tree is again the union of greedy paths among those who are left, and nothing is missed any more."""
    workload = small_workload(80, 6, seed)
    simulation = started(system, system.configure({"links": 10, "near": 3}), workload, seed)
    before = simulation.book.sent.copy()
    for node in Random(seed).sample(range(80), 8):
        for topic in list(simulation.book.wanting[node]):
            simulation.unsubscribe(node, topic)
        simulation.inject(Crash(simulation.now_s, node))
    for _ in range(60):
        simulation.run_until(simulation.now_s + 8)
        assert_no_own_ancestor(simulation)
    simulation.settle(65.0, 10_000.0)
    assert_trees_are_greedy_paths(simulation)
    first = len(simulation.book.events)
    for topic in sorted(simulation.book.audience):
        publisher = next(node for node in range(80) if simulation.is_up(node))
        simulation.publish(publisher, topic)
    simulation.run_until(simulation.now_s + 60)
    assert [missing for missing in simulation.book.missing() if missing.event >= first] == []
    repair = simulation.book.sent[Traffic.SUBSCRIPTION] - before[Traffic.SUBSCRIPTION]
    assert 0 < repair < 3 * before[Traffic.SUBSCRIPTION]


@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_recovers_from_a_storm(system: System, seed: int) -> None:
    workload = small_workload(24, 5, seed, None if seed % 2 else 48)
    design = system.plan(workload, seed=seed)
    outcome = simulate(system, system.parameters(), design, workload, seed, faults=FaultPlan(crash_share=0.15))
    assert outcome.probes > 0
