"""Placement beyond the paper: users to brokers as balanced hypergraph partitioning.

Minimises the sum over topics of rate x (brokers touched - 1), which is what every relay-free tree pays, with no broker
more than `imbalance` above the mean load. Starts from several places, the static placement among them, so the result
is never worse than leaving everybody where they are (as long as that is balanced at all).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels import fanout
from coterie.model import Relation, Workload
from coterie.model.relation import Index
from coterie.systems.dynatops.placement import place_by_similarity

SCHEDULE = ((0.9, 3), (0.7, 4), (0.5, 6), (0.3, 4), (0.1, 3), (0.0, 4))  # (smoothing, sweeps)


@dataclass(frozen=True, eq=False)
class Partition:
    """A placement and what it costs."""

    node_of: Index
    cost: float  # sum of rate x (brokers touched - 1)
    load: NDArray[np.int64]  # subscriptions held at each broker

    @property
    def imbalance(self) -> float:
        mean = float(self.load.mean())
        return float(self.load.max()) / mean - 1 if mean else 0.0


def capacity_of(interests: Relation, broker_count: int, imbalance: float) -> int:
    """Subscriptions a broker may hold; never less than the largest user needs to fit on top of the mean."""
    mean = interests.pair_count / broker_count
    return max(int(mean * (1 + imbalance)), int(np.ceil(mean)) + int(interests.lengths.max(initial=0)))


def partition_of(interests: Relation, rates: NDArray[np.float64], node_of: Index, broker_count: int) -> Partition:
    counts = fanout.pin_counts(interests.indptr, interests.columns, node_of, interests.column_count, broker_count)
    load = np.bincount(node_of, interests.lengths, broker_count).astype(np.int64)
    return Partition(node_of, fanout.touched(counts, rates), load)


def refined(
    interests: Relation,
    rates: NDArray[np.float64],
    start: Index,
    broker_count: int,
    imbalance: float,
    seed: int,
    schedule: tuple[tuple[float, int], ...] = SCHEDULE,
) -> Partition:
    """Local search from a placement, smoothing first; the exact objective decides in the end."""
    draw = np.random.default_rng(seed)
    part = start.astype(np.int32).copy()
    counts = fanout.pin_counts(interests.indptr, interests.columns, part, interests.column_count, broker_count)
    load = np.bincount(part, interests.lengths, broker_count).astype(np.int64)
    capacity = capacity_of(interests, broker_count, imbalance)
    for smoothing, sweeps in schedule:
        table = fanout.powers(smoothing)
        for _ in range(sweeps):
            order = draw.permutation(len(part)).astype(np.int32)
            moved = fanout.sweep(interests.indptr, interests.columns, rates, part, counts, load, capacity, table, order)
            if moved * 1000 < len(part):
                break
    return Partition(part, fanout.touched(counts, rates), load)


def grown(interests: Relation, rates: NDArray[np.float64], broker_count: int, imbalance: float, seed: int) -> Index:
    order = np.random.default_rng(seed).permutation(interests.row_count).astype(np.int32)
    capacity = capacity_of(interests, broker_count, imbalance)
    shape = (broker_count, interests.column_count)
    return fanout.grow(interests.indptr, interests.columns, rates, order, *shape, capacity, fanout.powers(0.9))


def partitioned(workload: Workload, imbalance: float, seed: int) -> Partition:
    """The best of local searches from a grown placement, from Algorithm 1 without clusters, and from the given one.

    Growing gathers topics that come in groups; Algorithm 1 with a view of all brokers is the better start where
    interests have no groups.
    """
    interests, rates, brokers = workload.interests, workload.rates, workload.node_count
    gathered = place_by_similarity(workload, brokers, load_weight=1.0, rounds=2)
    starts = (
        (grown(interests, rates, brokers, imbalance, seed), SCHEDULE),
        (gathered, SCHEDULE[2:]),
        (workload.attachment, SCHEDULE[-1:]),
    )
    found = [refined(interests, rates, start, brokers, imbalance, seed, schedule) for start, schedule in starts]
    given = partition_of(interests, rates, workload.attachment, brokers)
    limit = capacity_of(interests, brokers, imbalance)
    fitting = [partition for partition in [*found, given] if partition.load.max() <= limit]
    return min(fitting or found, key=lambda partition: partition.cost)
