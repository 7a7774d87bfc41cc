"""One simulated run from start to ledger: build up, settle, measure an interval; or weather a storm and recover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

import numpy as np

from coterie.accounting.price import MOVE_COPIES, crossing_links, mean_copy_bytes, structure, topics
from coterie.accounting.tally import Standing, structure_state
from coterie.errors import RunError
from coterie.model import Design, Ledger, Overlay, Relation, Workload
from coterie.model.latency import Latency
from coterie.model.ledger import HEARTBEAT_S, Control, Maintenance, SetupCost
from coterie.model.plan import slices
from coterie.model.relation import Index
from coterie.model.wires import COTERIE, MQTT, Wire
from coterie.model.workload import events_in
from coterie.protocol.system import Parameters, System
from coterie.sim.book import EventSize, Missing
from coterie.sim.engine import Simulation
from coterie.sim.faults import FaultMix
from coterie.trace import Tracer, Traffic

QUIET_S = 5.0
STORM_S = 10 * HEARTBEAT_S
REPAIR_HEARTBEATS = 8  # failure detection takes a few heartbeats, then structures are rebuilt
SETTLE_LIMIT_S = 200 * HEARTBEAT_S
SPAN_S = HEARTBEAT_S  # what is measured of a calm network: in it every link and tree edge beats a whole number of times

BUILDING = (Traffic.SUBSCRIPTION, Traffic.OVERLAY, Traffic.MEMBERSHIP, Traffic.CLUSTERING, Traffic.RECONFIGURATION)

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class RunResult:
    """What a run showed. `missing` lists every delivery owed and not made; `probes` counts the events after a storm."""

    ledger: Ledger
    missing: list[Missing] = field(default_factory=list)
    input_count: int = 0
    virtual_s: float = 0.0
    unpublished: int = 0  # events whose publisher's node was down: never accepted
    probes: int = 0


def simulate(
    system: System,
    parameters: Parameters,
    design: Design,
    workload: Workload,
    seed: int,
    latency: Latency | None = None,
    faults: FaultMix | None = None,
    tracer: Tracer | None = None,
    through_wire: bool = False,
    wire: Wire = COTERIE,
    progress: Progress = lambda stage, share: None,
) -> RunResult:
    """Run the protocol on the design's overlay and count what it does; SPAN_S seconds must hold whole events."""
    zones = None if workload.zone_of is None else workload.zone_of.tolist()
    simulation = Simulation(
        system, parameters, slices(design), seed, latency, tracer, through_wire, _link_costs(workload), zones
    )
    progress("start", 0.0)
    simulation.start()
    subscribe_all(simulation, design.placement.node_of, workload.interests)
    progress("settle", 0.2)
    simulation.settle(QUIET_S, SETTLE_LIMIT_S)
    run = _Run(simulation, design, workload, wire, simulation.book.sent.copy())
    simulation.book.take_tally()
    progress("publish", 0.4)
    return run.measure(progress) if faults is None else run.weather(faults, progress)


def _link_costs(workload: Workload) -> dict[tuple[int, int], float]:
    graph = workload.graph
    if graph is None:
        return {}
    pairs = zip(graph.neighbours.rows.tolist(), graph.neighbours.columns.tolist(), strict=True)
    return dict(zip(pairs, graph.neighbour_costs.tolist(), strict=True))


def subscribe_all(simulation: Simulation, node_of: Index, interests: Relation) -> None:
    """Everybody wants what they want, where they are."""
    for client, node in enumerate(node_of.tolist()):
        for topic in interests.row(client).tolist():
            simulation.subscribe(node, topic)


