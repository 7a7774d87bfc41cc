"""Spanning trees of a broker network: hung from a root, shortest paths, and their average stretch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.graphs import paths as graphs
from coterie.kernels.trees import lowstretch
from coterie.model.relation import Index

SPARSITY = 2.0  # x of the decomposition: a ball may cut off at most 1 / x of the multiplicity it holds


@dataclass(frozen=True, eq=False)
class RootedTree:
    """Parents stand before their children in `order`; roots have parent -1."""

    parent: Index
    parent_edge: Index
    depth: Index
    order: Index


def hang(links: graphs.Adjacency, in_tree: NDArray[np.bool_], root: int) -> RootedTree:
    count = len(links.indptr) - 1
    parent, parent_edge, depth, order = (np.empty(count, np.int32) for _ in range(4))
    graphs.root_tree(links, in_tree, root, parent, parent_edge, depth, order)
    return RootedTree(parent, parent_edge, depth, order)


def shortest_path_tree(links: graphs.Adjacency, is_uniform: bool, root: int) -> RootedTree:
    in_tree = np.zeros(len(links.cost), np.bool_)
    is_root = np.arange(len(links.indptr) - 1) == root
    _, _, via = graphs.nearest_sources(links, is_root, is_uniform)
    in_tree[via[via >= 0]] = True
    return hang(links, in_tree, root)


def average_stretch(links: graphs.Adjacency, multiplicity: NDArray[np.float64], tree: RootedTree) -> float:
    """Equation 2 of the content trees paper: over edges, weighted by multiplicity."""
    total, mass = lowstretch.total_stretch(links, multiplicity, tree.parent, tree.parent_edge, tree.depth)
    return total / mass if mass else 1.0
