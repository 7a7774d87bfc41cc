"""Steiner trees on precomputed shortest paths: two heuristics, and dual ascent for what no tree can beat."""

from __future__ import annotations

import numpy as np

from coterie.kernels.graphs.paths import Adjacency, Float64, Int32, Int64, Routes, find, other_end
from coterie.kernels.jit import kernel


@kernel
def grow_steiner(
    links: Adjacency,
    routes: Routes,
    terminals: Int32,
    count: int,
    mark: Int64,
    stamp: int,
    near: Float64,
    near_node: Int32,
    nodes: Int32,
    edges: Int32,
) -> int:
    """Takahashi and Matsuyama: start with terminal 0 and keep joining the nearest terminal by a shortest path.

    At most twice the optimum. Returns the number of edges written to `edges`; terminals out of reach stay out. Scratch:
    `mark` (n, no entry equal to `stamp`), `near`, `near_node` (>= count), `nodes`, `edges` (n).
    """
    nodes[0] = terminals[0]
    mark[terminals[0]] = stamp
    node_count, edge_count = 1, 0
    for at in range(1, count):
        near[at] = routes.distance[terminals[0], terminals[at]]
        near_node[at] = terminals[0]
    while True:
        best = -1
        for at in range(1, count):
            if mark[terminals[at]] != stamp and near[at] < np.inf and (best < 0 or near[at] < near[best]):
                best = at
        if best < 0:
            return edge_count
        node, goal = terminals[best], near_node[best]
        first_new = node_count
        while mark[node] != stamp:
            edge = routes.via[goal, node]
            mark[node] = stamp
            nodes[node_count] = node
            edges[edge_count] = edge
            node_count += 1
            edge_count += 1
            node = other_end(links, edge, node)
        for at in range(1, count):
            if mark[terminals[at]] == stamp:
                continue
            for new in range(first_new, node_count):
                if routes.distance[nodes[new], terminals[at]] < near[at]:
                    near[at] = routes.distance[nodes[new], terminals[at]]
                    near_node[at] = nodes[new]


@kernel
def closure_spanning(routes: Routes, points: Int32, count: int, one: Int32, other: Int32, length: Float64) -> float:
    """The minimum spanning tree over `points` in the metric closure (Prim), its edges in ascending order of length.

    Edge i joins points one[i] and other[i] (places in `points`); returns the sum of the lengths.
    """
    best, link = np.empty(count), np.zeros(count, np.int32)
    is_done = np.zeros(count, np.bool_)
    for at in range(count):
        best[at] = routes.distance[points[0], points[at]]
    is_done[0] = True
    total = 0.0
    for edge in range(count - 1):
        nearest = -1
        for at in range(count):
            if not is_done[at] and (nearest < 0 or best[at] < best[nearest]):
                nearest = at
        is_done[nearest] = True
        total += best[nearest]
        place = edge
        while place > 0 and length[place - 1] > best[nearest]:
            one[place], other[place], length[place] = one[place - 1], other[place - 1], length[place - 1]
            place -= 1
        one[place], other[place], length[place] = nearest, link[nearest], best[nearest]
        for at in range(count):
            if not is_done[at] and routes.distance[points[nearest], points[at]] < best[at]:
                best[at] = routes.distance[points[nearest], points[at]]
                link[at] = nearest
    return total


@kernel
def point_gain(away: Float64, count: int, one: Int32, other: Int32, length: Float64, boss: Int32, star: Int32) -> float:
    """By how much a node at distances `away` from the points shortens their spanning tree (0 if it does not).

    The new tree consists of edges of the old one and of ways to the node that are shorter than its longest edge, of
    which a node that pays has at least three.
    """
    longest = length[count - 2]
    size = 0
    for at in range(count):
        if away[at] >= longest:
            continue
        place = size
        while place > 0 and away[star[place - 1]] > away[at]:
            star[place] = star[place - 1]
            place -= 1
        star[place] = at
        size += 1
    reach, spare, pays = 0.0, 0.0, False
    for at in range(size):  # j ways pay only if they are shorter than the j - 1 longest edges, which they replace
        reach += away[star[at]]
        if at > 0:
            spare += length[count - 1 - at]
        if at >= 2 and reach < spare:
            pays = True
            break
    if not pays:
        return 0.0
    for at in range(count + 1):
        boss[at] = at
    edge, way, joined, gain = 0, 0, 0, 0.0
    for at in range(count - 1):
        gain += length[at]
    while joined < count:
        if edge == count - 1 or (way < size and away[star[way]] < length[edge]):
            first, second, cost = count, star[way], away[star[way]]
            way += 1
        else:
            first, second, cost = one[edge], other[edge], length[edge]
            edge += 1
        first, second = find(boss, first), find(boss, second)
        if first != second:
            boss[first] = second
            joined += 1
            gain -= cost
    return max(gain, 0.0)


@kernel
def add_steiner_points(links: Adjacency, routes: Routes, points: Int32, count: int, extra_max: int) -> int:
    """Iterated 1-Steiner: keep adding the node that shortens the closure's spanning tree most; returns the new count.

    `points` has room for count + extra_max. Only nodes with three links or more can be branching points. After all
    nodes were tried, only those that paid are tried again, until none of them does; then all once more.
    """
    room = count + extra_max
    one, other, length = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)
    boss, star, away = np.empty(room + 1, np.int32), np.empty(room, np.int32), np.empty(room)
    node_count = len(links.indptr) - 1
    everybody = np.flatnonzero(links.indptr[1:] - links.indptr[:-1] >= 3).astype(np.int32)
    chosen, paying = everybody, np.empty(node_count, np.int32)
    limit = count + extra_max
    while 3 <= count < limit:
        closure_spanning(routes, points, count, one, other, length)
        winner, most, size = -1, 1e-6, 0
        for node in chosen:
            for at in range(count):
                away[at] = routes.distance[points[at], node]
            gain = point_gain(away, count, one, other, length, boss, star)
            if gain > 1e-6:
                paying[size] = node
                size += 1
            if gain > most:
                winner, most = int(node), gain
        if winner >= 0:
            points[count] = winner
            count += 1
            chosen = paying[:size].copy()
        elif len(chosen) == len(everybody):
            break
        else:
            chosen = everybody
    return count


