"""Placement as version 0.1 did it, whole in one file: the baseline of bench_placement.py. Not used by the project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.model import Workload
from coterie.systems.dynatops.placement import place_by_similarity

Floats = NDArray[np.float64]
Index = NDArray[np.int32]
Offset = NDArray[np.int64]

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


PARTNERS_LOOKED_AT = 512  # users of the other broker that one user is tried against


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
    for step in range(min(len(candidates), PARTNERS_LOOKED_AT)):
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


NEIGHBOURS_LOOKED_AT = 256  # of the users who share a topic and a broker that one user is compared with


@kernel
def match(
    crowd: Crowd,
    rate: Floats,
    part: Index,
    by_pair: Index,
    at: Offset,
    first: Offset,
    last: Offset,
    heaviest: int,
    order: Index,
) -> tuple[Index, int]:
    """Group of everybody: pairs with the largest share of common rate, singles otherwise; and how many there are.

    `by_pair` lists users by (broker, topic); the range of pair i is `first[i]` to `last[i]`, itself being at `at[i]`.
    """
    count = len(part)
    whole = np.zeros(count)
    for user in range(count):
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            whole[user] += rate[crowd.topics[i]]
    group = np.full(count, -1, np.int32)
    shared = np.zeros(count)
    met = np.empty(count, np.int32)
    groups = 0
    for user in order:
        if group[user] >= 0:
            continue
        meetings = 0
        for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
            size = last[i] - first[i]
            for step in range(1, min(size, NEIGHBOURS_LOOKED_AT + 1)):
                other = by_pair[first[i] + (at[i] - first[i] + step) % size]
                if group[other] >= 0 or crowd.weight[user] + crowd.weight[other] > heaviest:
                    continue
                if shared[other] == 0.0:
                    met[meetings] = other
                    meetings += 1
                shared[other] += rate[crowd.topics[i]] + 1e-12
        best, best_share = -1, 0.0
        for index in range(meetings):
            other = met[index]
            share = shared[other] / (whole[user] + whole[other] - shared[other] + 1e-9)
            if share > best_share:
                best, best_share = other, share
            shared[other] = 0.0
        group[user] = groups
        if best >= 0:
            group[best] = groups
        groups += 1
    return group, groups


@kernel
def contract(crowd: Crowd, group: Index, groups: int, topic_count: int) -> Crowd:
    """The groups as a crowd of their own."""
    starts = np.zeros(groups + 1, np.int64)
    for one in group:
        starts[one + 1] += 1
    starts[:] = np.cumsum(starts)
    filled = starts[:-1].copy()
    members = np.empty(len(group), np.int32)
    for user in range(len(group)):
        members[filled[group[user]]] = user
        filled[group[user]] += 1
    indptr = np.zeros(groups + 1, np.int64)
    topics = np.empty(len(crowd.topics), np.int32)
    pins = np.zeros(len(crowd.topics), np.int32)
    weight = np.zeros(groups, np.int64)
    place = np.full(topic_count, -1, np.int64)
    used = 0
    for one in range(groups):
        begin = used
        for member in range(starts[one], starts[one + 1]):
            user = members[member]
            weight[one] += crowd.weight[user]
            for i in range(crowd.indptr[user], crowd.indptr[user + 1]):
                topic = crowd.topics[i]
                if place[topic] < begin:
                    place[topic] = used
                    topics[used] = topic
                    used += 1
                pins[place[topic]] += crowd.pins[i]
        indptr[one + 1] = used
    return Crowd(indptr, topics[:used].copy(), pins[:used].copy(), weight)


def coarsened(crowd: Crowd, rate: Floats, part: Index, heaviest: int, order: Index) -> tuple[Crowd, Index]:
    """One level: the groups and who is in which; only users of one broker are matched."""
    rows = np.repeat(np.arange(len(part), dtype=np.int32), np.diff(crowd.indptr))
    key = part[rows].astype(np.int64) * len(rate) + crowd.topics
    sorted_pairs = np.argsort(key, kind="stable")
    ascending = key[sorted_pairs]
    at = np.empty(len(key), np.int64)
    at[sorted_pairs] = np.arange(len(key))
    edge = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1], True])
    run = np.searchsorted(edge, at, side="right")
    group, groups = match(crowd, rate, part, rows[sorted_pairs], at, edge[run - 1], edge[run], heaviest, order)
    return contract(crowd, group, groups, len(rate)), group


def part_of_groups(part: Index, group: Index, count: int) -> Index:
    """Where the groups are, from where their members are."""
    whole = np.empty(count, np.int32)
    whole[group] = part
    return whole


Schedule = Sequence[tuple[float, int]]  # (smoothing, sweeps)
MOVES: Schedule = ((0.9, 3), (0.7, 4), (0.5, 6), (0.3, 4), (0.1, 3), (0.0, 4))
SWAPS: Schedule = ((0.7, 1), (0.5, 3), (0.3, 3), (0.0, 2))
CYCLE: Schedule = ((0.3, 1), (0.0, 2))  # at each level
CYCLES_MAX = 3
CYCLE_PAYS = 0.005  # the share of the cost that a cycle must have saved for another one
HEAVIEST = 0.25  # of a broker's capacity: larger groups fit nowhere


@dataclass(frozen=True, eq=False)
class Search:
    """One instance of the problem, and the draws its local searches take their order from."""

    crowd: Crowd
    rate: Floats
    broker_count: int
    capacity: int
    draw: np.random.Generator

    def order(self, count: int) -> Index:
        return self.draw.permutation(count).astype(np.int32)

    def seats(self, part: Index) -> Seats:
        return seats_of(self.crowd, part, len(self.rate), self.broker_count)

    def cost(self, seats: Seats) -> float:
        return touched(seats.counts, self.rate)

    def grown(self) -> Index:
        order = self.order(len(self.crowd.weight))
        counts = np.zeros((len(self.rate), self.broker_count), np.int32)
        load = np.zeros(self.broker_count, np.int64)
        return grow(self.crowd, self.rate, counts, load, self.capacity, powers(0.9), order)

    def refined(self, start: Index, schedule: Schedule = MOVES, *, has_swaps: bool = False) -> Seats:
        """Local search from a placement, smoothing first; the exact objective decides in the end."""
        seats = self.seats(start)
        self.polish(self.crowd, seats, schedule, has_swaps)
        return seats

    def cycled(self, start: Index) -> Seats:
        """Like users of one broker are gathered into ever larger groups; then these move, and split again step by step.

        What one user cannot do alone, a group can: leave a broker together for the one that holds the rest of its kind.
        """
        levels: list[tuple[Crowd, Index]] = []
        crowd, part = self.crowd, start
        heaviest = max(int(HEAVIEST * self.capacity), 1)
        while len(part) > 2 * self.broker_count:
            coarse, group = coarsened(crowd, self.rate, part, heaviest, self.order(len(part)))
            if len(coarse.weight) > 0.95 * len(part):
                break
            levels.append((crowd, group))
            crowd, part = coarse, part_of_groups(part, group, len(coarse.weight))
        seats = self._level(crowd, part)
        for crowd, group in reversed(levels):
            seats = self._level(crowd, seats.part[group])
        return seats

    def improved(self, start: Seats) -> Seats:
        """Exchanges, then cycles as long as they pay; never worse than the start."""
        best = min(start, self.refined(start.part, SWAPS, has_swaps=True), key=self.cost)
        for _ in range(CYCLES_MAX):
            found = self.cycled(best.part)
            before, after = self.cost(best), self.cost(found)
            if after < before:
                best = found
            if before - after <= CYCLE_PAYS * before:
                break
        return best

    def polish(self, crowd: Crowd, seats: Seats, schedule: Schedule, has_swaps: bool) -> None:
        """Sweeps over users or groups until they no longer find much; `seats` changes in place."""
        for smoothing, sweeps in schedule:
            table = powers(smoothing)
            for _ in range(sweeps):
                order = self.order(len(seats.part))
                moved = sweep(crowd, self.rate, seats, self.capacity, table, order, 0.0)
                if has_swaps:
                    moved += swap_sweep(crowd, self.rate, seats, self.capacity, table, order, 0.0)
                if moved * 1000 < len(order):
                    break

    def _level(self, crowd: Crowd, part: Index) -> Seats:
        seats = seats_of(crowd, part, len(self.rate), self.broker_count)
        self.polish(crowd, seats, CYCLE, has_swaps=True)
        return seats


def partitioned(workload: Workload, imbalance: float, seed: int) -> tuple[Seats, int]:
    """As `systems/dynatops/hypergraph.py` had it: three starts, exchanges, cycles; and the capacity it allowed."""
    interests, rates, brokers = workload.interests, workload.rates, workload.node_count
    capacity = capacity_of(interests.pair_count, int(interests.lengths.max(initial=0)), brokers, imbalance)
    crowd = crowd_of(interests.indptr, interests.columns)
    search = Search(crowd, rates, brokers, capacity, np.random.default_rng(seed))
    gathered = place_by_similarity(workload, brokers, load_weight=1.0, rounds=2)
    starts = ((search.grown(), MOVES), (gathered, MOVES[2:]), (workload.attachment, MOVES[-1:]))
    found = [search.refined(start, schedule) for start, schedule in starts]
    given = search.seats(workload.attachment)
    fitting = [seats for seats in [*found, given] if seats.load.max() <= capacity]
    return search.improved(min(fitting or found, key=search.cost)), capacity
