"""Groups of users that move together: neighbours of one broker with like topics are matched, level after level."""

from __future__ import annotations

import numpy as np

from coterie.kernels.jit import kernel
from coterie.kernels.placement.books import Crowd, Floats
from coterie.kernels.placement.swaps import members_of
from coterie.kernels.rings.chord import Index, Offset

LOOKED_AT = 256  # of the users who share a topic and a broker that one user is compared with


@kernel
def is_heavy(weight: Floats, one: int, other: int, heaviest: Floats) -> bool:
    for dimension in range(len(heaviest)):
        if weight[one, dimension] + weight[other, dimension] > heaviest[dimension]:
            return True
    return False


@kernel
def match(
    crowd: Crowd,
    rate: Floats,
    part: Index,
    by_pair: Index,
    at: Offset,
    first: Offset,
    last: Offset,
    heaviest: Floats,
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
            for step in range(1, min(size, LOOKED_AT + 1)):
                other = by_pair[first[i] + (at[i] - first[i] + step) % size]
                if group[other] >= 0 or is_heavy(crowd.weight, user, other, heaviest):
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
    starts, members, _ = members_of(group, groups)
    indptr = np.zeros(groups + 1, np.int64)
    topics = np.empty(len(crowd.topics), np.int32)
    pins = np.zeros(len(crowd.topics), np.int32)
    said = np.zeros(len(crowd.topics))
    weight = np.zeros((groups, crowd.weight.shape[1]))
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
                said[place[topic]] += crowd.said[i]
        indptr[one + 1] = used
    return Crowd(indptr, topics[:used].copy(), pins[:used].copy(), said[:used].copy(), weight)


def coarsened(crowd: Crowd, rate: Floats, part: Index, heaviest: Floats, order: Index) -> tuple[Crowd, Index]:
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
