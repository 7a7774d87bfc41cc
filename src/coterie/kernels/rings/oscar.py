"""Oscar's long links over plain arrays: medians of what lies ahead, then random peers between them.

Draws are a splitmix64 sequence per node, started from the seed and the node's position, so that a single node can
repeat its own draws. Offsets count nodes clockwise: 1 is the successor, n - 1 the predecessor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.mixing import mix
from coterie.kernels.rings.chord import Index, Offset, Words
from coterie.kernels.rings.pastry import highest_bit

Weights = NDArray[np.float64]
Flags = NDArray[np.bool_]
Interests = tuple[Offset, Index, Weights]
TRIES = 16  # draws of a link until it is a new one


@kernel
def draw_below(state: Words, bound: int) -> int:
    """The next number of the sequence, below `bound`; `state` is one word and moves on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    drawn: int = np.int64(mix(state[0]) % np.uint64(bound))  # type: ignore[assignment]
    return drawn


@kernel
def partition_bounds(state: Words, count: int, partitions: int, samples: int, bounds: Offset) -> int:
    """Fill `bounds` with falling offsets: partition j is [bounds[j + 1], bounds[j]). Returns how many there are.

    Each bound is the median offset of what lies before the one before: exactly, or of so many samples (Magnet,
    section 2, steps a to c). Whatever is left before the last median is a partition too.
    """
    bounds[0] = count
    found = 0
    while found < partitions - 1 and bounds[found] > 2:
        ahead = bounds[found] - 1
        if samples == 0:
            median = 1 + ahead // 2
        else:
            drawn = np.empty(samples, np.int64)
            for i in range(samples):
                drawn[i] = 1 + draw_below(state, ahead)
            median = np.sort(drawn)[samples // 2]
        found += 1
        bounds[found] = median
    if bounds[found] > 1:
        found += 1
        bounds[found] = 1
    return found


@kernel
def similarity(indptr: Offset, topics: Index, weights: Weights, one: int, other: int) -> float:
    """Weight of the topics two nodes have in common over the weight of those at least one has (Jaccard)."""
    both = either = 0.0
    i, j = indptr[one], indptr[other]
    while i < indptr[one + 1] or j < indptr[other + 1]:
        if j == indptr[other + 1] or (i < indptr[one + 1] and topics[i] < topics[j]):
            either += weights[topics[i]]
            i += 1
        elif i == indptr[one + 1] or topics[j] < topics[i]:
            either += weights[topics[j]]
            j += 1
        else:
            both += weights[topics[i]]
            either += weights[topics[i]]
            i += 1
            j += 1
    return both / either if either > 0 else 0.0


@kernel
def best_of(
    state: Words, low: int, high: int, choices: int, order: Index, rank: int, pointed: Offset, interests: Interests
) -> int:
    """Of so many offsets drawn from [low, high) the preferred one, the first of equals."""
    indptr, topics, weights = interests
    best, best_worth = 0, -np.inf
    for _ in range(choices):
        offset = low + draw_below(state, high - low)
        peer = order[(rank + offset) % len(order)]
        worth = -float(pointed[peer])
        if len(indptr) > 1:
            worth = similarity(indptr, topics, weights, order[rank], peer)
        if worth > best_worth:
            best, best_worth = offset, worth
    return best


@kernel
def ring_neighbours(near: int, offsets: Offset, is_used: Flags) -> int:
    """Put the offsets of the nearest nodes on each side first; returns how many there are."""
    count = len(is_used)
    found = 0
    for step in range(1, near + 1):
        for offset in (step, count - step):
            if 0 < offset < count and not is_used[offset]:
                is_used[offset] = True
                offsets[found] = offset
                found += 1
    return found


@kernel
def oscar_links(
    ascending: Words,
    order: Index,
    seed: np.uint64,
    near: int,
    links: int,
    samples: int,
    choices: int,
    is_balanced: bool,
    interests: Interests,
) -> tuple[Offset, Index]:
    """Every node's links by clockwise distance: `near` on each side, and `links` long ones.

    A long link goes to a random partition (if balanced, one partition after the other first) and there to the best of
    so many random peers: the most similar if interests are given (offsets, topics, weight by topic; no offsets if not),
    else the least pointed to.
    """
    count = len(ascending)
    width = min(count - 1, 2 * near + links)
    partitions = max(1, highest_bit(np.uint64(count - 1)) + 1)
    pointed = np.zeros(count, np.int64)
    bounds = np.empty(partitions + 2, np.int64)
    offsets = np.empty(width, np.int64)
    is_used = np.zeros(count, np.bool_)
    rank_of = np.argsort(order)
    ends = np.zeros(count + 1, np.int64)
    out = np.empty(count * width, np.int32)
    for node in range(count):
        rank = rank_of[node]
        state = np.array([mix(seed ^ ascending[rank])], np.uint64)
        found = ring_neighbours(near, offsets, is_used)
        total = partition_bounds(state, count, partitions, samples, bounds) if found < width else 0
        for link in range(width - found):
            for attempt in range(TRIES):
                is_set = is_balanced and attempt == 0 and link < total
                part = link if is_set else draw_below(state, total)
                offset = best_of(state, bounds[part + 1], bounds[part], choices, order, rank, pointed, interests)
                if not is_used[offset]:
                    is_used[offset] = True
                    offsets[found] = offset
                    pointed[order[(rank + offset) % count]] += 1
                    found += 1
                    break
        is_used[offsets[:found]] = False
        ends[node + 1] = ends[node] + found
        out[ends[node] : ends[node + 1]] = order[(rank + np.sort(offsets[:found])) % count]
    return ends, out[: ends[-1]].copy()
