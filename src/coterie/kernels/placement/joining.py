"""DYNATOPS' user join protocol (Algorithm 1) for whole populations, and what subscription changes do to brokers.

`counts` int32[b, p]: users of each broker that want each topic; `load` int64[b]: subscriptions its users hold. Brokers
see each other only as of the last update: `seen` uint8[b, p] and `seen_load`; the broker that is asked knows its own
state as it is. Clusters are CSR: the brokers of cluster c, and `cluster_of` each broker. `held` int32[u, w]: the
topics of each user, -1 where there are fewer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

STATIC, SIMILARITY, LOCATION, FANOUT = 0, 1, 2, 3
SMOOTHING = 0.5  # of the count of a topic's users at a broker, as in kernels.placement.books
SUBSCRIBE, UNSUBSCRIBE, MOVE = 0, 1, 5


class Population(NamedTuple):
    """Who wants what and who sits where; changed in place."""

    held: Index
    node_of: Index
    entry: Index  # the broker a user asks first: where it is attached
    counts: Index
    load: NDArray[np.int64]
    seen: Bytes
    seen_load: NDArray[np.int64]


@kernel
def exchange(population: Population) -> None:
    """Every broker learns the state of the others: what happens every T_update."""
    population.seen[:] = population.counts > 0
    population.seen_load[:] = population.load


@kernel
def choose(
    population: Population, topics: Index, asked: int, members: Index, load_weight: float, is_live: bool, whole: float
) -> int:
    """The broker with the largest utility among the members of the asked broker's cluster; of equals the asked one.

    L_b is the load over the mean of the cluster; over `whole`, all subscriptions there are, where that is not 0.
    """
    counts, load, seen, seen_load = population.counts, population.load, population.seen, population.seen_load
    total = 0.0
    wanted = 0
    for member in members:
        total += load[member] if is_live or member == asked else seen_load[member]
    for topic in topics:
        wanted += topic >= 0
    unit = whole if whole > 0.0 else max(total, 1.0) / len(members)
    best, best_utility = asked, -1e300
    for turn in range(len(members) + 1):
        member = asked if turn == 0 else members[turn - 1]
        is_own = is_live or member == asked
        shared = 0
        for topic in topics:
            if topic >= 0:
                shared += counts[member, topic] > 0 if is_own else seen[member, topic]
        own_load = load[member] if is_own else seen_load[member]
        utility = shared / max(wanted, 1) - load_weight * own_load / unit
        if utility > best_utility + 1e-12:
            best, best_utility = member, utility
    return best


@kernel
def choose_by_fanout(population: Population, topics: Index, here: int, rate: Floats, price: float, room: float) -> int:
    """Where the user's topics cost least in brokers touched, smoothed; it moves only if that saves more than `price`.

    Knows the brokers as they are without the user. `room` is the largest load as a multiple of the mean.
    """
    counts, load = population.counts, population.load
    wanted = 0
    staying = 0.0
    for topic in topics:
        if topic >= 0:
            wanted += 1
            staying += rate[topic] * SMOOTHING ** counts[here, topic]
    limit = room * load.mean()
    best, best_cost = here, staying - price
    for broker in range(len(load)):
        if broker == here or load[broker] + wanted > limit:
            continue
        cost = 0.0
        for topic in topics:
            if topic >= 0:
                cost += rate[topic] * SMOOTHING ** counts[broker, topic]
        if cost < best_cost:
            best, best_cost = broker, cost
    return best


@kernel
def _put(population: Population, topics: Index, broker: int, step: int) -> None:
    for topic in topics:
        if topic >= 0:
            population.counts[broker, topic] += step
            population.load[broker] += step


@kernel
def join_all(
    population: Population,
    order: Index,
    cluster_indptr: Offset,
    clusters: Index,
    cluster_of: Index,
    load_weight: float,
    joins_per_update: int,
    whole: float,
) -> None:
    """Users join one after the other; brokers exchange their state after every so many joins (1: they always know)."""
    is_live = joins_per_update <= 1
    for turn in range(len(order)):
        user = order[turn]
        if not is_live and turn % joins_per_update == 0:
            exchange(population)
        topics = population.held[user]
        asked = population.node_of[user]
        is_first = asked < 0
        if is_first:
            asked = population.entry[user]
        cluster = cluster_of[asked]
        members = clusters[cluster_indptr[cluster] : cluster_indptr[cluster + 1]]
        broker = choose(population, topics, asked, members, load_weight, is_live, whole)
        if not is_first:
            _put(population, topics, asked, -1)
        _put(population, topics, broker, 1)
        population.node_of[user] = broker


@kernel
def _change_held(held: Index, kind: int, topic: int) -> None:
    """Take a topic in or give it up; a user that has no room left must have given one up before."""
    for place in range(len(held)):
        if kind == UNSUBSCRIBE and held[place] == topic:
            held[place] = -1
            return
        if kind == SUBSCRIBE and held[place] == topic:
            return
    if kind == SUBSCRIBE:
        for place in range(len(held)):
            if held[place] < 0:
                held[place] = topic
                return


@kernel
def change_all(
    population: Population,
    kinds: Bytes,
    who: Index,
    what: Index,
    policy: int,
    cluster_indptr: Offset,
    clusters: Index,
    cluster_of: Index,
    load_weight: float,
    rate: Floats,
    handover_price: float,
    room: float,
    whole: float,
) -> tuple[int, Index, Index, NDArray[np.int8]]:
    """Changes of one step, in order, neighbouring ones of one user together; nobody exchanges state in between.

    Returns (handovers, broker, topic, sign): the last three list every subscription a broker took up or gave up.
    """
    counts = population.counts
    width = population.held.shape[1]
    space = len(who) * 2 * width + 1
    brokers, topics_changed = np.empty(space, np.int32), np.empty(space, np.int32)
    signs = np.empty(space, np.int8)
    used = 0
    handovers = 0
    before = np.empty(width, np.int32)
    start = 0
    while start < len(who):
        end = start + 1
        user = who[start]
        while end < len(who) and who[end] == user:
            end += 1
        held = population.held[user]
        before[:] = held
        for i in range(start, end):
            if kinds[i] == MOVE:
                population.entry[user] = what[i]
            else:
                _change_held(held, kinds[i], what[i])
        start = end
        old = population.node_of[user]
        new = old
        if policy == LOCATION:
            new = population.entry[user]
        elif policy == SIMILARITY:
            asked = old
            if cluster_of[population.entry[user]] != cluster_of[old]:
                asked = population.entry[user]  # it has left the area of its cluster
            cluster = cluster_of[asked]
            members = clusters[cluster_indptr[cluster] : cluster_indptr[cluster + 1]]
            new = choose(population, held, asked, members, load_weight, False, whole)
        _put(population, before, old, -1)
        if policy == FANOUT:
            new = choose_by_fanout(population, held, old, rate, handover_price, room)
        handovers += new != old
        _put(population, held, new, 1)
        population.node_of[user] = new
        for topic in before:
            if topic >= 0 and counts[old, topic] == 0:
                brokers[used], topics_changed[used], signs[used] = old, topic, -1
                used += 1
        for topic in held:
            if topic >= 0 and counts[new, topic] == 1 and not (old == new and _has(before, topic)):
                brokers[used], topics_changed[used], signs[used] = new, topic, 1
                used += 1
    return handovers, brokers[:used].copy(), topics_changed[:used].copy(), signs[:used].copy()


@kernel
def _has(topics: Index, topic: int) -> bool:
    return bool(np.any(topics == topic))
