"""Fewer links at the same coverage: take some links of a node away, mend greedily what that broke, keep what is better.

How it works: one of the links taken away may not come back at once, so the mending has to find another way; links that
the mending made superfluous go too. An attempt is kept if it leaves fewer links, or as many and no more bare pairs (see
`Cover`); everything else is undone from a log. Only topics that lack cover are scanned, and only a handful of nodes
can lack any, so an attempt costs a few scans of one topic's subscribers. Connectivity is the caller's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.interests.shared import shared
from coterie.kernels.jit import kernel
from coterie.kernels.links.maintenance import random_share

RUIN_MAX = 3  # links taken away at once
LOG_MAX = 256
LINKS, LACKING, BARE = 0, 1, 2  # entries of a tally

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Words = NDArray[np.uint64]


class Cover(NamedTuple):
    """Interests in both directions; per pair (node, topic) how many neighbours want it too, and how many should.

    A pair lacks cover below `wanted`, and is bare at `wanted` although the topic has more members than that.
    """

    interest_indptr: Int64
    interest: Int32
    topic_indptr: Int64
    subscriber: Int32
    near: Int32
    wanted: Int32
    tally: Int64


class NeighbourRoom(NamedTuple):
    """Neighbours per node in room of its own, so that links can go as well as come."""

    first: Int64
    end: Int32
    degree: Int32


class Attempt(NamedTuple):
    """What one attempt did (log of links, +1 added, -1 removed), whom it broke, and scratch for scans."""

    one: Int32
    other: Int32
    sign: Int32
    size: Int64
    broken: Int32
    broken_size: Int64
    gain: Int32
    touched: Int32
    barred: Int64
    stamp: Int64


@kernel
def is_bare(cover: Cover, pair: int) -> bool:
    topic = cover.interest[pair]
    members = cover.topic_indptr[topic + 1] - cover.topic_indptr[topic]
    return cover.near[pair] <= cover.wanted[pair] < members - 1


@kernel
def change_pair(cover: Cover, pair: int, step: int) -> None:
    tally = cover.tally
    tally[LACKING] -= cover.near[pair] < cover.wanted[pair]
    tally[BARE] -= is_bare(cover, pair)
    cover.near[pair] += step
    tally[LACKING] += cover.near[pair] < cover.wanted[pair]
    tally[BARE] += is_bare(cover, pair)


@kernel
def change(cover: Cover, one: int, other: int, step: int) -> None:
    """Cover of both ends' shared topics after a link came (+1) or went (-1)."""
    for own, its in shared(cover.interest_indptr, cover.interest, one, other):
        change_pair(cover, own, step)
        change_pair(cover, its, step)
    cover.tally[LINKS] += step


@kernel
def add_all(cover: Cover, one: Int32, other: Int32) -> None:
    for at in range(len(one)):
        change(cover, one[at], other[at], 1)


@kernel
def worth(cover: Cover, one: int, other: int) -> tuple[int, int, int]:
    """Of a link: lacking pairs it helps, bare pairs it helps, and shared pairs that could not spare it."""
    lacking, bare, tight = 0, 0, 0
    for both in shared(cover.interest_indptr, cover.interest, one, other):
        for pair in both:
            lacking += cover.near[pair] < cover.wanted[pair]
            bare += is_bare(cover, pair)
            tight += cover.near[pair] <= cover.wanted[pair]
    return lacking, bare, tight


@kernel
def put(slots: NeighbourRoom, node: int, neighbour: int) -> None:
    slots.end[slots.first[node] + slots.degree[node]] = neighbour
    slots.degree[node] += 1


@kernel
def drop(slots: NeighbourRoom, node: int, neighbour: int) -> None:
    start, last = slots.first[node], slots.first[node] + slots.degree[node] - 1
    for at in range(start, last + 1):
        if slots.end[at] == neighbour:
            slots.end[at] = slots.end[last]
            break
    slots.degree[node] -= 1


@kernel
def has_room(slots: NeighbourRoom, node: int) -> bool:
    return slots.first[node] + slots.degree[node] < slots.first[node + 1]


@kernel
def link(cover: Cover, slots: NeighbourRoom, attempt: Attempt, one: int, other: int, step: int) -> None:
    """Add (+1) or remove (-1) a link, and write it down."""
    if step > 0:
        put(slots, one, other)
        put(slots, other, one)
    else:
        drop(slots, one, other)
        drop(slots, other, one)
    change(cover, one, other, step)
    at = attempt.size[0]
    attempt.one[at], attempt.other[at], attempt.sign[at] = one, other, step
    attempt.size[0] = at + 1


@kernel
def undo(cover: Cover, slots: NeighbourRoom, attempt: Attempt) -> None:
    count = attempt.size[0]
    for back in range(count):
        at = count - 1 - back
        link(cover, slots, attempt, attempt.one[at], attempt.other[at], -attempt.sign[at])
        attempt.size[0] = count
    attempt.size[0] = 0


