"""How few links could do: the Lagrangian of the linear programme over all possible links, for any prices at all.

How it works: every (node, topic) pair offers a price for being served. A link is worth the offers of the topics it
carries; it costs one, so it is built where they exceed one. What all pairs offer, less what links are worth beyond
their cost, is below the number of links of every overlay that serves all pairs, whatever the offers are; the caller
climbs to good ones. Offers lie topic by topic, so that a scan of a topic's subscribers reads them in order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.interests.shared import shared
from coterie.kernels.jit import kernel

CONNECT, COVER = 0, 1  # what a link does: be the way up a topic's tree for one of its ends, or cover both

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


@kernel
def surplus(
    kind: int,
    interest_indptr: Int64,
    interest: Int32,
    topic_indptr: Int64,
    subscriber: Int32,
    place: Int64,
    offer: Float64,
    built: Float64,
) -> float:
    """What links are worth beyond their cost; `built` receives, per pair, how many built links serve it.

    `place` tells for every pair of the interests (node by node) where it lies topic by topic. O(sum of n_t squared).
    """
    count = len(interest_indptr) - 1
    worth = np.zeros(count)
    touched = np.empty(count, np.int32)
    built[:] = 0.0
    total = 0.0
    for node in range(count):
        found = 0
        for at in range(interest_indptr[node], interest_indptr[node + 1]):
            own = offer[place[at]]
            for entry in range(place[at] + 1, topic_indptr[interest[at] + 1]):
                other = subscriber[entry]
                gain = own + offer[entry] if kind == COVER else max(own, offer[entry])
                if worth[other] == 0.0 and gain > 0.0:
                    touched[found] = other
                    found += 1
                worth[other] += gain
        for at in range(found):
            other = touched[at]
            if worth[other] > 1.0:
                total += worth[other] - 1.0
                serve(kind, interest_indptr, interest, place, offer, built, node, other)
            worth[other] = 0.0
    return total


@kernel
def serve(
    kind: int,
    interest_indptr: Int64,
    interest: Int32,
    place: Int64,
    offer: Float64,
    built: Float64,
    one: int,
    other: int,
) -> None:
    """Counts a built link for both ends (COVER) or, topic by topic, for the end that offers more (CONNECT)."""
    for left, right in shared(interest_indptr, interest, one, other):
        own, its = place[left], place[right]
        if kind == COVER:
            built[own] += 1.0
            built[its] += 1.0
        else:
            share = 0.5 if offer[own] == offer[its] else (1.0 if offer[own] > offer[its] else 0.0)
            built[own] += share
            built[its] += 1.0 - share
