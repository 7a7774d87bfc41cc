"""Nobody misses anything because others come and go: who gets another parent keeps the one before until then."""

from __future__ import annotations

from random import Random

import pytest

from coterie.protocol.events import Event
from coterie.protocol.system import System
from coterie.sim.engine import Simulation
from coterie.systems.magnet.system import INTEREST_RING, SYSTEM, UNIFORM
from tests.conftest import small_workload
from tests.systems.magnet.test_node import started
from tests.systems.magnet.trees_of_nodes import assert_trees_are_greedy_paths

NODES, CALM_S, STEP_S = 16, 5.0, 0.03


def delivered_at(simulation: Simulation, node: int, patched: pytest.MonkeyPatch) -> list[int]:
    """What that node delivers from now on, in order."""
    delivered: list[int] = []
    deliver = simulation.nodes[node].deliver

    def noted(event: Event, hops: int) -> None:
        delivered.append(event.id)
        deliver(event, hops)

    patched.setattr(simulation.nodes[node], "deliver", noted)
    return delivered


def publish_for(simulation: Simulation, duration_s: float) -> None:
    end_s = simulation.now_s + duration_s
    while simulation.now_s < end_s:
        simulation.publish(0, 0)
        simulation.run_until(simulation.now_s + STEP_S)


@pytest.mark.parametrize("system", [SYSTEM, UNIFORM, INTEREST_RING], ids=lambda system: system.name)
@pytest.mark.parametrize("seed", range(4))
def test_who_is_there_misses_nothing_while_others_come_and_go(
    system: System, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    workload = small_workload(NODES, 1, seed)
    simulation = started(system, system.parameters(), workload, seed)
    staying = list(range(0, NODES, 2))
    for node in staying:
        simulation.subscribe(node, 0)
    for node in range(1, NODES, 2):
        for _ in range(simulation.book.wanting[node].get(0, 0)):
            simulation.unsubscribe(node, 0)
    simulation.settle(5.0, 10_000.0)
    first = len(simulation.book.events)
    delivered = {node: delivered_at(simulation, node, monkeypatch) for node in staying}
    others = range(1, NODES, 2)
    for node in random.sample(others, len(others)):
        simulation.subscribe(node, 0)
        publish_for(simulation, 1.0)
    for node in random.sample(others, len(others)):
        simulation.unsubscribe(node, 0)
        publish_for(simulation, 1.0)
    simulation.run_until(simulation.now_s + CALM_S)
    missed = [one for one in simulation.book.missing() if one.event >= first and one.node in staying]
    assert missed == []
    assert all(events == sorted(events) for events in delivered.values())
    assert_trees_are_greedy_paths(simulation)
