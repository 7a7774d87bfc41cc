"""Dissemination trees and ways in, as unions of the paths a ring gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.trees.unions import union_of_paths
from coterie.model import Entries, Relation, Spread, Trees
from coterie.model.relation import Index
from coterie.substrate.rings import Ring

_PAIRS_AT_ONCE = 1 << 21  # bounds the memory for paths; the result does not depend on it


def bottom_up_trees(ring: Ring, keys: NDArray[np.uint64], members: Relation) -> Trees:
    """Channel c's tree is the union of its members' paths to the owner of keys[c], reversed (Scribe)."""
    return _path_union(ring, keys, members, is_upward=True)


def top_down_trees(ring: Ring, keys: NDArray[np.uint64], members: Relation) -> Trees:
    """Channel c's tree is the union of the paths from the owner of keys[c] to its members (Magnet, DYNATOPS).

    On a clockwise ring that union is a tree. On others two paths may reach a node by different ways; then the path to
    the member with the lower number decides.
    """
    return _path_union(ring, keys, members, is_upward=False)


def path_union(ring: Ring, roots: Index, members: Relation, *, is_upward: bool) -> Trees:
    """Trees of channels whose roots are chosen rather than found by key."""
    return _path_union(ring, ring.positions[roots], members, is_upward=is_upward)


def entries(ring: Ring, publisher_node: Index, channel: Index, keys: NDArray[np.uint64]) -> Entries:
    """Publication i starts at publisher_node[i] and is routed to the root of channel[i], the owner of its key."""
    paths = ring.paths(publisher_node.astype(np.int32), keys[channel])
    rows = np.arange(len(channel), dtype=np.int32)
    return Entries(rows, channel.astype(np.int32), np.full(len(channel), -1, np.int32), paths.indptr, paths.hops)


def _path_union(ring: Ring, keys: NDArray[np.uint64], members: Relation, *, is_upward: bool) -> Trees:
    if len(keys) != members.row_count:
        raise ValueError(f"{len(keys)} keys for {members.row_count} channels")
    roots = ring.owners(keys)
    counts, nodes, parents = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for first, last in _chunks(members):
        low, high = members.indptr[first], members.indptr[last]
        channel = np.repeat(np.arange(first, last), members.lengths[first:last])
        who = members.columns[low:high]
        paths = ring.paths(who, keys[channel]) if is_upward else ring.paths(roots[channel], ring.positions[who])
        starts = members.indptr[first : last + 1] - low
        indptr, node, parent = union_of_paths(len(ring.positions), starts, paths.indptr, paths.hops, is_upward)
        counts.append(np.diff(indptr))
        nodes.append(node)
        parents.append(parent)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
    return Trees(Spread.ROOTED, members, roots, indptr, np.concatenate(nodes), np.concatenate(parents))


def _chunks(members: Relation) -> Iterator[tuple[int, int]]:
    """Runs of channels with a bounded number of members, or of one channel with more."""
    first = 0
    while first < members.row_count:
        reach = members.indptr[first] + _PAIRS_AT_ONCE
        last = max(first + 1, int(np.searchsorted(members.indptr, reach, side="right")) - 1)
        yield first, last
        first = last
