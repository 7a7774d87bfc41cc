"""One reconfiguration in the simulator under a seed: bad weather, crashes, and events all the while."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from coterie.model import Design, Publications, Relation, Slice, Workload
from coterie.model.plan import Topic, slices
from coterie.protocol.events import Event, EventMessage, Received
from coterie.protocol.node import Node
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash, Restart, Weather
from coterie.substrate.chord import chord_ring
from coterie.systems.dynatops import SYSTEM
from coterie.systems.dynatops.node import DynatopsNode
from coterie.systems.dynatops.parameters import DynatopsParameters

NODES = 10
TOPICS = 6
REPAIR_S = 420.0  # silence is noticed after 2.5 intervals, then trees are rebuilt


class Custody(Simulation):
    """Writes down which brokers, in which of their lives, have ever had an event in their hands."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.hands: dict[int, dict[tuple[int, int], None]] = {}

    def publish(self, node: int, topic: Topic, payload: bytes = b"") -> Event | None:
        event = super().publish(node, topic, payload)
        if event is not None:
            self.hands.setdefault(event.id, {})[node, self._lives[node]] = None
        return event

    def _arrive_event(self, target: int, node: Node, received: Received, now_s: float) -> None:
        message = received.message
        assert isinstance(message, EventMessage)
        self.hands.setdefault(message.event.id, {})[target, self._lives[target]] = None
        super()._arrive_event(target, node, received, now_s)

    def is_orphaned(self, event_id: int) -> bool:
        """Everybody who ever had it has crashed since."""
        return all(self._lives[node] != life for node, life in self.hands[event_id])


@dataclass(frozen=True)
class Result:
    outcome: str  # what the coordinator remembers: completed, rolled back, or nothing if it crashed afterwards
    versions: tuple[int, ...]
    plane_counts: tuple[int, ...]
    lost: int  # deliveries missing of events that somebody alive has had in hand
    orphaned: int  # events that died with everybody who ever had them
    published: int
    copies_lost: int  # by the network, or on their way to a broker that was down


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
    simulation = Custody(SYSTEM, parameters, slices(design), seed, through_wire=through_wire)
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
    for victim in victims.get(crash_kind, []):
        down_s = start_s + random.random() * 45.0
        up_s = down_s + random.uniform(2.0, 40.0)
        simulation.inject(Crash(down_s, victim))
        simulation.inject(Restart(up_s, victim))

    def publish() -> None:
        simulation.publish(random.randrange(NODES), random.randrange(TOPICS))

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
    missing = [entry.event for entry in simulation.book.missing()]
    nodes = [node for node in simulation.nodes if isinstance(node, DynatopsNode)]
    coordinator = nodes[0].coordinator
    assert coordinator is not None
    return Result(
        coordinator.outcome,
        tuple(node.switch.version for node in nodes),
        tuple(len(node._planes) for node in nodes),
        sum(not simulation.is_orphaned(event) for event in missing),
        len({event for event in missing if simulation.is_orphaned(event)}),
        len(simulation.hands),
        sum(len(published.drops) for published in simulation.book.events.values()),
    )
