"""Exchanges of two users between brokers: what is left to gain once brokers are full and nobody can move alone.

Same objective, smoothing and columns as `books`. Users are listed broker by broker; an exchange keeps every broker's
number of users, so the lists stay where they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.placement.books import POWERS, Crowd, Floats, Seats, joining_costs, move
from coterie.kernels.rings.chord import Index, Offset

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
    held: Index  # how many wishes for the topic it stands for
    said: Floats  # what it publishes on the topic
    is_held: NDArray[np.bool_]  # whether it has the topic at all
    value: Floats  # what one wish's coming in exchange saves besides
    known: Index


class TopicBetween(NamedTuple):
    """What one topic holds at the two brokers of an exchange."""

    rate: float
    at_here: int
    at_there: int
    in_here: float  # events that enter there
    in_there: float


@kernel
def between(rate: Floats, seats: Seats, topic: int, here: int, there: int) -> TopicBetween:
    counts, entering = seats.counts, seats.entering
    if entering.shape[0] == 0:
        return TopicBetween(rate[topic], counts[topic, here], counts[topic, there], 0.0, 0.0)
    return TopicBetween(
        rate[topic], counts[topic, here], counts[topic, there], entering[topic, here], entering[topic, there]
    )


@kernel
def shifted(topic: TopicBetween, table: Floats, pins: int, said: float) -> float:
    """What it saves if so many wishes and publications leave here for there (fewer than none: come from there)."""
    before_here = (topic.rate - topic.in_here) * table[min(topic.at_here, POWERS)]
    before_there = (topic.rate - topic.in_there) * table[min(topic.at_there, POWERS)]
    after_here = (topic.rate - topic.in_here + said) * table[min(topic.at_here - pins, POWERS)]
    after_there = (topic.rate - topic.in_there - said) * table[min(topic.at_there + pins, POWERS)]
    return after_here + after_there - before_here - before_there


@kernel
def note(
    crowd: Crowd, rate: Floats, seats: Seats, table: Floats, user: int, here: int, there: int, notes: Notes
) -> float:
    """Write down what the user's going saves topic by topic; the sum is returned."""
    total = 0.0
    for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
        topic, pins, said = crowd.topics[i], crowd.pins[i], crowd.said[i]
        notes.own[topic] = shifted(between(rate, seats, topic, here, there), table, pins, said)
        notes.held[topic], notes.said[topic], notes.is_held[topic] = pins, said, True
        total += notes.own[topic]
    return total


@kernel
def best_partner(
    crowd: Crowd,
    rate: Floats,
    seats: Seats,
    capacity: Floats,
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
    indptr, topics, all_pins, all_said, weight = crowd
    own, held, said, is_held, value, known = notes
    here, load, dimensions = seats.part[user], seats.load, seats.load.shape[1]
    best, best_total = -1, least
    for step in range(min(len(candidates), LOOKED_AT)):
        other = candidates[(user + step) % len(candidates)]  # nobody is always the first to be looked at
        is_room = True
        for dimension in range(dimensions):
            extra = weight[user, dimension] - weight[other, dimension]
            if extra > 0.0 and load[there, dimension] + extra > capacity[there, dimension]:
                is_room = False
            if extra < 0.0 and load[here, dimension] - extra > capacity[here, dimension]:
                is_room = False
        if not is_room:
            continue
        total = 0.0
        for i in range(indptr[other], indptr[other + 1]):
            topic, pins = topics[i], all_pins[i]
            is_plain = pins == 1 and all_said[i] == 0.0
            if is_plain and known[topic] == turn:
                total += value[topic]
                continue
            state = between(rate, seats, topic, here, there)
            if is_held[topic]:  # both have it: only the difference changes places
                found = shifted(state, table, held[topic] - pins, said[topic] - all_said[i]) - own[topic]
            else:
                found = shifted(state, table, -pins, -all_said[i])
            total += found
            if is_plain:
                value[topic] = found
                known[topic] = turn
        if total > best_total:
            best, best_total = other, total
    return best


@kernel
def swap_sweep(
    crowd: Crowd, rate: Floats, seats: Seats, capacity: Floats, table: Floats, order: Index, price: float
) -> int:
    """Everybody in turn changes places with the one whose exchange saves most, `price` for each of both at least.

    Returns how many exchanges there were.
    """
    brokers, topics = seats.load.shape[0], len(rate)
    starts, members, place = members_of(seats.part, brokers)
    score = np.empty(brokers)
    notes = Notes(np.zeros(topics), np.zeros(topics, np.int32), np.zeros(topics), np.zeros(topics, np.bool_),
                  np.zeros(topics), np.full(topics, -1, np.int32))  # fmt: skip
    swapped = 0
    for turn in range(len(order)):
        user = order[turn]
        here = seats.part[user]
        saved = joining_costs(crowd, rate, seats, table, user, here, score)
        score[here] = np.inf
        there = int(np.argmin(score))
        if saved - score[there] <= price + 1e-9:
            continue
        gain = note(crowd, rate, seats, table, user, here, there, notes)
        candidates = members[starts[there] : starts[there + 1]]
        least = 2 * price + 1e-9 - gain
        best = best_partner(crowd, rate, seats, capacity, table, user, candidates, there, notes, turn, least)
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            notes.is_held[crowd.topics[i]] = False
        if best >= 0:
            move(crowd, seats, user, there)
            move(crowd, seats, best, here)
            members[place[user]], members[place[best]] = best, user
            place[user], place[best] = place[best], place[user]
            swapped += 1
    return swapped
