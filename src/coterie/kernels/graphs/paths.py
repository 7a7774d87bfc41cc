"""Undirected graphs in arrays: shortest paths between all nodes, spanning trees, rooting, joining a forest."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


class Adjacency(NamedTuple):
    """Neighbours of node v stand at indptr[v]:indptr[v + 1] with the edge that leads there; edge e joins source[e]
    and target[e] at cost[e] > 0."""

    indptr: Int64
    neighbour: Int32
    edge: Int32
    source: Int32
    target: Int32
    cost: Float64


class Routes(NamedTuple):
    """distance[s, v] (infinite where there is no way) and via[s, v], the last edge from s to v (-1: none)."""

    distance: Float32
    via: Int32


@kernel
def other_end(links: Adjacency, edge: int, node: int) -> int:
    return int(links.source[edge] + links.target[edge] - node)


@kernel
def paths_by_hops(links: Adjacency, start: int, distance: Float32, via: Int32, queue: Int32) -> None:
    """Breadth first from `start` into one row of Routes, every edge counting the cost of edge 0."""
    unit = links.cost[0] if len(links.cost) else 1.0
    distance[start] = 0.0
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        for at in range(links.indptr[node], links.indptr[node + 1]):
            peer = links.neighbour[at]
            if distance[peer] == np.inf:
                distance[peer] = distance[node] + unit
                via[peer] = links.edge[at]
                queue[tail] = peer
                tail += 1


@kernel
def paths_by_cost(links: Adjacency, start: int, distance: Float32, via: Int32) -> None:
    """Dijkstra from `start` into one row of Routes."""
    distance[start] = 0.0
    heap = [(np.float32(0.0), np.int32(start))]
    while len(heap):
        reached, node = heappop(heap)
        if reached > distance[node]:
            continue
        for at in range(links.indptr[node], links.indptr[node + 1]):
            peer = links.neighbour[at]
            further = np.float32(reached + links.cost[links.edge[at]])
            if further < distance[peer]:
                distance[peer] = further
                via[peer] = links.edge[at]
                heappush(heap, (further, peer))


@kernel
def all_routes(links: Adjacency, is_uniform: bool) -> Routes:
    """Shortest paths between all pairs: n searches, n x n of float32 and int32.

    >>> one, zeros = np.ones(1, np.int32), np.zeros(2, np.int32)
    >>> path = Adjacency(np.array([0, 1, 2]), np.array([1, 0], np.int32), zeros, zeros[:1], one, np.ones(1))
    >>> all_routes(path, True).distance.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    count = len(links.indptr) - 1
    distance = np.full((count, count), np.inf, np.float32)
    via = np.full((count, count), -1, np.int32)
    queue = np.empty(count, np.int32)
    for start in range(count):
        if is_uniform:
            paths_by_hops(links, start, distance[start], via[start], queue)
        else:
            paths_by_cost(links, start, distance[start], via[start])
    return Routes(distance, via)


@kernel
def find(boss: Int32 | Int64, node: int) -> int:
    """Union-find with path halving."""
    while boss[node] != node:
        boss[node] = boss[boss[node]]
        node = boss[node]
    return node


@kernel
def nearest_sources(links: Adjacency, is_source: Bool, is_uniform: bool) -> tuple[Float64, Int32, Int32]:
    """From every node to the nearest source: distance, that source, and the first edge on the way (-1 at sources)."""
    count = len(links.indptr) - 1
    distance = np.full(count, np.inf)
    owner = np.full(count, -1, np.int32)
    via = np.full(count, -1, np.int32)
    queue = np.empty(count, np.int32)
    head, tail = 0, 0
    heap = [(0.0, np.int32(0))]
    heap.clear()
    for node in range(count):
        if is_source[node]:
            distance[node] = 0.0
            owner[node] = node
            queue[tail] = node
            tail += 1
            if not is_uniform:
                heappush(heap, (0.0, np.int32(node)))
    while head < tail if is_uniform else len(heap) > 0:
        if is_uniform:
            node = queue[head]
            head += 1
        else:
            reached, nearest = heappop(heap)
            node = int(nearest)
            if reached > distance[node]:
                continue
        for at in range(links.indptr[node], links.indptr[node + 1]):
            peer = links.neighbour[at]
            further = distance[node] + links.cost[links.edge[at]]
            if further < distance[peer]:
                distance[peer] = further
                owner[peer] = owner[node]
                via[peer] = links.edge[at]
                if is_uniform:
                    queue[tail] = peer
                    tail += 1
                else:
                    heappush(heap, (further, peer))
    return distance, owner, via


@kernel
def span_forest(links: Adjacency, in_tree: Bool, is_core: Bool, is_uniform: bool) -> None:
    """Makes the forest `in_tree` over the nodes `is_core` a spanning tree (of every connected part that has a core
    node): outside nodes hang on by shortest paths, parts of the forest are joined by their shortest connections."""
    distance, owner, via = nearest_sources(links, is_core, is_uniform)
    boss = np.arange(len(is_core)).astype(np.int32)
    for edge in range(len(in_tree)):
        if in_tree[edge]:
            boss[find(boss, links.source[edge])] = find(boss, links.target[edge])
    for node in range(len(is_core)):
        if via[node] >= 0:
            in_tree[via[node]] = True
            boss[find(boss, node)] = find(boss, owner[node])
    crossing = np.empty(len(in_tree), np.int64)
    length = np.empty(len(in_tree))
    size = 0
    for edge in range(len(in_tree)):
        one, other = links.source[edge], links.target[edge]
        if owner[one] >= 0 and find(boss, one) != find(boss, other):
            crossing[size] = edge
            length[size] = distance[one] + links.cost[edge] + distance[other]
            size += 1
    for at in np.argsort(length[:size], kind="mergesort"):
        one, other = find(boss, links.source[crossing[at]]), find(boss, links.target[crossing[at]])
        if one != other:
            boss[one] = other
            in_tree[crossing[at]] = True


@kernel
def root_tree(
    links: Adjacency, in_tree: Bool, root: int, parent: Int32, parent_edge: Int32, depth: Int32, order: Int32
) -> None:
    """Hangs the chosen edges from `root`, breadth first: parents stand before children in `order`.

    Parts that `root` does not reach are rooted at their lowest node; roots have parent and parent edge -1.
    """
    count = len(parent)
    parent[:] = -1
    parent_edge[:] = -1
    depth[:] = -1
    # The tree's own adjacency first: most edges of a graph are not in it. Neighbours stand in ascending order.
    start = np.zeros(count + 1, np.int32)
    for edge in range(len(in_tree)):
        if in_tree[edge]:
            start[links.source[edge] + 1] += 1
            start[links.target[edge] + 1] += 1
    for node in range(count):
        start[node + 1] += start[node]
    fill, touching = start[:-1].copy(), np.empty(start[-1], np.int32)
    for edge in range(len(in_tree)):
        if in_tree[edge]:
            touching[fill[links.source[edge]]] = edge
            fill[links.source[edge]] += 1
            touching[fill[links.target[edge]]] = edge
            fill[links.target[edge]] += 1
    head, tail = 0, 0
    for candidate in range(-1, count):
        top = root if candidate < 0 else candidate
        if depth[top] >= 0:
            continue
        depth[top] = 0
        order[tail] = top
        tail += 1
        while head < tail:
            node = order[head]
            head += 1
            for at in range(start[node], start[node + 1]):
                edge = touching[at]
                peer = other_end(links, edge, node)
                if depth[peer] < 0:
                    depth[peer] = depth[node] + 1
                    parent[peer] = node
                    parent_edge[peer] = edge
                    order[tail] = peer
                    tail += 1
