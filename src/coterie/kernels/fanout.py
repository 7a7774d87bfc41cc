"""Users to brokers as hypergraph partitioning: topics are nets, and a topic costs its rate for every broker it touches.

The number of brokers touched changes only when the last user leaves or the first one comes, which gives local search
nothing to follow. So a broker with c users of a topic first counts 1 - smoothing^c, which rewards gathering them; the
smoothing falls to 0, where the count is exact (probabilistic fan-out). What moves is a user, or a group of users.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.rings import Index, Offset

Floats = NDArray[np.float64]
POWERS = 64  # counts from here on weigh nothing


class Crowd(NamedTuple):
    """Who is placed: users, or groups that move together, with the topics of each as CSR."""

    indptr: Offset
    topics: Index
    pins: Index  # users of the group behind each of its topics
    weight: Offset  # subscriptions of each


class Seats(NamedTuple):
    """Where they are; sweeps change all three in place."""

    part: Index  # broker of each
    counts: Index  # int32[p, b], users of a topic at a broker
    load: Offset  # subscriptions at each broker


def capacity_of(pair_count: int, largest: int, broker_count: int, imbalance: float) -> int:
    """Subscriptions a broker may hold; never less than the largest user needs to fit on top of the mean."""
    mean = pair_count / broker_count
    return max(int(mean * (1 + imbalance)), int(np.ceil(mean)) + largest)


def crowd_of(indptr: Offset, topics: Index) -> Crowd:
    """Users one by one."""
    return Crowd(indptr, topics, np.ones(len(topics), np.int32), np.diff(indptr).astype(np.int64))


def seats_of(crowd: Crowd, part: Index, topic_count: int, broker_count: int) -> Seats:
    """The books of a placement, on a copy of it."""
    own = part.astype(np.int32).copy()
    load = np.zeros(broker_count, np.int64)
    np.add.at(load, own, crowd.weight)
    return Seats(own, pin_counts(crowd, own, topic_count, broker_count), load)


@kernel
def pin_counts(crowd: Crowd, part: Index, topic_count: int, broker_count: int) -> Index:
    counts = np.zeros((topic_count, broker_count), np.int32)
    for user in range(len(part)):
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            counts[crowd.topics[i], part[user]] += crowd.pins[i]
    return counts


@kernel
def touched(counts: Index, rate: Floats) -> float:
    """Sum over topics of rate x (brokers touched - 1); topics nobody wants cost nothing."""
    total = 0.0
    for topic in range(len(rate)):
        brokers = np.count_nonzero(counts[topic])
        total += rate[topic] * max(brokers - 1, 0)
    return total


@kernel
def powers(smoothing: float) -> Floats:
    table = np.zeros(POWERS + 1)
    table[0] = 1.0
    for exponent in range(1, POWERS):
        table[exponent] = table[exponent - 1] * smoothing
    return table


@kernel
def joining_costs(
    crowd: Crowd, rate: Floats, counts: Index, table: Floats, user: int, here: int, score: Floats
) -> float:
    """Fill in what the user would cost at every broker; what leaving `here` saves is returned."""
    score[:] = 0.0
    saved = 0.0
    for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
        topic, pins = crowd.topics[i], crowd.pins[i]
        value = rate[topic] * (1.0 - table[min(pins, POWERS)])
        if here >= 0:
            saved += value * table[min(counts[topic, here] - pins, POWERS)]
        for broker in range(len(score)):
            score[broker] += value * table[min(counts[topic, broker], POWERS)]
    return saved


@kernel
def move(crowd: Crowd, seats: Seats, user: int, there: int) -> None:
    here = seats.part[user]
    for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
        seats.counts[crowd.topics[i], here] -= crowd.pins[i]
        seats.counts[crowd.topics[i], there] += crowd.pins[i]
    seats.load[here] -= crowd.weight[user]
    seats.load[there] += crowd.weight[user]
    seats.part[user] = there


@kernel
def sweep(crowd: Crowd, rate: Floats, seats: Seats, capacity: int, table: Floats, order: Index, price: float) -> int:
    """Everybody in turn goes where it costs least and there is room, if that saves `price`; returns how many moved."""
    load = seats.load
    score = np.empty(len(load))
    moved = 0
    for user in order:
        here, weight = seats.part[user], crowd.weight[user]
        saved = joining_costs(crowd, rate, seats.counts, table, user, here, score)
        best, best_score = here, saved - price - 1e-9
        if load[here] > capacity:
            best_score = np.inf  # too full: whoever comes up has to go where it costs least
        for broker in range(len(load)):
            if broker != here and score[broker] < best_score and load[broker] + weight <= capacity:
                best, best_score = broker, score[broker]
        if best != here:
            move(crowd, seats, user, best)
            moved += 1
    return moved


@kernel
def grow(crowd: Crowd, rate: Floats, counts: Index, load: Offset, capacity: int, table: Floats, order: Index) -> Index:
    """A first placement: each in turn goes where most of its topics are already; of equals, the least loaded.

    `counts` and `load` say what is there before, and change in place.
    """
    part = np.zeros(len(order), np.int32)
    score = np.empty(len(load))
    for user in order:
        joining_costs(crowd, rate, counts, table, user, -1, score)
        best = -1
        for broker in range(len(load)):
            if load[broker] + crowd.weight[user] > capacity:
                continue
            if best < 0 or (score[broker], load[broker]) < (score[best], load[best]):
                best = broker
        if best < 0:
            best = int(np.argmin(load))
        part[user] = best
        load[best] += crowd.weight[user]
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            counts[crowd.topics[i], best] += crowd.pins[i]
    return part
