"""Exchanges of two users between brokers: what is left to gain once brokers are full and nobody can move alone.

Same objective, smoothing and columns as `fanout`. Users are listed broker by broker; an exchange keeps every broker's
number of users, so the lists stay where they are.
"""

from __future__ import annotations

import numpy as np

from coterie.kernels.fanout import POWERS, Crowd, Floats, Seats, joining_costs, move
from coterie.kernels.jit import kernel
from coterie.kernels.rings import Index, Offset

LOOKED_AT = 512  # users of the other broker that one user is tried against


@kernel
def members_of(part: Index, broker_count: int) -> tuple[Offset, Index, Index]:
    """Users by broker as CSR, and where in that list each user is."""
    starts = np.zeros(broker_count + 1, np.int64)
    for broker in part:
        starts[broker + 1] += 1
    starts[:] = np.cumsum(starts)
    filled = starts[:-1].copy()
    members = np.empty(len(part), np.int32)
    place = np.empty(len(part), np.int32)
    for user in range(len(part)):
        at = filled[part[user]]
        members[at] = user
        place[user] = at
        filled[part[user]] += 1
    return starts, members, place


@kernel
def note(
    crowd: Crowd, rate: Floats, counts: Index, table: Floats, user: int, here: int, there: int, own: Floats, held: Index
) -> float:
    """Write down what the user's going saves topic by topic; the sum is returned."""
    total = 0.0
    for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
        topic, pins = crowd.topics[i], crowd.pins[i]
        kept = 1.0 - table[min(pins, POWERS)]
        row = counts[topic]
        own[topic] = rate[topic] * kept * (table[min(row[here] - pins, POWERS)] - table[min(row[there], POWERS)])
        held[topic] = pins
        total += own[topic]
    return total


@kernel
def added(
    crowd: Crowd,
    rate: Floats,
    counts: Index,
    table: Floats,
    other: int,
    here: int,
    there: int,
    own: Floats,
    held: Index,
) -> float:
    """What the other one's coming from there saves besides, given what the user took along."""
    total = 0.0
    for i in range(crowd.indptr[other], crowd.indptr[other + 1]):
        topic, pins = crowd.topics[i], crowd.pins[i]
        row = counts[topic]
        at_here, at_there = row[here], row[there]
        if held[topic]:
            total -= own[topic]
            shift = pins - held[topic]  # both have it: only the difference changes places
            before = table[min(at_here, POWERS)] + table[min(at_there, POWERS)]
            after = table[min(at_here + shift, POWERS)] + table[min(at_there - shift, POWERS)]
            total += rate[topic] * (after - before)
        else:
            kept = 1.0 - table[min(pins, POWERS)]
            total += rate[topic] * kept * (table[min(at_there - pins, POWERS)] - table[min(at_here, POWERS)])
    return total


@kernel
def swap_sweep(
    crowd: Crowd, rate: Floats, seats: Seats, capacity: int, table: Floats, order: Index, price: float
) -> int:
    """Everybody in turn changes places with the one whose exchange saves most, `price` for each of both at least.

    Returns how many exchanges there were.
    """
    load, counts = seats.load, seats.counts
    starts, members, place = members_of(seats.part, len(load))
    score = np.empty(len(load))
    own = np.zeros(len(rate))
    held = np.zeros(len(rate), np.int32)
    swapped = 0
    for user in order:
        here = seats.part[user]
        saved = joining_costs(crowd, rate, counts, table, user, here, score)
        score[here] = np.inf
        there = int(np.argmin(score))
        if saved - score[there] <= price + 1e-9:
            continue
        gain = note(crowd, rate, counts, table, user, here, there, own, held)
        best, best_gain = -1, 2 * price + 1e-9
        size = starts[there + 1] - starts[there]
        for step in range(min(size, LOOKED_AT)):
            other = members[starts[there] + (user + step) % size]  # nobody is always the first to be looked at
            extra = crowd.weight[user] - crowd.weight[other]
            if extra > 0 and load[there] + extra > capacity:
                continue
            if extra < 0 and load[here] - extra > capacity:
                continue
            total = gain + added(crowd, rate, counts, table, other, here, there, own, held)
            if total > best_gain:
                best, best_gain = other, total
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            held[crowd.topics[i]] = 0
        if best >= 0:
            move(crowd, seats, user, there)
            move(crowd, seats, best, here)
            members[place[user]], members[place[best]] = best, user
            place[user], place[best] = place[best], place[user]
            swapped += 1
    return swapped
