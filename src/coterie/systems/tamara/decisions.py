"""The tests of sections 3 and 4 for the running example's costs, as a node computes them: negative means "do it"."""

from __future__ import annotations


def add_change(rate: float, cluster_size: float, shared: float) -> float:
    """A topic joins a cluster, `shared` members drop it. Removing it changes the cost by the opposite."""
    return rate * (cluster_size + 1 - shared) + 1 - shared


def absorb_change(rate: float, topic_size: float, size: float, shared: float, cluster_rate: float) -> float:
    """A topic with all its direct subscribers merges into a cluster."""
    others = topic_size - shared
    return cluster_rate * others + rate * (size - shared + 1) + 1 - shared


def pair_change(rate_1: float, rate_2: float, size_1: float, size_2: float, shared: float) -> float:
    """Two topics with all their direct subscribers become a cluster."""
    return rate_1 * (size_2 - shared + 1) + rate_2 * (size_1 - shared + 1) + 2 - shared


def merge_change(
    size_1: float, size_2: float, shared: float, rate_1: float, rate_2: float, rate_shared: float, topics_shared: int
) -> float:
    """Two clusters become one; the rates are those of all their topics, `rate_shared` of the common ones."""
    apart = (rate_1 - rate_shared) * (size_2 - shared) + (rate_2 - rate_shared) * (size_1 - shared)
    return apart - rate_shared * (shared + 1) - shared - topics_shared


def leave_change(cluster_rate: float, needed_rates: list[float]) -> float:
    """A user leaves a cluster and subscribes directly to the topics that only this cluster brings."""
    return sum(1 + rate for rate in needed_rates) - (1 + cluster_rate)


def needed_shared(rate: float, cluster_size: float) -> int:
    """The least number of shared subscribers for which adding pays."""
    return int((1 + rate * (cluster_size + 1)) / (1 + rate)) + 1
