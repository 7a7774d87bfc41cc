"""A given network of brokers: undirected links with a cost each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.model.relation import Index, Relation


@dataclass(frozen=True, eq=False)
class BrokerGraph:
    """Links `(source[i], target[i])` with source < target, in ascending order, each once."""

    node_count: int
    source: Index
    target: Index
    cost: NDArray[np.float64]

    @property
    def link_count(self) -> int:
        return len(self.source)

    @cached_property
    def neighbours(self) -> Relation:
        both = np.concatenate([self.source, self.target]), np.concatenate([self.target, self.source])
        return Relation.from_pairs(*both, self.node_count, self.node_count)

    @cached_property
    def neighbour_costs(self) -> NDArray[np.float64]:
        """The cost of every pair of `neighbours`, aligned with its columns."""
        pairs = self.neighbours
        low = np.minimum(pairs.rows, pairs.columns).astype(np.int64)
        high = np.maximum(pairs.rows, pairs.columns)
        return self.cost[
            np.searchsorted(self.source.astype(np.int64) * self.node_count + self.target, low * self.node_count + high)
        ]

    @classmethod
    def of(cls, node_count: int, source: object, target: object, cost: object = 1.0) -> BrokerGraph:
        """From links in any order and direction; self-links go, of parallel links the cheapest stays."""
        first = np.asarray(source, np.int64)
        second = np.asarray(target, np.int64)
        price = np.broadcast_to(np.asarray(cost, np.float64), first.shape)
        low, high = np.minimum(first, second), np.maximum(first, second)
        order = np.lexsort([price, high, low])
        low, high, price = low[order], high[order], price[order]
        key = low * node_count + high
        keep = (low != high) & np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.zeros(0, bool)
        return cls(node_count, low[keep].astype(np.int32), high[keep].astype(np.int32), price[keep].copy())
