"""The broker in the simulator against the bulk form, and through storms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting.price import price
from coterie.model import Ledger, Publications, Relation, Workload
from coterie.model.ledger import Control
from coterie.model.plan import slices
from coterie.sim.engine import Simulation
from coterie.sim.faults import FaultMix
from coterie.sim.run import simulate
from coterie.systems.dynatops import SYSTEM
from coterie.systems.dynatops.messages import TREE_HOPS_MAX, EdgeAlive
from coterie.systems.dynatops.node import DynatopsNode
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.trace import Traffic


def crowd(nodes: int, users: int, topics: int, seed: int) -> Workload:
    draw = np.random.default_rng(seed)
    rows = [draw.choice(topics, min(3, topics), replace=False) for _ in range(users)]
    publisher = draw.integers(users, size=topics)
    return Workload(
        name="crowd",
        interests=Relation.from_rows(rows, topics),
        publications=Publications.of(publisher, np.arange(topics), draw.integers(1, 4, topics)),
        attachment=draw.integers(nodes, size=users).astype(np.int32),
        node_count=nodes,
    )


def without_control(ledger: Ledger) -> dict[str, float]:
    columns = Ledger(
        maintenance=ledger.maintenance,
        dissemination=ledger.dissemination,
        delay=ledger.delay,
        state=ledger.state,
        control=Control(),
        loss=ledger.loss,
    ).columns()
    return {name: round(value, 9) for name, value in columns.items()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("positions", ["hash", "paper"])
def test_simulated_bill_is_the_priced_bill(seed: int, positions: str) -> None:
    workload = crowd(nodes=3 + 7 * seed, users=20 * seed + 5, topics=4 + 5 * seed, seed=seed)
    parameters = DynatopsParameters(positions=positions, cluster_size=4, spacing="even" if seed % 2 else "random")
    design = SYSTEM.plan(workload, parameters, seed)
    outcome = simulate(SYSTEM, parameters, design, workload, seed, through_wire=seed == 1)
    assert not outcome.missing
    assert without_control(outcome.ledger) == without_control(price(design, workload))


@pytest.mark.parametrize("seed", range(4))
def test_storm_is_survived(seed: int) -> None:
    workload = crowd(nodes=25, users=80, topics=15, seed=seed)
    design = SYSTEM.plan(workload, DynatopsParameters(cluster_size=5), seed)
    outcome = simulate(SYSTEM, DynatopsParameters(), design, workload, seed, faults=FaultMix(crash_share=0.2))
    assert outcome.probes > 0


def test_single_broker_needs_nobody() -> None:
    workload = replace(crowd(nodes=1, users=3, topics=2, seed=0))
    design = SYSTEM.plan(workload, DynatopsParameters(), 0)
    outcome = simulate(SYSTEM, DynatopsParameters(), design, workload, 0)
    assert outcome.ledger.dissemination.copies == 0
    assert not outcome.missing


def test_a_ring_of_edges_without_a_root_dissolves() -> None:
    """What crashes may leave behind: everybody in it has a parent and none of them leads to the root."""
    workload = crowd(nodes=12, users=40, topics=3, seed=2)
    parameters = DynatopsParameters(placement="given", positions="hash")
    design = SYSTEM.plan(workload, parameters, 2)
    simulation = Simulation(SYSTEM, parameters, slices(design), 2)
    simulation.start()
    for user, node in enumerate(design.placement.node_of.tolist()):
        for topic in workload.interests.row(user).tolist():
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 1000.0)
    planes = {node.address: node.plane for node in simulation.nodes if isinstance(node, DynatopsNode)}
    ring = [at for at, plane in planes.items() if 0 in plane.branches and plane.branches[0].parent is not None][:3]
    assert len(ring) == 3
    for index, address in enumerate(ring):
        branch, child = planes[address].branches[0], ring[(index + 1) % 3]
        branch.parent, branch.children[child] = ring[index - 1], branch.epoch + 1
    for address in ring:
        planes[address].branches[0].epoch += 1
    before = simulation.book.sent[Traffic.TREE_KEEPALIVE]
    simulation._send(ring[-1], (ring[0],), EdgeAlive(0, 0, planes[ring[0]].branches[0].epoch))
    simulation.run_until(simulation.now_s + 30.0)
    in_ring = simulation.book.sent[Traffic.TREE_KEEPALIVE] - before
    assert TREE_HOPS_MAX / 2 < in_ring < 6 * TREE_HOPS_MAX  # it ran round, and it died
    simulation.publish(0, 0)
    simulation.run_until(simulation.now_s + 400.0)
    assert simulation.book.missing() == []
