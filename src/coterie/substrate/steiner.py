"""Shortest paths and Steiner trees on a given broker network, and lower bounds for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coterie.errors import ConfigError
from coterie.kernels.graphs import paths as graphs
from coterie.kernels.trees import steiner
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Index

NODES_MAX = 12_000  # all-pairs paths take 8 bytes a pair
EXTRA_POINTS = 16


def links_of(graph: BrokerGraph) -> graphs.Adjacency:
    """The graph as kernels take it."""
    if np.any(graph.cost <= 0):
        raise ConfigError("cost", float(graph.cost.min()), "more than 0 on every link of a broker network")
    neighbours = graph.neighbours
    low = np.minimum(neighbours.rows, neighbours.columns).astype(np.int64)
    high = np.maximum(neighbours.rows, neighbours.columns)
    ends = graph.source.astype(np.int64) * graph.node_count + graph.target
    edge = np.searchsorted(ends, low * graph.node_count + high).astype(np.int32)
    return graphs.Adjacency(neighbours.indptr, neighbours.columns, edge, graph.source, graph.target, graph.cost)


def is_uniform(graph: BrokerGraph) -> bool:
    return graph.link_count == 0 or bool(np.all(graph.cost == graph.cost[0]))


@dataclass(frozen=True, eq=False)
class Terrain:
    """A broker network with everything precomputed that trees are built from."""

    graph: BrokerGraph

    def __post_init__(self) -> None:
        if self.graph.node_count > NODES_MAX:
            raise ConfigError("nodes", self.graph.node_count, f"at most {NODES_MAX} for all-pairs paths")

    @cached_property
    def links(self) -> graphs.Adjacency:
        return links_of(self.graph)

    @cached_property
    def is_uniform(self) -> bool:
        return is_uniform(self.graph)

    @cached_property
    def routes(self) -> graphs.Routes:
        return graphs.all_routes(self.links, self.is_uniform)

    @property
    def is_connected(self) -> bool:
        distance, _, _ = graphs.nearest_sources(self.links, np.arange(self.graph.node_count) == 0, self.is_uniform)
        return bool(np.all(np.isfinite(distance)))

    def steiner(self, terminals: Index, extra_points: int = EXTRA_POINTS) -> Index:
        """Edges of a near-optimal tree that connects the terminals (distinct nodes)."""
        if len(terminals) < 2:
            return np.zeros(0, np.int32)
        return steiner.best_steiner(self.links, self.routes, terminals.astype(np.int32), extra_points)

    def cost_of(self, edges: Index) -> float:
        return float(self.graph.cost[edges].sum())

    def steiner_floor(self, terminals: Index, rotations: int = 2) -> float:
        """No tree that connects these terminals costs less: the better of several roots' dual ascents."""
        if len(terminals) < 2:
            return 0.0
        turns = range(min(len(terminals), rotations))
        return max(steiner.dual_ascent(self.links, np.roll(terminals, at).astype(np.int32)) for at in turns)
