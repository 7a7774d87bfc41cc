"""Groups under construction: what has merged with what, and the Steiner trees and spanning trees along the way."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.trees import groups as content
from coterie.model.relation import Index
from coterie.substrate.lowstretch import RootedTree
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand
from coterie.systems.content.strategy import Strategy, place_unseen, single
from coterie.systems.content.trees import least_cost, route_cost, shaped_tree


class Trunks:
    """The Steiner trees of documents, one after another; a group refers to those of its documents by number."""

    def __init__(self) -> None:
        self._indptr = np.zeros(1024, np.int64)
        self._edges = np.empty(16_384, np.int32)
        self.count = 0

    def add(self, indptr: NDArray[np.int64], edges: Index) -> Index:
        """Keep these trees; returns their numbers."""
        first, size = self.count, int(self._indptr[self.count])
        self.count += len(indptr) - 1
        if self.count + 1 > len(self._indptr):
            self._indptr = np.concatenate([self._indptr, np.zeros(max(self.count, len(self._indptr)), np.int64)])
        if size + len(edges) > len(self._edges):
            self._edges = np.concatenate([self._edges, np.empty(max(len(edges), len(self._edges)), np.int32)])
        self._indptr[first + 1 : self.count + 1] = size + indptr[1:]
        self._edges[size : size + len(edges)] = edges
        return np.arange(first, self.count, dtype=np.int32)

    def multiplicity(self, numbers: Index, weight: NDArray[np.float64], link_count: int) -> NDArray[np.float64]:
        total = np.zeros(link_count)
        content.add_up(self._indptr[numbers], self._indptr[numbers + 1], self._edges, weight, total)
        return total


@dataclass(frozen=True, eq=False)
class Group:
    """Classes of subscriptions, the documents that match one of them, and the Steiner tree of each document."""

    classes: Index
    documents: Index
    trunks: Index


@dataclass(eq=False)
class Merges:
    """Classes merge into groups; every group that ever existed is kept, its tree is made when it is asked for.

    Two groups that merge keep the Steiner trees of documents that match only one of them: only documents that match
    both have other ends than before.
    """

    terrain: Terrain
    demand: Demand
    shape: str
    leaves: Index  # classes that match a document
    groups: list[Group] = field(default_factory=list)
    history: list[tuple[int, int, int]] = field(default_factory=list)  # (one, other, what they became)
    work: int = 0  # documents in all trees computed so far: the work done, whatever the machine
    _trunks: Trunks = field(default_factory=Trunks)
    _trees: dict[int, RootedTree] = field(default_factory=dict)
    _costs: dict[int, float] = field(default_factory=dict)

    @classmethod
    def start(cls, terrain: Terrain, demand: Demand, shape: str, classes_max: int = 0) -> Merges:
        """Each class that a document matches as a group of its own; with a limit, those that most copies go to."""
        matched = np.bincount(demand.matches.columns, demand.weight[demand.matches.rows], demand.class_count)
        copies = matched * demand.hosts.lengths
        order = np.argsort(-copies, kind="stable")[: classes_max or None]
        leaves = np.sort(order[copies[order] > 0]).astype(np.int32)
        merges = cls(terrain, demand, shape, leaves)
        for leaf in leaves:
            classes, documents = np.array([leaf], np.int32), demand.documents_of.row(int(leaf))
            merges.groups.append(Group(classes, documents, merges._connect(classes, documents)))
        return merges

    def merge(self, one: int, other: int) -> int:
        self.groups.append(self._union(one, other))
        merged = len(self.groups) - 1
        self.history.append((one, other, merged))
        return merged

    def merged_cost(self, one: int, other: int) -> float:
        """cost(S_i u S_j) without keeping anything of it."""
        kept = self._trunks.count
        group = self._union(one, other)
        multiplicity = self._multiplicity(group)
        self._trunks.count = kept
        return least_cost(self.terrain, multiplicity, self.shape, lambda tree: self._route(group, tree))

    def _union(self, one: int, other: int) -> Group:
        mine, theirs = self.groups[one], self.groups[other]
        classes = np.concatenate([mine.classes, theirs.classes])
        documents = np.union1d(mine.documents, theirs.documents).astype(np.int32)
        trunks = np.empty(len(documents), np.int32)
        trunks[np.searchsorted(documents, mine.documents)] = mine.trunks
        trunks[np.searchsorted(documents, theirs.documents)] = theirs.trunks
        both = np.intersect1d(mine.documents, theirs.documents, assume_unique=True)
        trunks[np.searchsorted(documents, both)] = self._connect(classes, both)
        return Group(classes, documents, trunks)

    def _connect(self, classes: Index, documents: Index) -> Index:
        terrain, demand = self.terrain, self.demand
        if len(documents) == 0:
            return documents
        return self._trunks.add(
            *content.steiner_trees(terrain.links, terrain.routes, demand.arrays, documents, self._label(classes), 0)
        )

    def _label(self, classes: Index) -> Index:
        label = np.full(self.demand.class_count, -1, np.int32)
        label[classes] = 0
        return label

    def _multiplicity(self, group: Group) -> NDArray[np.float64]:
        self.work += len(group.documents)
        weight = self.demand.weight[group.documents]
        return self._trunks.multiplicity(group.trunks, weight, self.terrain.graph.link_count)

    def _route(self, group: Group, tree: RootedTree) -> float:
        return route_cost(self.terrain, tree, self.demand, self._label(group.classes), 0, group.documents)

    def tree(self, number: int) -> RootedTree:
        """Algorithm 1 for a group."""
        if number not in self._trees:
            group = self.groups[number]
            tree, cost = shaped_tree(
                self.terrain, self._multiplicity(group), self.shape, lambda tree: self._route(group, tree)
            )
            self._trees[number] = tree
            if cost is not None:
                self._costs[number] = cost
        return self._trees[number]

    def cost(self, number: int) -> float:
        """Equation 1 for a group, on the documents learned from."""
        tree = self.tree(number)  # which knows the cost already where it was chosen by it
        if number not in self._costs:
            self._costs[number] = self._route(self.groups[number], tree)
        return self._costs[number]

    def costs(self) -> NDArray[np.float64]:
        """cost(R) on the documents learned from, before the first merge and after each."""
        change = [self.cost(merged) - self.cost(one) - self.cost(other) for one, other, merged in self.history]
        singles = sum(self.cost(leaf) for leaf in range(len(self.leaves)))
        return np.concatenate([[singles], singles + np.cumsum(change)])

    def alive(self, merge_count: int) -> list[int]:
        """The groups there are after so many merges."""
        found = dict.fromkeys(range(len(self.leaves)))
        for one, other, merged in self.history[:merge_count]:
            del found[one], found[other]
            found[merged] = None
        return list(found)

    def strategy(self, merge_count: int) -> Strategy:
        """The groups after so many merges; classes that no document matched join the group most like them."""
        label = np.full(self.demand.class_count, -1, np.int32)
        alive = self.alive(merge_count)
        for group, number in enumerate(alive):
            label[self.groups[number].classes] = group
        if not alive:
            return single(self.terrain, self.demand, self.shape)
        trees = tuple(self.tree(number) for number in alive)
        return place_unseen(self.terrain, self.demand, Strategy(label, trees))
