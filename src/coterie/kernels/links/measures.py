"""What is measured on an overlay topic by topic: components, exact diameters, intersections, overlaps for bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.interests.shared import meet
from coterie.kernels.jit import kernel
from coterie.kernels.links.bits import bit_count

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


@kernel
def induced(
    topic: int, member_indptr: Int64, member: Int32, link_indptr: Int64, link: Int32, place: Int64, edge: Int32
) -> tuple[Int64, int]:
    """The subgraph of one topic's members in local numbers: (offsets, number of link ends); `edge` is filled.

    `place` must be -1 everywhere and is left so. O(members and their links).
    """
    first, last = member_indptr[topic], member_indptr[topic + 1]
    for at in range(first, last):
        place[member[at]] = at - first
    indptr = np.zeros(last - first + 1, np.int64)
    count = 0
    for at in range(first, last):
        node = member[at]
        for entry in range(link_indptr[node], link_indptr[node + 1]):
            if place[link[entry]] >= 0:
                edge[count] = place[link[entry]]
                count += 1
        indptr[at - first + 1] = count
    for at in range(first, last):
        place[member[at]] = -1
    return indptr, count


@kernel
def component_counts(member_indptr: Int64, member: Int32, link_indptr: Int64, link: Int32, largest: Int64) -> Int64:
    """Connected components of every topic's induced subgraph; `largest` receives the size of the biggest.

    >>> sizes = np.zeros(1, np.int64)
    >>> links = np.array([0, 1, 2, 2]), np.array([1, 0], np.int32)
    >>> component_counts(np.array([0, 3]), np.array([0, 1, 2], np.int32), *links, sizes).tolist(), sizes.tolist()
    ([2], [2])
    """
    topics = len(member_indptr) - 1
    counts = np.zeros(topics, np.int64)
    place = np.full(len(link_indptr) - 1, -1, np.int64)
    edge = np.empty(max(len(link), 1), np.int32)
    for topic in range(topics):
        indptr, _ = induced(topic, member_indptr, member, link_indptr, link, place, edge)
        size = len(indptr) - 1
        reached = np.zeros(size, np.bool_)
        queue = np.empty(size, np.int64)
        for source in range(size):
            if reached[source]:
                continue
            counts[topic] += 1
            reached[source] = True
            queue[0] = source
            head, tail = 0, 1
            while head < tail:
                node = queue[head]
                head += 1
                for entry in range(indptr[node], indptr[node + 1]):
                    if not reached[edge[entry]]:
                        reached[edge[entry]] = True
                        queue[tail] = edge[entry]
                        tail += 1
            largest[topic] = max(largest[topic], tail)
    return counts


@kernel
def path_lengths(indptr: Int64, edge: Int32, reached: Int64) -> int:
    """Exact diameter (of the largest finite distances) of one graph: breadth-first from 64 sources at a time.

    `reached` counts the ordered pairs of nodes at each distance; what is further than it is long counts at its end.
    """
    size = len(indptr) - 1
    longest = 0
    for first in range(0, size, 64):
        seen = np.zeros(size, np.uint64)
        for source in range(first, min(first + 64, size)):
            seen[source] = np.uint64(1) << np.uint64(source - first)
        front = seen.copy()
        depth = 0
        is_growing = True
        while is_growing:
            is_growing = False
            ahead = np.zeros(size, np.uint64)
            for node in range(size):
                if front[node]:
                    for entry in range(indptr[node], indptr[node + 1]):
                        ahead[edge[entry]] |= front[node]
            for node in range(size):
                ahead[node] &= ~seen[node]
                if ahead[node]:
                    seen[node] |= ahead[node]
                    reached[min(depth + 1, len(reached) - 1)] += bit_count(ahead[node])
                    is_growing = True
            front = ahead
            if is_growing:
                depth += 1
        longest = max(longest, depth)
    return longest


@kernel
def diameters(member_indptr: Int64, member: Int32, link_indptr: Int64, link: Int32, mean: Float64) -> Int64:
    """Exact diameter of every topic's induced subgraph; of a partitioned topic, the longest of its components'.

    `mean` receives the mean distance between two members that reach each other.
    """
    topics = len(member_indptr) - 1
    longest = np.zeros(topics, np.int64)
    place = np.full(len(link_indptr) - 1, -1, np.int64)
    edge = np.empty(max(len(link), 1), np.int32)
    reached = np.zeros(len(place) + 1, np.int64)
    for topic in range(topics):
        indptr, count = induced(topic, member_indptr, member, link_indptr, link, place, edge)
        longest[topic] = path_lengths(indptr, edge[:count], reached)
        total, pairs = 0, 0
        for distance in range(1, longest[topic] + 1):
            total += distance * reached[distance]
            pairs += reached[distance]
            reached[distance] = 0
        mean[topic] = total / max(pairs, 1)
    return longest


@kernel
def top_intersections(
    interest_indptr: Int64, interest: Int32, topic_indptr: Int64, subscriber: Int32, depth: int
) -> Float64:
    """tdi_n(d) of section 3.4 for every node: mean intersection, in %, with the d nodes that share most. O(sum n_t)."""
    count = len(interest_indptr) - 1
    shared = np.zeros(count, np.int32)
    touched = np.empty(count, np.int32)
    result = np.zeros(count)
    top = np.zeros(depth)
    for node in range(count):
        own = interest_indptr[node + 1] - interest_indptr[node]
        found = meet(interest_indptr, interest, topic_indptr, subscriber, node, touched, shared)
        top[:] = 0.0
        for at in range(found):
            other = touched[at]
            percent = 100.0 * shared[other] / min(own, interest_indptr[other + 1] - interest_indptr[other])
            shared[other] = 0
            slot = 0
            while slot < depth and top[slot] < percent:  # ascending; most are below the lowest and stop at once
                if slot > 0:
                    top[slot - 1] = top[slot]
                top[slot] = percent
                slot += 1
        result[node] = top.sum() / depth
    return result


@kernel
def greatest_overlaps(interest_indptr: Int64, interest: Int32, topic_indptr: Int64, subscriber: Int32) -> Int32:
    """For every (node, topic) pair: the most topics that the node shares with any other node that wants the topic.

    0 where nobody else wants it. O(sum over pairs of the topic's subscribers).
    """
    count = len(interest_indptr) - 1
    shared = np.zeros(count, np.int32)
    best = np.zeros(len(interest), np.int32)
    for node in range(count):
        first, last = interest_indptr[node], interest_indptr[node + 1]
        for at in range(first, last):
            for entry in range(topic_indptr[interest[at]], topic_indptr[interest[at] + 1]):
                shared[subscriber[entry]] += 1
        shared[node] = 0
        for at in range(first, last):
            for entry in range(topic_indptr[interest[at]], topic_indptr[interest[at] + 1]):
                best[at] = max(best[at], shared[subscriber[entry]])
        for at in range(first, last):
            for entry in range(topic_indptr[interest[at]], topic_indptr[interest[at] + 1]):
                shared[subscriber[entry]] = 0
    return best
