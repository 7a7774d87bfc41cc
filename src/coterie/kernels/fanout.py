"""Users to brokers as hypergraph partitioning: topics are nets, and a topic costs its rate for every broker it touches.

The number of brokers touched changes only when the last user leaves or the first one comes, which gives local search
nothing to follow. So a broker with c users of a topic first counts 1 - smoothing^c, which rewards gathering them; the
smoothing falls to 0, where the count is exact (probabilistic fan-out). `counts` int32[p, b], users CSR `indptr/topics`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.rings import Index, Offset

Floats = NDArray[np.float64]
POWERS = 64  # counts from here on weigh nothing


@kernel
def pin_counts(indptr: Offset, topics: Index, part: Index, topic_count: int, broker_count: int) -> Index:
    counts = np.zeros((topic_count, broker_count), np.int32)
    for user in range(len(part)):
        for i in range(indptr[user], indptr[user + 1]):
            counts[topics[i], part[user]] += 1
    return counts


@kernel
def touched(counts: Index, rate: Floats) -> float:
    """Sum over topics of rate x (brokers touched - 1); topics nobody wants cost nothing."""
    total = 0.0
    for topic in range(len(rate)):
        brokers = np.count_nonzero(counts[topic])
        total += rate[topic] * max(brokers - 1, 0)
    return total


@kernel
def powers(smoothing: float) -> Floats:
    table = np.zeros(POWERS + 1)
    table[0] = 1.0
    for exponent in range(1, POWERS):
        table[exponent] = table[exponent - 1] * smoothing
    return table


@kernel
def sweep(
    indptr: Offset,
    topics: Index,
    rate: Floats,
    part: Index,
    counts: Index,
    load: NDArray[np.int64],
    capacity: int,
    table: Floats,
    order: Index,
) -> int:
    """Every user in turn goes where it costs least and there is room; returns how many moved. Changes in place."""
    brokers = len(load)
    score = np.empty(brokers)
    moved = 0
    for user in order:
        first, last = indptr[user], indptr[user + 1]
        weight = last - first
        here = part[user]
        score[:] = 0.0
        leaving = 0.0
        for i in range(first, last):
            row, value = counts[topics[i]], rate[topics[i]]
            leaving += value * table[min(row[here] - 1, POWERS)]
            for broker in range(brokers):
                score[broker] += value * table[min(row[broker], POWERS)]
        best, best_score = here, leaving - 1e-9
        if load[here] > capacity:
            best_score = np.inf  # too full: whoever comes up has to go where it costs least
        for broker in range(brokers):
            if broker != here and score[broker] < best_score and load[broker] + weight <= capacity:
                best, best_score = broker, score[broker]
        if best != here:
            for i in range(first, last):
                counts[topics[i], here] -= 1
                counts[topics[i], best] += 1
            load[here] -= weight
            load[best] += weight
            part[user] = best
            moved += 1
    return moved


@kernel
def grow(
    indptr: Offset,
    topics: Index,
    rate: Floats,
    order: Index,
    broker_count: int,
    topic_count: int,
    capacity: int,
    table: Floats,
) -> Index:
    """A first partition: each user in turn goes where most of its topics are already; of equals, the least loaded."""
    part = np.zeros(len(order), np.int32)
    counts = np.zeros((topic_count, broker_count), np.int32)
    load = np.zeros(broker_count, np.int64)
    score = np.empty(broker_count)
    for user in order:
        first, last = indptr[user], indptr[user + 1]
        score[:] = 0.0
        for i in range(first, last):
            row, value = counts[topics[i]], rate[topics[i]]
            for broker in range(broker_count):
                score[broker] += value * table[min(row[broker], POWERS)]
        best = -1
        for broker in range(broker_count):
            if load[broker] + last - first > capacity:
                continue
            if best < 0 or (score[broker], load[broker]) < (score[best], load[best]):
                best = broker
        if best < 0:
            best = int(np.argmin(load))
        part[user] = best
        load[best] += last - first
        for i in range(first, last):
            counts[topics[i], best] += 1
    return part
