"""An auction from start to end: the layout that makes passes fast, who publishes what, and how p falls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.placement import auction
from coterie.kernels.placement.auction import Bytes, ClientRows, Costs, Layer, Room, Singles, Whereabouts
from coterie.kernels.placement.books import DUST, Floats
from coterie.kernels.placement.problem import Problem
from coterie.kernels.rings.chord import Index, Offset

Schedule = Sequence[tuple[float, int]]  # (p, passes)
CACHE_LINE = 64
GROWING = 0.9  # p at which clients join


@dataclass(frozen=True)
class Manner:
    """How p falls, where brokers begin to grow dear between the mean and the limit, and how fast."""

    schedule: Schedule
    soft: float = 0.7
    learning: float = 0.05
    growing: float = 0.05  # of the learning, while clients join: dear too early scatters them for good


FALL: Schedule = ((0.6, 3), (0.5, 2), (0.4, 3), (0.3, 2), (0.2, 2), (0.1, 2))
QUICK = Manner((*FALL, (0.0, 3)))
CAREFUL = Manner((*FALL, (0.0, 1), (0.5, 2), (0.3, 2), (0.1, 1), (0.0, 2)))
SLOW_FALL: Schedule = (*((round(0.05 * step, 2), 3) for step in range(19, 0, -1)), (0.0, 2))
THOROUGH = (Manner(SLOW_FALL, 0.7, 0.01, 0.25), Manner(SLOW_FALL, 0.85, 0.01, 0.25))
FROM_PRESENT = Manner(((0.4, 1), (0.2, 2), (0.05, 1), (0.0, 2)))


@dataclass(frozen=True, eq=False)
class Zones:
    """Where brokers are, what a copy across costs besides, and what a client pays for leaving the zone it is in."""

    zone_of: Index
    crossing: float
    away: Floats  # by client; infinite: it may not

    @property
    def count(self) -> int:
        return int(self.zone_of.max(initial=0)) + 1


@dataclass(frozen=True, eq=False)
class Present:
    """Where clients are (-1: nowhere yet), and what moving one costs, in events."""

    node_of: Index
    move_price: float = 0.0


@dataclass(frozen=True, eq=False)
class Layout:
    """Clients in the order of visits and topics by popularity."""

    order: Offset  # client at each place
    rank: Index  # of each topic
    clients: ClientRows
    rate: Singles
    unit: Floats  # by dimension: what weights were multiplied with

    @classmethod
    def of(
        cls, problem: Problem, rank: Index, draw: np.random.Generator,
        present: Present | None = None, zones: Zones | None = None, unit: Floats | None = None,
    ) -> Layout:  # fmt: skip
        # Who wants nothing joins last: publishers follow the wishes.
        shuffled = draw.permutation(problem.client_count)
        lengths = np.diff(problem.indptr)
        order = np.concatenate([shuffled[lengths[shuffled] > 0], shuffled[lengths[shuffled] == 0]])
        indptr, topics = ranked_rows(problem.indptr, problem.topics, rank, problem.rate > 0, order)
        unit = unit_of(problem) if unit is None else unit
        home = present.node_of[order].astype(np.int32) if present is not None else np.zeros(0, np.int32)
        away = zones.away[order].astype(np.float32) if zones is not None else np.zeros(0, np.float32)
        said = said_rows(problem, order, rank, indptr, topics)
        rate = np.zeros(len(problem.rate), np.float32)
        rate[rank] = problem.rate
        clients = ClientRows(indptr, topics, *said, problem.weight[order] * unit, home, away)
        return cls(order, rank, clients, rate, unit)


def ranks(problem: Problem) -> Index:
    """Topics numbered by popularity."""
    rank = np.empty(len(problem.rate), np.int32)
    popularity = np.bincount(problem.topics, minlength=len(problem.rate))
    rank[np.argsort(-popularity, kind="stable")] = np.arange(len(rank), dtype=np.int32)
    return rank


def unit_of(problem: Problem) -> Floats:
    """By dimension, what makes the mean weight of a client the mean number of its wishes."""
    return np.asarray(max(len(problem.topics), 1) / np.maximum(problem.weight.sum(axis=0), 1e-30))


@kernel
def ranked_rows(
    indptr: Offset, topics: Index, rank: Index, is_heard: NDArray[np.bool_], order: Offset
) -> tuple[Offset, Index]:
    """Wishes row by row in the order of visits, topics by rank; what is never published is left out."""
    starts = np.zeros(len(order) + 1, np.int64)
    for at in range(len(order)):
        kept = 0
        for i in range(indptr[order[at]], indptr[order[at] + 1]):
            kept += is_heard[topics[i]]
        starts[at + 1] = starts[at] + kept
    laid = np.empty(starts[-1], np.int32)
    for at in range(len(order)):
        place = starts[at]
        for i in range(indptr[order[at]], indptr[order[at] + 1]):
            if is_heard[topics[i]]:
                laid[place] = rank[topics[i]]
                place += 1
    return starts, laid


def said_rows(
    problem: Problem, order: Offset, rank: Index, indptr: Offset, topics: Index
) -> tuple[Offset, Index, Singles, Bytes]:
    """Publications row by row in the order of visits, and whether the publisher wants them itself."""
    place = np.empty(problem.client_count, np.int64)
    place[order] = np.arange(problem.client_count)
    at, topic = place[problem.publisher], rank[problem.said_topic]
    by_place = np.argsort(at * len(rank) + topic, kind="stable")
    at, topic = at[by_place], topic[by_place]
    starts = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=problem.client_count))]).astype(np.int64)
    topic = topic.astype(np.int32)
    is_wanted = wanted_by_publisher(starts, topic, indptr, topics)
    return starts, topic, problem.said_rate[by_place].astype(np.float32), is_wanted


@kernel
def wanted_by_publisher(said_indptr: Offset, said_topics: Index, indptr: Offset, topics: Index) -> Bytes:
    """Row by row, because rows are short: to look all of them up at once took longer than a pass."""
    found = np.zeros(len(said_topics), np.uint8)
    for client in range(len(said_indptr) - 1):
        for i in range(said_indptr[client], said_indptr[client + 1]):
            for j in range(indptr[client], indptr[client + 1]):
                if topics[j] == said_topics[i]:
                    found[i] = 1
                    break
    return found


def layer_of(topic_count: int, columns: int, *, is_counted: bool) -> Layer:
    """Nobody anywhere yet; rows of bytes begin at cache lines where their length allows it."""
    raw = np.zeros(topic_count * columns + CACHE_LINE, np.uint8)
    begin = -raw.ctypes.data % CACHE_LINE
    shown = raw[begin : begin + topic_count * columns].reshape(topic_count, columns)
    entering = np.zeros((topic_count if is_counted else 0, columns), np.float32)
    return Layer(np.zeros((topic_count, columns), np.int32), shown, entering)


@kernel
def settle(clients: ClientRows, zone_of: Index, field: Whereabouts) -> None:
    """The books of where everybody is who is somewhere; bytes are not shown yet."""
    is_zoned, is_counted = field.far.counts.shape[1] > 0, field.near.entering.shape[0] > 0
    for client in range(len(field.part)):
        at = field.part[client]
        if at < 0:
            continue
        for i in range(clients.indptr[client], clients.indptr[client + 1]):
            field.near.counts[clients.topics[i], at] += 1
            if is_zoned:
                field.far.counts[clients.topics[i], zone_of[at]] += 1
        if is_counted:
            for i in range(clients.said_indptr[client], clients.said_indptr[client + 1]):
                field.near.entering[clients.said_topics[i], at] += clients.said_rate[i]
                if is_zoned:
                    field.far.entering[clients.said_topics[i], zone_of[at]] += clients.said_rate[i]
        for dimension in range(field.load.shape[1]):
            field.load[at, dimension] += clients.weight[client, dimension]


def room_of(problem: Problem, unit: Floats, soft: float, zones: Zones | None) -> Room:
    """Limits in the unit of the layout; the soft one lies between an even share and the hard one."""
    limit = problem.capacity * unit
    even = problem.weight.sum(axis=0) * unit * limit / np.maximum(limit.sum(axis=0), 1e-30)
    between = np.maximum(even + soft * np.maximum(limit - even, 0.0), 1e-12)
    zone_of = np.zeros(len(limit), np.int32) if zones is None else zones.zone_of.astype(np.int32)
    return Room(np.maximum(limit, 1e-12) * (1 + DUST / 2), between, zone_of)


def auctioned(
    problem: Problem,
    seed: int,
    manner: Manner = QUICK,
    start: Index | None = None,
    present: Present | None = None,
    zones: Zones | None = None,
) -> Index:
    """A broker for everybody: from `start` on (-1: nowhere yet), or from nothing. Same arguments, same result.

    Limits hold unless clients too heavy leave no room as they join; that is for the caller to look at.
    """
    draw = np.random.default_rng([seed, problem.client_count])
    layout = Layout.of(problem, ranks(problem), draw, present, zones)
    room = room_of(problem, layout.unit, manner.soft, zones)
    part = np.full(problem.client_count, -1, np.int32) if start is None else start[layout.order].astype(np.int32)
    is_counted, topics, dimensions = len(problem.publisher) > 0, len(problem.rate), problem.weight.shape[1]
    near = layer_of(topics, problem.broker_count, is_counted=is_counted)
    far = layer_of(topics, zones.count if zones is not None else 0, is_counted=is_counted)
    shape = (problem.broker_count, dimensions)
    field = Whereabouts(part, near, far, np.zeros(shape), np.zeros(shape, np.float32))
    settle(layout.clients, room.zone_of, field)
    _pass_all(layout, room, field, manner, draw, present, zones)
    found = np.empty(problem.client_count, np.int32)
    found[layout.order] = field.part
    return found


def _pass_all(
    layout: Layout,
    room: Room,
    field: Whereabouts,
    manner: Manner,
    draw: np.random.Generator,
    present: Present | None,
    zones: Zones | None,
) -> None:
    clients, rate = layout.clients, layout.rate
    crossing = zones.crossing if zones is not None else 0.0
    moving = present.move_price if present is not None else 0.0
    costs = Costs(rate, crossing, moving, manner.learning * 255.0 * mean_rate(layout))
    blocks = -(-len(field.part) // auction.BLOCK)
    placed = int(np.count_nonzero(field.part >= 0))
    if placed < len(field.part):
        tables = show_all(field, rate, GROWING)
        auction.grow(clients, room, field, costs._replace(step=costs.step * manner.growing), tables, placed)
    for smoothing, passes in manner.schedule:
        tables = show_all(field, rate, smoothing)
        for _ in range(passes):
            auction.sweep(clients, room, field, costs, tables, draw.permutation(blocks).astype(np.int32))


def mean_rate(layout: Layout) -> float:
    """Of a wish."""
    topics = layout.clients.topics
    return float(layout.rate[topics].mean(dtype=np.float64)) if len(topics) else 1.0


def show_all(field: Whereabouts, rate: Singles, smoothing: float) -> auction.Tables:
    """All bytes anew for this p."""
    tables = auction.tables_of(smoothing)
    for layer in (field.near, field.far):
        auction.show(layer, rate, tables)
    return tables
