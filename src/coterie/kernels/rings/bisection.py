"""Orders nodes so that those who want the same topics sit in few and close runs: recursive bisection.

A topic's tree leaves its subscribers wherever there is a gap between two of them, and crosses a gap of g nodes by
about log g relays. So the cost of an order is the sum over topics and gaps of the weighted logarithm of the gap. Halves
are improved by exchanging nodes that would rather be on the other side, then halved again (the ordering of Dhulipala et
al., 2016, for inverted indexes). Segments never look outside of themselves, so each can be a task of its own.

Everywhere: `indptr`, `topics` are node -> topics; `weights` is by topic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset

Weights = NDArray[np.float64]


@kernel
def log_table(count: int) -> Weights:
    """log2 of 0 (as 0) to count."""
    table = np.zeros(count + 1)
    for value in range(2, count + 1):
        table[value] = np.log2(value)
    return table


@kernel
def spread_cost(logs: Weights, members: int, size: int) -> float:
    """Bits to say where so many members sit among `size` places, each gap for itself."""
    cost: float = members * (logs[size] - logs[members + 1])
    return cost


@kernel
def count_members(order: Index, low: int, high: int, indptr: Offset, topics: Index, counts: Offset) -> None:
    for at in range(low, high):
        for pair in range(indptr[order[at]], indptr[order[at] + 1]):
            counts[topics[pair]] += 1


@kernel
def clear_members(order: Index, low: int, high: int, indptr: Offset, topics: Index, counts: Offset) -> None:
    for at in range(low, high):
        for pair in range(indptr[order[at]], indptr[order[at] + 1]):
            counts[topics[pair]] = 0


@kernel
def move_gains(
    order: Index,
    bounds: tuple[int, int, int],
    is_right: bool,
    indptr: Offset,
    topics: Index,
    weights: Weights,
    logs: Weights,
    here: Offset,
    there: Offset,
) -> Weights:
    """What the order would gain if a node of one half moved to the other, for each node of that half."""
    low, middle, high = bounds
    first, last = (middle, high) if is_right else (low, middle)
    size, other_size = (high - middle, middle - low) if is_right else (middle - low, high - middle)
    gains = np.zeros(last - first)
    for at in range(first, last):
        node = order[at]
        for pair in range(indptr[node], indptr[node + 1]):
            topic = topics[pair]
            own, other = here[topic], there[topic]
            before = spread_cost(logs, own, size) + spread_cost(logs, other, other_size)
            after = spread_cost(logs, own - 1, size) + spread_cost(logs, other + 1, other_size)
            gains[at - first] += weights[topic] * (before - after)
    return gains


@kernel
def improve_halves(
    order: Index,
    bounds: tuple[int, int, int],
    sweeps: int,
    indptr: Offset,
    topics: Index,
    weights: Weights,
    logs: Weights,
    left: Offset,
    right: Offset,
) -> None:
    """Exchange nodes between [low, middle) and [middle, high) of the order, those with the most to gain first."""
    low, middle, high = bounds
    for _ in range(sweeps):
        count_members(order, low, middle, indptr, topics, left)
        count_members(order, middle, high, indptr, topics, right)
        to_right = move_gains(order, bounds, False, indptr, topics, weights, logs, left, right)
        to_left = move_gains(order, bounds, True, indptr, topics, weights, logs, right, left)
        clear_members(order, low, high, indptr, topics, left)
        clear_members(order, low, high, indptr, topics, right)
        best_right = np.argsort(-to_right, kind="mergesort")
        best_left = np.argsort(-to_left, kind="mergesort")
        exchanged = 0
        for i in range(min(len(best_right), len(best_left))):
            if to_right[best_right[i]] + to_left[best_left[i]] <= 1e-9:
                break
            one, other = low + best_right[i], middle + best_left[i]
            order[one], order[other] = order[other], order[one]
            exchanged += 1
        if exchanged == 0:
            break


@kernel
def bisect_order(
    start: Index,
    sweeps: int,
    leaf_size: int,
    indptr: Offset,
    topics: Index,
    weights: Weights,
) -> Index:
    """The nodes of `start`, reordered. Cost: sweeps x subscriptions x the logarithm of nodes over leaf size."""
    order = start.copy()
    logs = log_table(len(indptr) + 1)
    left = np.zeros(len(weights), np.int64)
    right = np.zeros(len(weights), np.int64)
    pending = [(0, len(order))]
    while len(pending) > 0:
        low, high = pending.pop()
        if high - low <= leaf_size:
            continue
        middle = (low + high) // 2
        improve_halves(order, (low, middle, high), sweeps, indptr, topics, weights, logs, left, right)
        pending.append((low, middle))
        pending.append((middle, high))
    return order
