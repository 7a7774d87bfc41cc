"""One reconfiguration in the simulator under a seed: bad weather, crashes, and events all the while."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np

from coterie.model import Design, Publications, Relation, Slice, Workload
from coterie.model.plan import slices
from coterie.protocol.events import EventMessage
from coterie.protocol.wire import Message
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash, Restart, Weather
from coterie.substrate.chord import chord_ring
from coterie.systems.dynatops import SYSTEM
from coterie.systems.dynatops.node import DynatopsNode
from coterie.systems.dynatops.parameters import DynatopsParameters

NODES = 10
TOPICS = 6
REPAIR_S = 420.0  # silence is noticed after 2.5 intervals, then trees are rebuilt


class ReliableLinks(Simulation):
    """Events are delayed and overtake each other but are not lost by chance, as on TCP; control messages may be."""

    def _send(self, source: int, targets: tuple[int, ...], message: Message) -> None:
        network = self.network
        weather = network.loss, network.duplication
        if isinstance(message, EventMessage):
            network.loss = network.duplication = 0.0
        super()._send(source, targets, message)
        network.loss, network.duplication = weather


@dataclass(frozen=True)
class Result:
    outcome: str  # what the coordinator remembers: completed, rolled back, or nothing if it crashed afterwards
    versions: tuple[int, ...]
    plane_counts: tuple[int, ...]
    lost: int  # deliveries missing of events published while all brokers were up and trees in repair
    lost_near_crash: int
    lost_after: int  # of events published when all was over
    published: int


def workload(draw: np.random.Generator) -> Workload:
    rows = [draw.choice(TOPICS, 2, replace=False) for _ in range(NODES)]
    return Workload(
        name="switching",
        interests=Relation.from_rows(rows, TOPICS),
        publications=Publications.of(np.arange(TOPICS), np.arange(TOPICS), np.ones(TOPICS)),
        attachment=np.arange(NODES, dtype=np.int32),
        node_count=NODES,
    )


def reseated(design: Design, draw: np.random.Generator, version: int) -> list[Slice]:
    """The plan in which some brokers have swapped positions."""
    positions = design.overlay.positions
    assert positions is not None
    moving = draw.permutation(NODES)[: int(draw.integers(2, NODES + 1))]
    fresh = positions.copy()
    fresh[moving] = positions[draw.permutation(moving)]
    return slices(replace(design, overlay=chord_ring(fresh).overlay), version=version)


def switch_under(seed: int, crash_kind: str, through_wire: bool = False) -> Result:
    """`crash_kind`: none, broker, coordinator, both."""
    draw, random = np.random.default_rng(seed), Random(seed)
    demand = workload(draw)
    parameters = DynatopsParameters(placement="given", positions="hash")
    design = SYSTEM.plan(demand, parameters, seed)
    simulation = ReliableLinks(SYSTEM, parameters, slices(design), seed, through_wire=through_wire)
    simulation.start()
    for node in range(NODES):
        for topic in demand.interests.row(node).tolist():
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 1000.0)
    simulation.run_until(simulation.now_s + 90.0)
    start_s = simulation.now_s
    simulation.inject(Weather(start_s, loss=0.1, duplication=0.05, jitter_s=0.3))
    for node, slice in enumerate(reseated(design, draw, version=1)):
        simulation.at(start_s + random.random() * 3, lambda node=node, slice=slice: simulation.plan(node, slice))
    victims = {"broker": [random.randrange(1, NODES)], "coordinator": [0]}
    victims["both"] = [*victims["broker"], 0]
    windows = []
    for victim in victims.get(crash_kind, []):
        down_s = start_s + random.random() * 45.0
        up_s = down_s + random.uniform(2.0, 40.0)
        simulation.inject(Crash(down_s, victim))
        simulation.inject(Restart(up_s, victim))
        windows.append((down_s, up_s + REPAIR_S))
    published: dict[int, float] = {}

    def publish() -> None:
        event = simulation.publish(random.randrange(NODES), random.randrange(TOPICS))
        if event is not None:
            published[event.id] = simulation.now_s

    for step in range(400):
        simulation.at(start_s + step * 0.2, publish)
    simulation.run_until(start_s + 80.0)
    simulation.inject(Weather(simulation.now_s))
    simulation.run_until(start_s + 80.0 + REPAIR_S + 120.0)
    simulation.settle(5.0, 2000.0)
    end_s = simulation.now_s
    for topic in range(TOPICS):
        simulation.at(end_s + topic, publish)
    simulation.run_until(end_s + 90.0)
    # Of an event published shortly before a crash a copy may have been on its way to the broker that crashed.
    near = {event for event, at_s in published.items() if any(a - 3.0 <= at_s <= b for a, b in windows)}
    missing = [entry.event for entry in simulation.book.missing()]
    late = {event for event, at_s in published.items() if at_s >= end_s}
    nodes = [node for node in simulation.nodes if isinstance(node, DynatopsNode)]
    coordinator = nodes[0].coordinator
    assert coordinator is not None
    return Result(
        coordinator.outcome,
        tuple(node.switch.version for node in nodes),
        tuple(len(node._planes) for node in nodes),
        sum(event not in near and event not in late for event in missing),
        sum(event in near for event in missing),
        sum(event in late for event in missing),
        len(published),
    )
