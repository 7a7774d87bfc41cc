"""Clients to nodes: the fewest copies between nodes, publishers counted, within what every node may hold.

An event is copied to every node that wants its topic but the one where it enters. A node's room has three dimensions:
connections, and messages and bytes per second that it handles for its clients (publications in, deliveries out). Each
may be so much above the mean (or above the node's share, where capacities are given), and no more; if a single client
makes that impossible, the result names it. Across zones copies cost what `Zoning` says, one to each zone that wants
them; nobody leaves its zone unless that is allowed, and then it is paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.placement.limits import Heaviest, limits_of
from coterie.kernels.placement.moves import Moved
from coterie.kernels.placement.passes import Present, Zones
from coterie.kernels.placement.problem import Problem
from coterie.kernels.placement.solve import Solver, Start
from coterie.kernels.placement.zoned import Crossed
from coterie.model import Workload
from coterie.model.prices import GB, Prices
from coterie.model.relation import Index

Floats = NDArray[np.float64]
DIMENSIONS = ("connections", "messages per second", "bytes per second")


@dataclass(frozen=True)
class Balance:
    """How far above its share a node may be."""

    connections: float = 0.1
    messages: float = 0.3
    bytes: float = 0.5

    def __post_init__(self) -> None:
        for key in ("connections", "messages", "bytes"):
            if getattr(self, key) < 0:
                raise ConfigError(f"imbalance of {key}", getattr(self, key), "at least 0")

    @property
    def by_dimension(self) -> Floats:
        return np.array([self.connections, self.messages, self.bytes])


EVEN_ENOUGH = Balance()


@dataclass(frozen=True)
class Zoning:
    """What a copy to another zone costs besides, in copies inside one, and whether clients may leave their zone.

    A client outside its zone pays the same for everything it hears and says, unless it reaches all zones alike.
    """

    crossing: float = 0.0
    may_leave: bool = False
    is_outside: bool = False  # clients come from the internet: to them all zones are alike

    def __post_init__(self) -> None:
        if not 0 <= self.crossing < float("inf"):
            raise ConfigError("crossing", self.crossing, "what a copy between zones costs besides, at least 0")

    @classmethod
    def of(cls, prices: Prices, copy_bytes: float, *, may_leave: bool = False) -> Zoning:
        """By a price file, for copies of so many bytes."""
        inside = copy_bytes * prices.per_gb_inside_zone / GB + prices.per_million_messages / 1e6
        across = copy_bytes * (prices.per_gb_across_zones - prices.per_gb_inside_zone) / GB
        crossing = min(max(across, 0.0) / inside, CROSSING_MAX) if inside > 0 else CROSSING_MAX * (across > 0)
        return cls(crossing, may_leave, prices.clients == "internet")


CROSSING_MAX = 1000.0  # where copies inside a zone cost next to nothing
ONE_PRICE = Zoning()


@dataclass(frozen=True, eq=False)
class Placed:
    """Where everybody goes, copies per second between nodes before and after, and whether the limits hold."""

    node_of: Index
    copies_before: float
    copies: float
    moves: Index  # who changes nodes, in an order in which limits hold after every step, but for the last `crowding`
    load: Floats  # [node, dimension]
    capacity: Floats  # [node, dimension]
    heaviest: tuple[Heaviest, ...]  # clients because of which the stated imbalance cannot hold (one a zone at most)
    crowding: int = 0  # last moves for which no order was found in which they find room; 0 where moves are priced

    @property
    def hottest(self) -> Floats:
        """By dimension: the largest load as a multiple of the mean."""
        return np.asarray(self.load.max(axis=0) / np.maximum(self.load.mean(axis=0), 1e-30))


def client_weights(workload: Workload) -> Floats:
    """Of every client: one connection, and the messages and bytes per second that its node handles for it."""
    interests, publications, count = workload.interests, workload.publications, workload.subscriber_count
    volume = np.bincount(publications.topic, publications.rate * publications.size, workload.topic_count)
    columns: list[Floats] = [np.ones(count)]
    for by_topic, said in ((workload.rates, publications.rate), (volume, publications.rate * publications.size)):
        heard = by_topic[interests.columns]
        if workload.weights is not None:
            heard = heard * workload.weights
        columns.append(
            np.bincount(interests.rows, heard, count).astype(np.float64)
            + np.bincount(publications.publisher, said, count)
        )
    return np.stack(columns, axis=1)


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
    zoning: Zoning = ONE_PRICE,
) -> Placed:
    """From scratch, or from `present` at a price for every move, in copies per second (0: scratch, names kept).

    `present` (by default the workload's attachment) is -1 for whom it does not know. `shares` [node, dimension] are
    relative capacities. `starts` are placements worth improving. Nobody leaves the zone of its attachment, unless
    clients may be anywhere or `zoning` lets them.
    """
    now = workload.attachment if present is None else present.astype(np.int32)
    weight = client_weights(workload)
    even = np.ones((workload.node_count, weight.shape[1])) if shares is None else shares
    whole = problem_of(workload, weight, even)
    node_of, capacity = now.copy(), np.zeros(even.shape)
    moves, late, heaviest = list[Index](), list[Index](), list[Heaviest]()
    for clients, nodes in regions_of(workload, zoning):
        limits = limits_of(weight[clients], even[nodes], balance.by_dimension)
        part = replace(whole.among(clients, nodes), weight=limits.weight, capacity=limits.capacity)
        solver = Solver(part, limits.packed, seed)
        here = local_nodes(now[clients], nodes, workload.node_count)
        begun = [(local_nodes(start[clients], nodes, workload.node_count), schedule) for start, schedule in starts]
        left = None if moves_max is None else moves_max - sum(map(len, moves))
        found = _across(workload, balance, solver, Present(here, move_price), zoning, nodes, left)
        if found is None and (move_price > 0 or moves_max is not None):
            found = solver.moved(Present(here, move_price), left)
        if found is None:
            worth_it = [one for one in begun if (one[0] >= 0).all()] + _gathered(solver, limits.heavy)
            found = solver.in_order(here, solver.renewed(here, worth_it))
        node_of[clients] = nodes[found.part]
        moves.append(clients[found.order].astype(np.int32))
        left_over = np.setdiff1d(np.flatnonzero(found.part != here), found.order)
        late.append(clients[left_over].astype(np.int32))
        capacity[nodes] = limits.capacity
        if limits.heaviest is not None:
            heaviest.append(replace(limits.heaviest, client=int(clients[limits.heaviest.client])))
    load = np.zeros(even.shape)
    np.add.at(load, node_of, weight)
    known = np.where(now >= 0, now, node_of).astype(np.int32)
    before, after, order = whole.copies(known), whole.copies(node_of), np.concatenate([*moves, *late])
    return Placed(node_of, before, after, order, load, capacity, tuple(heaviest), sum(map(len, late)))


def _gathered(solver: Solver, heavy: NDArray[np.int64]) -> list[Start]:
    """All who are too heavy for any node (dashboards that want everything) at one: no single move leads there."""
    if len(heavy) < 2:
        return []
    joined, new = solver.problem.joined(heavy)
    packed = np.zeros(joined.client_count, np.int32)
    packed[new] = solver.packed
    part = Solver(joined, packed, solver.seed).scratch()
    return [(part[new].astype(np.int32), ())]


def _across(
    workload: Workload, balance: Balance, solver: Solver, present: Present, zoning: Zoning, nodes: NDArray[np.int64],
    moves_max: int | None,
) -> Moved | None:  # fmt: skip
    """Zones that clients may be placed across, where a copy from one to another costs more; None: there are none."""
    zone_of = workload.zone_of
    if zone_of is None or zoning.crossing == 0 or len(nodes) < workload.node_count or len(np.unique(zone_of)) < 2:
        return None
    away = zoning.crossing * client_weights(workload)[:, 1]
    if workload.is_anywhere or zoning.is_outside:
        away[:] = 0.0
    away[present.node_of < 0] = 0.0
    here = np.where(present.node_of >= 0, present.node_of, solver.packed).astype(np.int32)
    zones = Zones(zone_of.astype(np.int32), zoning.crossing, away)
    starts = () if workload.is_anywhere else (placed(workload, balance, solver.seed).node_of,)  # nobody leaves
    crossed = Crossed(solver.problem, zones, replace(present, node_of=here), solver.packed, solver.seed, starts)
    if present.move_price > 0 or moves_max is not None:
        return crossed.moved(moves_max)
    return solver.in_order(present.node_of, crossed.solved())


def regions_of(workload: Workload, zoning: Zoning) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Clients and nodes zone by zone; all together where there are none or where they may be left."""
    if workload.zone_of is None or workload.is_anywhere or zoning.may_leave:
        return [(np.arange(workload.subscriber_count), np.arange(workload.node_count))]
    of_client = workload.zone_of[workload.attachment]
    return [
        (np.flatnonzero(of_client == zone), np.flatnonzero(workload.zone_of == zone))
        for zone in range(int(workload.zone_of.max()) + 1)
        if (workload.zone_of == zone).any()
    ]


def local_nodes(node_of: Index, nodes: NDArray[np.int64], node_count: int) -> Index:
    """Nodes by their number inside the region; -1 for those outside."""
    number = np.full(node_count + 1, -1, np.int32)
    number[nodes] = np.arange(len(nodes), dtype=np.int32)
    return number[node_of]
