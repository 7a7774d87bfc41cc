"""Trees on a clockwise ring whose paths prefer interested nodes, for many topics at once."""

from __future__ import annotations

import numpy as np

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset, Words, furthest_link, grown


@kernel
def interested_hop(
    positions: Words, indptr: Offset, links: Index, node: int, key: np.uint64, wanted_in: Offset, topic: int
) -> int:
    """Of the links that do not pass the key the furthest whose node wants the topic, else the furthest of all.

    Links are by ascending clockwise distance, the successor first, at least one; `wanted_in[n]` is the topic that node
    n was last marked for.
    """
    furthest = furthest_link(positions, indptr, links, node, key)
    for at in range(furthest, indptr[node] - 1, -1):
        if wanted_in[links[at]] == topic:
            hop: int = links[at]
            return hop
    fallback: int = links[furthest]
    return fallback


@kernel
def interested_trees(
    positions: Words, indptr: Offset, links: Index, roots: Index, t_indptr: Offset, members: Index
) -> tuple[Offset, Index, Index]:
    """One tree per topic: the union of the paths from its root to its members, edges by (depth, node).

    At each node the links that count for a topic are the interested ones and those before the first of them; a path is
    the greedy path over these, so the union is a tree. Returns offsets by topic, nodes, and their parents.
    """
    count = len(positions)
    wanted_in = np.full(count, -1, np.int64)
    seen_in = np.full(count, -1, np.int64)
    parent_of = np.empty(count, np.int32)
    depth = np.zeros(count, np.int64)
    found = np.empty(count, np.int64)
    ends = np.zeros(len(t_indptr), np.int64)
    nodes = np.empty(1024, np.int32)
    parents = np.empty(1024, np.int32)
    used = 0
    for topic in range(len(t_indptr) - 1):
        for at in range(t_indptr[topic], t_indptr[topic + 1]):
            wanted_in[members[at]] = topic
        root = roots[topic]
        seen_in[root] = topic
        depth[root] = 0
        fresh = 0
        for at in range(t_indptr[topic], t_indptr[topic + 1]):
            member = members[at]
            node = root
            while seen_in[member] != topic:
                hop = interested_hop(positions, indptr, links, node, positions[member], wanted_in, topic)
                if seen_in[hop] != topic:
                    seen_in[hop] = topic
                    parent_of[hop] = node
                    depth[hop] = depth[node] + 1
                    found[fresh] = depth[hop] * count + hop
                    fresh += 1
                node = hop
        edges = np.sort(found[:fresh])
        nodes = grown(nodes, used, fresh)
        parents = grown(parents, used, fresh)
        for i in range(fresh):
            nodes[used + i] = edges[i] % count
            parents[used + i] = parent_of[edges[i] % count]
        used += fresh
        ends[topic + 1] = used
    return ends, nodes[:used].copy(), parents[:used].copy()
