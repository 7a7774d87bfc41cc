"""Brokers at the places of a ring where a hop costs what its two ends are apart: eq. 5 of DYNATOPS with delays that are
distances.

As in `slotcost`, with `far` float64[n, n], the delay between two brokers, in place of hops. A swap then changes every
path through both places, so each is judged by the whole cost: topics x members x hops steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset
from coterie.kernels.rings.slotcost import Instance

Floats = NDArray[np.float64]


class MemberLists(NamedTuple):
    """Which brokers want each topic, ascending."""

    indptr: Offset
    broker: Index


@kernel
def members_of(instance: Instance) -> MemberLists:
    brokers, topics = instance.wants.shape
    indptr = np.zeros(topics + 1, np.int64)
    for topic in instance.topics:
        indptr[topic + 1] += 1
    indptr = np.cumsum(indptr)
    free, members = indptr[:-1].copy(), np.empty(len(instance.topics), np.int32)
    for broker in range(brokers):
        for i in range(instance.indptr[broker], instance.indptr[broker + 1]):
            topic = instance.topics[i]
            members[free[topic]] = broker
            free[topic] += 1
    return MemberLists(indptr, members)


@kernel
def add_costs(instance: Instance, members: MemberLists, broker_at: Index, far: Floats, cost: Floats) -> float:
    """Every broker's cost (eq. 10 and 11) into `cost`, which is cleared before; their sum."""
    brokers, topics = instance.wants.shape
    cost[:] = 0.0
    slot_of = np.empty(brokers, np.int32)
    for slot in range(brokers):
        slot_of[broker_at[slot]] = slot
    on_tree = np.full(brokers, -1, np.int64)
    for broker in range(brokers):
        for i in range(instance.indptr[broker], instance.indptr[broker + 1]):
            topic = instance.topics[i]
            root, rate = instance.root[topic], instance.rate[topic]
            slot, delay = slot_of[broker], 0.0
            while slot != root:
                above = instance.parent[root, slot]
                delay += far[broker_at[slot], broker_at[above]]
                slot = above
            cost[broker] += rate * instance.delay_weight * delay
    for topic in range(topics):
        root, rate = instance.root[topic], instance.rate[topic]
        on_tree[root] = topic
        for i in range(members.indptr[topic], members.indptr[topic + 1]):
            slot = slot_of[members.broker[i]]
            while on_tree[slot] != topic:
                on_tree[slot] = topic
                relay = broker_at[slot]
                if not instance.wants[relay, topic]:
                    cost[relay] += rate
                slot = instance.parent[root, slot]
    total: float = cost.sum()
    return total


@kernel
def descend_far(
    instance: Instance, slot_of: Index, far: Floats, tries: int, swaps_max: int
) -> tuple[Index, Index, Floats]:
    """Algorithm 3: (one, other, cost after) of every swap.

    As printed the costliest broker alone is tried (`tries` 1), else the next ones too until one gains.
    """
    brokers = len(slot_of)
    broker_at = np.empty(brokers, np.int32)
    for broker in range(brokers):
        broker_at[slot_of[broker]] = broker
    one, other, costs = np.empty(swaps_max, np.int32), np.empty(swaps_max, np.int32), np.empty(swaps_max)
    cost, tried = np.empty(brokers), np.empty(brokers)
    members = members_of(instance)
    lowest = add_costs(instance, members, broker_at, far, cost)
    used = 0
    while used < swaps_max:
        worst_first = np.argsort(-cost)
        here, there = -1, -1
        best = lowest * (1 - 1e-9)
        for turn in range(min(tries, brokers)):
            place = np.flatnonzero(broker_at == worst_first[turn])[0]
            for partner in range(brokers):
                if partner != place:
                    broker_at[place], broker_at[partner] = broker_at[partner], broker_at[place]
                    found = add_costs(instance, members, broker_at, far, tried)
                    broker_at[place], broker_at[partner] = broker_at[partner], broker_at[place]
                    if found < best:
                        best, here, there = found, place, partner
            if here >= 0:
                break
        if here < 0:
            break
        one[used], other[used], costs[used] = broker_at[here], broker_at[there], best
        broker_at[here], broker_at[there] = broker_at[there], broker_at[here]
        lowest = add_costs(instance, members, broker_at, far, cost)
        used += 1
    return one[:used].copy(), other[:used].copy(), costs[:used].copy()