@kernel
def lacks(cover: Cover, node: int) -> bool:
    for pair in range(cover.interest_indptr[node], cover.interest_indptr[node + 1]):
        if cover.near[pair] < cover.wanted[pair]:
            return True
    return False


@kernel
def bar(slots: NeighbourRoom, attempt: Attempt, node: int) -> int:
    """Mark who may not be chosen by this node: itself, its neighbours, and who the attempt took from it first."""
    attempt.stamp[0] += 1
    stamp = attempt.stamp[0]
    attempt.barred[node] = stamp
    for at in range(slots.first[node], slots.first[node] + slots.degree[node]):
        attempt.barred[slots.end[at]] = stamp
    if node == attempt.one[0]:
        attempt.barred[attempt.other[0]] = stamp
    elif node == attempt.other[0]:
        attempt.barred[attempt.one[0]] = stamp
    return stamp


@kernel
def best_neighbour(cover: Cover, slots: NeighbourRoom, attempt: Attempt, node: int, draw: Words) -> int:
    """Who helps most lacking pairs of both ends, then most bare ones, ties at random; -1 if nobody does."""
    stamp = bar(slots, attempt, node)
    count = 0
    for pair in range(cover.interest_indptr[node], cover.interest_indptr[node + 1]):
        if cover.near[pair] >= cover.wanted[pair]:
            continue
        topic = cover.interest[pair]
        for entry in range(cover.topic_indptr[topic], cover.topic_indptr[topic + 1]):
            other = cover.subscriber[entry]
            if attempt.barred[other] != stamp:
                if attempt.gain[other] == 0:
                    attempt.touched[count] = other
                    count += 1
                attempt.gain[other] += 1
    for at in range(attempt.broken_size[0]):  # nobody else can gain anything of his own
        other = attempt.broken[at]
        if attempt.barred[other] != stamp and attempt.gain[other] > 0:
            attempt.gain[other] = worth(cover, node, other)[0]
    highest = 0
    for at in range(count):
        highest = max(highest, attempt.gain[attempt.touched[at]])
    best, best_bare, ties = -1, -1, 0
    for at in range(count):
        other = attempt.touched[at]
        if attempt.gain[other] == highest and has_room(slots, other):
            bare = worth(cover, node, other)[1]
            ties = 1 if bare > best_bare else ties + 1
            if bare > best_bare or (bare == best_bare and random_share(draw) * ties < 1):
                best, best_bare = other, bare
        attempt.gain[other] = 0
    return best


@kernel
def ruin(cover: Cover, slots: NeighbourRoom, attempt: Attempt, node: int, draw: Words) -> None:
    wanted = 1 + int(random_share(draw) * RUIN_MAX)
    attempt.broken[0] = node
    attempt.broken_size[0] = 1
    for _ in range(min(wanted, slots.degree[node])):
        at = slots.first[node] + int(random_share(draw) * slots.degree[node])
        other = slots.end[at]
        link(cover, slots, attempt, node, other, -1)
        attempt.broken[attempt.broken_size[0]] = other
        attempt.broken_size[0] += 1


@kernel
def mend(cover: Cover, slots: NeighbourRoom, attempt: Attempt, draw: Words) -> None:
    """Give everybody who was broken what is lacking, then take away what nobody needs any more."""
    for at in range(attempt.broken_size[0]):
        node = attempt.broken[at]
        while cover.tally[LACKING] > 0 and lacks(cover, node):
            other = best_neighbour(cover, slots, attempt, node, draw) if has_room(slots, node) else -1
            if other < 0 or attempt.size[0] >= LOG_MAX // 2:
                return
            link(cover, slots, attempt, node, other, 1)
    for at in range(attempt.broken_size[0]):
        node = attempt.broken[at]
        entry = slots.first[node]
        while entry < slots.first[node] + slots.degree[node]:
            other = slots.end[entry]
            if attempt.size[0] < LOG_MAX and worth(cover, node, other)[2] == 0:
                link(cover, slots, attempt, node, other, -1)
            else:
                entry += 1


@kernel
def improve(cover: Cover, slots: NeighbourRoom, attempt: Attempt, bare_max: int, draw: Words) -> None:
    """One attempt for every node, in random order."""
    count = len(slots.degree)
    order = np.arange(count)
    for at in range(count):
        swap = at + int(random_share(draw) * (count - at))
        order[at], order[swap] = order[swap], order[at]
        node = order[at]
        if slots.degree[node] == 0:
            continue
        links, lacking, bare = cover.tally[LINKS], cover.tally[LACKING], cover.tally[BARE]
        ruin(cover, slots, attempt, node, draw)
        mend(cover, slots, attempt, draw)
        is_bare_enough = cover.tally[BARE] <= max(bare, bare_max)
        is_fewer = cover.tally[LINKS] < links or (cover.tally[LINKS] == links and cover.tally[BARE] <= bare)
        if cover.tally[LACKING] <= lacking and is_fewer and is_bare_enough:
            attempt.size[0] = 0
        else:
            undo(cover, slots, attempt)
