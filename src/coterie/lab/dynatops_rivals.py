"""The systems DYNATOPS is compared with, in the readings its text allows: Bayeux over Tapestry, TCO by DCB-M."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.trees import delays as treedelay
from coterie.lab.dynatops_measures import Floats, Links, Performance, TopicConnected, performance_of_trees
from coterie.model import Relation
from coterie.model.relation import Index
from coterie.substrate.identifiers import node_positions, topic_keys
from coterie.substrate.rings import Ring
from coterie.substrate.tapestry import TapestryMesh
from coterie.substrate.trees import top_down_trees

PARTITION = 20  # nodes of a partition of DCB-M; its authors try 5 to 10 partitions of some hundred nodes


class TapestryBayeux:
    """Bayeux as its authors built it: trees over a Tapestry mesh, which has no leaf sets; a plane makes it choose
    near neighbours (PNS)."""

    def __init__(self, broker_count: int, digit_bits: int, seed: int, plane: Floats | None = None) -> None:
        self._mesh: Ring = TapestryMesh.of(node_positions(broker_count, seed), digit_bits, plane)

    def performance(self, members: Relation, rates: Floats, users: Floats, plane: Floats) -> Performance:
        trees = top_down_trees(self._mesh, topic_keys(members.row_count), members)
        return performance_of_trees(trees, rates, users, plane)


class DividedOverlay:
    """TCO by DCB-M (Chen, Jacobsen, Vitenberg, 2010): nodes in random partitions, each made topic-connected by greedy
    merge, then the partitions joined by greedy merge; on a change only the partitions concerned are built anew."""

    def __init__(self, wants: Links, seed: int) -> None:
        count = len(wants)
        parts = max(1, round(count / PARTITION))
        order = np.random.default_rng([seed, 23]).permutation(count)
        self._part = np.empty(count, np.int64)
        self._part[order] = np.arange(count) * parts // count
        self._wants = wants.copy()
        self._inner = [self._build(wants, part) for part in range(parts)]
        self.links = self._joined(wants)

    def _build(self, wants: Links, part: int) -> Links:
        inside = self._part == part
        only = np.where(inside[:, None], wants, 0).astype(np.uint8)
        return treedelay.topic_connected(only, np.zeros((len(wants), len(wants)), np.uint8))

    def _joined(self, wants: Links) -> Links:
        inner = np.bitwise_or.reduce(self._inner)
        return treedelay.topic_connected(wants, inner)

    def follow(self, wants: Links) -> int:
        """Build what has changed anew; how many links differ."""
        changed = np.flatnonzero(np.any(wants != self._wants, axis=1))
        for part in np.unique(self._part[changed]).tolist():
            self._inner[part] = self._build(wants, part)
        before, self.links = self.links, self._joined(wants)
        self._wants = wants.copy()
        return int(np.count_nonzero(before != self.links)) // 2


def flooded(links: Links, wants: Links, members: Relation, rates: Floats, users: Floats, source: Index) -> float:
    """Mean hops to a user where events start at these members and flood inside their topics."""
    hops = treedelay.flood_hops(wants, links, source, members.indptr, members.columns)
    weight = rates[members.rows] * users
    return float((hops * weight).sum() / weight.sum())


def first_members(members: Relation) -> Index:
    starts = np.minimum(members.indptr[:-1], members.pair_count - 1)
    return np.where(members.lengths > 0, members.columns[starts], 0).astype(np.int32)


def random_members(members: Relation, draw: np.random.Generator) -> Index:
    """A publisher of each topic among those who want it, anybody: users are publishers in the paper."""
    offset = (draw.random(members.row_count) * members.lengths).astype(np.int64)
    at = np.minimum(members.indptr[:-1] + offset, members.pair_count - 1)
    return np.where(members.lengths > 0, members.columns[at], 0).astype(np.int32)


def shuffled(wants: Links, draw: np.random.Generator) -> tuple[TopicConnected, NDArray[np.int64]]:
    """Greedy merge with its ties broken at random: nodes renamed, and the names to read its links by."""
    name = draw.permutation(len(wants))
    return TopicConnected(wants[name]), name
