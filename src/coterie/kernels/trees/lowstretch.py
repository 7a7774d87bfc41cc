"""Low-stretch spanning trees of graphs whose edges have multiplicities, after Alon, Karp, Peleg and West."""

from __future__ import annotations

import numpy as np

from coterie.kernels.graphs.paths import Adjacency, Bool, Float64, Int32, Int64
from coterie.kernels.jit import kernel


@kernel
def low_stretch_forest(links: Adjacency, multiplicity: Float64, sparsity: float, spread: float, in_tree: Bool) -> None:
    """Adds to `in_tree` a spanning forest of the edges with positive multiplicity.

    Rounds: cut the contracted graph into balls whose outgoing multiplicity is at most 1 / sparsity of what they hold,
    span each ball breadth first, contract it. Only edges at most `spread` times as dear as the cheapest one left take
    part in a round.
    """
    part = np.arange(len(links.indptr) - 1).astype(np.int32)
    edges = np.flatnonzero(multiplicity > 0)
    while len(edges) > 0:
        cheapest = links.cost[edges].min()
        now = edges[links.cost[edges] <= spread * cheapest]
        part_count = renumber(part, len(part))
        cut_parts(links, multiplicity, now, part, part_count, sparsity, in_tree)
        edges = edges[part[links.source[edges]] != part[links.target[edges]]]


@kernel
def renumber(part: Int32, limit: int) -> int:
    """Parts become 0, 1, ... in order of first appearance; returns how many there are."""
    fresh = np.full(limit, -1, np.int32)
    count = 0
    for node in range(len(part)):
        if fresh[part[node]] < 0:
            fresh[part[node]] = count
            count += 1
        part[node] = fresh[part[node]]
    return count


@kernel
def cut_parts(
    links: Adjacency, multiplicity: Float64, edges: Int64, part: Int32, count: int, sparsity: float, in_tree: Bool
) -> None:
    """One round: grows balls over the parts from the heaviest ones on and merges each ball into one part."""
    indptr = np.zeros(count + 1, np.int64)
    weight = np.zeros(count)
    for edge in edges:
        for one in (part[links.source[edge]], part[links.target[edge]]):
            indptr[one + 1] += 1
            weight[one] += multiplicity[edge]
    indptr = np.cumsum(indptr)
    fill = indptr[:-1].copy()
    incident = np.empty(indptr[-1], np.int32)
    for edge in edges:
        for one in (part[links.source[edge]], part[links.target[edge]]):
            incident[fill[one]] = edge
            fill[one] += 1
    ball = np.full(count, -1, np.int32)
    share = weight.sum() / max(2 * count, 1)
    queue, layer = np.empty(count, np.int32), np.empty(count, np.int32)
    touched = np.flatnonzero(weight > 0)  # mostly few
    for center in touched[np.argsort(-weight[touched], kind="mergesort")]:
        if ball[center] < 0:
            grow_ball(links, multiplicity, indptr, incident, part, ball, center, share, sparsity, queue, layer, in_tree)
    for node in range(len(part)):
        if ball[part[node]] >= 0:
            part[node] = ball[part[node]]


@kernel
def grow_ball(
    links: Adjacency,
    multiplicity: Float64,
    indptr: Int64,
    incident: Int32,
    part: Int32,
    ball: Int32,
    center: int,
    share: float,
    sparsity: float,
    queue: Int32,
    layer: Int32,
    in_tree: Bool,
) -> None:
    """Breadth first over parts not yet taken, layer by layer, until little multiplicity leaves the ball."""
    ball[center] = center
    layer[center] = 0
    depth = 0
    queue[0] = center
    first, tail = 0, 1
    inside = share
    while first < tail:
        leaving = 0.0
        for at in range(first, tail):
            for place in range(indptr[queue[at]], indptr[queue[at] + 1]):
                edge = incident[place]
                if ball[far_part(links, part, edge, queue[at])] < 0:
                    leaving += multiplicity[edge]
        if leaving == 0.0 or (first > 0 and sparsity * leaving <= inside):
            return
        layer_end = tail
        depth += 1
        # Of all edges into a new part the heaviest becomes its tree edge: most copies then travel one link.
        for at in range(first, layer_end):
            for place in range(indptr[queue[at]], indptr[queue[at] + 1]):
                far = far_part(links, part, incident[place], queue[at])
                if ball[far] < 0:
                    ball[far] = center
                    layer[far] = depth
                    queue[tail] = far
                    tail += 1
        for at in range(layer_end, tail):
            chosen = -1
            for place in range(indptr[queue[at]], indptr[queue[at] + 1]):
                edge = incident[place]
                far = far_part(links, part, edge, queue[at])
                if ball[far] == center and layer[far] == depth - 1:
                    inside += multiplicity[edge]
                    if chosen < 0 or multiplicity[edge] > multiplicity[chosen]:
                        chosen = edge
            in_tree[chosen] = True
        first = layer_end


@kernel
def far_part(links: Adjacency, part: Int32, edge: int, near: int) -> int:
    one, other = part[links.source[edge]], part[links.target[edge]]
    return int(other if one == near else one)


@kernel
def total_stretch(
    links: Adjacency, multiplicity: Float64, parent: Int32, parent_edge: Int32, depth: Int32
) -> tuple[float, float]:
    """Sum over edges of multiplicity x length in the tree / cost, and the sum of multiplicities."""
    total, mass = 0.0, 0.0
    for edge in range(len(multiplicity)):
        if multiplicity[edge] <= 0:
            continue
        one, other = links.source[edge], links.target[edge]
        length = 0.0
        while one != other:
            if depth[one] < depth[other]:
                one, other = other, one
            if parent[one] < 0:
                break
            length += links.cost[parent_edge[one]]
            one = parent[one]
        total += multiplicity[edge] * length / links.cost[edge]
        mass += multiplicity[edge]
    return total, mass
