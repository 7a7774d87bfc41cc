"""Algorithm 1 (ComputeTree): one spanning tree for a group of subscriptions, and what documents cost on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.trees import groups as content
from coterie.model.relation import Index
from coterie.substrate.lowstretch import SPARSITY, RootedTree
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand

CODES = {"low-stretch": content.LOW_STRETCH, "heaviest": content.HEAVIEST, "central": content.CENTRAL}
SHAPES = (*CODES, "best")
EVERYTHING = 0  # the group of everybody, where there is one tree


@dataclass(frozen=True, eq=False)
class GroupTree:
    """A tree and what the documents it was learned from cost: on it, and each on a Steiner tree of its own."""

    tree: RootedTree
    cost: float
    steiner_cost: float
    multiplicity: NDArray[np.float64]


def one_group(demand: Demand) -> Index:
    """Every class with hosts in group 0."""
    return np.where(demand.hosts.lengths > 0, EVERYTHING, -1).astype(np.int32)


def each_apart(demand: Demand) -> Index:
    """Every class with hosts in a group of its own."""
    has_hosts = demand.hosts.lengths > 0
    return np.where(has_hosts, np.cumsum(has_hosts) - 1, -1).astype(np.int32)


def every_document(demand: Demand) -> Index:
    return np.arange(demand.document_count, dtype=np.int32)


def compute_tree(
    terrain: Terrain, demand: Demand, label: Index, group: int, documents: Index, shape: str = "low-stretch"
) -> GroupTree:
    """The tree of the classes labelled `group`; `documents` are those that match them."""
    indptr, edges = content.steiner_trees(terrain.links, terrain.routes, demand.arrays, documents, label, group)
    multiplicity = np.zeros(terrain.graph.link_count)
    content.add_up(indptr[:-1], indptr[1:], edges, demand.weight[documents], multiplicity)
    steiner_cost = float((multiplicity * terrain.graph.cost).sum())

    def judge(tree: RootedTree) -> float:
        return route_cost(terrain, tree, demand, label, group, documents)

    tree, _ = shaped_tree(terrain, multiplicity, shape, judge)
    return GroupTree(tree, judge(tree), steiner_cost, multiplicity)


def shaped_tree(
    terrain: Terrain, multiplicity: NDArray[np.float64], shape: str, judge: Callable[[RootedTree], float]
) -> tuple[RootedTree, float | None]:
    """Lines 10 and 11 of Algorithm 1, and what `judge` said about the tree where it was asked.

    Shape best takes the cheapest of the low-stretch tree, the one of the heaviest edges and shortest paths from the
    busiest node, so the bound of Theorem IV.1 still holds for it.
    """
    if shape != "best":
        return span(terrain, multiplicity, CODES[shape]), None
    best, lowest = _best(terrain, multiplicity, judge)
    return span(terrain, multiplicity, best), lowest


def least_cost(
    terrain: Terrain, multiplicity: NDArray[np.float64], shape: str, judge: Callable[[RootedTree], float]
) -> float:
    """What `judge` would say about the tree, without making all of it."""
    if shape == "best":
        return _best(terrain, multiplicity, judge)[1]
    return judge(span(terrain, multiplicity, CODES[shape], is_spanning=False))


def _best(
    terrain: Terrain, multiplicity: NDArray[np.float64], judge: Callable[[RootedTree], float]
) -> tuple[int, float]:
    """The cheapest shape and its cost.

    Documents never leave the edges they have in common, so a forest of those is enough to compare; and where it costs
    no more than the Steiner trees it was made from, there is nothing to gain by others.
    """
    floor = float((multiplicity * terrain.graph.cost).sum()) * (1 + 1e-9)
    best, lowest = -1, np.inf
    for code in CODES.values():
        cost = judge(span(terrain, multiplicity, code, is_spanning=False))
        if cost < lowest:
            best, lowest = code, cost
        if lowest <= floor:
            break
    return best, lowest


def span(terrain: Terrain, multiplicity: NDArray[np.float64], code: int, is_spanning: bool = True) -> RootedTree:
    in_tree = np.zeros(terrain.graph.link_count, np.bool_)
    root = content.span_documents(terrain.links, multiplicity, code, SPARSITY, is_spanning, terrain.is_uniform, in_tree)
    return RootedTree(*content.hang_tree(terrain.links, in_tree, root))


def route_cost(terrain: Terrain, tree: RootedTree, demand: Demand, label: Index, group: int, documents: Index) -> float:
    """Equation 1: cost(S_i, T_i) over these documents."""
    return content.route_cost(
        terrain.links, tree.parent, tree.parent_edge, tree.depth, demand.arrays, documents, label, group
    )
