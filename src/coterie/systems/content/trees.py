"""Algorithm 1 (ComputeTree): one spanning tree for a group of subscriptions, and what documents cost on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels import content
from coterie.model.relation import Index
from coterie.substrate.lowstretch import SPARSITY, RootedTree
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand

SHAPES = ("low-stretch", "heaviest", "central", "best")
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


def every_document(demand: Demand) -> Index:
    return np.arange(demand.document_count, dtype=np.int32)


def compute_tree(
    terrain: Terrain,
    demand: Demand,
    label: Index,
    group: int,
    documents: Index,
    shape: str = "low-stretch",
    is_spanning: bool = True,
) -> GroupTree:
    """The tree of the classes labelled `group`; `documents` are those that match them.

    Shape best takes the cheapest of the low-stretch tree, the one of the heaviest edges and shortest paths from the
    busiest node, so the bound of Theorem IV.1 still holds for it.
    """
    indptr, edges = content.steiner_trees(terrain.links, terrain.routes, demand.arrays, documents, label, group)
    multiplicity = np.zeros(terrain.graph.link_count)
    content.add_up(indptr[:-1], indptr[1:], edges, demand.weight[documents], multiplicity)
    steiner_cost = float((multiplicity * terrain.graph.cost).sum())
    trees = spanning_trees(terrain, multiplicity, shape, is_spanning)
    costs = [route_cost(terrain, tree, demand, label, group, documents) for tree in trees]
    best = int(np.argmin(costs))
    return GroupTree(trees[best], costs[best], steiner_cost, multiplicity)


def spanning_trees(
    terrain: Terrain, multiplicity: NDArray[np.float64], shape: str, is_spanning: bool = True
) -> list[RootedTree]:
    """Lines 10 and 11 of Algorithm 1; several candidates where the shape is best."""
    trees = []
    for code in _codes(shape):
        in_tree = np.zeros(terrain.graph.link_count, np.bool_)
        root = content.span_documents(
            terrain.links, multiplicity, code, SPARSITY, is_spanning, terrain.is_uniform, in_tree
        )
        trees.append(RootedTree(*content.hang_tree(terrain.links, in_tree, root)))
    return trees


def route_cost(terrain: Terrain, tree: RootedTree, demand: Demand, label: Index, group: int, documents: Index) -> float:
    """Equation 1: cost(S_i, T_i) over these documents."""
    return content.route_cost(
        terrain.links, tree.parent, tree.parent_edge, tree.depth, demand.arrays, documents, label, group
    )


def _codes(shape: str) -> tuple[int, ...]:
    codes = {"low-stretch": content.LOW_STRETCH, "heaviest": content.HEAVIEST, "central": content.CENTRAL}
    return tuple(codes.values()) if shape == "best" else (codes[shape],)
