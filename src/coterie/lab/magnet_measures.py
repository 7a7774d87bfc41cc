"""What Magnet's experiments run and measure: uninterested relays against the strawman's, and repair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import numpy as np

from coterie.accounting.price import price
from coterie.kernels.rings.eitherway import either_way_paths
from coterie.lab.experiment import Point, Row, by_seed, per_seed
from coterie.model import Design, Overlay, Trees, Workload
from coterie.model.plan import slices
from coterie.model.relation import Index
from coterie.protocol.system import Stages
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash
from coterie.sim.run import subscribe_all
from coterie.substrate.identifiers import topic_keys
from coterie.substrate.rings import Circle, ClockwiseRing, Paths, Words
from coterie.substrate.trees import bottom_up_trees, path_union
from coterie.systems.magnet.orderings import ORDERINGS
from coterie.systems.magnet.parameters import MagnetParameters, RingParameters
from coterie.systems.magnet.stages import clockwise_ring, control_ring, greedy_paths, ordered_overlay, skewed_part
from coterie.systems.magnet.system import INTEREST_RING, SYSTEM, UNIFORM
from coterie.trace import Traffic
from coterie.workloads import make_workload

OWN_KEYS = ("links", "samples", "choices", "rounds", "near", "median_samples")


def workload_of(point: Point, seed: int) -> Workload:
    settings = {
        key: value
        for key, value in point.items()
        if key not in (*OWN_KEYS, "workload", "ordering", "direction", "system")
    }
    return make_workload(str(point["workload"]), settings, seed)


def parameters_of(point: Point) -> tuple[MagnetParameters, RingParameters]:
    """Magnet's and the strawman's: the same links."""
    own = SYSTEM.configure({key: point[key] for key in OWN_KEYS if key in point})
    assert isinstance(own, MagnetParameters)
    return own, RingParameters(links=own.links, near=own.near, median_samples=own.median_samples)


def relays(design: Design, workload: Workload) -> float:
    return price(design, workload).dissemination.relayed


def scribe_style(design: Design, workload: Workload) -> Design:
    """The strawman with trees grown from the subscribers towards the root."""
    trees = bottom_up_trees(ring_of(design), topic_keys(workload.topic_count), design.trees.members)
    return replace(design, trees=trees)


def ring_of(design: Design) -> ClockwiseRing:
    """The one ring of the strawman."""
    assert design.overlay.positions is not None
    return clockwise_ring(Circle(design.overlay.positions), design.overlay.links, 1)


@dataclass(frozen=True, eq=False)
class EitherWayRing:
    """A ring whose messages go clockwise or back, whichever link is closer to the target."""

    ring: ClockwiseRing

    @property
    def positions(self) -> Words:
        return self.ring.positions

    @property
    def overlay(self) -> Overlay:
        return self.ring.overlay

    def owners(self, keys: Words) -> Index:
        return self.ring.owners(keys)

    def paths(self, starts: Index, keys: Words) -> Paths:
        ring, count = self.ring, self.ring.circle.node_count
        return Paths(*either_way_paths(ring.positions, ring.indptr, ring.links, starts, ring.owners(keys), count))


def either_way(design: Design, ring: ClockwiseRing, workload: Workload) -> Design:
    """The same ring and roots, with paths that go either way; where two ways lead to a node, one of them is taken."""
    trees = path_union(EitherWayRing(ring), design.trees.root, design.trees.members, is_upward=False)
    return replace(design, trees=trees)


def compare(point: Point, seed: int) -> Mapping[str, float]:
    """Magnet against the strawman, top-down and Scribe-style."""
    workload = workload_of(point, seed)
    own, plain = parameters_of(point)
    ordering = ORDERINGS[str(point.get("ordering", "magnet"))]
    stages = Stages(overlay=ordered_overlay(ordering), trees=greedy_paths, upkeep=SYSTEM.stages.upkeep)
    design = stages.plan("magnet", workload, own, seed)
    strawman = UNIFORM.plan(workload, plain, seed)
    if point.get("direction") == "either":
        control = control_ring(workload.node_count, own.control_near)
        design = either_way(design, skewed_part(design.overlay, control, own.near), workload)
        strawman = either_way(strawman, ring_of(strawman), workload)
    bill, straw_bill = price(design, workload), price(strawman, workload)
    ours, theirs = bill.dissemination.relayed, straw_bill.dissemination.relayed
    upward = relays(scribe_style(strawman, workload), workload)
    return {
        "saving": 1 - ours / theirs,
        "saving_to_scribe": 1 - ours / upward,
        "strawman_extra": theirs / ours - 1,
        "relays": ours,
        "strawman_relays": theirs,
        "hops": bill.delay.hops.mean,
        "strawman_hops": straw_bill.delay.hops.mean,
    }


# --- Figure 5: where the relays are ---


def _relay_share(trees: Trees, workload: Workload, topics: np.ndarray) -> float:
    """Copies to uninterested nodes over all copies, on these topics."""
    of_edge = np.repeat(np.arange(workload.topic_count), trees.edge_counts)
    is_counted = np.isin(of_edge, topics)
    key = of_edge.astype(np.int64) * workload.node_count + trees.node
    wanted = trees.members.rows.astype(np.int64) * workload.node_count + trees.members.columns
    rate = workload.rates[of_edge] * is_counted
    return float((rate * ~np.isin(key, wanted)).sum() / max(rate.sum(), 1e-12))


FIRST_PERCENT = (1, 2, 5, 10, 20, 50, 100)  # of the topics, the most popular first


def by_popularity(point: Point, seed: int) -> Mapping[str, float]:
    workload = workload_of(point, seed)
    own, plain = parameters_of(point)
    order = np.argsort(-workload.interests.transposed.lengths, kind="stable")
    values: dict[str, float] = {}
    for name, trees in (
        ("magnet", SYSTEM.plan(workload, own, seed).trees),
        ("strawman", UNIFORM.plan(workload, plain, seed).trees),
    ):
        for percent in FIRST_PERCENT:
            first = order[: max(1, workload.topic_count * percent // 100)]
            values[f"{name}_first_{percent}"] = _relay_share(trees, workload, first)
    values["reduced"] = values["magnet_first_100"] - values["strawman_first_100"]
    return values


# --- Figure 7 ---


POPULARITIES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # subscribers of a topic


def popularity_exponent(point: Point, seed: int) -> Mapping[str, float]:
    """How steeply the complementary distribution of topic popularity falls on a doubly logarithmic plot.

    The slope of the line through it from the median on, as one draws such a line; and the maximum likelihood exponent
    of the density there, which follows the many topics around the median rather than the tail.
    """
    sizes = workload_of(point, seed).interests.transposed.lengths
    least = max(2, int(np.median(sizes[sizes > 0])))
    tail = np.sort(sizes[sizes >= least])
    at = np.arange(least, tail[-1] + 1)
    reaching = len(tail) - np.searchsorted(tail, at)
    slope = float(np.polyfit(np.log(at), np.log(reaching), 1)[0]) if len(at) > 1 else 0.0
    likelihood = 1 + len(tail) / float(np.log(tail / (least - 0.5)).sum())
    sized = {f"reached_{size}": float(np.mean(sizes >= size)) for size in POPULARITIES}
    return {"slope": -slope, "likelihood_exponent": likelihood, "largest": float(tail[-1]), **sized}


# --- the protocol: a tenth crashes ---


def crash_a_tenth(point: Point, seed: int) -> Mapping[str, float]:
    workload = workload_of(point, seed)
    own, plain = parameters_of(point)
    system = {it.name: it for it in (SYSTEM, UNIFORM, INTEREST_RING)}[str(point["system"])]
    parameters = plain if system is UNIFORM else own
    simulation = Simulation(system, parameters, slices(system.plan(workload, parameters, seed)), seed)
    simulation.start()
    subscribe_all(simulation, workload.attachment, workload.interests)
    simulation.settle(5.0, 10_000.0)
    joins = simulation.book.sent.copy()
    for node in Random(seed).sample(range(workload.node_count), workload.node_count // 10):
        for topic in list(simulation.book.wanting[node]):
            simulation.unsubscribe(node, topic)
        simulation.inject(Crash(simulation.now_s, node))
    simulation.run_until(simulation.now_s + 480)
    simulation.settle(65.0, 10_000.0)
    repair = simulation.book.sent - joins
    publisher = next(node for node in range(workload.node_count) if simulation.is_up(node))
    for topic in sorted(simulation.book.audience):
        simulation.publish(publisher, topic)
    owed = simulation.book.tally.owed
    simulation.run_until(simulation.now_s + 60)
    subscriptions = float(workload.interests.pair_count)
    return {
        "missed_share": len(simulation.book.missing()) / max(owed, 1),
        "join_messages": joins[Traffic.SUBSCRIPTION] / subscriptions,
        "tree_repair_messages": repair[Traffic.SUBSCRIPTION] / subscriptions,
        "ring_repair_messages": repair[Traffic.OVERLAY] / workload.node_count,
    }


# --- claims ---


def rises(values: list[float]) -> bool:
    """From each point to the next but for the noise of one seed."""
    return all(later > earlier - 0.01 for earlier, later in pairwise(values))


def falls(values: list[float]) -> bool:
    return rises([-value for value in values])


def ours_is_better(rows: Sequence[Row]) -> list[float]:
    """1 for each seed in which the order by likeness saves more than Magnet's in all workloads."""
    found = {
        name: [
            (row.seed, row.point.get("modes"), row.values["saving"]) for row in rows if row.point["ordering"] == name
        ]
        for name in ("magnet", "likeness")
    }
    saved = {(seed, modes): value for seed, modes, value in found["magnet"]}
    seeds = sorted({seed for seed, _, _ in found["likeness"]})
    return [
        float(all(value > saved[seed, modes] for at, modes, value in found["likeness"] if at == seed)) for seed in seeds
    ]


def better_with_rates(rows: Sequence[Row]) -> list[float]:
    """Over all correlations of a seed, the mean saving with power-law rates exceeds that with equal ones."""
    marks = []
    for own in by_seed(rows):
        equal, uneven = (per_seed(own, "saving", rates=rates) for rates in ("constant", "power-law"))
        marks.append(float(np.mean(uneven) > np.mean(equal)))
    return marks
