"""Covers of users by overlapping topic-clusters: who should be on which cluster, and what it subscribes to directly.

The cost is linear: a subscription costs `maintain` and per event `disseminate`; a cluster `associate` per topic and
`notify` per event. Pair p of the interest CSR is (user, topic); `cover[p]` counts the user's clusters that carry the
topic; 0 means a direct subscription. Every step here lowers the total or leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.arrays import noted, noted_all
from coterie.kernels.jit import kernel

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Shorts = NDArray[np.int16]
Floats = NDArray[np.float64]

EPSILON = 1e-9


class LinearCosts(NamedTuple):
    """Linear cost functions: cost_m(N) = maintain N, cost_d(N) = disseminate N, cost_a(N) = associate N, cost_n()."""

    maintain: float
    disseminate: float
    associate: float
    notify: float


class ClusterDemand(NamedTuple):
    """Interests as CSR in both directions, and the rates."""

    indptr: Longs  # by user
    topic: Ints  # of pair
    user: Ints  # of pair
    of_topic: Longs  # offsets by topic into `pairs`
    pairs: Longs  # pair numbers by topic
    rate: Floats


class TopicRows(NamedTuple):
    indptr: Longs
    columns: Ints


@kernel
def cluster_rates(rate: Floats, topics: TopicRows) -> Floats:
    rates = np.zeros(len(topics.indptr) - 1)
    for cluster in range(len(rates)):
        for at in range(topics.indptr[cluster], topics.indptr[cluster + 1]):
            rates[cluster] += rate[topics.columns[at]]
    return rates


@kernel
def cover_users(
    demand: ClusterDemand, prices: LinearCosts, carrying: TopicRows, rates: Floats, current: TopicRows, cover: Shorts
) -> tuple[Longs, Ints]:
    """Give every user the cheaper of its current clusters and a greedy weighted set cover; `cover` is rewritten.

    `carrying` is topic -> clusters, `current` user -> clusters. Returns the new user -> clusters, not sorted.
    """
    users = len(demand.indptr) - 1
    gain = np.zeros(len(rates))
    is_new = np.zeros(len(rates), np.bool_)
    ends = np.zeros(users + 1, np.int64)
    chosen = np.empty(max(len(current.columns), 16), np.int32)
    used = 0
    for user in range(users):
        low, high = demand.indptr[user], demand.indptr[user + 1]
        old = current.columns[current.indptr[user] : current.indptr[user + 1]]
        before = _cost_of(demand, prices, rates, old, low, high, cover)
        kept = cover[low:high].copy()
        picked = _greedy(demand, prices, carrying, rates, low, high, cover, gain, is_new)
        if _cost_of(demand, prices, rates, picked, low, high, cover) >= before - EPSILON:
            cover[low:high] = kept
            picked = old
        chosen = noted_all(chosen, used, picked)
        used += len(picked)
        ends[user + 1] = used
    return ends, chosen[:used].copy()


@kernel
def _cost_of(
    demand: ClusterDemand, prices: LinearCosts, rates: Floats, picked: Ints, low: int, high: int, cover: Shorts
) -> float:
    cost = 0.0
    for cluster in picked:
        cost += prices.maintain + prices.disseminate * rates[cluster]
    for pair in range(low, high):
        if cover[pair] == 0:
            cost += prices.maintain + prices.disseminate * demand.rate[demand.topic[pair]]
    return cost


@kernel
def _greedy(
    demand: ClusterDemand,
    prices: LinearCosts,
    carrying: TopicRows,
    rates: Floats,
    low: int,
    high: int,
    cover: Shorts,
    gain: Floats,
    is_new: NDArray[np.bool_],
) -> Ints:
    """The cluster that saves most, again and again; then those that others have made superfluous go."""
    seen = np.empty(16, np.int32)
    count = 0
    for pair in range(low, high):
        topic = demand.topic[pair]
        cover[pair] = 0
        for at in range(carrying.indptr[topic], carrying.indptr[topic + 1]):
            cluster = carrying.columns[at]
            if not is_new[cluster]:
                is_new[cluster] = True
                gain[cluster] = -prices.maintain - prices.disseminate * rates[cluster]
                seen = noted(seen, count, cluster)
                count += 1
            gain[cluster] += prices.maintain + prices.disseminate * demand.rate[topic]
    picked = np.empty(count, np.int32)
    size = 0
    while True:
        best = -1
        for i in range(count):
            cluster = seen[i]
            if gain[cluster] > EPSILON and (best < 0 or gain[cluster] > gain[best]):
                best = cluster
        if best < 0:
            break
        picked[size] = best
        size += 1
        gain[best] = 0.0
        _take(demand, prices, carrying, low, high, cover, gain, best)
    for i in range(count):
        is_new[seen[i]] = False
        gain[seen[i]] = 0.0
    return _without_superfluous(demand, prices, carrying, rates, low, high, cover, picked[:size])


@kernel
def _take(
    demand: ClusterDemand,
    prices: LinearCosts,
    carrying: TopicRows,
    low: int,
    high: int,
    cover: Shorts,
    gain: Floats,
    cluster: int,
) -> None:
    """The user joins the cluster: others gain no longer what it covers."""
    for pair in range(low, high):
        topic = demand.topic[pair]
        first, last = carrying.indptr[topic], carrying.indptr[topic + 1]
        for at in range(first, last):
            if carrying.columns[at] == cluster:
                cover[pair] += 1
                if cover[pair] == 1:
                    worth = prices.maintain + prices.disseminate * demand.rate[topic]
                    for other in range(first, last):
                        gain[carrying.columns[other]] -= worth
                break


@kernel
def _without_superfluous(
    demand: ClusterDemand,
    prices: LinearCosts,
    carrying: TopicRows,
    rates: Floats,
    low: int,
    high: int,
    cover: Shorts,
    picked: Ints,
) -> Ints:
    size = len(picked)
    at = 0
    while at < size:
        cluster = picked[at]
        loss = -prices.maintain - prices.disseminate * rates[cluster]
        for pair in range(low, high):
            if cover[pair] == 1 and _carries(carrying, demand.topic[pair], cluster):
                loss += prices.maintain + prices.disseminate * demand.rate[demand.topic[pair]]
        if loss >= -EPSILON:
            at += 1
            continue
        for pair in range(low, high):
            if cover[pair] > 0 and _carries(carrying, demand.topic[pair], cluster):
                cover[pair] -= 1
        size -= 1
        picked[at] = picked[size]
    return picked[:size].copy()


@kernel
def _carries(carrying: TopicRows, topic: int, cluster: int) -> bool:
    own = carrying.columns[carrying.indptr[topic] : carrying.indptr[topic + 1]]
    return bool(np.any(own == cluster))
