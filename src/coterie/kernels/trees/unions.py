"""Unions of paths as trees, for many channels at once."""

from __future__ import annotations

import numpy as np

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset, grown


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
    seen_in = np.full(node_count, -1, np.int64)
    parent_of = np.empty(node_count, np.int32)
    depth = np.zeros(node_count, np.int64)
    found = np.empty(node_count, np.int64)
    ends = np.zeros(channels + 1, np.int64)
    nodes = np.empty(1024, np.int32)
    parents = np.empty(1024, np.int32)
    used = 0
    for channel in range(channels):
        fresh = 0
        for path in range(channel_starts[channel], channel_starts[channel + 1]):
            low, high = indptr[path], indptr[path + 1]
            above = hops[high - 1] if is_upward else hops[low]
            seen_in[above] = channel
            depth[above] = 0
            for i in range(1, high - low):
                node = hops[high - 1 - i] if is_upward else hops[low + i]
                if seen_in[node] != channel:
                    seen_in[node] = channel
                    parent_of[node] = above
                    depth[node] = depth[above] + 1
                    found[fresh] = depth[node] * node_count + node
                    fresh += 1
                above = node
        edges = np.sort(found[:fresh])
        nodes = grown(nodes, used, fresh)
        parents = grown(parents, used, fresh)
        for i in range(fresh):
            node = edges[i] % node_count
            nodes[used + i] = node
            parents[used + i] = parent_of[node]
        used += fresh
        ends[channel + 1] = used
    return ends, nodes[:used].copy(), parents[:used].copy()
