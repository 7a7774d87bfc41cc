"""A full mesh: one copy to each interested node, everything announced to everybody."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.model.plan import slices
from coterie.sim.engine import Simulation
from coterie.sim.run import simulate
from coterie.systems.mesh import SYSTEM, MeshParameters
from coterie.trace import Traffic
from tests.conftest import small_workload


def running(nodes: int) -> Simulation:
    design = SYSTEM.plan(small_workload(nodes, 3, seed=1, wanted=0.0))
    simulation = Simulation(SYSTEM, MeshParameters(), slices(design), seed=1, through_wire=True)
    simulation.start()
    simulation.settle(5.0, 100.0)
    return simulation


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_for_its_placement_nobody_sends_fewer_copies(seed: int) -> None:
    workload = small_workload(12, 6, seed, subscribers=30)
    ledger = price(SYSTEM.plan(workload), workload)
    assert ledger.dissemination.wanted == pytest.approx(lower_bounds(workload).dissemination.wanted)
    assert ledger.dissemination.copies == ledger.dissemination.wanted
    assert ledger.delay.hops.max <= 1


def test_announcements_and_what_is_kept_of_them_grow_with_the_nodes_squared() -> None:
    workload = small_workload(9, 5, seed=3, subscribers=40)
    design = SYSTEM.plan(workload)
    simulated = simulate(SYSTEM, MeshParameters(), design, workload, seed=3).ledger
    wanted = workload.node_interests().lengths
    assert simulated.setup.messages == price(design, workload).setup.messages == wanted.sum() * 8
    assert simulated.state.tree_entries.max == (wanted.sum() - wanted).max()
    assert simulated.state == price(design, workload).state


def test_only_first_and_last_are_announced_and_only_to_the_peers() -> None:
    simulation = running(5)
    assert simulation.book.sent[Traffic.SUBSCRIPTION] == 0
    for _ in range(3):
        simulation.subscribe(2, 7)
    assert simulation.book.sent[Traffic.SUBSCRIPTION] == 4
    simulation.run_until(simulation.now_s + 1)
    for _ in range(3):
        simulation.unsubscribe(2, 7)
    simulation.run_until(simulation.now_s + 1)
    assert simulation.book.sent[Traffic.SUBSCRIPTION] == 8
    assert all(node is not None and node.state().children == () for node in simulation.nodes)
    simulation.publish(0, 7)
    assert simulation.book.sent[Traffic.EVENT] == 0


def test_a_late_joiner_learns_everything_at_once() -> None:
    """Within a few round trips, not at the next heartbeat."""
    simulation = running(4)
    simulation._remove(3)
    for node in range(3):
        simulation.subscribe(node, node)
    simulation.run_until(simulation.now_s + 1)
    simulation.start_node(3)
    simulation.subscribe(3, 0)
    simulation.run_until(simulation.now_s + 1)
    late, first = simulation.nodes[3], simulation.nodes[0]
    assert late is not None
    assert first is not None
    assert late.state().children == ((0, 0), (1, 1), (2, 2))
    assert (0, 3) in first.state().children
    for topic in range(3):
        simulation.publish(3, topic)
    simulation.run_until(simulation.now_s + 1)
    assert simulation.book.missing() == []


def test_a_copy_that_crosses_a_leave_is_filtered() -> None:
    simulation = running(3)
    simulation.subscribe(1, 0)
    simulation.run_until(simulation.now_s + 1)
    simulation.unsubscribe(1, 0)
    simulation.publish(0, 0)
    simulation.run_until(simulation.now_s + 1)
    assert (simulation.book.tally.filtered, simulation.book.tally.wanted) == (1, 0)


def test_a_publisher_that_wants_its_own_topic_sends_itself_nothing() -> None:
    workload = small_workload(6, 2, seed=0, wanted=1.0)
    ledger = price(SYSTEM.plan(workload), workload)
    assert ledger.dissemination.copies == pytest.approx(5 * float(np.sum(workload.publications.rate)))
