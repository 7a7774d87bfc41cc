"""Clients at brokers and what they cost: topics are nets, and a topic costs its rate for every broker that wants it.

An event is copied to every broker that wants its topic but the one where it enters, so broker b costs R_t - P_tb for a
topic of rate R_t of which P_tb enter at b. Whether a broker wants a topic changes only when the last client leaves or
the first one comes, which gives local search nothing to follow. So a broker with c wishes for a topic first counts
1 - smoothing^c, which rewards gathering them; the smoothing falls to 0, where the count is exact (probabilistic
fan-out). What moves is a client, or a group of clients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset

Floats = NDArray[np.float64]
POWERS = 64  # counts from here on weigh nothing
DUST = 1e-9  # of a limit: sums of fractional weights


class Crowd(NamedTuple):
    """Who is placed: clients, or groups that move together, with the topics of each as CSR."""

    indptr: Offset
    topics: Index  # wanted or published
    pins: Index  # wishes of the group behind each of its topics; 0: only published
    said: Floats  # events of each of its topics that it publishes
    weight: Floats  # [member, dimension]: what it takes of a broker's room


class Seats(NamedTuple):
    """Where they are; sweeps change all of it in place."""

    part: Index  # broker of each
    counts: Index  # int32[topic, broker], wishes
    entering: Floats  # [topic, broker], events that enter there; no rows: where is not counted
    load: Floats  # [broker, dimension]


def crowd_of(indptr: Offset, topics: Index, weight: Floats | None = None) -> Crowd:
    """Clients that publish nothing, one by one; their weight is the number of their wishes unless given."""
    own = np.diff(indptr).astype(np.float64)[:, None] if weight is None else weight
    return Crowd(indptr, topics, np.ones(len(topics), np.int32), np.zeros(len(topics)), own)


def seats_of(crowd: Crowd, part: Index, topic_count: int, broker_count: int) -> Seats:
    """The books of a placement, on a copy of it."""
    own = part.astype(np.int32).copy()
    load = np.zeros((broker_count, crowd.weight.shape[1]))
    np.add.at(load, own, crowd.weight)
    counts = pin_counts(crowd, own, topic_count, broker_count)
    entering = said_at(crowd, own, topic_count, broker_count) if crowd.said.any() else np.zeros((0, broker_count))
    return Seats(own, counts, entering, load)


@kernel
def pin_counts(crowd: Crowd, part: Index, topic_count: int, broker_count: int) -> Index:
    counts = np.zeros((topic_count, broker_count), np.int32)
    for user in range(len(part)):
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            counts[crowd.topics[i], part[user]] += crowd.pins[i]
    return counts


@kernel
def said_at(crowd: Crowd, part: Index, topic_count: int, broker_count: int) -> Floats:
    entering = np.zeros((topic_count, broker_count))
    for user in range(len(part)):
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            entering[crowd.topics[i], part[user]] += crowd.said[i]
    return entering


@kernel
def touched(counts: Index, rate: Floats) -> float:
    """Sum over topics of rate x (brokers touched - 1); topics nobody wants cost nothing."""
    total = 0.0
    for topic in range(len(rate)):
        brokers = np.count_nonzero(counts[topic])
        total += rate[topic] * max(brokers - 1, 0)
    return total


@kernel
def copies_of(counts: Index, entering: Floats, rate: Floats) -> float:
    """Sum over events of the brokers that want them but the one where they enter; `entering` has all its rows."""
    total = 0.0
    for topic in range(len(rate)):
        for broker in range(counts.shape[1]):
            if counts[topic, broker] > 0:
                total += rate[topic] - entering[topic, broker]
    return total


def cost_of(seats: Seats, rate: Floats) -> float:
    """Copies between brokers; where nothing is known of publishers, each event enters where it is wanted."""
    return copies_of(seats.counts, seats.entering, rate) if len(seats.entering) else touched(seats.counts, rate)


@kernel
def powers(smoothing: float) -> Floats:
    table = np.zeros(POWERS + 1)
    table[0] = 1.0
    for exponent in range(1, POWERS):
        table[exponent] = table[exponent - 1] * smoothing
    return table


@kernel
def fits(load: Floats, capacity: Floats, weight: Floats, user: int, broker: int) -> bool:
    for dimension in range(load.shape[1]):
        if load[broker, dimension] + weight[user, dimension] > capacity[broker, dimension]:
            return False
    return True


@kernel
def is_over(load: Floats, capacity: Floats, broker: int) -> bool:
    found = False
    for dimension in range(load.shape[1]):
        found = found or load[broker, dimension] > capacity[broker, dimension]
    return found


def is_within(seats: Seats, capacity: Floats) -> bool:
    return bool((seats.load <= capacity * (1 + DUST)).all())


@kernel
def joining_costs(
    crowd: Crowd, rate: Floats, seats: Seats, table: Floats, user: int, here: int, score: Floats
) -> float:
    """Fill in what the user would cost at every broker; what leaving `here` saves is returned."""
    counts, entering = seats.counts, seats.entering
    counted = entering.shape[0] > 0
    score[:] = 0.0
    saved = 0.0
    for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
        topic, pins, said = crowd.topics[i], crowd.pins[i], crowd.said[i]
        kept = 1.0 - table[min(pins, POWERS)]
        if not counted:
            value = rate[topic] * kept
            if here >= 0:
                saved += value * table[min(counts[topic, here] - pins, POWERS)]
            for broker in range(len(score)):
                score[broker] += value * table[min(counts[topic, broker], POWERS)]
            continue
        for broker in range(len(score)):
            count, left = counts[topic, broker], rate[topic] - entering[topic, broker]
            at_home = 1.0 - table[min(count + pins, POWERS)]
            score[broker] += kept * left * table[min(count, POWERS)] - said * at_home
        if here >= 0:
            count, left = counts[topic, here] - pins, rate[topic] - entering[topic, here] + said
            saved += kept * left * table[min(count, POWERS)] - said * (1.0 - table[min(count + pins, POWERS)])
    return saved


@kernel
def move(crowd: Crowd, seats: Seats, user: int, there: int) -> None:
    here = seats.part[user]
    counted = seats.entering.shape[0] > 0
    for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
        topic = crowd.topics[i]
        seats.counts[topic, here] -= crowd.pins[i]
        seats.counts[topic, there] += crowd.pins[i]
        if counted:
            seats.entering[topic, here] -= crowd.said[i]
            seats.entering[topic, there] += crowd.said[i]
    for dimension in range(seats.load.shape[1]):
        seats.load[here, dimension] -= crowd.weight[user, dimension]
        seats.load[there, dimension] += crowd.weight[user, dimension]
    seats.part[user] = there


@kernel
def sweep(
    crowd: Crowd, rate: Floats, seats: Seats, capacity: Floats, table: Floats, order: Index, home: Index, price: float
) -> int:
    """Everybody in turn goes where it costs least and there is room; returns how many moved.

    To be elsewhere than at home (-1: nowhere) costs `price`; so coming home gives it back.
    """
    load = seats.load
    score = np.empty(load.shape[0])
    moved = 0
    for user in order:
        here = seats.part[user]
        saved = joining_costs(crowd, rate, seats, table, user, here, score)
        if home[user] >= 0:
            saved += price * (here != home[user])
            for broker in range(len(score)):
                score[broker] += price * (broker != home[user])
        best, best_score = here, saved - 1e-9
        if is_over(load, capacity, here):
            best_score = np.inf  # too full: whoever comes up has to go where it costs least
        for broker in range(len(score)):
            if broker != here and score[broker] < best_score and fits(load, capacity, crowd.weight, user, broker):
                best, best_score = broker, score[broker]
        if best != here:
            move(crowd, seats, user, best)
            moved += 1
    return moved


@kernel
def grow(crowd: Crowd, rate: Floats, seats: Seats, capacity: Floats, table: Floats, order: Index) -> None:
    """Each in turn joins where most of its topics are already; of equals, the least loaded. `seats` is filled in.

    Who fits nowhere goes where it is least too much.
    """
    load = seats.load
    score, full = np.empty(load.shape[0]), np.empty(load.shape[0])
    counted = seats.entering.shape[0] > 0
    for user in order:
        joining_costs(crowd, rate, seats, table, user, -1, score)
        best = -1
        for broker in range(len(score)):
            full[broker] = 0.0
            for dimension in range(load.shape[1]):
                part = (load[broker, dimension] + crowd.weight[user, dimension]) / capacity[broker, dimension]
                full[broker] = max(full[broker], part)
            if not fits(load, capacity, crowd.weight, user, broker):
                continue
            if best < 0 or (score[broker], full[broker]) < (score[best], full[best]):
                best = broker
        if best < 0:
            best = int(np.argmin(full))
        seats.part[user] = best
        for dimension in range(load.shape[1]):
            load[best, dimension] += crowd.weight[user, dimension]
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            seats.counts[crowd.topics[i], best] += crowd.pins[i]
            if counted:
                seats.entering[crowd.topics[i], best] += crowd.said[i]
