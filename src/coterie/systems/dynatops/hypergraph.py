"""Placement beyond the paper: users to brokers as balanced hypergraph partitioning.

Minimises the sum over topics of rate x (brokers touched - 1), which is what every relay-free tree pays, with no broker
more than `imbalance` above the mean load (`kernels/placement`). Algorithm 1 with a view of all brokers and the static
placement are among the starts, so the result is never worse than leaving everybody where they are (as long as that is
balanced at all).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.placement import books
from coterie.kernels.placement.books import Seats
from coterie.kernels.placement.limits import Limits, limits_of
from coterie.kernels.placement.problem import Problem
from coterie.kernels.placement.search import MOVES
from coterie.kernels.placement.solve import Solver
from coterie.model import Relation, Workload
from coterie.model.relation import Index
from coterie.systems.dynatops.placement import place_by_similarity

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PricedPlacement:
    """A placement and what it costs."""

    node_of: Index
    cost: float  # sum of rate x (brokers touched - 1)
    load: NDArray[np.int64]  # subscriptions held at each broker

    @classmethod
    def of(cls, seats: Seats, rates: Floats) -> PricedPlacement:
        return cls(seats.part, books.touched(seats.counts, rates), np.rint(seats.load[:, 0]).astype(np.int64))

    @property
    def imbalance(self) -> float:
        mean = float(self.load.mean())
        return float(self.load.max()) / mean - 1 if mean else 0.0


def subscription_limits(interests: Relation, broker_count: int, imbalance: float) -> Limits:
    """The paper's load is the number of subscriptions; a broker may have so much more than the mean."""
    return limits_of(interests.lengths.astype(np.float64)[:, None], np.ones((broker_count, 1)), np.array([imbalance]))


def partition_of(interests: Relation, rates: Floats, node_of: Index, broker_count: int) -> PricedPlacement:
    crowd = books.crowd_of(interests.indptr, interests.columns)
    return PricedPlacement.of(books.seats_of(crowd, node_of, interests.column_count, broker_count), rates)


def partitioned(workload: Workload, imbalance: float, seed: int) -> PricedPlacement:
    """The best of searches from nothing, from Algorithm 1 without clusters, and from the given placement.

    Growing gathers topics that come in groups; Algorithm 1 with a view of all brokers is the better start where
    interests have no groups.
    """
    interests, rates, brokers = workload.interests, workload.rates, workload.node_count
    limits = subscription_limits(interests, brokers, imbalance)
    problem = Problem.of(interests.indptr, interests.columns, rates, limits.weight, limits.capacity)
    gathered = place_by_similarity(workload, brokers, load_weight=1.0, rounds=2)
    starts = [(gathered, MOVES[2:]), (workload.attachment, MOVES[-1:]), (workload.attachment, ())]
    return partition_of(interests, rates, Solver(problem, limits.packed, seed).scratch(starts), brokers)
