"""Where nodes settle on a ring when each sits down beside the most similar one it knows (Magnet, Algorithm 1).

Everywhere: `indptr`, `topics` are node -> topics, ascending in each row; `weights` is by topic; `t_indptr`, `t_nodes`
are topic -> nodes in the order in which they arrive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.mixing import mix
from coterie.kernels.rings.chord import Index, Offset, Words
from coterie.kernels.rings.oscar import draw_below

Weights = NDArray[np.float64]


@kernel
def interest_weights(indptr: Offset, topics: Index, weights: Weights) -> Weights:
    """The weight of all topics of each node."""
    totals = np.zeros(len(indptr) - 1)
    for node in range(len(totals)):
        for at in range(indptr[node], indptr[node + 1]):
            totals[node] += weights[topics[at]]
    return totals


@kernel
def most_similar(
    state: Words,
    node: int,
    samples: int,
    present: Offset,
    t_indptr: Offset,
    t_nodes: Index,
    indptr: Offset,
    topics: Index,
    weights: Weights,
    totals: Weights,
    stamp: Index,
    wanted: Index,
) -> int:
    """The most similar of `samples` random subscribers of each topic of this node, ties at random; -1 if it knows none.

    `present[t]` of topic t's subscribers are there. `stamp` is by node, `wanted` by topic; both hold the numbers of
    nodes that used them last. Each candidate costs its own topics.
    """
    for at in range(indptr[node], indptr[node + 1]):
        wanted[topics[at]] = node
    best, best_worth, ties = -1, -1.0, 0
    for at in range(indptr[node], indptr[node + 1]):
        topic = topics[at]
        there = present[topic]
        for draw in range(min(samples, there)):
            chosen = draw if there <= samples else draw_below(state, there)
            peer = t_nodes[t_indptr[topic] + chosen]
            if peer == node or stamp[peer] == node:
                continue
            stamp[peer] = node
            both = 0.0
            for other in range(indptr[peer], indptr[peer + 1]):
                if wanted[topics[other]] == node:
                    both += weights[topics[other]]
            either = totals[node] + totals[peer] - both
            worth = both / either if either > 0 else 0.0
            if worth > best_worth:
                best, best_worth, ties = peer, worth, 1
            elif worth == best_worth:
                ties += 1
                if draw_below(state, ties) == 0:
                    best = peer
    return best


@kernel
def settle_by_interest(
    seed: np.uint64,
    arrivals: Index,
    samples: int,
    rounds: int,
    indptr: Offset,
    topics: Index,
    t_indptr: Offset,
    t_nodes: Index,
    weights: Weights,
) -> Index:
    """Nodes in ring order after all have arrived, each behind the most similar node it knew then.

    A node that knows nobody goes behind a random one. In each further round everybody, in the same order, looks again
    and moves. Cost: `samples` times the square of the subscriptions of a node, for each node and round.
    """
    count = len(arrivals)
    state = np.array([mix(seed)], np.uint64)
    totals = interest_weights(indptr, topics, weights)
    present = np.zeros(len(weights), np.int64)
    after = np.full(count, -1, np.int32)
    before = np.full(count, -1, np.int32)
    stamp = np.full(count, -1, np.int32)
    wanted = np.full(len(weights), -1, np.int32)
    for turn in range(count * (1 + rounds)):
        node = arrivals[turn % count]
        if turn % count == 0:
            stamp[:] = -1
            wanted[:] = -1
        beside = most_similar(
            state, node, samples, present, t_indptr, t_nodes, indptr, topics, weights, totals, stamp, wanted
        )
        if turn < count:
            for at in range(indptr[node], indptr[node + 1]):
                present[topics[at]] += 1
            if beside < 0 and turn > 0:
                beside = arrivals[draw_below(state, turn)]
        elif beside >= 0:
            after[before[node]] = after[node]
            before[after[node]] = before[node]
        if turn == 0:
            after[node] = before[node] = node
        elif beside >= 0:
            follower = after[beside]
            after[beside] = before[follower] = node
            before[node] = beside
            after[node] = follower
    order = np.empty(count, np.int32)
    node = arrivals[0]
    for rank in range(count):
        order[rank] = node
        node = after[node]
    return order
