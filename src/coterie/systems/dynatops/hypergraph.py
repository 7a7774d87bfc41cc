"""Placement beyond the paper: users to brokers as balanced hypergraph partitioning.

Minimises the sum over topics of rate x (brokers touched - 1), which is what every relay-free tree pays, with no broker
more than `imbalance` above the mean load. Users first move one by one from several starts, the static placement among
them, so the result is never worse than leaving everybody where they are (as long as that is balanced at all). The best
one is then improved by exchanges and by cycles in which groups of like users move together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels import fanout
from coterie.kernels.fanout import Seats
from coterie.kernels.fanout_search import MOVES, Search
from coterie.model import Relation, Workload
from coterie.model.relation import Index
from coterie.systems.dynatops.placement import place_by_similarity

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Partition:
    """A placement and what it costs."""

    node_of: Index
    cost: float  # sum of rate x (brokers touched - 1)
    load: NDArray[np.int64]  # subscriptions held at each broker

    @classmethod
    def of(cls, seats: Seats, rates: Floats) -> Partition:
        return cls(seats.part, fanout.touched(seats.counts, rates), seats.load)

    @property
    def imbalance(self) -> float:
        mean = float(self.load.mean())
        return float(self.load.max()) / mean - 1 if mean else 0.0


def capacity_of(interests: Relation, broker_count: int, imbalance: float) -> int:
    return fanout.capacity_of(interests.pair_count, int(interests.lengths.max(initial=0)), broker_count, imbalance)


def search_of(interests: Relation, rates: Floats, broker_count: int, imbalance: float, seed: int) -> Search:
    crowd = fanout.crowd_of(interests.indptr, interests.columns)
    capacity = capacity_of(interests, broker_count, imbalance)
    return Search(crowd, rates, broker_count, capacity, np.random.default_rng(seed))


def partition_of(interests: Relation, rates: Floats, node_of: Index, broker_count: int) -> Partition:
    crowd = fanout.crowd_of(interests.indptr, interests.columns)
    return Partition.of(fanout.seats_of(crowd, node_of, interests.column_count, broker_count), rates)


def partitioned(workload: Workload, imbalance: float, seed: int) -> Partition:
    """The best of local searches from a grown placement, from Algorithm 1 without clusters, and from the given one.

    Growing gathers topics that come in groups; Algorithm 1 with a view of all brokers is the better start where
    interests have no groups.
    """
    search = search_of(workload.interests, workload.rates, workload.node_count, imbalance, seed)
    gathered = place_by_similarity(workload, workload.node_count, load_weight=1.0, rounds=2)
    starts = ((search.grown(), MOVES), (gathered, MOVES[2:]), (workload.attachment, MOVES[-1:]))
    found = [search.refined(start, schedule) for start, schedule in starts]
    given = search.seats(workload.attachment)
    fitting = [seats for seats in [*found, given] if seats.load.max() <= search.capacity]
    return Partition.of(search.improved(min(fitting or found, key=search.cost)), workload.rates)
