"""Exchanges of two users between brokers: what is left to gain once brokers are full and nobody can move alone.

Same objective, smoothing and columns as `fanout`. Users are listed broker by broker; an exchange keeps every broker's
number of users, so the lists stay where they are.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Notes(NamedTuple):
    """By topic, about the user whose turn it is; `known` is the turn in which `value` was worked out."""

    own: Floats  # what its going saves
    held: Index  # how many users of the topic it stands for
    value: Floats  # what one user's coming in exchange saves besides
    known: Index


@kernel
def note(
    crowd: Crowd, rate: Floats, counts: Index, table: Floats, user: int, here: int, there: int, notes: Notes
) -> float:
    """Write down what the user's going saves topic by topic; the sum is returned."""
    total = 0.0
    for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
        topic, pins = crowd.topics[i], crowd.pins[i]
        kept = rate[topic] * (1.0 - table[min(pins, POWERS)])
        stays, comes = table[min(counts[topic, here] - pins, POWERS)], table[min(counts[topic, there], POWERS)]
        notes.own[topic] = kept * (stays - comes)
        notes.held[topic] = pins
        total += notes.own[topic]
    return total


@kernel
def worth(rate: float, table: Floats, pins: int, at_here: int, at_there: int, own: float, held: int) -> float:
    """What `pins` users of a topic save by coming, given that `held` of them go, which saves `own`."""
    if held == 0:
        kept = rate * (1.0 - table[min(pins, POWERS)])
        return kept * (table[min(at_there - pins, POWERS)] - table[min(at_here, POWERS)])
    shift = pins - held  # both have it: only the difference changes places
    before = table[min(at_here, POWERS)] + table[min(at_there, POWERS)]
    after = table[min(at_here + shift, POWERS)] + table[min(at_there - shift, POWERS)]
    return rate * (after - before) - own


@kernel
def best_partner(
    crowd: Crowd,
    rate: Floats,
    seats: Seats,
    capacity: int,
    table: Floats,
    user: int,
    candidates: Index,
    there: int,
    notes: Notes,
    turn: int,
    least: float,
) -> int:
    """Of the users there, the one whose coming saves most and more than `least`; -1 if there is none.

    One long loop over plain arrays: a call for each candidate would cost more than what it does.
    """
    indptr, topics, all_pins, weight = crowd.indptr, crowd.topics, crowd.pins, crowd.weight
    own, held, value, known, counts = notes.own, notes.held, notes.value, notes.known, seats.counts
    here = seats.part[user]
    room_here, room_there = capacity - seats.load[here], capacity - seats.load[there]
    best, best_total = -1, least
    for step in range(min(len(candidates), LOOKED_AT)):
        other = candidates[(user + step) % len(candidates)]  # nobody is always the first to be looked at
        extra = weight[user] - weight[other]
        if (extra > 0 and extra > room_there) or (extra < 0 and -extra > room_here):
            continue
        total = 0.0
        for i in range(indptr[other], indptr[other + 1]):
            topic, pins = topics[i], all_pins[i]
            if pins == 1 and known[topic] == turn:
                total += value[topic]
                continue
            at_here, at_there = counts[topic, here], counts[topic, there]
            found = worth(rate[topic], table, pins, at_here, at_there, own[topic], held[topic])
            total += found
            if pins == 1:
                value[topic] = found
                known[topic] = turn
        if total > best_total:
            best, best_total = other, total
    return best


@kernel
def swap_sweep(
    crowd: Crowd, rate: Floats, seats: Seats, capacity: int, table: Floats, order: Index, price: float
) -> int:
    """Everybody in turn changes places with the one whose exchange saves most, `price` for each of both at least.

    Returns how many exchanges there were.
    """
    load, counts, topics = seats.load, seats.counts, len(rate)
    starts, members, place = members_of(seats.part, len(load))
    score = np.empty(len(load))
    notes = Notes(np.zeros(topics), np.zeros(topics, np.int32), np.zeros(topics), np.full(topics, -1, np.int32))
    swapped = 0
    for turn in range(len(order)):
        user = order[turn]
        here = seats.part[user]
        saved = joining_costs(crowd, rate, counts, table, user, here, score)
        score[here] = np.inf
        there = int(np.argmin(score))
        if saved - score[there] <= price + 1e-9:
            continue
        gain = note(crowd, rate, counts, table, user, here, there, notes)
        candidates = members[starts[there] : starts[there + 1]]
        least = 2 * price + 1e-9 - gain
        best = best_partner(crowd, rate, seats, capacity, table, user, candidates, there, notes, turn, least)
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            notes.held[crowd.topics[i]] = 0
        if best >= 0:
            move(crowd, seats, user, there)
            move(crowd, seats, best, here)
            members[place[user]], members[place[best]] = best, user
            place[user], place[best] = place[best], place[user]
            swapped += 1
    return swapped
