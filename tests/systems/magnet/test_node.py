"""The message protocol against the bulk form, and against what the rings of the running nodes say."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.model import Workload
from coterie.model.latency import Latency
from coterie.model.plan import slices
from coterie.protocol.system import Parameters, System
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash, FaultMix
from coterie.sim.run import simulate
from coterie.systems.magnet.system import INTEREST_RING, SYSTEM, UNIFORM
from coterie.trace import Traffic
from tests.bills import differing
from tests.conftest import small_workload
from tests.systems.magnet.trees_of_nodes import (
    assert_no_own_ancestor,
    assert_rings_agree,
    assert_trees_are_greedy_paths,
)

ALL = pytest.mark.parametrize("system", [SYSTEM, UNIFORM, INTEREST_RING], ids=lambda system: system.name)
FEW_LINKS = {"links": 6, "near": 2}


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


@ALL
@settings(max_examples=30)
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
    assert differing(outcome.ledger, price(design, workload, latency), ("control", "setup", "volume.control")) == {}


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


@ALL
@settings(max_examples=15)
@given(nodes=st.integers(2, 50), seed=st.integers(0, 2**32))
def test_trees_are_greedy_paths_after_interests_have_changed(system: System, nodes: int, seed: int) -> None:
    simulation = started(system, system.configure(FEW_LINKS), small_workload(nodes, 5, seed), seed)
    change_interests(simulation, topics=5, count=30, seed=seed)
    simulation.settle(5.0, 10_000.0)
    assert_trees_are_greedy_paths(simulation)


@ALL
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
    assert_rings_agree(simulation)
    assert_trees_are_greedy_paths(simulation)
    first = len(simulation.book.events)
    for topic in sorted(simulation.book.audience):
        publisher = next(node for node in range(80) if simulation.is_up(node))
        simulation.publish(publisher, topic)
    simulation.run_until(simulation.now_s + 60)
    assert [missing for missing in simulation.book.missing() if missing.event >= first] == []
    repair = simulation.book.sent[Traffic.SUBSCRIPTION] - before[Traffic.SUBSCRIPTION]
    assert 0 < repair < 3 * before[Traffic.SUBSCRIPTION]


@ALL
@pytest.mark.parametrize("seed", range(6))
def test_recovers_from_a_storm(system: System, seed: int) -> None:
    workload = small_workload(24, 5, seed, None if seed % 2 else 48)
    design = system.plan(workload, seed=seed)
    outcome = simulate(system, system.parameters(), design, workload, seed, faults=FaultMix(crash_share=0.15))
    assert outcome.probes > 0
