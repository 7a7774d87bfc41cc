"""Reaching outward in a graph: the nearest nodes around a root, and all that a choice depends on."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def nearest_nodes(
    draw: np.random.Generator, indptr: Longs, neighbours: Ints, costs: Floats, roots: Ints, count: int
) -> Ints:
    """(roots, count): for every root the `count` nearest nodes, itself first; equal distances in random order.

    A connected graph as CSR with a cost per entry. Dijkstra that ends as soon as enough nodes are settled.
    """
    node_count = len(indptr) - 1
    found = np.empty((len(roots), count), np.int32)
    settled = np.full(node_count, -1, np.int64)
    for row in range(len(roots)):
        queue = [(0.0, 0.0, int(roots[row]))]
        filled = 0
        while filled < count:
            distance, _, node = heapq.heappop(queue)
            if settled[node] == row:
                continue
            settled[node] = row
            found[row, filled] = node
            filled += 1
            for entry in range(indptr[node], indptr[node + 1]):
                if settled[neighbours[entry]] != row:
                    heapq.heappush(queue, (distance + costs[entry], draw.random(), int(neighbours[entry])))
    return found


@kernel
def closures(indptr: Longs, needs: Ints, choice_indptr: Longs, choices: Ints) -> tuple[Longs, Ints]:
    """Per row: its choices and everything they need, directly or not; CSR with unsorted columns.

    needs[indptr[p]:indptr[p + 1]] is what p needs directly; choices likewise per row. Twice over the data: count, fill.
    """
    row_count = len(choice_indptr) - 1
    met = np.full(len(indptr) - 1, -1, np.int64)
    stack = np.empty(len(indptr) - 1, np.int32)
    sizes = np.zeros(row_count + 1, np.int64)
    columns = np.empty(0, np.int32)
    for is_filling in (False, True):
        if is_filling:
            sizes = np.cumsum(sizes)
            columns = np.empty(sizes[-1], np.int32)
            met[:] = -1
        for row in range(row_count):
            top, reached = 0, 0
            top = _piled(stack, top, met, row, choices[choice_indptr[row] : choice_indptr[row + 1]])
            while top > 0:
                top -= 1
                item = stack[top]
                if is_filling:
                    columns[sizes[row] + reached] = item
                reached += 1
                top = _piled(stack, top, met, row, needs[indptr[item] : indptr[item + 1]])
            if not is_filling:
                sizes[row + 1] = reached
    return sizes, columns


@kernel
def _piled(stack: Ints, top: int, met: Longs, row: int, items: Ints) -> int:
    """Put on the stack what this row has not met yet; returns its height."""
    for item in items:
        if met[item] != row:
            met[item] = row
            stack[top] = item
            top += 1
    return top