@kernel
def tree_cost(links: Adjacency, edges: Int32, count: int) -> float:
    total = 0.0
    for at in range(count):
        total += links.cost[edges[at]]
    return total


@kernel
def best_steiner(links: Adjacency, routes: Routes, terminals: Int32, extra_max: int) -> Int32:
    """The edges of the cheapest tree found: grown from every terminal, with and without added branching points."""
    node_count = len(links.indptr) - 1
    mark = np.zeros(node_count, np.int64)
    near, near_node = np.empty(len(terminals) + extra_max), np.empty(len(terminals) + extra_max, np.int32)
    nodes, edges = np.empty(node_count, np.int32), np.empty(node_count, np.int32)
    points = np.empty(len(terminals) + extra_max, np.int32)
    for at in range(len(terminals)):
        points[at] = terminals[at]
    best = np.empty(0, np.int32)
    best_cost = np.inf
    stamp = 0
    for start in range(len(terminals)):
        points[0], points[start] = terminals[start], terminals[0]
        stamp += 1
        size = grow_steiner(links, routes, points, len(terminals), mark, stamp, near, near_node, nodes, edges)
        if tree_cost(links, edges, size) < best_cost:
            best, best_cost = edges[:size].copy(), tree_cost(links, edges, size)
        points[0], points[start] = terminals[0], terminals[start]
    count = add_steiner_points(links, routes, points, len(terminals), extra_max)
    if count > len(terminals):
        stamp += 1
        size = grow_steiner(links, routes, points, count, mark, stamp, near, near_node, nodes, edges)
        size = prune_leaves(links, edges, size, terminals)
        if tree_cost(links, edges, size) < best_cost:
            best = edges[:size].copy()
    return best


@kernel
def prune_leaves(links: Adjacency, edges: Int32, count: int, terminals: Int32) -> int:
    """Drops branches that end in no terminal; returns how many edges stay at the front of `edges`."""
    degree = np.zeros(len(links.indptr) - 1, np.int32)
    for terminal in terminals:
        degree[terminal] += 2  # never looks like a leaf
    for at in range(count):
        degree[links.source[edges[at]]] += 1
        degree[links.target[edges[at]]] += 1
    changed = True
    while changed:
        changed = False
        kept = 0
        for at in range(count):
            one, other = links.source[edges[at]], links.target[edges[at]]
            if degree[one] == 1 or degree[other] == 1:
                degree[one] -= 1
                degree[other] -= 1
                changed = True
            else:
                edges[kept] = edges[at]
                kept += 1
        count = kept
    return count


@kernel
def dual_ascent(links: Adjacency, terminals: Int32) -> float:
    """A lower bound on every Steiner tree of these terminals (Wong's dual ascent, rooted at terminal 0).

    Raises the dual of the smallest set of nodes that is tied to a terminal by saturated arcs and does not hold the
    root, until each terminal is tied to the root. Arc 2e leads from source[e] to target[e], arc 2e + 1 back.
    """
    node_count = len(links.indptr) - 1
    left = np.repeat(links.cost, 2)
    mark = np.zeros(node_count, np.int64)
    members = np.empty(node_count, np.int32)
    is_done = np.zeros(len(terminals), np.bool_)
    is_done[0] = True
    sizes = np.ones(len(terminals), np.int64)
    bound = 0.0
    stamp = 0
    while True:
        chosen = -1
        for at in range(len(terminals)):
            if not is_done[at] and (chosen < 0 or sizes[at] < sizes[chosen]):
                chosen = at
        if chosen < 0:
            return bound
        stamp += 1
        size = saturated_set(links, left, terminals[chosen], mark, stamp, members)
        if mark[terminals[0]] == stamp:
            is_done[chosen] = True
            continue
        if size > sizes[chosen]:
            sizes[chosen] = size  # it grew since it was chosen: look again who is smallest
            continue
        raised = np.inf
        for at in range(size):
            for place in range(links.indptr[members[at]], links.indptr[members[at] + 1]):
                if mark[links.neighbour[place]] != stamp:
                    raised = min(raised, left[arc_into(links, links.edge[place], members[at])])
        if raised == np.inf:
            return np.inf  # no way to the root
        for at in range(size):
            for place in range(links.indptr[members[at]], links.indptr[members[at] + 1]):
                if mark[links.neighbour[place]] != stamp:
                    left[arc_into(links, links.edge[place], members[at])] -= raised
        bound += raised


@kernel
def arc_into(links: Adjacency, edge: int, head: int) -> int:
    return 2 * edge if links.target[edge] == head else 2 * edge + 1


@kernel
def saturated_set(links: Adjacency, left: Float64, terminal: int, mark: Int64, stamp: int, members: Int32) -> int:
    """All nodes from which saturated arcs lead to the terminal; marked with `stamp`, listed in `members`."""
    members[0] = terminal
    mark[terminal] = stamp
    head, tail = 0, 1
    while head < tail:
        node = members[head]
        head += 1
        for place in range(links.indptr[node], links.indptr[node + 1]):
            peer = links.neighbour[place]
            if mark[peer] != stamp and left[arc_into(links, links.edge[place], node)] <= 1e-9:
                mark[peer] = stamp
                members[tail] = peer
                tail += 1
    return tail
