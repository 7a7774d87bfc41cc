"""Trees on a clockwise ring whose paths prefer interested nodes, for many topics at once."""

from __future__ import annotations

import numpy as np

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset, Words, furthest_link
from coterie.kernels.trees.unions import begin_at, gathering, put_edges, reach


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
    tree = gathering(count)
    ends = np.zeros(len(t_indptr), np.int64)
    nodes = np.empty(1024, np.int32)
    parents = np.empty(1024, np.int32)
    used = 0
    for topic in range(len(t_indptr) - 1):
        for at in range(t_indptr[topic], t_indptr[topic + 1]):
            wanted_in[members[at]] = topic
        root = roots[topic]
        begin_at(tree, root, topic)
        fresh = 0
        for at in range(t_indptr[topic], t_indptr[topic + 1]):
            member = members[at]
            node = root
            while tree.seen_in[member] != topic:
                hop = interested_hop(positions, indptr, links, node, positions[member], wanted_in, topic)
                fresh = reach(tree, hop, node, topic, fresh)
                node = hop
        nodes, parents = put_edges(tree, fresh, nodes, parents, used)
        used += fresh
        ends[topic + 1] = used
    return ends, nodes[:used].copy(), parents[:used].copy()
