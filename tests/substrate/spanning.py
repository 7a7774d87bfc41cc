"""Spanning trees made step by step with the kernels, for tests that need one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.graphs import paths as graphs
from coterie.kernels.trees import lowstretch
from coterie.substrate.lowstretch import SPARSITY, RootedTree, hang

SPREAD = 4.0  # edges up to this many times as dear as the cheapest take part in a round


def low_stretch_tree(links: graphs.Adjacency, multiplicity: NDArray[np.float64], is_uniform: bool) -> RootedTree:
    """Low average stretch over the edges that have multiplicity; the rest hangs on closest."""
    in_tree = np.zeros(len(links.cost), np.bool_)
    lowstretch.low_stretch_forest(links, multiplicity, SPARSITY, SPREAD, in_tree)
    is_core = np.zeros(len(links.indptr) - 1, np.bool_)
    used = multiplicity > 0
    is_core[links.source[used]] = is_core[links.target[used]] = True
    if not is_core.any():
        is_core[0] = True
    graphs.span_forest(links, in_tree, is_core, is_uniform)
    return hang(links, in_tree, 0)


def minimum_spanning_tree(links: graphs.Adjacency, weight: NDArray[np.float64], root: int = 0) -> RootedTree:
    """Kruskal, with sets that are merged."""
    part = {node: {node} for node in range(len(links.indptr) - 1)}
    in_tree = np.zeros(len(links.cost), np.bool_)
    for edge in np.argsort(weight, kind="stable").tolist():
        one, other = part[int(links.source[edge])], part[int(links.target[edge])]
        if one is not other:
            in_tree[edge] = True
            one |= other
            part.update(dict.fromkeys(other, one))
    return hang(links, in_tree, root)
