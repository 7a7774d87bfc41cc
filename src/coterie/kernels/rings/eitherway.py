"""Greedy paths that may go either way round the ring: what Magnet's clockwise rule is compared with."""

from __future__ import annotations

import numpy as np

from coterie.kernels.arrays import grown
from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset, Words


@kernel
def around(one: np.uint64, other: np.uint64) -> np.uint64:
    """Steps between two positions the shorter way."""
    return min(one - other, other - one)


@kernel
def either_way_paths(
    positions: Words, indptr: Offset, links: Index, starts: Index, targets: Index, hops_max: int
) -> tuple[Offset, Index]:
    """Paths from each start to each target, both ends included, always to the link closest to the target.

    Every node has its successor and its predecessor among its links, so every step gets closer; `hops_max` only bounds
    the memory for one path.
    """
    ends = np.zeros(len(starts) + 1, np.int64)
    hops = np.empty(16 * len(starts) + hops_max + 1, np.int32)
    used = 0
    for i in range(len(starts)):
        hops = grown(hops, used, hops_max + 1)
        node, target = starts[i], positions[targets[i]]
        hops[used] = node
        used += 1
        while node != targets[i]:
            best = links[indptr[node]]
            for at in range(indptr[node], indptr[node + 1]):
                if around(positions[links[at]], target) < around(positions[best], target):
                    best = links[at]
            node = best
            hops[used] = node
            used += 1
        ends[i + 1] = used
    return ends, hops[:used].copy()
