"""Interests that change one by one: preferential growth inside a topic hierarchy, replaced topics, people followed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@kernel
def remember(table: Longs, key: int) -> bool:
    """Put `key` into an open hash table (size a power of two, -1 is empty); False where it already was."""
    mask = len(table) - 1
    mixed = key ^ (key >> 31)
    mixed = (mixed * 0x2545F4914F6CDD1D) & 0x7FFFFFFFFFFFFFFF
    at = (mixed >> 24) & mask
    while table[at] != -1:
        if table[at] == key:
            return False
        at = (at + 1) & mask
    table[at] = key
    return True


@kernel
def grow_subscriptions(
    draw: np.random.Generator, peer: Longs, topic: Longs, total: int, topic_count: int, reach: Floats
) -> Longs:
    """Grow the given distinct pairs to `total` by homophily; returns keys peer * topic_count + topic, unsorted.

    A topic by popularity and then one of its peers evenly is one pair evenly. reach[x - 1] is the probability that the
    tree distance is at most x levels; a topic at distance x differs in bit x - 1 and in any lower bits. A draw that
    repeats a subscription is dropped; after 100 draws per wanted pair the growth ends, full or not. O(total).
    """
    size = 16
    while size < 2 * total:
        size *= 2
    table = np.full(size, -1, np.int64)
    pairs = np.empty(total, np.int64)
    count = 0
    for at in range(len(peer)):
        key = peer[at] * topic_count + topic[at]
        if remember(table, key):
            pairs[count] = key
            count += 1
    patience = 100 * total
    while count < total and patience > 0:
        patience -= 1
        key = pairs[int(draw.random() * count)]
        old = key % topic_count
        level = np.searchsorted(reach, draw.random(), side="right")
        low = int(draw.random() * (1 << level))
        new = (((old >> level) ^ 1) << level) | low
        if new < topic_count and remember(table, key - old + new):
            pairs[count] = key - old + new
            count += 1
    return pairs[:count]
