"""A routing strategy: which subscriptions share a tree, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.trees import groups as content
from coterie.model.relation import Index, Relation
from coterie.substrate.lowstretch import RootedTree
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand
from coterie.systems.content.trees import compute_tree, every_document, one_group, route_cost


@dataclass(frozen=True, eq=False)
class Strategy:
    """R of section III-B: the group of every class (-1: a class nobody subscribes to) and a tree per group."""

    label: Index
    trees: tuple[RootedTree, ...]

    @property
    def group_count(self) -> int:
        return len(self.trees)

    def groups_of(self, demand: Demand) -> Relation:
        """Group -> documents that match a subscription in it."""
        label = self.label[demand.matches.columns]
        kept = label >= 0
        return Relation.from_pairs(
            label[kept], demand.matches.rows[kept], max(self.group_count, 1), demand.document_count
        )

    def cost(self, terrain: Terrain, demand: Demand) -> float:
        """cost(R): the sum over groups of what its documents cost on its tree."""
        documents = self.groups_of(demand)
        return sum(
            route_cost(terrain, tree, demand, self.label, group, documents.row(group))
            for group, tree in enumerate(self.trees)
        )

    def duplicate_share(self, demand: Demand) -> tuple[float, float]:
        """Copies that reach a subscribing node over another tree than the first, and first copies (Figure 7)."""
        label, matches = self.label, demand.matches
        rows = np.repeat(matches.rows.astype(np.int64), demand.hosts.lengths[matches.columns])
        wanted = np.repeat(label[matches.columns], demand.hosts.lengths[matches.columns])
        starts = demand.hosts.indptr[matches.columns]
        lengths = demand.hosts.lengths[matches.columns]
        offset = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        nodes = demand.hosts.columns[offset + np.arange(len(offset))]
        node_count = demand.hosts.column_count
        once = np.unique(rows * node_count + nodes)
        each = np.unique((rows * node_count + nodes) * max(self.group_count, 1) + wanted)
        weight = demand.weight
        total = float(weight[each // max(self.group_count, 1) // node_count].sum())
        first = float(weight[once // node_count].sum())
        return total - first, first


def single(terrain: Terrain, demand: Demand, shape: str = "best") -> Strategy:
    """SINGLE: all subscriptions on one tree."""
    label = one_group(demand)
    return Strategy(label, (compute_tree(terrain, demand, label, 0, every_document(demand), shape).tree,))


def fit(terrain: Terrain, demand: Demand, label: Index, shape: str) -> Strategy:
    """The same groups with trees for these documents."""
    group_count = int(label.max(initial=-1)) + 1
    pairs = label[demand.matches.columns]
    documents = Relation.from_pairs(
        pairs[pairs >= 0], demand.matches.rows[pairs >= 0], group_count, demand.document_count
    )
    trees = tuple(
        compute_tree(terrain, demand, label, group, documents.row(group), shape).tree for group in range(group_count)
    )
    return Strategy(label, trees)


def place_unseen(terrain: Terrain, demand: Demand, strategy: Strategy) -> Strategy:
    """Give every class that has hosts but no group yet to the group it shares most hosts with.

    No sampled document says where it belongs; documents come from near the nodes that want them, so neighbours in
    interest are the best guess. Of equal groups the one whose tree connects the hosts most cheaply.
    """
    label = strategy.label.copy()
    unseen = np.flatnonzero((label < 0) & (demand.hosts.lengths > 0))
    if len(unseen) == 0:
        return strategy
    groups, nodes = strategy.group_count, demand.hosts.column_count
    seen = label[demand.hosts.rows] >= 0
    present = np.bincount(
        label[demand.hosts.rows[seen]].astype(np.int64) * nodes + demand.hosts.columns[seen], minlength=groups * nodes
    ).reshape(groups, nodes)
    choose = Connecting(terrain, strategy)
    for one in unseen:
        hosts = demand.hosts.row(int(one))
        shared = present[:, hosts].sum(axis=1)
        best = np.flatnonzero(shared == shared.max())
        label[one] = best[0] if len(best) == 1 else choose.cheapest(best, hosts)
    return Strategy(label, strategy.trees)


class Connecting:
    """All trees of a strategy side by side, to ask which connects some nodes at the lowest cost."""

    def __init__(self, terrain: Terrain, strategy: Strategy) -> None:
        self._links = terrain.links
        self._parents = np.stack([tree.parent for tree in strategy.trees])
        self._parent_edges = np.stack([tree.parent_edge for tree in strategy.trees])
        self._depths = np.stack([tree.depth for tree in strategy.trees])
        self._mark = np.full(terrain.graph.node_count, -1, np.int64)
        self._stamp = 0

    def cheapest(self, groups: NDArray[np.integer], nodes: Index) -> int:
        stamp = self._stamp
        self._stamp += len(groups)
        return content.cheapest_tree(
            self._links, self._parents, self._parent_edges, self._depths, groups.astype(np.int64), nodes, self._mark,
            stamp,
        )  # fmt: skip


def cheapest_group(terrain: Terrain, demand: Demand, strategy: Strategy, newcomer: int) -> int:
    """Section VI: the group whose cost rises least when this class of subscriptions joins it.

    Without a document that matches it, the group whose tree connects its hosts most cheaply.
    """
    documents = demand.documents_of.row(newcomer)
    if len(documents) == 0:
        return Connecting(terrain, strategy).cheapest(np.arange(strategy.group_count), demand.hosts.row(newcomer))
    rises = []
    for group, tree in enumerate(strategy.trees):
        label = strategy.label.copy()
        label[newcomer] = -1
        before = route_cost(terrain, tree, demand, label, group, documents)
        label[newcomer] = group
        rises.append(route_cost(terrain, tree, demand, label, group, documents) - before)
    return int(np.argmin(rises))
