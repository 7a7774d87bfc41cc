"""Rings of identifiers: owners of keys, Chord's fingers, and greedy clockwise paths, over plain arrays.

Everywhere: `positions` uint64[n] by node, distinct; `order` int32[n] the nodes by ascending position; `ascending`
uint64[n] is `positions[order]`. Distances are clockwise and wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.arrays import first_not_below, noted
from coterie.kernels.jit import inlined, kernel

Words = NDArray[np.uint64]
Index = NDArray[np.int32]
Offset = NDArray[np.int64]
Router = TypeVar("Router")


@kernel
def first_at_or_after(ascending: Words, key: np.uint64) -> int:
    """The rank of the first position clockwise from the key, the key included; log n steps."""
    rank = first_not_below(ascending, 0, len(ascending), key)
    return rank if rank < len(ascending) else 0


@kernel
def chord_fingers(ascending: Words, order: Index, successors: int) -> tuple[Offset, Index]:
    """Every node's links by clockwise distance: its fingers and its first `successors` successors.

    Finger i is the first node at a distance of at least 2^i, so the distinct fingers are the nearest nodes in each
    range of distances [2^i, 2^(i + 1)). Returns offsets by node and the links; n * 64 * log n steps.
    """
    count = len(ascending)
    near = min(successors, count - 1)
    counts = np.zeros(count + 1, np.int64)
    ranks = np.empty((count, 64 + near), np.int32)
    for rank in range(count):
        found = 0
        for step in range(1, near + 1):
            ranks[rank, found] = (rank + step) % count
            found += 1
        for bit in range(64):
            ahead = np.uint64(1) << np.uint64(bit)
            candidate = first_at_or_after(ascending, ascending[rank] + ahead)
            distance = ascending[candidate] - ascending[rank]
            steps = (candidate - rank) % count
            if distance >= ahead and distance - ahead < ahead and steps > near:
                ranks[rank, found] = candidate
                found += 1
        counts[order[rank] + 1] = found
    indptr = np.cumsum(counts)
    links = np.empty(indptr[-1], np.int32)
    for rank in range(count):
        start = indptr[order[rank]]
        for i in range(indptr[order[rank] + 1] - start):
            links[start + i] = order[ranks[rank, i]]
    return indptr, links


@kernel
def furthest_link(positions: Words, indptr: Offset, links: Index, node: int, key: np.uint64) -> int:
    """Where in `links` the one of `node` is that goes furthest towards the key without passing it, or its successor.

    Links are by ascending clockwise distance, the successor first, at least one.
    """
    ahead = key - positions[node]
    low, high = indptr[node], indptr[node + 1]
    first = low
    while low < high:
        middle = (low + high) >> 1
        if positions[links[middle]] - positions[node] <= ahead:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, first)


class Fingers(NamedTuple):
    """What greedy clockwise paths need; links by ascending clockwise distance, the successor first, at least one."""

    positions: Words
    indptr: Offset
    links: Index


@kernel
def clockwise_hop(fingers: Fingers, node: int, key: np.uint64, owner: int) -> int:
    """The link of `node` furthest towards the key without passing it, or its successor if all links pass it."""
    hop: int = fingers.links[furthest_link(fingers.positions, fingers.indptr, fingers.links, node, key)]
    return hop


@inlined
def walked(
    hop: Callable[[Router, int, np.uint64, int], int], router: Router, starts: Index, keys: Words, owners: Index
) -> tuple[Offset, Index]:
    """Paths from each start, hop by hop, to the owner of each key, both ends included, one after the other."""
    ends = np.zeros(len(starts) + 1, np.int64)
    hops = np.empty(8 * len(starts) + 8, np.int32)
    used = 0
    for i in range(len(starts)):
        node = starts[i]
        hops = noted(hops, used, node)
        used += 1
        while node != owners[i]:
            node = hop(router, node, keys[i], owners[i])
            hops = noted(hops, used, node)
            used += 1
        ends[i + 1] = used
    return ends, hops[:used].copy()


@kernel
def clockwise_paths(fingers: Fingers, starts: Index, keys: Words, owners: Index) -> tuple[Offset, Index]:
    """Greedy clockwise paths."""
    return walked(clockwise_hop, fingers, starts, keys, owners)
