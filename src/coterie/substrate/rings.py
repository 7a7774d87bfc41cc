"""What all rings offer in bulk: owners of keys and paths to them, for any number of keys at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.rings.chord import Fingers, clockwise_paths
from coterie.model import Overlay, Relation
from coterie.model.relation import Index, Offset

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Paths:
    """Path i is `hops[indptr[i]:indptr[i + 1]]`, both ends included."""

    indptr: Offset
    hops: Index

    @property
    def count(self) -> int:
        return len(self.indptr) - 1

    def path(self, index: int) -> Index:
        return self.hops[self.indptr[index] : self.indptr[index + 1]]


class Ring(Protocol):
    """Nodes at positions, each with links; every key has one owner, and following the links leads to it."""

    @property
    def positions(self) -> Words: ...

    @property
    def overlay(self) -> Overlay: ...

    def owners(self, keys: Words) -> Index:
        """The node each key belongs to."""

    def paths(self, starts: Index, keys: Words) -> Paths:
        """From starts[i] to the owner of keys[i]."""


@dataclass(frozen=True, eq=False)
class Circle:
    """Positions of nodes, in node order and in ring order."""

    positions: Words

    def __post_init__(self) -> None:
        if len(self.positions) == 0 or self.positions.dtype != np.uint64:
            raise ValueError("a ring wants at least one position, as unsigned 64-bit numbers")
        if np.any(self.ascending[1:] == self.ascending[:-1]):
            raise ValueError("two nodes sit at the same position of the ring")

    @property
    def node_count(self) -> int:
        return len(self.positions)

    @cached_property
    def order(self) -> Index:
        """Rank -> node."""
        return np.argsort(self.positions, kind="stable").astype(np.int32)

    @cached_property
    def rank(self) -> Index:
        """Node -> rank."""
        rank = np.empty(self.node_count, np.int32)
        rank[self.order] = np.arange(self.node_count, dtype=np.int32)
        return rank

    @cached_property
    def ascending(self) -> Words:
        return self.positions[self.order]

    def successors(self, keys: Words) -> Index:
        """The first node at or clockwise from each key."""
        return self.order[np.searchsorted(self.ascending, keys) % self.node_count]

    def nearest(self, keys: Words) -> Index:
        """The node closest to each key either way; of two at the same distance the clockwise one."""
        after = np.searchsorted(self.ascending, keys) % self.node_count
        before = (after - 1) % self.node_count
        is_before = _around(self.ascending[before], keys) < _around(self.ascending[after], keys)
        return self.order[np.where(is_before, before, after)]

    def near(self, each_side: int) -> Relation:
        """Node -> its nearest nodes by rank, so many on each side."""
        steps = np.arange(1, min(each_side, self.node_count - 1) + 1)
        steps = np.concatenate([steps, -steps])
        nodes = np.repeat(np.arange(self.node_count), len(steps))
        others = self.order[(self.rank[:, None] + steps[None, :]) % self.node_count].ravel()
        return Relation.from_pairs(nodes, others, self.node_count, self.node_count)

    def overlay(self, nodes: NDArray[np.integer], others: Index, near: int) -> Overlay:
        """These links, and so many neighbours on each side."""
        beside = self.near(near)
        rows, columns = np.concatenate([nodes, beside.rows]), np.concatenate([others, beside.columns])
        return Overlay(Relation.from_pairs(rows, columns, self.node_count, self.node_count), self.positions)


def _around(positions: Words, keys: Words) -> Words:
    distance: Words = np.minimum(positions - keys, keys - positions)
    return distance


@dataclass(frozen=True, eq=False)
class ClockwiseRing:
    """A ring whose nodes pass a key on to the link furthest clockwise that does not overshoot it: Chord and Oscar.

    A key belongs to the first node at or after it. Because paths only ever go forward, the paths from one root to any
    nodes form a tree (CLAIMS, Magnet, reading 1).
    """

    circle: Circle
    indptr: Offset
    links: Index  # by node, each node's by clockwise distance, its successor first
    near: int  # neighbours kept on each side for ownership and repair; not routed over unless they are links too

    @property
    def positions(self) -> Words:
        return self.circle.positions

    @cached_property
    def overlay(self) -> Overlay:
        """Everything a node keeps: links and near neighbours."""
        rows = np.repeat(np.arange(self.circle.node_count), np.diff(self.indptr))
        return self.circle.overlay(rows, self.links, self.near)

    def links_of(self, node: int) -> Index:
        return self.links[self.indptr[node] : self.indptr[node + 1]]

    def owners(self, keys: Words) -> Index:
        return self.circle.successors(keys)

    def paths(self, starts: Index, keys: Words) -> Paths:
        return Paths(
            *clockwise_paths(Fingers(self.positions, self.indptr, self.links), starts, keys, self.owners(keys))
        )
