"""Copies between nodes that no placement within the nodes' room can do without, publishers counted.

The largest of three bounds. By topic: whoever wants it needs so many nodes, and every event is copied to all of them
but the one where it enters, which may be one of them only for as many publishers as there is room for. By client: with
no more than so many others at a node, wishes are shared only so often (`kernels/placement/sharing`). In company: the
same for all clients at once, who sit with those who sit with them (`kernels/placement/company`); only of few clients,
since every pair that shares a wish is looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.placement.company import least_in_company, pairs_of
from coterie.kernels.placement.sharing import least_wanted
from coterie.model import Workload

Floats = NDArray[np.float64]
STEPS_MAX = 2e8  # comparisons of clients: seconds
PAIRS_MAX = 200_000  # wishes that pairs of clients have in common: a quarter of a second
DUST = 1e-9


def least_copies(workload: Workload, weight: Floats, capacity: Floats, pairs_max: int = PAIRS_MAX) -> float:
    """Per second, over all placements in which no node's clients weigh more than its `capacity` [node, dimension]."""
    found = max(copies_by_topic(workload, weight, capacity), copies_by_client(workload, weight, capacity))
    return max(found, copies_in_company(workload, weight, capacity, pairs_max))


def copies_by_topic(workload: Workload, weight: Floats, capacity: Floats) -> float:
    interests, publications, rates = workload.interests, workload.publications, workload.rates
    wanted = np.stack([_sums(interests.columns, column[interests.rows], rates) for column in weight.T], axis=1)
    room = np.cumsum(-np.sort(-capacity, axis=0), axis=0)  # of the largest node, the two largest, ...
    needed = np.ones(workload.topic_count, np.int64)
    for dimension in range(weight.shape[1]):
        fits = room[:, dimension] * (1 + DUST)
        needed = np.maximum(needed, np.searchsorted(fits, wanted[:, dimension]) + 1)
    needed = np.minimum(needed, len(capacity))
    left = np.maximum(room[needed - 1] * (1 + DUST) - wanted, 0.0)
    pair = publications.publisher.astype(np.int64) * workload.topic_count + publications.topic
    wishes = interests.rows.astype(np.int64) * workload.topic_count + interests.columns
    is_own = np.isin(pair, wishes)
    at_home = _sums(publications.topic[is_own], publications.rate[is_own], rates)
    at_home += _joining(workload, weight, left, ~is_own)
    is_wanted = np.bincount(interests.columns, minlength=workload.topic_count) > 0
    return float(np.maximum(needed * rates - at_home, 0.0)[is_wanted].sum())


def _sums(topic: NDArray[np.int32], value: Floats, rates: Floats) -> Floats:
    return np.bincount(topic, value, len(rates)).astype(np.float64)


def _joining(workload: Workload, weight: Floats, left: Floats, rows: NDArray[np.bool_]) -> Floats:
    """By topic: the rate of publishers who do not want it that fit beside those who do, at most (parts of them too)."""
    publications = workload.publications
    topic, rate = publications.topic[rows], publications.rate[rows]
    most = _sums(topic, rate, workload.rates)
    for dimension in range(weight.shape[1]):
        heavy = weight[publications.publisher[rows], dimension]
        order = np.lexsort([-rate / np.maximum(heavy, 1e-30), topic])  # the most events for their weight first
        at, each, events = topic[order], heavy[order], rate[order]
        upto = np.cumsum(each)
        first = np.searchsorted(at, at)
        before = upto - each - (upto[first] - each[first])
        share = np.clip((left[at, dimension] - before) / np.maximum(each, 1e-30), 0.0, 1.0)
        most = np.minimum(most, _sums(at, events * share, workload.rates))
    return most


def copies_by_client(workload: Workload, weight: Floats, capacity: Floats) -> float:
    interests, rates = workload.interests, workload.rates
    lightest = weight.min(axis=0, initial=np.inf)
    clients_max = workload.subscriber_count
    for dimension in np.flatnonzero(lightest > 0):
        fitting = capacity[:, dimension].max() * (1 + DUST) / lightest[dimension]
        clients_max = min(clients_max, int(fitting))
    by_topic = interests.transposed
    found = least_wanted(
        interests.indptr, interests.columns, by_topic.indptr, by_topic.columns, rates, max(clients_max, 1), STEPS_MAX
    )
    return max(found - float(rates[by_topic.lengths > 0].sum()), 0.0)


def copies_in_company(workload: Workload, weight: Floats, capacity: Floats, pairs_max: int = PAIRS_MAX) -> float:
    """0 where pairs of clients have more wishes in common than that."""
    interests, rates = workload.interests, workload.rates
    by_topic = interests.transposed
    lengths = by_topic.lengths.astype(np.float64)
    if (lengths * (lengths - 1) / 2).sum() > pairs_max or not interests.pair_count:
        return 0.0
    pairs = pairs_of(interests.indptr, interests.columns, by_topic.indptr, by_topic.columns)
    rate, once = rates[interests.columns], float(rates[lengths > 0].sum())
    most = capacity.max(axis=0) * (1 + DUST)
    wanted = [least_in_company(pairs, rate, weight[:, one].copy(), float(most[one])) for one in range(len(most))]
    return max(max(wanted) - once, 0.0)
