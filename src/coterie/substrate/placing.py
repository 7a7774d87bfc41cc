"""Clients to nodes: the fewest copies between nodes, publishers counted, within what every node may hold.

An event is copied to every node that wants its topic but the one where it enters. A node's room has two dimensions:
connections, and messages per second that it handles for its clients (their publications in, their deliveries out).
Either may be so much above the mean (or above the node's share, where capacities are given), and no more; if a single
client makes that impossible, the result names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.placement.limits import Heaviest, limits_of
from coterie.kernels.placement.passes import Present
from coterie.kernels.placement.problem import Problem
from coterie.kernels.placement.solve import Solver, Start
from coterie.model import Workload
from coterie.model.relation import Index

Floats = NDArray[np.float64]
DIMENSIONS = ("connections", "messages per second")


@dataclass(frozen=True)
class Balance:
    """How far above its share a node may be."""

    connections: float = 0.1
    messages: float = 0.3

    def __post_init__(self) -> None:
        for key in ("connections", "messages"):
            if getattr(self, key) < 0:
                raise ConfigError(f"imbalance of {key}", getattr(self, key), "at least 0")

    @property
    def by_dimension(self) -> Floats:
        return np.array([self.connections, self.messages])


EVEN_ENOUGH = Balance()


@dataclass(frozen=True, eq=False)
class Placed:
    """Where everybody goes, copies per second between nodes before and after, and whether the limits hold."""

    node_of: Index
    copies_before: float
    copies: float
    moves: Index  # who changes nodes, in an order in which limits hold after every step
    load: Floats  # [node, dimension]
    capacity: Floats  # [node, dimension]
    heaviest: tuple[Heaviest, ...]  # clients because of which the stated imbalance cannot hold (one a zone at most)

    @property
    def hottest(self) -> Floats:
        """By dimension: the largest load as a multiple of the mean."""
        return np.asarray(self.load.max(axis=0) / np.maximum(self.load.mean(axis=0), 1e-30))


def client_weights(workload: Workload) -> Floats:
    """Of every client: one connection, and the messages per second that its node handles for it."""
    interests, publications = workload.interests, workload.publications
    delivered = workload.rates[interests.columns]
    if workload.weights is not None:
        delivered = delivered * workload.weights
    out = np.bincount(interests.rows, delivered, workload.subscriber_count)
    coming = np.bincount(publications.publisher, publications.rate, workload.subscriber_count)
    return np.stack([np.ones(workload.subscriber_count), out + coming], axis=1)


def problem_of(workload: Workload, weight: Floats, capacity: Floats) -> Problem:
    interests, publications = workload.interests, workload.publications
    rows = (publications.publisher, publications.topic, publications.rate)
    return Problem(interests.indptr, interests.columns, workload.rates, weight, capacity, *rows)


def placed(
    workload: Workload,
    balance: Balance = EVEN_ENOUGH,
    seed: int = 0,
    *,
    present: Index | None = None,
    move_price: float = 0.0,
    moves_max: int | None = None,
    shares: Floats | None = None,
    starts: Sequence[Start] = (),
) -> Placed:
    """From scratch, or from `present` at a price for every move, in copies per second (0: scratch, names kept).

    `present` (by default the workload's attachment) is -1 for whom it does not know. `shares` [node, dimension] are
    relative capacities. `starts` are placements worth improving. Nobody leaves the zone of its
    attachment, unless clients may be anywhere.
    """
    now = workload.attachment if present is None else present.astype(np.int32)
    weight = client_weights(workload)
    even = np.ones((workload.node_count, weight.shape[1])) if shares is None else shares
    whole = problem_of(workload, weight, even)
    node_of, capacity = now.copy(), np.zeros(even.shape)
    moves, heaviest = list[Index](), list[Heaviest]()
    for clients, nodes in _regions(workload):
        limits = limits_of(weight[clients], even[nodes], balance.by_dimension)
        part = replace(whole.among(clients, nodes), weight=limits.weight, capacity=limits.capacity)
        solver = Solver(part, limits.packed, seed)
        here = _local(now[clients], nodes, workload.node_count)
        begun = [(_local(start[clients], nodes, workload.node_count), schedule) for start, schedule in starts]
        if move_price > 0 or moves_max is not None:
            left = None if moves_max is None else moves_max - sum(map(len, moves))
            found = solver.moved(Present(here, move_price), left)
            node_of[clients] = nodes[found.part]
            moves.append(clients[found.order].astype(np.int32))
        else:
            node_of[clients] = nodes[solver.renewed(here, [one for one in begun if (one[0] >= 0).all()])]
            moves.append(clients[node_of[clients] != now[clients]].astype(np.int32))
        capacity[nodes] = limits.capacity
        if limits.heaviest is not None:
            heaviest.append(replace(limits.heaviest, client=int(clients[limits.heaviest.client])))
    load = np.zeros(even.shape)
    np.add.at(load, node_of, weight)
    known = np.where(now >= 0, now, node_of).astype(np.int32)
    return Placed(
        node_of, whole.copies(known), whole.copies(node_of), np.concatenate(moves), load, capacity, tuple(heaviest)
    )


def _regions(workload: Workload) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Clients and nodes zone by zone; all together where there are none."""
    if workload.zone_of is None or workload.is_anywhere:
        return [(np.arange(workload.subscriber_count), np.arange(workload.node_count))]
    of_client = workload.zone_of[workload.attachment]
    return [
        (np.flatnonzero(of_client == zone), np.flatnonzero(workload.zone_of == zone))
        for zone in range(int(workload.zone_of.max()) + 1)
        if (workload.zone_of == zone).any()
    ]


def _local(node_of: Index, nodes: NDArray[np.int64], node_count: int) -> Index:
    """Nodes by their number inside the region; -1 for those outside."""
    number = np.full(node_count + 1, -1, np.int32)
    number[nodes] = np.arange(len(nodes), dtype=np.int32)
    return number[node_of]
