"""Groups of subscriptions in arrays: their documents, terminals and trees, what routing costs, and which to merge.

A *class* is a set of subscriptions that is never split (all subscriptions to one keyword, or all of one node); a
document matches classes; a class has hosts, the nodes its subscribers sit at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.arrays import noted_all
from coterie.kernels.graphs.paths import (
    Adjacency,
    Bool,
    Float64,
    Int32,
    Int64,
    Routes,
    nearest_sources,
    root_tree,
    span_forest,
)
from coterie.kernels.jit import kernel
from coterie.kernels.trees.lowstretch import low_stretch_forest
from coterie.kernels.trees.steiner import grow_steiner

LOW_STRETCH, HEAVIEST, CENTRAL = 0, 1, 2


class Documents(NamedTuple):
    """Document d of weight[d] enters at publisher[d] (-1: unknown) and matches classes match_class[match_indptr[d]:];
    class c sits at nodes host_node[host_indptr[c]:host_indptr[c + 1]]."""

    match_indptr: Int64
    match_class: Int32
    host_indptr: Int64
    host_node: Int32
    publisher: Int32
    weight: Float64


@kernel
def terminals_of(
    documents: Documents, document: int, label: Int32, group: int, mark: Int64, stamp: int, out: Int32
) -> int:
    """The nodes that the group's copy of the document must connect (N_ij of section III-B), the publisher first.

    0 if the document matches nothing in the group.
    """
    count = 0
    if documents.publisher[document] >= 0:
        out[0] = documents.publisher[document]
        mark[out[0]] = stamp
        count = 1
    found = 0
    for at in range(documents.match_indptr[document], documents.match_indptr[document + 1]):
        wanted = documents.match_class[at]
        if label[wanted] != group:
            continue
        for place in range(documents.host_indptr[wanted], documents.host_indptr[wanted + 1]):
            found += 1
            node = documents.host_node[place]
            if mark[node] != stamp:
                mark[node] = stamp
                out[count] = node
                count += 1
    return count if found else 0


@kernel
def steiner_trees(
    links: Adjacency, routes: Routes, documents: Documents, chosen: Int32, label: Int32, group: int
) -> tuple[Int64, Int32]:
    """Lines 1 to 7 of Algorithm 1: a Steiner tree for each chosen document's copy on the group's tree.

    Returns where each begins, and their edges one after another.
    """
    count = len(links.indptr) - 1
    mark = np.full(count, -1, np.int64)
    near, near_node = np.empty(count), np.empty(count, np.int32)
    nodes, edges, terminals = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count + 1, np.int32)
    indptr = np.zeros(len(chosen) + 1, np.int64)
    found = np.empty(64 * len(chosen) + count, np.int32)
    stamp = 0
    for at in range(len(chosen)):
        stamp += 2
        indptr[at + 1] = indptr[at]
        size = terminals_of(documents, chosen[at], label, group, mark, stamp, terminals)
        if size < 2:
            continue
        used = grow_steiner(links, routes, terminals, size, mark, stamp + 1, near, near_node, nodes, edges)
        found = noted_all(found, indptr[at], edges[:used])
        indptr[at + 1] = indptr[at] + used
    return indptr, found[: indptr[-1]].copy()


@kernel
def add_up(starts: Int64, stops: Int64, edges: Int32, weight: Float64, out: Float64) -> None:
    """Lines 8 and 9 of Algorithm 1: adds each tree's weight to the multiplicity of its edges."""
    for tree in range(len(starts)):
        for at in range(starts[tree], stops[tree]):
            out[edges[at]] += weight[tree]


@kernel
def span_documents(
    links: Adjacency,
    multiplicity: Float64,
    shape: int,
    sparsity: float,
    is_spanning: bool,
    is_uniform: bool,
    in_tree: Bool,
) -> int:
    """Lines 10 and 11 of Algorithm 1 into `in_tree`; returns the node with the most multiplicity, a natural root.

    Without `is_spanning` a forest stays as it is: enough to route the documents it was made from.
    """
    weight = np.zeros(len(links.indptr) - 1)
    for edge in range(len(multiplicity)):
        weight[links.source[edge]] += multiplicity[edge]
        weight[links.target[edge]] += multiplicity[edge]
    root = int(np.argmax(weight))
    if shape == LOW_STRETCH:
        low_stretch_forest(links, multiplicity, sparsity, 4.0, in_tree)
    elif shape == HEAVIEST:
        heaviest_forest(links, multiplicity, in_tree)
    else:
        central_tree(links, root, is_uniform, in_tree)
    if is_spanning and shape != CENTRAL:
        is_core = weight > 0
        is_core[root] = True
        span_forest(links, in_tree, is_core, is_uniform)
    return root


