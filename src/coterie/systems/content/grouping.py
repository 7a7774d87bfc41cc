"""Algorithms 2 and 3 (ComputeMultipleTrees): which subscriptions share a tree, and how many trees there should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from coterie.kernels import content
from coterie.model.relation import Index, Relation
from coterie.substrate.lowstretch import RootedTree
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand
from coterie.systems.content.trees import GroupTree, compute_tree, every_document, one_group, route_cost

CANDIDATES = 24  # numbers of groups that are tried on held-out documents


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


@dataclass(eq=False)
class Merges:
    """Groups under construction: classes merge, every group that ever existed keeps its tree and cost."""

    terrain: Terrain
    demand: Demand
    shape: str
    leaves: Index  # classes that match a document
    members: list[Index] = field(default_factory=list)  # group number -> classes
    trees: list[GroupTree] = field(default_factory=list)
    documents: list[Index] = field(default_factory=list)
    history: list[tuple[int, int, int]] = field(default_factory=list)  # (one, other, what they became)
    steiner_count: int = 0  # Steiner trees computed so far: the work done, whatever the machine

    @classmethod
    def start(cls, terrain: Terrain, demand: Demand, shape: str) -> Merges:
        leaves = np.flatnonzero((demand.documents_of.lengths > 0) & (demand.hosts.lengths > 0)).astype(np.int32)
        merges = cls(terrain, demand, shape, leaves)
        for leaf in leaves:
            merges.add(np.array([leaf], np.int32), demand.documents_of.row(int(leaf)))
        return merges

    def add(self, classes: Index, documents: Index) -> int:
        self.members.append(classes)
        self.documents.append(documents)
        self.trees.append(self._tree(classes, documents, is_spanning=True))
        return len(self.members) - 1

    def merge(self, one: int, other: int) -> int:
        documents = np.union1d(self.documents[one], self.documents[other]).astype(np.int32)
        merged = self.add(np.concatenate([self.members[one], self.members[other]]), documents)
        self.history.append((one, other, merged))
        return merged

    def merged_cost(self, one: int, other: int) -> float:
        """cost(S_i u S_j) without keeping the tree."""
        documents = np.union1d(self.documents[one], self.documents[other]).astype(np.int32)
        classes = np.concatenate([self.members[one], self.members[other]])
        return self._tree(classes, documents, is_spanning=False).cost

    def _tree(self, classes: Index, documents: Index, is_spanning: bool) -> GroupTree:
        label = np.full(self.demand.class_count, -1, np.int32)
        label[classes] = 0
        self.steiner_count += len(documents)
        return compute_tree(self.terrain, self.demand, label, 0, documents, self.shape, is_spanning)

    def costs(self) -> NDArray[np.float64]:
        """cost(R) on the documents learned from, before the first merge and after each."""
        change = [
            self.trees[merged].cost - self.trees[one].cost - self.trees[other].cost
            for one, other, merged in self.history
        ]
        singles = sum(tree.cost for tree in self.trees[: len(self.leaves)])
        return np.concatenate([[singles], singles + np.cumsum(change)])

    def strategy(self, merge_count: int) -> Strategy:
        """The groups after so many merges; classes that no document matched join the group most like them."""
        alive = dict.fromkeys(range(len(self.leaves)))
        for one, other, merged in self.history[:merge_count]:
            del alive[one], alive[other]
            alive[merged] = None
        label = np.full(self.demand.class_count, -1, np.int32)
        for group, number in enumerate(alive):
            label[self.members[number]] = group
        trees = tuple(self.trees[number].tree for number in alive)
        if not trees:
            return single(self.terrain, self.demand, self.shape)
        return place_unseen(self.terrain, self.demand, Strategy(label, trees))


def single(terrain: Terrain, demand: Demand, shape: str = "low-stretch") -> Strategy:
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


def merge_by_overlap(merges: Merges) -> None:
    """Algorithm 3: always the two groups whose document sets are most alike, down to one group.

    The paper does not say how to go on when no two groups share a document: then those go together that share most of
    their nodes.
    """
    demand = merges.demand
    leaves = [[leaf] for leaf in range(len(merges.leaves))]
    groups = _merge_alike(merges, leaves, merges.documents[: len(leaves)], demand.document_count, is_complete=False)
    hosts = [
        np.unique(np.concatenate([demand.hosts.row(one) for one in merges.members[group[-1]].tolist()]))
        for group in groups
    ]
    _merge_alike(merges, groups, hosts, demand.hosts.column_count, is_complete=True)


def _merge_alike(
    merges: Merges, groups: list[list[int]], columns: Sequence[Index], column_count: int, is_complete: bool
) -> list[list[int]]:
    """Merge by Jaccard's coefficient over these columns; returns, of each group left, its numbers, the last alive."""
    bits = np.zeros((len(groups), max((column_count + 63) // 64, 1)), np.uint64)
    for row, present in enumerate(columns):
        wide = present.astype(np.int64)
        np.bitwise_or.at(bits[row], wide // 64, np.uint64(1) << (wide % 64).astype(np.uint64))
    sizes = np.array([len(present) for present in columns], np.int64)
    kept, absorbed = content.merge_by_overlap(bits, sizes, is_complete)
    for one, other in zip(kept.tolist(), absorbed.tolist(), strict=True):
        groups[one].append(merges.merge(groups[one][-1], groups[other][-1]))
    gone = set(absorbed.tolist())
    return [group for row, group in enumerate(groups) if row not in gone]


def merge_by_cost(merges: Merges, start: int = 0) -> None:
    """Algorithm 2: always the two groups whose union saves the largest share of their cost, while one saves.

    Groups without a document in common are never tried: separate trees serve such documents at least as well.
    `start` merges have been made before (the hybrid of section V); the rest of the history is dropped.
    """
    del merges.history[start:]
    alive = dict.fromkeys(range(len(merges.leaves)))
    for one, other, merged in merges.history:
        del alive[one], alive[other]
        alive[merged] = None
    meets: dict[int, dict[int, None]] = {document: {} for document in range(merges.demand.document_count)}
    heap: list[tuple[float, int, int]] = []
    for number in alive:
        _try_all(merges, number, meets, heap)
    while heap:
        _, one, other = heappop(heap)
        if one not in alive or other not in alive:
            continue
        del alive[one], alive[other]
        for number in (one, other):
            for document in merges.documents[number].tolist():
                meets[document].pop(number, None)
        merged = merges.merge(one, other)
        alive[merged] = None
        _try_all(merges, merged, meets, heap)


def _try_all(
    merges: Merges, number: int, meets: dict[int, dict[int, None]], heap: list[tuple[float, int, int]]
) -> None:
    """Push what a group would save with each group it shares a document with, then let it be met itself."""
    others = {other: None for document in merges.documents[number].tolist() for other in meets[document]}
    for other in others:
        apart = merges.trees[number].cost + merges.trees[other].cost
        saved = apart - merges.merged_cost(number, other)
        if saved > 0 and apart > 0:
            heappush(heap, (-saved / apart, min(number, other), max(number, other)))
    for document in merges.documents[number].tolist():
        meets[document][number] = None


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
    for one in unseen:
        hosts = demand.hosts.row(int(one))
        shared = present[:, hosts].sum(axis=1)
        best = np.flatnonzero(shared == shared.max())
        label[one] = best[0] if len(best) == 1 else _cheapest(terrain, strategy, best, hosts)
    return Strategy(label, strategy.trees)


def _cheapest(terrain: Terrain, strategy: Strategy, groups: NDArray[np.integer], hosts: Index) -> int:
    """Which of these groups' trees connects the hosts at the lowest cost."""
    mark = np.full(terrain.graph.node_count, -1, np.int64)
    costs = []
    for stamp, group in enumerate(groups.tolist()):
        tree = strategy.trees[group]
        costs.append(
            content.subtree_cost(
                terrain.links, tree.parent, tree.parent_edge, tree.depth, hosts, len(hosts), mark, stamp
            )
        )
    return int(groups[int(np.argmin(costs))])


def cheapest_group(terrain: Terrain, demand: Demand, strategy: Strategy, newcomer: int) -> int:
    """Section VI: the group whose cost rises least when this class of subscriptions joins it.

    Without a document that matches it, the group whose tree connects its hosts most cheaply.
    """
    documents = demand.documents_of.row(newcomer)
    if len(documents) == 0:
        return _cheapest(terrain, strategy, np.arange(strategy.group_count), demand.hosts.row(newcomer))
    rises = []
    for group, tree in enumerate(strategy.trees):
        label = strategy.label.copy()
        label[newcomer] = -1
        before = route_cost(terrain, tree, demand, label, group, documents)
        label[newcomer] = group
        rises.append(route_cost(terrain, tree, demand, label, group, documents) - before)
    return int(np.argmin(rises))


def choose(merges: Merges, held_out: Demand | None, groups_max: int, tolerance: float = 1e-9) -> Strategy:
    """The cheapest point of the history: on the documents learned from (as the paper has it), or on held-out ones.

    Held-out documents are routed with every candidate number of groups, one group always among them, so what is chosen
    never costs them more than a single tree. Of equal costs the fewest groups.
    """
    costs = merges.costs()
    groups = len(merges.leaves) - np.arange(len(costs))
    allowed = np.flatnonzero(groups <= max(groups_max, groups.min())) if groups_max else np.arange(len(costs))
    if held_out is None or held_out.document_count == 0:
        cheapest = allowed[costs[allowed] <= costs[allowed].min() * (1 + tolerance)]
        return merges.strategy(int(cheapest[-1]))
    best = single(merges.terrain, merges.demand, merges.shape)
    lowest = best.cost(merges.terrain, held_out)
    for merge_count in _candidates(groups, allowed, int(allowed[np.argmin(costs[allowed])])):
        strategy = merges.strategy(merge_count)
        cost = strategy.cost(merges.terrain, held_out)
        if cost < lowest:
            best, lowest = strategy, cost
    return best


def _candidates(groups: NDArray[np.integer], allowed: NDArray[np.integer], learned: int) -> list[int]:
    """Merge counts to try, fewest groups first: geometric steps, and what the learned documents like best."""
    few, many = int(groups[allowed].min()), int(groups[allowed].max())
    wanted = np.unique(np.geomspace(max(few, 1), max(many, 1), CANDIDATES).round().astype(np.int64))
    counts = {int(groups[0] - count) for count in wanted.tolist()} | {learned, int(allowed[-1])}
    return sorted(counts & set(allowed.tolist()), reverse=True)
