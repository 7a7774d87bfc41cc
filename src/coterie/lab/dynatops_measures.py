"""What DYNATOPS' experiments measure of a broker network, and the systems it is compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.trees import delays as treedelay
from coterie.kernels.trees.unions import union_of_paths
from coterie.model import Relation, Spread, Trees
from coterie.model.relation import Index
from coterie.substrate.chord import chord_ring
from coterie.substrate.identifiers import node_positions, topic_keys
from coterie.substrate.pastry import PastryRing
from coterie.substrate.trees import top_down_trees
from coterie.systems.spidercast.entry import unwound

Floats = NDArray[np.float64]
Links = NDArray[np.uint8]


@dataclass(frozen=True)
class Performance:
    """Of one event on average: messages from the rendezvous point on, delay to a subscribed broker and to a user."""

    overhead: float
    relays: float
    broker_hops: float
    user_hops: float
    user_distance: float


def users_at(counts: NDArray[np.int32], members: Relation) -> NDArray[np.float64]:
    """Users behind every (topic, broker) pair of `members`; `counts` is broker by topic."""
    return counts[members.columns, members.rows].astype(np.float64)


def performance_of_trees(trees: Trees, rates: Floats, users: Floats, plane: Floats) -> Performance:
    members = trees.members
    hops, distance = treedelay.member_delays(
        trees.indptr, trees.node, trees.parent, trees.root, members.indptr, members.columns, plane
    )
    events = max(float(rates.sum()), 1e-12)
    # The root receives its copy from the publisher, so it is no message of the tree even where it is subscribed.
    root_is_member = np.zeros(members.row_count, bool)
    root_is_member[members.rows[members.columns == trees.root[members.rows]]] = True
    relays = trees.edge_counts - (members.lengths - root_is_member)
    weight = rates[members.rows]
    return Performance(
        float((rates * trees.edge_counts).sum()) / events,
        float((rates * relays).sum()) / events,
        _mean(hops, weight),
        _mean(hops, weight * users),
        _mean(distance, weight * users),
    )


def _mean(values: NDArray[np.int32] | Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float((values * weights).sum()) / total if total else 0.0


def chord_performance(
    positions: NDArray[np.uint64], members: Relation, rates: Floats, users: Floats, plane: Floats
) -> Performance:
    trees = top_down_trees(chord_ring(positions), topic_keys(members.row_count), members)
    return performance_of_trees(trees, rates, users, plane)


class Bayeux:
    """Trees from the root down over a prefix-routing ring with random ids; how large a digit is matters."""

    def __init__(self, broker_count: int, digit_bits: int, seed: int) -> None:
        self._ring = PastryRing.of(node_positions(broker_count, seed), digit_bits)

    def performance(self, members: Relation, rates: Floats, users: Floats, plane: Floats) -> Performance:
        trees = top_down_trees(self._ring, topic_keys(members.row_count), members)
        return performance_of_trees(trees, rates, users, plane)

    def update_messages(self, broker: Index, topic: Index) -> int:
        """Each change goes to the root and, for the path, back."""
        paths = self._ring.paths(broker.astype(np.int32), topic_keys(int(topic.max(initial=0)) + 1)[topic])
        return 2 * int((np.diff(paths.indptr) - 1).sum())


class TopicConnected:
    """TCO by greedy merge: relay-free, events flood along a shortest-path tree inside the topic."""

    def __init__(self, wants: Links) -> None:
        self.links = treedelay.topic_connected(wants, np.zeros((len(wants), len(wants)), np.uint8))

    def rebuilt(self, wants: Links) -> tuple[TopicConnected, int]:
        """Built anew; how many links differ."""
        fresh = TopicConnected(wants)
        return fresh, int(np.count_nonzero(fresh.links != self.links)) // 2

    def repaired(self, wants: Links) -> int:
        """Links added so that topics are connected again; nothing is taken away."""
        links = treedelay.topic_connected(wants, self.links)
        added = int(np.count_nonzero(links != self.links)) // 2
        self.links = links
        return added

    def performance(self, wants: Links, members: Relation, rates: Floats, users: Floats) -> Performance:
        starts = members.indptr[:-1]
        source = np.where(members.lengths > 0, members.columns[np.minimum(starts, members.pair_count - 1)], 0)
        hops = treedelay.flood_hops(wants, self.links, source.astype(np.int32), members.indptr, members.columns)
        events = float(rates.sum())
        overhead = float((rates * np.maximum(members.lengths - 1, 0)).sum()) / events
        weight = rates[members.rows]
        return Performance(overhead, 0.0, _mean(hops, weight), _mean(hops, weight * users), 0.0)


class GeoHierarchy:
    """GeoPS read as a quadtree over the plane: events climb to the smallest common square and descend to the cells.

    A square's leader is the broker nearest to its centre.
    """

    def __init__(self, plane: Floats, levels: int = 5) -> None:
        self._levels = levels
        low, high = plane.min(axis=0), plane.max(axis=0)
        side = float(np.max(high - low)) or 1.0
        cell = np.minimum(((plane - low) / side * (1 << levels)).astype(np.int64), (1 << levels) - 1)
        self._squares = [cell >> level for level in range(levels + 1)]
        self._keys: list[list[int]] = [(it[:, 0] << 32 | it[:, 1]).tolist() for it in self._squares]
        leaders = [self._leaders_of(plane, low, side, level) for level in range(levels + 1)]
        self._leaders: list[list[int]] = [each.tolist() for each in leaders]

    def _leaders_of(self, plane: Floats, low: Floats, side: float, level: int) -> NDArray[np.int64]:
        """Broker -> leader of its square at this level; at level 0 every broker leads itself."""
        if level == 0:
            return np.arange(len(plane))
        width = side / (1 << (self._levels - level))
        centre = low + (self._squares[level] + 0.5) * width
        away = ((plane - centre) ** 2).sum(axis=1)
        key = np.array(self._keys[level])
        leader = np.empty(len(plane), np.int64)
        for square in np.unique(key):
            inside = np.flatnonzero(key == square)
            leader[inside] = inside[np.argmin(away[inside])]
        return leader

    def trees(self, roots: Index, members: Relation) -> Trees:
        indptr, hops = [0], []
        for topic, member in zip(members.rows.tolist(), members.columns.tolist(), strict=True):
            path = self._path(int(roots[topic]), member)
            hops.extend(path)
            indptr.append(len(hops))
        built = union_of_paths(
            members.column_count, members.indptr, np.array(indptr, np.int64), np.array(hops, np.int32), False
        )
        return Trees(Spread.ROOTED, members, roots.astype(np.int32), *built)

    def _path(self, root: int, member: int) -> list[int]:
        top = 0
        while top < self._levels and self._keys[top][root] != self._keys[top][member]:
            top += 1
        climb = [self._leaders[level][root] for level in range(top + 1)]
        descent = [self._leaders[level][member] for level in range(top, -1, -1)]
        return unwound([*climb, *descent])  # a leader of several levels takes no detour over itself
