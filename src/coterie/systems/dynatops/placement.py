"""Users to brokers: Algorithm 1 with clusters of brokers, at the start and on every subscription change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.placement import books, joining
from coterie.kernels.placement.books import Seats
from coterie.kernels.placement.joining import Population
from coterie.kernels.placement.swaps import swap_sweep
from coterie.model import Change, Relation, Timeline, Workload
from coterie.model.relation import Index

POLICIES = {
    "static": joining.STATIC,
    "similarity": joining.SIMILARITY,
    "location": joining.LOCATION,
    "fanout": joining.FANOUT,
}

LOOK_PARTS = 4  # fan-out policy: a part of the users is looked over in each update


@dataclass(frozen=True, eq=False)
class Clusters:
    """Brokers that tell each other their state; users are placed inside one."""

    brokers: Relation  # cluster -> brokers
    cluster_of: Index

    @classmethod
    def of_size(cls, broker_count: int, size: int, coordinates: NDArray[np.float64] | None = None) -> Clusters:
        """Clusters of `size` by address, or of neighbours in the plane where coordinates are known."""
        order = np.arange(broker_count) if coordinates is None else _nearby_order(coordinates, size)
        cluster_count = max(1, round(broker_count / size))
        cluster_of = np.empty(broker_count, np.int32)
        cluster_of[order] = np.arange(broker_count) * cluster_count // broker_count
        brokers = Relation.from_pairs(cluster_of, np.arange(broker_count), cluster_count, broker_count)
        return cls(brokers, cluster_of)

    @property
    def messages_per_update(self) -> int:
        """Every broker tells every other one of its cluster."""
        sizes = self.brokers.lengths
        return int((sizes * (sizes - 1)).sum())


def _nearby_order(coordinates: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Brokers in strips of one axis, each strip along the other: neighbours in the order are near in the plane."""
    count = len(coordinates)
    strips = max(1, round(np.sqrt(count / size)))
    strip = np.empty(count, np.int64)
    strip[np.argsort(coordinates[:, 0], kind="stable")] = np.arange(count) * strips // count
    return np.lexsort([coordinates[:, 1], strip])


def population(workload: Workload, width: int = 0) -> Population:
    """Nobody placed yet; `width` is room for topics per user beyond what they hold now."""
    interests = workload.interests
    lengths = interests.lengths
    held = np.full((workload.subscriber_count, max(width, int(lengths.max(initial=1)))), -1, np.int32)
    place = np.arange(interests.pair_count) - np.repeat(interests.indptr[:-1], lengths)
    held[interests.rows, place] = interests.columns
    brokers, topics = workload.node_count, workload.topic_count
    return Population(
        held,
        np.full(workload.subscriber_count, -1, np.int32),
        workload.attachment.copy(),
        np.zeros((brokers, topics), np.int32),
        np.zeros(brokers, np.int64),
        np.zeros((brokers, topics), np.uint8),
        np.zeros(brokers, np.int64),
    )


def settle_at(users: Population, node_of: Index) -> None:
    """Put everybody where this says."""
    users.counts[:] = 0
    users.load[:] = 0
    rows, places = np.nonzero(users.held >= 0)
    np.add.at(users.counts, (node_of[rows], users.held[rows, places]), 1)
    np.add.at(users.load, node_of[rows], 1)
    users.node_of[:] = node_of
    joining.exchange(users)


def join_all(
    users: Population, clusters: Clusters, load_weight: float, joins_per_update: int, rounds: int, whole: float = 0.0
) -> None:
    """Algorithm 1 for everybody, in order of their numbers; `whole` as in `joining.choose`."""
    order = np.arange(len(users.node_of), dtype=np.int32)
    brokers = clusters.brokers
    for _ in range(rounds):
        joining.join_all(
            users,
            order,
            brokers.indptr,
            brokers.columns,
            clusters.cluster_of,
            float(load_weight),
            joins_per_update,
            float(whole),
        )
    joining.exchange(users)


def place_by_similarity(
    workload: Workload, cluster_size: int, load_weight: float, joins_per_update: int = 1, rounds: int = 1
) -> Index:
    users = population(workload)
    clusters = Clusters.of_size(workload.node_count, cluster_size, workload.coordinates)
    join_all(users, clusters, load_weight, joins_per_update, rounds)
    return users.node_of


