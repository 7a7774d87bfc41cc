"""The links of `spidercast_greedy` for few nodes with many topics: the gain of every possible link in a table.

How it works: a link of gain g meets g needs, and each need it meets lowers the gains of known other links by one: where
it covers a pair for the last time, those of the pair's node to the topic's members; where it joins two components of a
topic, those between their members. So every need is paid for once, and the best link is looked up, not searched for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.graphs.paths import find
from coterie.kernels.interests.shared import shared
from coterie.kernels.jit import kernel
from coterie.kernels.links.greedy import Int32, Int64, Needs, Web, Words, add_link, met, settle_pair
from coterie.kernels.links.maintenance import random_share

LINKED = -(2**30)  # gain of a link that exists: never the best

Table = NDArray[np.int32]


@kernel
def gains_of(needs: Needs, web: Web) -> Table:
    count = len(needs.interest_indptr) - 1
    gain = np.zeros((count, count), np.int32)
    for topic in range(len(needs.topic_indptr) - 1):
        start, end = needs.topic_indptr[topic], needs.topic_indptr[topic + 1]
        for at in range(start, end):
            one = needs.subscriber[at]
            for further in range(at + 1, end):
                other = needs.subscriber[further]
                count_met = met(needs, topic, one, other, needs.pair[at], needs.pair[further])
                gain[one, other] += count_met
                gain[other, one] += count_met
    for link in range(web.size[0]):
        one, other = web.end[2 * link], web.end[2 * link + 1]
        gain[one, other] = gain[other, one] = LINKED
    for node in range(count):
        gain[node, node] = LINKED
    return gain


@kernel
def circles_of(needs: Needs) -> Int64:
    """After each pair the next one of the same component of its topic, round in a circle."""
    following = np.arange(len(needs.interest))
    for pair in range(len(needs.interest)):
        root = find(needs.group, pair)
        if root != pair:
            following[pair], following[root] = following[root], pair
    return following


@kernel
def lower_covered(needs: Needs, gain: Table, topic: int, node: int) -> None:
    """A pair was covered for the last time: no link of its node to a member gains by it any more."""
    for at in range(needs.topic_indptr[topic], needs.topic_indptr[topic + 1]):
        other = needs.subscriber[at]
        gain[node, other] -= 1
        gain[other, node] -= 1


@kernel
def lower_joined(following: Int64, node_of: Int32, gain: Table, own: int, its: int) -> None:
    """Two components become one: no link between their members joins anything any more. Joins the circles."""
    one = own
    while True:
        other = its
        while True:
            gain[node_of[one], node_of[other]] -= 1
            gain[node_of[other], node_of[one]] -= 1
            other = following[other]
            if other == its:
                break
        one = following[one]
        if one == own:
            break
    following[own], following[its] = following[its], following[own]


@kernel
def add(needs: Needs, web: Web, gain: Table, following: Int64, node_of: Int32, one: int, other: int) -> None:
    add_link(web, one, other)
    gain[one, other] = gain[other, one] = LINKED
    for own, its in shared(needs.interest_indptr, needs.interest, one, other):
        topic = needs.interest[own]
        if find(needs.group, own) != find(needs.group, its):
            lower_joined(following, node_of, gain, own, its)
        settle_pair(needs, topic, one, other, own, its)
        if needs.cover[own] == needs.wanted:
            lower_covered(needs, gain, topic, one)
        if needs.cover[its] == needs.wanted:
            lower_covered(needs, gain, topic, other)


@kernel
def best_in_row(gain: Table, row: int, draw: Words) -> tuple[int, int]:
    """(who, gain) of the node's best link, ties at random."""
    best, who, ties = 0, -1, 0
    for other in range(len(gain)):
        if gain[row, other] > best:
            best, who, ties = gain[row, other], other, 1
        elif gain[row, other] == best and best > 0:
            ties += 1
            if random_share(draw) * ties < 1:
                who = other
    return who, best


@kernel
def serve_dense(needs: Needs, web: Web, node_of: Int32, enough: int, draw: Words) -> None:
    """Links of the highest gain first until so many needs are met, or no link meets any; coverage and components."""
    gain = gains_of(needs, web)
    following = circles_of(needs)
    highest = np.zeros(len(gain), np.int32)
    for row in range(len(gain)):
        highest[row] = best_in_row(gain, row, draw)[1]
    while enough > 0 and len(gain):
        row = int(np.argmax(highest))
        other, best = best_in_row(gain, row, draw)
        if best == highest[row] and best > 0:
            add(needs, web, gain, following, node_of, row, other)
            enough -= best
        elif best == 0 and highest[row] == 0:
            break
        highest[row] = best  # gains only fall, so the highest of a row is at most what it was
