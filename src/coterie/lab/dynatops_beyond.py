"""Beyond DYNATOPS: placement as hypergraph partitioning, and what the reconfiguration protocol really sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from coterie.accounting.bounds import free_placement_copies
from coterie.kernels import slotcost
from coterie.lab.experiment import Claim, Experiment, Point, Row, per_seed
from coterie.model.plan import slices
from coterie.model.relation import Index
from coterie.sim.engine import Simulation
from coterie.substrate.chord import chord_ring
from coterie.systems.dynatops import SYSTEM
from coterie.systems.dynatops.hypergraph import partition_of, partitioned
from coterie.systems.dynatops.monitoring import reconfiguration_cost
from coterie.systems.dynatops.node import DynatopsNode
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.systems.dynatops.placement import place_by_similarity
from coterie.systems.dynatops.positions import Slots, hashed_slots, slot_positions
from coterie.trace import Traffic
from coterie.workloads import make_workload

KEYS = ("pattern", "nodes", "subscribers", "topics", "modes", "placement")


def run_partitioning(point: Point, seed: int) -> Mapping[str, float]:
    """Static, Algorithm 1 and hypergraph placement of one population, all on the same hashed Chord ring."""
    settings = {key: point[key] for key in KEYS if key in point}
    workload = make_workload(str(point["workload"]), settings, seed)
    brokers, rates = workload.node_count, workload.rates
    placed: dict[str, Index] = {
        "static": workload.attachment,
        "paper": place_by_similarity(workload, 10, load_weight=1.0),
        "hypergraph": partitioned(workload, 0.03, seed).node_of,
    }
    slots = Slots.at(slot_positions(brokers, "random", seed))
    values = {}
    for name, node_of in placed.items():
        partition = partition_of(workload.interests, rates, node_of, brokers)
        instance = slots.instance(workload.node_interests(node_of), rates, 1.0)
        relays, _ = slotcost.full_cost(instance, hashed_slots(brokers, seed))
        values[f"{name}_copies"] = partition.cost
        values[f"{name}_messages"] = partition.cost + relays
        values[f"{name}_imbalance"] = 100 * partition.imbalance
    capacity = int(1.03 * workload.subscriber_count / brokers) + 1
    values["bound_copies"] = free_placement_copies(workload, capacity)
    return values


def _never_worse(rows: Sequence[Row]) -> list[float]:
    seeds = sorted({row.seed for row in rows})
    of_seed = {seed: [row for row in rows if row.seed == seed] for seed in seeds}
    return [
        float(all(row.values["hypergraph_messages"] <= row.values["static_messages"] for row in of_seed[seed]))
        for seed in seeds
    ]


SMALL: Point = {"workload": "dynatops", "nodes": 20, "subscribers": 1500, "topics": 150, "modes": 15}
PATTERNS = ("multimodal", "zipf", "uniform")

PARTITIONING = Experiment(
    id="dynatops/partitioning",
    paper="dynatops",
    where="beyond the paper",
    title="Users to brokers as hypergraph partitioning",
    run=run_partitioning,
    quick=[{**SMALL, "pattern": pattern} for pattern in PATTERNS],
    full=[
        *({"workload": "dynatops", "pattern": pattern} for pattern in PATTERNS),
        {"workload": "gowalla", "placement": "static"},
        {"workload": "foursquare", "placement": "static"},
    ],
    claims=[
        Claim(
            id="partitioning/never-worse",
            where="beyond the paper",
            statement="hypergraph placement never needs more messages than static placement, uniform included",
            expected=1.0,
            tolerance=0.0,
            measure=_never_worse,
        )
    ],
    full_seeds=3,
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
    for user, node in enumerate(workload.attachment.tolist()):
        for topic in workload.interests.row(user).tolist():
            simulation.subscribe(node, topic)
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
    full=[{"brokers": 100, "topics": 100, "moved": moved} for moved in (10, 30, 100)],
    claims=[
        Claim(
            id="protocol/nothing-lost",
            where="section 5.1.2",
            statement="no event is lost or doubled while both control planes live (a doubled one would end the run)",
            expected=1.0,
            tolerance=0.0,
            measure=_clean,
        ),
        Claim(
            id="protocol/bound",
            where="section 5.1.2",
            statement="messages stay below |V| + (log2^2 |V| + |P| log2 |V|) x Gamma (ours as a share of that)",
            expected=0.0,
            tolerance=1.0,
            measure=lambda rows: per_seed(rows, "share"),
        ),
    ],
)
