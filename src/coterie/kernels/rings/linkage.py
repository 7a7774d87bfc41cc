"""Orders nodes by the leaves of average-linkage clustering of their interests, and finds everybody a like one.

Everywhere: `indptr`, `topics` are node -> topics, ascending in each row; `weights` is by topic; `rows` are the nodes to
look at. Similarity is the weight of common topics over the weight of all topics of two nodes (Magnet, section 2.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.mixing import mix
from coterie.kernels.rings.chord import Index, Offset
from coterie.kernels.rings.oscar import similarity

Weights = NDArray[np.float64]
Distances = NDArray[np.float32]


@kernel
def by_topic(rows: Index, indptr: Offset, topics: Index) -> tuple[Index, Offset, Index]:
    """The topics these rows want, ascending, and for each of them the places in `rows` of those who want it."""
    total = 0
    for row in rows:
        total += indptr[row + 1] - indptr[row]
    topic = np.empty(total, np.int32)
    place = np.empty(total, np.int32)
    at = 0
    for index in range(len(rows)):
        for pair in range(indptr[rows[index]], indptr[rows[index] + 1]):
            topic[at], place[at] = topics[pair], index
            at += 1
    order = np.argsort(topic, kind="mergesort")
    names = np.empty(total, np.int32)
    starts = np.zeros(total + 1, np.int64)
    found = 0
    for rank in range(total):
        if rank == 0 or topic[order[rank]] != topic[order[rank - 1]]:
            names[found], starts[found] = topic[order[rank]], rank
            found += 1
    starts[found] = total
    return names[:found].copy(), starts[: found + 1].copy(), place[order]


@kernel
def weights_of(rows: Index, indptr: Offset, topics: Index, weights: Weights) -> Weights:
    """The weight of all topics of each row."""
    own = np.zeros(len(rows))
    for index in range(len(rows)):
        for pair in range(indptr[rows[index]], indptr[rows[index] + 1]):
            own[index] += weights[topics[pair]]
    return own


@kernel
def distances(rows: Index, indptr: Offset, topics: Index, weights: Weights) -> Distances:
    """1 - similarity of all pairs of these rows. Cost: their subscriptions times the rows that want each topic."""
    count = len(rows)
    names, starts, places = by_topic(rows, indptr, topics)
    own = weights_of(rows, indptr, topics, weights)
    apart = np.ones((count, count), np.float32)
    shared = np.empty(count)
    for index in range(count):
        shared[:] = 0.0
        for pair in range(indptr[rows[index]], indptr[rows[index] + 1]):
            at = np.searchsorted(names, topics[pair])
            for entry in range(starts[at], starts[at + 1]):
                shared[places[entry]] += weights[topics[pair]]
        for other in range(count):
            either = own[index] + own[other] - shared[other]
            if either > 0:
                apart[index, other] = np.float32(1.0 - shared[other] / either)
        apart[index, index] = 0.0
    return apart


@kernel
def linked_pairs(apart: Distances) -> tuple[Index, Index]:
    """Clusters merged by average linkage, in an order in which every cluster is there before it is merged.

    Merge i joins left[i] and right[i] to cluster count + i; clusters below count are the rows. `apart` is overwritten.
    Chains of nearest neighbours: cost is the square of the rows. Ties go to the lower number, so runs agree.
    """
    count = len(apart)
    left = np.empty(max(count - 1, 0), np.int32)
    right = np.empty(max(count - 1, 0), np.int32)
    size = np.ones(count)
    name = np.arange(count).astype(np.int32)
    alive = np.arange(count).astype(np.int32)  # places that hold a cluster
    living = count
    chain = np.empty(count + 1, np.int32)
    length = 0
    for merge in range(count - 1):
        if length == 0:
            chain[0] = alive[0]
            length = 1
        while True:
            tip = chain[length - 1]
            before = chain[length - 2] if length > 1 else np.int32(-1)
            best = before
            least = apart[tip, before] if length > 1 else np.float32(np.inf)
            for at in range(living):
                other = alive[at]
                if other != tip and apart[tip, other] < least:
                    best, least = other, apart[tip, other]
            if length > 1 and best == before:
                break
            chain[length] = best
            length += 1
        kept, gone = min(tip, best), max(tip, best)
        length -= 2
        left[merge], right[merge] = name[kept], name[gone]
        both = size[kept] + size[gone]
        found = 0
        for at in range(living):
            other = alive[at]
            if other == gone:
                continue
            alive[found] = other
            found += 1
            if other != kept:
                mean = (size[kept] * apart[kept, other] + size[gone] * apart[gone, other]) / both
                apart[kept, other] = apart[other, kept] = np.float32(mean)
        living = found
        size[kept] = both
        name[kept] = count + merge
    return left, right


@kernel
def read_leaves(left: Index, right: Index, turns: NDArray[np.bool_], count: int) -> Index:
    """The leaves of the tree of merges from left to right, where turns[i] says which parts of merge i are reversed."""
    order = np.empty(count, np.int32)
    if count == 0:
        return order
    stack = [(2 * count - 2, False)]
    found = 0
    while len(stack) > 0:
        cluster, is_turned = stack.pop()
        if cluster < count:
            order[found] = cluster
            found += 1
            continue
        merge = cluster - count
        first = (left[merge], turns[merge, 0] != is_turned)
        second = (right[merge], turns[merge, 1] != is_turned)
        if is_turned:
            first, second = second, first
        stack.append(second)
        stack.append(first)
    return order


@kernel
def leaf_order(left: Index, right: Index, rows: Index, indptr: Offset, topics: Index, weights: Weights) -> Index:
    """Places in `rows` from left to right; each merge puts its parts together at the two ends that are most similar."""
    count = len(rows)
    ends = np.empty((2 * count, 2), np.int32)
    ends[:count, 0] = ends[:count, 1] = np.arange(count).astype(np.int32)
    turns = np.zeros((max(count - 1, 0), 2), np.bool_)
    for merge in range(count - 1):
        one, other = left[merge], right[merge]
        best, best_worth = 0, -1.0
        for way in range(4):
            worth = similarity(indptr, topics, weights, rows[ends[one, way & 1]], rows[ends[other, way >> 1]])
            if worth > best_worth:
                best, best_worth = way, worth
        # One part's inner end is its last leaf: it is turned if the chosen end is its first; the other's the reverse.
        turns[merge, 0], turns[merge, 1] = (best & 1) == 0, (best >> 1) == 1
        ends[count + merge, 0] = ends[one, 1 - (best & 1)]
        ends[count + merge, 1] = ends[other, 1 - (best >> 1)]
    return read_leaves(left, right, turns, count)


@kernel
def nearest_rows(
    first: int,
    last: int,
    rows: Index,
    names: Index,
    starts: Offset,
    places: Index,
    indptr: Offset,
    topics: Index,
    weights: Weights,
    asked: Index,
) -> Index:
    """For asked[first:last] the place in `rows` of the most similar row; -1 for who shares nothing with any of them.

    `names`, `starts`, `places` are `by_topic` of the rows. Ties go by a hash of both, so that equals spread evenly.
    """
    own = weights_of(rows, indptr, topics, weights)
    shared = np.zeros(len(rows))
    touched = np.empty(len(rows), np.int32)
    found = np.full(last - first, -1, np.int32)
    for at in range(first, last):
        node = asked[at]
        total, count = 0.0, 0
        for pair in range(indptr[node], indptr[node + 1]):
            weight = weights[topics[pair]]
            total += weight
            which = np.searchsorted(names, topics[pair])
            if weight <= 0 or which == len(names) or names[which] != topics[pair]:
                continue
            for entry in range(starts[which], starts[which + 1]):
                place = places[entry]
                if shared[place] == 0.0:
                    touched[count] = place
                    count += 1
                shared[place] += weight
        best, best_worth, best_mark = np.int32(-1), 0.0, np.uint64(0)
        for index in range(count):
            place = touched[index]
            worth = shared[place] / (total + own[place] - shared[place])
            shared[place] = 0.0
            if worth >= best_worth:
                mark = mix(np.uint64(node) << np.uint64(32) | np.uint64(rows[place]))
                if worth > best_worth or mark > best_mark:
                    best, best_worth, best_mark = place, worth, mark
        found[at - first] = best
    return found


def warm() -> None:
    """Compile everything for the argument types that the pipeline uses."""
    rows, weights = np.arange(3, dtype=np.int32), np.ones(2)
    indptr, topics = np.array([0, 2, 3, 4], np.int64), np.array([0, 1, 0, 1], np.int32)
    left, right = linked_pairs(distances(rows, indptr, topics, weights))
    leaf_order(left, right, rows, indptr, topics, weights)
    nearest_rows(0, 3, rows, *by_topic(rows, indptr, topics), indptr, topics, weights, rows)