@kernel
def central_tree(links: Adjacency, root: int, is_uniform: bool, in_tree: Bool) -> None:
    """Shortest paths from the busiest node, another alternative."""
    is_root = np.zeros(len(links.indptr) - 1, np.bool_)
    is_root[root] = True
    _, _, via = nearest_sources(links, is_root, is_uniform)
    for edge in via:
        if edge >= 0:
            in_tree[edge] = True


@kernel
def heaviest_forest(links: Adjacency, multiplicity: Float64, in_tree: Bool) -> None:
    """Kruskal on falling multiplicity, an alternative to the low-stretch tree."""
    boss = np.arange(len(links.indptr) - 1)
    used = np.flatnonzero(multiplicity > 0)
    for at in np.argsort(-multiplicity[used], kind="mergesort"):
        edge = used[at]
        one, other = links.source[edge], links.target[edge]
        while boss[one] != one:
            boss[one] = boss[boss[one]]
            one = boss[one]
        while boss[other] != other:
            boss[other] = boss[boss[other]]
            other = boss[other]
        if one != other:
            boss[one] = other
            in_tree[edge] = True


@kernel
def hang_tree(links: Adjacency, in_tree: Bool, root: int) -> tuple[Int32, Int32, Int32, Int32]:
    """Parent, parent edge, depth, order."""
    count = len(links.indptr) - 1
    parent, parent_edge = np.empty(count, np.int32), np.empty(count, np.int32)
    depth, order = np.empty(count, np.int32), np.empty(count, np.int32)
    root_tree(links, in_tree, root, parent, parent_edge, depth, order)
    return parent, parent_edge, depth, order


@kernel
def subtree_cost(
    links: Adjacency,
    parent: Int32,
    parent_edge: Int32,
    depth: Int32,
    terminals: Int32,
    count: int,
    mark: Int64,
    stamp: int,
) -> float:
    """Cost of the smallest part of the tree that connects the terminals; those in other parts are left out.

    `top` is the highest node of what is marked so far; each terminal climbs until it meets that, or `top` climbs too.
    """
    top = terminals[0]
    mark[top] = stamp
    cost = 0.0
    for at in range(1, count):
        node = terminals[at]
        while mark[node] != stamp and depth[node] > depth[top]:
            mark[node] = stamp
            cost += links.cost[parent_edge[node]]
            node = parent[node]
        while mark[node] != stamp:
            if depth[top] >= depth[node]:
                if parent[top] < 0:
                    break
                cost += links.cost[parent_edge[top]]
                top = parent[top]
                if top == node:
                    mark[top] = stamp
                    break
                mark[top] = stamp
            else:
                mark[node] = stamp
                cost += links.cost[parent_edge[node]]
                node = parent[node]
    return cost


@kernel
def route_cost(
    links: Adjacency,
    parent: Int32,
    parent_edge: Int32,
    depth: Int32,
    documents: Documents,
    chosen: Int32,
    label: Int32,
    group: int,
) -> float:
    """Equation 1: what the chosen documents cost on the group's tree."""
    is_member = np.ones(len(parent), np.bool_)
    return member_cost(links, parent, parent_edge, depth, documents, chosen, label, group, is_member)


@kernel
def member_cost(
    links: Adjacency,
    parent: Int32,
    parent_edge: Int32,
    depth: Int32,
    documents: Documents,
    chosen: Int32,
    label: Int32,
    group: int,
    is_member: Bool,
) -> float:
    """What the chosen documents cost on a tree that leads to some nodes only: towards members that want them."""
    mark = np.full(len(parent), -1, np.int64)
    terminals = np.empty(len(parent) + 1, np.int32)
    total = 0.0
    stamp = 0
    for document in chosen:
        stamp += 2
        size = terminals_of(documents, document, label, group, mark, stamp, terminals)
        kept = 1
        for at in range(1, size):
            if is_member[terminals[at]]:
                terminals[kept] = terminals[at]
                kept += 1
        if kept >= 2:
            total += documents.weight[document] * subtree_cost(
                links, parent, parent_edge, depth, terminals, kept, mark, stamp + 1
            )
    return total


