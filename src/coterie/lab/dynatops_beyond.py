"""Beyond DYNATOPS: placement as hypergraph partitioning, and what the reconfiguration protocol really sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from coterie.accounting.bounds import free_placement_copies
from coterie.kernels.placement import books
from coterie.lab.dynatops_runs import FollowedSystem, networks
from coterie.lab.experiment import OURS, Claim, Experiment, Plot, Point, Row, Sense, per_seed, yes
from coterie.lab.measuring import each_seed
from coterie.model.plan import slices
from coterie.sim.engine import Simulation
from coterie.sim.run import subscribe_all
from coterie.substrate.chord import chord_ring
from coterie.systems.dynatops import SYSTEM
from coterie.systems.dynatops.hypergraph import partitioned
from coterie.systems.dynatops.monitoring import reconfiguration_cost
from coterie.systems.dynatops.node import DynatopsNode
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.trace import Traffic
from coterie.workloads import make_timeline, make_workload
from coterie.workloads.parameters import INTERVAL_S
from coterie.workloads.rates import per_interval

KEYS = ("pattern", "nodes", "subscribers", "topics", "modes", "change_rate", "duration_s", "placement")
COMPARED = {"static": ("static", "hash"), "paper": ("similarity", "hash"), "hypergraph": ("fanout", "hash")}
STEPS = 20  # of the time followed


def run_partitioning(point: Point, seed: int) -> Mapping[str, float]:
    """Static, Algorithm 1 and hypergraph placement of one population on one hashed Chord ring, first and kept up."""
    timeline = make_timeline(str(point["workload"]), {key: point[key] for key in KEYS if key in point}, seed)
    start = timeline.start
    plane = np.zeros((start.node_count, 2)) if start.coordinates is None else start.coordinates
    width = 5 if start.coordinates is None else 6
    made = networks(timeline, {"width": width}, seed, COMPARED)
    values: dict[str, float] = {}
    for name, network in made.items():
        values |= _placement_values(name, network, plane)
        values[f"{name}_moved_first"] = float(np.count_nonzero(network.follower.users.node_of != start.attachment))
    end_s = float(timeline.time_s[-1]) if timeline.change_count else 0.0
    for step in range(1, STEPS + 1):
        for network in made.values():
            network.advance(end_s * step / STEPS)
    for name, network in made.items():
        values |= _placement_values(f"{name}_later", network, plane)
        values[f"{name}_handovers"] = float(network.handovers)
        values[f"{name}_changes"] = float(network.broker_changes)
    fresh = partitioned(timeline.at(end_s), 0.03, seed)
    values["kept_up"] = values["hypergraph_later_copies"] / max(fresh.cost * INTERVAL_S, 1.0)
    capacity = int(1.03 * start.subscriber_count / start.node_count) + 1
    values["bound_copies"] = free_placement_copies(start, capacity) * INTERVAL_S
    return values


def _placement_values(name: str, network: FollowedSystem, plane: NDArray[np.float64]) -> dict[str, float]:
    """Copies between brokers, messages with relays, delay, and how uneven the load is, as things stand."""
    network.measure(plane)
    found, users = network.performances[-1], network.follower.users
    rates = per_interval(network.follower.timeline.start)
    return {
        f"{name}_copies": books.touched(np.ascontiguousarray(users.counts.T), rates),
        f"{name}_messages": found.overhead,
        f"{name}_hops": found.user_hops,
        f"{name}_distance": found.user_distance,
        f"{name}_imbalance": 100 * (float(users.load.max()) / max(float(users.load.mean()), 1e-9) - 1),
    }


def _never_worse(own: Sequence[Row]) -> bool:
    """That no instance needs more messages than static placement, first or later."""
    return all(
        row.values[f"hypergraph{when}_messages"] <= row.values[f"static{when}_messages"]
        for row in own
        for when in ("", "_later")
    )


def _below_paper(own: Sequence[Row]) -> float:
    return sum(row.values["hypergraph_copies"] < row.values["paper_copies"] for row in own) / len(own)


SMALL: Point = {"workload": "dynatops", "nodes": 20, "subscribers": 1500, "topics": 150, "modes": 15}
PATTERNS = ("multimodal", "zipf", "uniform")
HOUR_S = 3600.0

SYNTHETIC: list[Point] = [{"workload": "dynatops", "pattern": name, "duration_s": 20 * HOUR_S} for name in PATTERNS]
TRACES: list[Point] = [{"workload": trace, "placement": "static"} for trace in ("gowalla", "foursquare")]

PARTITIONING = Experiment(
    id="dynatops/partitioning",
    paper="dynatops",
    where="beyond the paper",
    title="Users to brokers as hypergraph partitioning",
    run=run_partitioning,
    quick=[{**SMALL, "pattern": pattern, "duration_s": 5 * HOUR_S} for pattern in PATTERNS],
    full=[*SYNTHETIC, *TRACES],
    full_seeds=3,
    claims=[
        yes(
            id="partitioning/never-worse",
            where=OURS,
            statement="hypergraph placement never needs more messages than static placement, uniform included, neither "
            "at first nor after the changes",
            measure=each_seed(_never_worse),
        ),
        yes(
            id="partitioning/below-algorithm-1",
            where=OURS,
            statement="fewer copies between brokers than with Algorithm 1, in all instances",
            measure=each_seed(_below_paper),
        ),
    ],
    plots=[
        Plot(
            "Copies between brokers by placement",
            "pattern",
            {name: f"{name}_copies" for name in COMPARED},
            y_label="copies",
        )
    ],
)


def run_protocol(point: Point, seed: int) -> Mapping[str, float]:
    """One planned reconfiguration in the simulator: messages sent, against the formula of section 5.1.2."""
    brokers, topics, moving = int(point["brokers"]), int(point["topics"]), int(point["moved"])
    settings = {"nodes": brokers, "subscribers": 3 * brokers, "topics": topics, "pattern": "uniform", "modes": 1}
    workload = make_workload("dynatops", settings, seed)
    parameters = DynatopsParameters(placement="given", positions="hash")
    design = SYSTEM.plan(workload, parameters, seed)
    simulation = Simulation(SYSTEM, parameters, slices(design), seed)
    simulation.start()
    subscribe_all(simulation, workload.attachment, workload.interests)
    simulation.settle(5.0, 1000.0)
    simulation.run_until(90.0)
    before = simulation.book.sent.copy()
    draw = np.random.default_rng(seed)
    positions = design.overlay.positions
    assert positions is not None
    fresh = positions.copy()
    chosen = draw.permutation(brokers)[:moving]
    fresh[chosen] = positions[np.roll(chosen, 1)]
    seated = replace(design, overlay=chord_ring(fresh).overlay)
    for node, slice in enumerate(slices(seated, version=1)):
        simulation.plan(node, slice)
    for step in range(200):
        event_topic = int(draw.integers(topics))
        simulation.at(90.0 + step * 0.1, partial(simulation.publish, event_topic % brokers, event_topic))
    simulation.run_until(130.0)
    sent = {traffic: simulation.book.sent[traffic] - before[traffic] for traffic in Traffic}
    nodes = [node for node in simulation.nodes if isinstance(node, DynatopsNode)]
    messages = float(sent[Traffic.RECONFIGURATION] + sent[Traffic.SUBSCRIPTION])
    formula = float(reconfiguration_cost(brokers, topics, moving))
    return {
        "messages": messages,
        "formula": formula,
        "share": messages / formula,
        "lost": float(len(simulation.book.missing())),
        "completed": float(all(node.switch.version == 1 for node in nodes)),
    }


def _clean(rows: Sequence[Row]) -> list[float]:
    lost, completed = per_seed(rows, "lost"), per_seed(rows, "completed")
    return [float(gone == 0 and done == 1) for gone, done in zip(lost, completed, strict=True)]


PROTOCOL = Experiment(
    id="dynatops/protocol",
    paper="dynatops",
    where="section 5.1.2",
    title="The reconfiguration protocol: messages, losses, duplicates",
    run=run_protocol,
    quick=[{"brokers": 20, "topics": 20, "moved": 6}],
    quick_seeds=8,
    full_seeds=3,
    full=[{"brokers": 100, "topics": 100, "moved": moved} for moved in (10, 30, 100)],
    claims=[
        yes(
            id="protocol/nothing-lost",
            where="section 5.1.2",
            statement="no event is lost or doubled while both control planes live (a doubled one would end the run)",
            measure=_clean,
        ),
        Claim(
            id="protocol/bound",
            where="section 5.1.2",
            statement="messages stay below |V| + (log2^2 |V| + |P| log2 |V|) x Gamma (ours as a share of that)",
            expected=1.0,
            tolerance=0.1,
            measure=lambda rows: per_seed(rows, "share"),
            sense=Sense.AT_MOST,
        ),
    ],
)
