"""Biconnected blocks of every topic's induced subgraph: where one crash would cut a topic in two."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.links.measures import induced

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@kernel
def blocks_of(indptr: Int64, edge: Int32) -> tuple[Int64, Int64, Int64]:
    """Blocks of one graph: (offsets, vertices, blocks each vertex lies in). Hopcroft and Tarjan, no recursion.

    A vertex in more than one block is a cut vertex. Vertices without edges are in no block.
    """
    size = len(indptr) - 1
    when = np.zeros(size, np.int64)  # 0: not visited
    low = np.zeros(size, np.int64)
    before = np.full(size, -1, np.int64)
    at = indptr[:-1].copy()
    path = np.empty(size, np.int64)
    stack = np.empty(size, np.int64)
    starts = np.zeros(size + 1, np.int64)
    vertices = np.empty(2 * size, np.int64)
    memberships = np.zeros(size, np.int64)
    clock, block_count, filled = 0, 0, 0
    for root in range(size):
        if when[root]:
            continue
        clock += 1
        when[root] = low[root] = clock
        path[0], depth = root, 1
        height = 0
        while depth > 0:
            node = path[depth - 1]
            if at[node] < indptr[node + 1]:
                peer = edge[at[node]]
                at[node] += 1
                if when[peer] == 0:
                    clock += 1
                    when[peer] = low[peer] = clock
                    before[peer] = node
                    path[depth] = peer
                    depth += 1
                    stack[height] = peer
                    height += 1
                elif peer != before[node]:
                    low[node] = min(low[node], when[peer])
                continue
            depth -= 1
            above = before[node]
            if above < 0:
                continue
            low[above] = min(low[above], low[node])
            if low[node] >= when[above]:
                vertices[filled] = above
                memberships[above] += 1
                filled += 1
                while True:
                    height -= 1
                    vertices[filled] = stack[height]
                    memberships[stack[height]] += 1
                    filled += 1
                    if stack[height] == node:
                        break
                block_count += 1
                starts[block_count] = filled
    return starts[: block_count + 1], vertices[:filled], memberships


@kernel
def cut_vertex_counts(member_indptr: Int64, member: Int32, link_indptr: Int64, link: Int32) -> Int64:
    """Per topic: nodes whose crash would disconnect members that are connected now.

    >>> chain = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], np.int32)
    >>> cut_vertex_counts(np.array([0, 3]), np.array([0, 1, 2], np.int32), *chain).tolist()
    [1]
    """
    topics = len(member_indptr) - 1
    counts = np.zeros(topics, np.int64)
    place = np.full(len(link_indptr) - 1, -1, np.int64)
    edge = np.empty(max(len(link), 1), np.int32)
    for topic in range(topics):
        indptr, count = induced(topic, member_indptr, member, link_indptr, link, place, edge)
        _, _, memberships = blocks_of(indptr, edge[:count])
        counts[topic] = np.count_nonzero(memberships > 1)
    return counts


@kernel
def leaf_blocks(
    member_indptr: Int64, member: Int32, pair: Int64, link_indptr: Int64, link: Int32, leaf: Int64, cut: Int32
) -> int:
    """Number the leaf blocks of all topics: sets `leaf` of the pairs inside and `cut` to the node that ties each.

    A leaf block holds exactly one cut vertex; a topic that is one block, or has two members, has none. Returns how many
    there are. `leaf` (one entry per pair) is overwritten.
    """
    leaf[:] = -1
    place = np.full(len(link_indptr) - 1, -1, np.int64)
    edge = np.empty(max(len(link), 1), np.int32)
    number = 0
    for topic in range(len(member_indptr) - 1):
        first = member_indptr[topic]
        indptr, count = induced(topic, member_indptr, member, link_indptr, link, place, edge)
        starts, vertices, memberships = blocks_of(indptr, edge[:count])
        for block in range(len(starts) - 1):
            tie, ties = -1, 0
            for at in range(starts[block], starts[block + 1]):
                if memberships[vertices[at]] > 1:
                    tie = vertices[at]
                    ties += 1
            if ties != 1:
                continue
            cut[number] = member[first + tie]
            for at in range(starts[block], starts[block + 1]):
                if vertices[at] != tie:
                    leaf[pair[first + vertices[at]]] = number
            number += 1
    return number