@dataclass
class TimelineStep:
    """What one step of a timeline did: users that changed brokers, and what brokers took up (+1) and gave up (-1)."""

    handovers: int
    broker: Index
    topic: Index
    sign: NDArray[np.int8]
    cluster_messages: int = 0

    @property
    def change_count(self) -> int:
        return len(self.broker)


@dataclass
class Follower:
    """Applies a timeline step by step under one placement policy."""

    timeline: Timeline
    users: Population
    clusters: Clusters
    policy: str
    load_weight: float
    update_s: float
    handover_price: float = 0.25 / 60  # fan-out policy: smoothed events per second that a handover must save
    room: float = 1.03  # fan-out policy: the largest load as a multiple of the mean
    whole: float = 0.0  # similarity: what L_b is a share of, if not of the cluster's mean
    _next: int = 0
    _updated_s: float = field(default=0.0)
    _turn: int = 0

    def advance(self, until_s: float) -> TimelineStep:
        """Everything up to and including this moment."""
        timeline = self.timeline
        end = int(np.searchsorted(timeline.time_s, until_s, side="right"))
        part = slice(self._next, end)
        kinds = timeline.change[part]
        about_users = (kinds <= Change.UNSUBSCRIBE) | (kinds == Change.MOVE)
        brokers = self.clusters.brokers
        handovers, broker, topic, sign = joining.change_all(
            self.users,
            kinds[about_users],
            timeline.who[part][about_users],
            timeline.what[part][about_users],
            POLICIES[self.policy],
            brokers.indptr,
            brokers.columns,
            self.clusters.cluster_of,
            float(self.load_weight),
            self.timeline.start.rates,
            float(self.handover_price),
            float(self.room),
            float(self.whole),
        )
        self._next = end
        return self._update(until_s, TimelineStep(int(handovers), broker, topic, sign))

    def _update(self, now_s: float, step: TimelineStep) -> TimelineStep:
        """Once per T_update (as often as we look) brokers exchange state, or ours are looked over as a whole."""
        updates = int((now_s - self._updated_s) // self.update_s)
        self._updated_s += updates * self.update_s
        if updates and self.policy == "similarity":
            joining.exchange(self.users)
            return replace(step, cluster_messages=updates * self.clusters.messages_per_update)
        if updates and self.policy == "fanout":
            return self._look_over(step)
        return step

    def _look_over(self, step: TimelineStep) -> TimelineStep:
        """A part of the users once more, alone and by exchange, where that saves the price of a handover."""
        users, rates = self.users, self.timeline.start.rates
        held = users.held >= 0
        indptr = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int64)
        crowd = books.crowd_of(indptr, users.held[held])
        nothing, load = np.zeros((0, len(users.load))), users.load.astype(np.float64)[:, None]
        seats = Seats(users.node_of.copy(), np.ascontiguousarray(users.counts.T), nothing, load)
        # Who changes must find room meanwhile: one largest user above the mean, however full brokers are.
        mean, largest = float(users.load.mean()), float(crowd.weight.max(initial=0.0))
        capacity = np.full_like(load, max(int(mean * self.room), int(np.ceil(mean)) + largest))
        table = books.powers(joining.SMOOTHING)
        order = np.arange(self._turn, len(users.node_of), LOOK_PARTS, dtype=np.int32)
        self._turn = (self._turn + 1) % LOOK_PARTS
        price = self.handover_price * (1 - joining.SMOOTHING)  # as `choose_by_fanout` counts, without that factor
        books.sweep(crowd, rates, seats, capacity, table, order, users.node_of, price)
        swap_sweep(crowd, rates, seats, capacity, table, order, price)
        change = (seats.counts.T > 0).astype(np.int8) - (users.counts > 0)
        broker, topic = (index.astype(np.int32) for index in np.nonzero(change))
        moved = int(np.count_nonzero(seats.part != users.node_of))
        settle_at(users, seats.part)
        return TimelineStep(
            step.handovers + moved,
            np.concatenate([step.broker, broker]),
            np.concatenate([step.topic, topic]),
            np.concatenate([step.sign, change[broker, topic]]),
        )

    def interests(self) -> Relation:
        """Broker -> topics as they are now."""
        rows, columns = np.nonzero(self.users.counts)
        return Relation.from_pairs(rows, columns, *self.users.counts.shape)
