"""One simulated run from start to ledger: build up, settle, measure an interval; or weather a storm and recover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

import numpy as np

from coterie.accounting.price import topics
from coterie.accounting.tally import Tally, structure_state
from coterie.errors import RunError
from coterie.model import Design, Ledger, Overlay, Relation, Workload
from coterie.model.latency import Latency
from coterie.model.ledger import INTERVAL_S, Control, Maintenance, State, Topics
from coterie.model.plan import slices
from coterie.protocol.system import Parameters, System
from coterie.sim.book import Missing
from coterie.sim.engine import Simulation
from coterie.sim.faults import FaultPlan
from coterie.trace import Tracer, Traffic

QUIET_S = 5.0
STORM_INTERVALS = 10
REPAIR_INTERVALS = 8  # failure detection takes a few heartbeats, then structures are rebuilt
SETTLE_LIMIT_S = 200 * INTERVAL_S

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Outcome:
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
    faults: FaultPlan | None = None,
    tracer: Tracer | None = None,
    through_wire: bool = False,
    progress: Progress = lambda stage, share: None,
) -> Outcome:
    """Run the protocol on the design's overlay and count what it does; publications must be whole events."""
    costs = _link_costs(workload)
    simulation = Simulation(system, parameters, slices(design), seed, latency, tracer, through_wire, costs)
    progress("start", 0.0)
    simulation.start()
    _subscribe_all(simulation, design, workload)
    progress("settle", 0.2)
    simulation.settle(QUIET_S, SETTLE_LIMIT_S)
    control = _control(simulation)
    progress("publish", 0.4)
    if faults is None:
        return _measure(simulation, design, workload, control, progress)
    return _weather(simulation, design, workload, control, faults, progress)


def _link_costs(workload: Workload) -> dict[tuple[int, int], float]:
    graph = workload.graph
    if graph is None:
        return {}
    pairs = zip(graph.neighbours.rows.tolist(), graph.neighbours.columns.tolist(), strict=True)
    return dict(zip(pairs, graph.neighbour_costs.tolist(), strict=True))


def _subscribe_all(simulation: Simulation, design: Design, workload: Workload) -> None:
    interests = workload.interests
    for subscriber, node in enumerate(design.placement.node_of.tolist()):
        for topic in interests.row(subscriber).tolist():
            simulation.subscribe(node, topic)


def _measure(
    simulation: Simulation, design: Design, workload: Workload, control: Control, progress: Progress
) -> Outcome:
    start_s = simulation.now_s
    before = simulation.book.sent.copy()
    unpublished = _schedule(simulation, design, workload, start_s, INTERVAL_S)
    _run_in_steps(simulation, start_s, INTERVAL_S, progress)
    upkeep = _maintenance(simulation, before)
    simulation.run_until(start_s + 2 * INTERVAL_S)  # what is still under way arrives
    state, flooded = _state(simulation, design)
    ledger = simulation.book.tally.ledger(upkeep, state, control, flooded)
    return _outcome(simulation, ledger, unpublished)


def _weather(
    simulation: Simulation,
    design: Design,
    workload: Workload,
    control: Control,
    faults: FaultPlan,
    progress: Progress,
) -> Outcome:
    """Faults while publishing, then calm; then one event on every wanted topic must reach everybody who wants it."""
    start_s = simulation.now_s
    length_s = STORM_INTERVALS * INTERVAL_S
    before = simulation.book.sent.copy()
    for fault in faults.schedule(simulation.node_count, start_s, start_s + length_s, Random(simulation.seed)):
        simulation.inject(fault)
    unpublished = _schedule(simulation, design, workload, start_s, length_s)
    _run_in_steps(simulation, start_s, length_s, progress)
    upkeep = _maintenance(simulation, before)
    progress("recover", 0.8)
    simulation.run_until(simulation.now_s + REPAIR_INTERVALS * INTERVAL_S)
    simulation.settle(QUIET_S, SETTLE_LIMIT_S)
    missing = simulation.book.missing()
    tally = simulation.book.tally
    simulation.book.tally = Tally()
    probes = probe(simulation, design, workload)
    state, flooded = _state(simulation, design)
    ledger = tally.ledger(upkeep, state, control, flooded)
    return _outcome(simulation, ledger, unpublished, missing, probes)