@dataclass
class _Run:
    """A network that has settled, and what it sent until then."""

    simulation: Simulation
    design: Design
    workload: Workload
    wire: Wire
    set_up: Mapping[Traffic, int]

    def measure(self, progress: Progress) -> RunResult:
        simulation, start_s = self.simulation, self.simulation.now_s
        unpublished = self._schedule(start_s, SPAN_S)
        _run_in_steps(simulation, start_s, SPAN_S, progress)
        upkeep = _maintenance(simulation, self.set_up, SPAN_S)
        simulation.run_until(start_s + 2 * SPAN_S)  # what is still under way arrives
        ledger = simulation.book.take_tally().ledger(self._structure(upkeep), self.wire, SPAN_S)
        return _outcome(simulation, ledger, unpublished)

    def weather(self, faults: FaultMix, progress: Progress) -> RunResult:
        """Faults while publishing, then calm; then one event on every wanted topic must reach everybody."""
        simulation, start_s = self.simulation, self.simulation.now_s
        length_s = STORM_S
        for fault in faults.schedule(simulation.node_count, start_s, start_s + length_s, Random(simulation.seed)):
            simulation.inject(fault)
        unpublished = self._schedule(start_s, length_s, SPAN_S)
        _run_in_steps(simulation, start_s, length_s, progress)
        upkeep = _maintenance(simulation, self.set_up, length_s)
        progress("recover", 0.8)
        simulation.run_until(simulation.now_s + REPAIR_HEARTBEATS * HEARTBEAT_S)
        simulation.settle(QUIET_S, SETTLE_LIMIT_S)
        missing = simulation.book.missing()
        tally = simulation.book.take_tally()
        probes = probe(simulation, self.design, self.workload)
        ledger = tally.ledger(self._structure(upkeep), self.wire, length_s)
        return _outcome(simulation, ledger, unpublished, missing, probes)

    def _structure(self, upkeep: Maintenance) -> Standing:
        """Control, moves and bytes follow from what it took to set up, as they do for a priced design."""
        priced = structure(self.design, self.workload, self.wire)
        told = float(self.set_up.get(Traffic.SUBSCRIPTION, 0))
        once = priced.setup
        rate = priced.control.subscription * told / once.messages if once.messages else 0.0
        messages = sum(float(self.set_up.get(traffic, 0)) for traffic in BUILDING)
        moved = once.moves * MOVE_COPIES * mean_copy_bytes(self.workload, self.wire)
        seen = _state(self.simulation, self.design, self.workload.zone_of)
        return replace(
            seen,
            maintenance=upkeep,
            control=Control(subscription=rate),
            setup=SetupCost(
                messages=messages,
                bytes=messages * (self.wire.announcement + priced.wish_bytes) + moved,
                moves=once.moves,
            ),
            wish_bytes=priced.wish_bytes,
            clients=priced.clients,
        )

    def _schedule(self, start_s: float, length_s: float, span_s: float | None = None) -> dict[str, int]:
        """Spread the events of `span_s` seconds evenly over nine tenths of `length_s`; returns the refused ones."""
        refused = {"events": 0}
        publications, simulation = self.workload.publications, self.simulation
        nodes = self.design.placement.node_of[publications.publisher].tolist()
        names = self.workload.name_bytes[publications.topic].tolist()

        def publish(node: int, topic: int, size: EventSize) -> None:
            if simulation.publish(node, topic, size=size) is None:
                refused["events"] += 1

        counts = events_in(publications.rate, span_s or length_s).tolist()
        rows = zip(nodes, publications.topic.tolist(), counts, publications.size.tolist(), names, strict=True)
        for node, topic, count, payload, name in rows:
            if int(count) != count:
                raise RunError(f"topic {topic} has {count:g} events in {span_s or length_s:g} s; whole ones are needed")
            size = EventSize(self.wire.copy_bytes(name, payload), MQTT.copy_bytes(name, payload))
            for index in range(int(count)):
                when_s = start_s + 0.9 * length_s * (index + 0.5) / count
                simulation.at(when_s, partial(publish, node, topic, size))
        return refused


def probe(simulation: Simulation, design: Design, workload: Workload) -> int:
    """Liveness: with faults over, an event on every wanted topic reaches everybody; if not, RunError says who."""
    first = len(simulation.book.events)
    publishers = dict(zip(workload.publications.topic.tolist(), workload.publications.publisher.tolist(), strict=True))
    for topic in sorted(simulation.book.audience, key=str):
        publisher = publishers.get(topic) if isinstance(topic, int) else None
        simulation.publish(0 if publisher is None else int(design.placement.node_of[publisher]), topic)
    simulation.run_until(simulation.now_s + HEARTBEAT_S)
    late = [missing for missing in simulation.book.missing() if missing.event >= first]
    if late:
        example = late[0]
        raise RunError(
            f"{simulation.system.name} did not recover: {len(late)} deliveries are missing after the faults stopped, "
            f"for example topic {example.topic} at node {example.node} ({example.reason}); seed {simulation.seed}"
        )
    return len(simulation.book.events) - first


def _run_in_steps(simulation: Simulation, start_s: float, length_s: float, progress: Progress) -> None:
    steps = 20
    for step in range(1, steps + 1):
        simulation.run_until(start_s + length_s * step / steps)
        progress("publish", 0.4 + 0.4 * step / steps)


def _maintenance(simulation: Simulation, before: Mapping[Traffic, int], length_s: float) -> Maintenance:
    def rate(traffic: Traffic) -> float:
        return float(simulation.book.sent[traffic] - before.get(traffic, 0)) / length_s

    return Maintenance(
        tree_keepalives=rate(Traffic.TREE_KEEPALIVE),
        link_keepalives=rate(Traffic.LINK_KEEPALIVE),
        associations=rate(Traffic.ASSOCIATION),
    )


def _state(simulation: Simulation, design: Design, zone_of: Index | None) -> Standing:
    """Read off the nodes themselves; with it what floods find."""
    count = simulation.node_count
    pairs: set[tuple[int, int]] = set()
    entries = np.zeros(count, np.int64)
    tree_entries = np.zeros(count, np.int64)
    channels: dict[int | str, list[int]] = {}
    for address, node in enumerate(simulation.nodes):
        if node is None:
            continue
        seen = node.state()
        entries[address] = len(seen.links)
        tree_entries[address] = len(seen.parents) + len(seen.children)
        for channel in seen.memberships:
            channels.setdefault(channel, []).append(address)
        pairs.update((min(address, peer), max(address, peer)) for peer in seen.links)
    ends = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    links = Overlay(Relation.from_pairs(ends[:, 0], ends[:, 1], count, count)).undirected
    return Standing(
        state=structure_state(links.lengths, entries, tree_entries, design.channels.count, len(channels)),
        topics=topics(design.trees.spread, Relation.from_rows(list(channels.values()), count), links),
        crossing_links=crossing_links(links, zone_of),
    )


def _outcome(
    simulation: Simulation,
    ledger: Ledger,
    unpublished: dict[str, int],
    missing: list[Missing] | None = None,
    probes: int = 0,
) -> RunResult:
    return RunResult(
        ledger,
        simulation.book.missing() if missing is None else missing,
        simulation.event_count,
        simulation.now_s,
        unpublished["events"],
        probes,
    )
