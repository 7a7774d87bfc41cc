"""The cost model of section 2: four pluggable functions, and the formulas of section 3 as the paper prints them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.clusters.state import CostTables

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class CostFunctions:
    """Messages per interval or event as functions of a number of subscribers or topics; both must not fall.

    The functions take and return arrays, so that they can be tabulated for the kernels.
    """

    maintain: Callable[[Counts], Counts]  # cost_m(N), keeping a channel of N subscribers alive
    disseminate: Callable[[Counts], Counts]  # cost_d(N), an event from the channel to N subscribers
    associate: Callable[[Counts], Counts]  # cost_a(N), keeping a cluster's ties to N topics alive
    notify: float  # cost_n(), an event to the channel

    def tables(self, user_count: int, topic_count: int) -> CostTables:
        users = np.arange(user_count + 1, dtype=np.float64)
        topics = np.arange(topic_count + 2, dtype=np.float64)
        return CostTables(
            np.ascontiguousarray(self.maintain(users), np.float64),
            np.ascontiguousarray(self.disseminate(users), np.float64),
            np.ascontiguousarray(self.associate(topics), np.float64),
            float(self.notify),
        )


def _same(count: Counts) -> Counts:
    return count


SIMPLE = CostFunctions(_same, _same, _same, 1.0)  # the running example, used for every table and figure


def scribe_average(node_count: int, digit_bits: int = 4) -> CostFunctions:
    """A tree of N random Pastry routes has about N edges and the helpers above them; keys are log(nodes) hops away."""
    digits = 2.0**digit_bits
    depth = max(1.0, np.log(node_count) / np.log(digits))

    def tree(count: Counts) -> Counts:
        helpers = np.zeros_like(count)
        for level in range(1, int(np.ceil(depth))):
            spots = digits**level
            reached = spots * (1 - (1 - 1 / spots) ** count)
            helpers += reached * np.maximum(0.0, 1 - count / node_count)  # a helper that subscribes is no helper
        edges: Counts = count + helpers
        return edges

    return CostFunctions(tree, tree, lambda count: count * depth, float(depth))


def scribe_worst(node_count: int, digit_bits: int = 4) -> CostFunctions:
    """No two routes share a hop: every subscriber costs a whole route."""
    depth = float(np.ceil(max(1.0, np.log(node_count) / np.log(2.0**digit_bits))))
    return CostFunctions(lambda count: count * depth, lambda count: count * depth, lambda count: count * depth, depth)


# --- the paper's worked formulas (cost_m(N) = cost_d(N) = cost_a(N) = N, cost_n() = 1) ---


def add_threshold(rate: float, cluster_size: int) -> float:
    """Section 3.1: a topic pays in a cluster when more than so many of its members are subscribed to it directly."""
    return (1 + rate * (cluster_size + 1)) / (1 + rate)


def toss_probability(confidence: float, needed: int) -> float:
    """Section 3.1: omega = 1 - (1 - phi)^(1 / |s|)."""
    return float(1 - (1 - confidence) ** (1 / needed))


def merge_threshold(rate: float, own_1: int, own_2: int, others_1: int, others_2: int, shared_topics: int) -> float:
    """Section 3.2: two clusters with `own` topics and `others` subscribers not in common should merge when more than
    so many subscribers are in common."""
    against = rate * own_1 * others_2 + rate * own_2 * others_1
    return (against - shared_topics * (rate + 1)) / (rate * shared_topics + 1)