def probe(simulation: Simulation, design: Design, workload: Workload) -> int:
    """Liveness: with faults over, an event on every wanted topic reaches everybody; if not, RunError says who."""
    first = len(simulation.book.events)
    publishers = dict(zip(workload.publications.topic.tolist(), workload.publications.publisher.tolist(), strict=True))
    for topic in sorted(simulation.book.audience, key=str):
        publisher = publishers.get(topic) if isinstance(topic, int) else None
        simulation.publish(0 if publisher is None else int(design.placement.node_of[publisher]), topic)
    simulation.run_until(simulation.now_s + INTERVAL_S)
    late = [missing for missing in simulation.book.missing() if missing.event >= first]
    if late:
        example = late[0]
        raise RunError(
            f"{simulation.system.name} did not recover: {len(late)} deliveries are missing after the faults stopped, "
            f"for example topic {example.topic} at node {example.node} ({example.reason}); seed {simulation.seed}"
        )
    return len(simulation.book.events) - first


def _schedule(
    simulation: Simulation, design: Design, workload: Workload, start_s: float, length_s: float
) -> dict[str, int]:
    """Spread every publication's events evenly over the first nine tenths; returns the live count of refused ones."""
    refused = {"events": 0}
    publications = workload.publications
    nodes = design.placement.node_of[publications.publisher].tolist()

    def publish(node: int, topic: int) -> None:
        if simulation.publish(node, topic) is None:
            refused["events"] += 1

    for node, topic, rate in zip(nodes, publications.topic.tolist(), publications.rate.tolist(), strict=True):
        events = int(rate)
        if events != rate:
            raise RunError(f"topic {topic} has {rate:g} events per interval; a simulation needs whole numbers")
        for index in range(events):
            when_s = start_s + 0.9 * length_s * (index + 0.5) / events
            simulation.at(when_s, partial(publish, node, topic))
    return refused


def _run_in_steps(simulation: Simulation, start_s: float, length_s: float, progress: Progress) -> None:
    steps = 20
    for step in range(1, steps + 1):
        simulation.run_until(start_s + length_s * step / steps)
        progress("publish", 0.4 + 0.4 * step / steps)


def _maintenance(simulation: Simulation, before: dict[Traffic, int]) -> Maintenance:
    def since(traffic: Traffic) -> float:
        return float(simulation.book.sent[traffic] - before.get(traffic, 0))

    return Maintenance(
        tree_keepalives=since(Traffic.TREE_KEEPALIVE),
        link_keepalives=since(Traffic.LINK_KEEPALIVE),
        associations=since(Traffic.ASSOCIATION),
    )


def _control(simulation: Simulation) -> Control:
    sent = simulation.book.sent
    return Control(
        subscription=float(sent[Traffic.SUBSCRIPTION]),
        overlay=float(sent[Traffic.OVERLAY]),
        membership=float(sent[Traffic.MEMBERSHIP]),
        acknowledgement=float(sent[Traffic.ACKNOWLEDGEMENT]),
        clustering=float(sent[Traffic.CLUSTERING]),
        reconfiguration=float(sent[Traffic.RECONFIGURATION]),
    )


def _state(simulation: Simulation, design: Design) -> tuple[State, Topics]:
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
    flooded = topics(design.trees.spread, Relation.from_rows(list(channels.values()), count), links)
    state = structure_state(links.lengths, entries, tree_entries, design.channels.count, len(channels))
    return state, flooded


def _outcome(
    simulation: Simulation,
    ledger: Ledger,
    unpublished: dict[str, int],
    missing: list[Missing] | None = None,
    probes: int = 0,
) -> Outcome:
    return Outcome(
        ledger,
        simulation.book.missing() if missing is None else missing,
        simulation.event_count,
        simulation.now_s,
        unpublished["events"],
        probes,
    )
