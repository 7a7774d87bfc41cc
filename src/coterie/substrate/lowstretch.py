"""Spanning trees of a broker network: minimum cost, shortest paths from a root, and low average stretch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels import graphs, lowstretch
from coterie.model.relation import Index

SPARSITY = 2.0  # x of the decomposition: a ball may cut off at most 1 / x of the multiplicity it holds
SPREAD = 4.0  # edges up to this many times as dear as the cheapest take part in a round


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


def low_stretch_tree(
    links: graphs.Adjacency,
    multiplicity: NDArray[np.float64],
    is_uniform: bool,
    root: int = 0,
    sparsity: float = SPARSITY,
) -> RootedTree:
    """A spanning tree with low average stretch over the edges that have multiplicity; the rest hangs on closest."""
    in_tree = np.zeros(len(links.cost), np.bool_)
    lowstretch.low_stretch_forest(links, multiplicity, sparsity, SPREAD, in_tree)
    is_core = np.zeros(len(links.indptr) - 1, np.bool_)
    used = multiplicity > 0
    is_core[links.source[used]] = is_core[links.target[used]] = True
    if not is_core.any():
        is_core[root] = True
    graphs.span_forest(links, in_tree, is_core, is_uniform)
    return hang(links, in_tree, root)


def minimum_spanning_tree(links: graphs.Adjacency, weight: NDArray[np.float64], root: int = 0) -> RootedTree:
    in_tree = np.zeros(len(links.cost), np.bool_)
    graphs.minimum_spanning(links, np.argsort(weight, kind="stable"), in_tree)
    return hang(links, in_tree, root)


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
