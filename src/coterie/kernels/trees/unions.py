"""Unions of paths as trees, for many channels at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.kernels.arrays import grown
from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset


class GrowingTree(NamedTuple):
    """A tree that is being made, for all nodes; `seen_in[n]` is the channel that node n was last reached for."""

    seen_in: Offset
    parent_of: Index
    depth: Offset
    found: Offset  # (depth, node) of those reached, as one number each


@kernel
def gathering(node_count: int) -> GrowingTree:
    return GrowingTree(
        np.full(node_count, -1, np.int64),
        np.empty(node_count, np.int32),
        np.zeros(node_count, np.int64),
        np.empty(node_count, np.int64),
    )


@kernel
def begin_at(tree: GrowingTree, root: int, channel: int) -> None:
    tree.seen_in[root] = channel
    tree.depth[root] = 0


@kernel
def reach(tree: GrowingTree, node: int, above: int, channel: int, fresh: int) -> int:
    """A node is reached from another one; returns how many were reached so far: the first way to a node counts."""
    if tree.seen_in[node] == channel:
        return fresh
    tree.seen_in[node] = channel
    tree.parent_of[node] = above
    tree.depth[node] = tree.depth[above] + 1
    tree.found[fresh] = tree.depth[node] * len(tree.found) + node
    return fresh + 1


@kernel
def put_edges(tree: GrowingTree, fresh: int, nodes: Index, parents: Index, used: int) -> tuple[Index, Index]:
    """Add the edges of what was reached, by (depth, node), behind the `used` ones; both arrays may be longer ones."""
    edges = np.sort(tree.found[:fresh])
    nodes = grown(nodes, used, fresh)
    parents = grown(parents, used, fresh)
    for i in range(fresh):
        node = edges[i] % len(tree.found)
        nodes[used + i] = node
        parents[used + i] = tree.parent_of[node]
    return nodes, parents


@kernel
def union_of_paths(
    node_count: int, channel_starts: Offset, indptr: Offset, hops: Index, is_upward: bool
) -> tuple[Offset, Index, Index]:
    """One tree per channel: the union of its paths, edges by (depth, node).

    Channel c owns the paths `channel_starts[c]:channel_starts[c + 1]`; path i is `hops[indptr[i]:indptr[i + 1]]`, from
    the root, or to it if `is_upward`; all paths of a channel have the same root. Where two paths reach a node by
    different ways the earlier path decides. Returns offsets by channel, nodes, and their parents. Linear in the hops,
    plus sorting each tree.
    """
    channels = len(channel_starts) - 1
    tree = gathering(node_count)
    ends = np.zeros(channels + 1, np.int64)
    nodes = np.empty(1024, np.int32)
    parents = np.empty(1024, np.int32)
    used = 0
    for channel in range(channels):
        fresh = 0
        for path in range(channel_starts[channel], channel_starts[channel + 1]):
            low, high = indptr[path], indptr[path + 1]
            above = hops[high - 1] if is_upward else hops[low]
            begin_at(tree, above, channel)
            for i in range(1, high - low):
                node = hops[high - 1 - i] if is_upward else hops[low + i]
                fresh = reach(tree, node, above, channel, fresh)
                above = node
        nodes, parents = put_edges(tree, fresh, nodes, parents, used)
        used += fresh
        ends[channel + 1] = used
    return ends, nodes[:used].copy(), parents[:used].copy()