@kernel
def cheapest_tree(
    links: Adjacency,
    parents: Int32,
    parent_edges: Int32,
    depths: Int32,
    trees: Int64,
    ends: Int32,
    mark: Int64,
    stamp: int,
) -> int:
    """Which of these rows of trees connects the ends at the lowest cost, the first of equal ones.

    `mark` holds no value from `stamp` to `stamp` + len(trees).
    """
    best, lowest = trees[0], np.inf
    for at in range(len(trees)):
        tree = trees[at]
        cost = subtree_cost(links, parents[tree], parent_edges[tree], depths[tree], ends, len(ends), mark, stamp + at)
        if cost < lowest:
            best, lowest = tree, cost
    return int(best)


@kernel
def overlaps(bits: NDArray[np.uint64], one: int, other: int) -> int:
    """Documents that both rows of bits have (population count of the and)."""
    total = 0
    for word in range(bits.shape[1]):
        both = bits[one, word] & bits[other, word]
        while both:
            both &= both - np.uint64(1)
            total += 1
    return total


@kernel
def nearest_group(bits: NDArray[np.uint64], sizes: Int64, is_active: Bool, one: int) -> tuple[int, float]:
    """The other active row with the largest Jaccard coefficient, the lowest of equal ones; (-1, 0) if none overlaps."""
    best, closest = -1, 0.0
    for other in range(len(sizes)):
        if other == one or not is_active[other]:
            continue
        shared = overlaps(bits, one, other)
        if shared:
            alike = shared / (sizes[one] + sizes[other] - shared)
            if alike > closest:
                best, closest = other, alike
    return best, closest


@kernel
def merge_by_overlap(bits: NDArray[np.uint64], sizes: Int64, is_complete: bool) -> tuple[Int32, Int32]:
    """The merges of Algorithm 3 in order: (kept row, absorbed row); `bits` and `sizes` are used up.

    Stops when nothing overlaps any more; with `is_complete` it then merges the two smallest rows until one is left.

    >>> merge_by_overlap(np.array([[3], [4], [1]], np.uint64), np.array([2, 1, 1]), False)[1].tolist()
    [2]
    """
    count = len(sizes)
    is_active = np.ones(count, np.bool_)
    best, closest = np.full(count, -1, np.int64), np.zeros(count)
    for row in range(count):
        best[row], closest[row] = nearest_group(bits, sizes, is_active, row)
    kept, absorbed = np.empty(max(count - 1, 0), np.int32), np.empty(max(count - 1, 0), np.int32)
    for step in range(count - 1):
        one = -1
        for row in range(count):
            if is_active[row] and best[row] >= 0 and (one < 0 or closest[row] > closest[one]):
                one = row
        if one >= 0:
            other = best[one]
        elif is_complete:
            one, other = two_smallest(sizes, is_active)
        else:
            return kept[:step], absorbed[:step]
        if other < one:
            one, other = other, one
        kept[step], absorbed[step] = one, other
        is_active[other] = False
        sizes[one] = sizes[one] + sizes[other] - overlaps(bits, one, other)
        for word in range(bits.shape[1]):
            bits[one, word] |= bits[other, word]
        best[one], closest[one] = nearest_group(bits, sizes, is_active, one)
        for row in range(count):
            if not is_active[row] or row == one:
                continue
            if best[row] == one or best[row] == other:
                best[row], closest[row] = nearest_group(bits, sizes, is_active, row)
            else:
                shared = overlaps(bits, row, one)
                if shared and shared / (sizes[row] + sizes[one] - shared) > closest[row]:
                    best[row], closest[row] = one, shared / (sizes[row] + sizes[one] - shared)
    return kept, absorbed


@kernel
def two_smallest(sizes: Int64, is_active: Bool) -> tuple[int, int]:
    first, second = -1, -1
    for row in range(len(sizes)):
        if not is_active[row]:
            continue
        if first < 0 or sizes[row] < sizes[first]:
            first, second = row, first
        elif second < 0 or sizes[row] < sizes[second]:
            second = row
    return first, second
