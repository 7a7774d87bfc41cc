"""Magnet in bulk: everybody's place on the skewed ring, both rings' links, and the trees on them.

A node can tell its two tables apart with nothing but the list of its neighbours: the control ring follows from the
names alone, ring neighbours on the skewed ring are the closest ones on it, and whatever is left is a long link. So a
peer that the control ring has given to a node already does not count as a long link of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.rings.settling import settle_by_interest
from coterie.kernels.trees.interested import interested_trees
from coterie.model import Channels, Entries, Overlay, Placement, Relation, Spread, Trees, Workload
from coterie.model.relation import Index, Offset
from coterie.substrate.chord import chord_ring
from coterie.substrate.identifiers import MASK, even_positions, node_positions, splitmix64, topic_keys
from coterie.substrate.oscar import oscar_ring
from coterie.substrate.rings import Circle, ClockwiseRing, Words
from coterie.substrate.trees import entries, path_union, top_down_trees
from coterie.systems.magnet.parameters import MagnetParameters, RingParameters

CONTROL_SEED = 0  # a name's place on the control ring is the same in every run, so that nodes can compute it
ARRIVALS = 101  # stream of randomness

Ordering = Callable[[Workload, Relation, MagnetParameters, int], Index]  # -> the nodes in ring order


def topic_weights(workload: Workload, is_rate_weighted: bool) -> NDArray[np.float64]:
    return workload.rates if is_rate_weighted and workload.rates.any() else np.ones(workload.topic_count)


def join_order(workload: Workload, interests: Relation, parameters: MagnetParameters, seed: int) -> Index:
    """Algorithm 1 run by one node after the other, in random order; each sees a fresh sample of every topic it wants.

    The mean of two identifiers runs out of bits after some sixty insertions at one spot, so only the order is kept
    here and identifiers are dealt out evenly afterwards.
    """
    arrivals = np.random.default_rng([seed, ARRIVALS]).permutation(interests.row_count).astype(np.int32)
    turn = np.empty(len(arrivals), np.int32)
    turn[arrivals] = np.arange(len(arrivals), dtype=np.int32)
    by_topic = np.lexsort([turn[interests.rows], interests.columns])
    starts = np.concatenate([[0], np.cumsum(np.bincount(interests.columns, minlength=interests.column_count))])
    return settle_by_interest(
        np.uint64(splitmix64(seed & MASK)),
        arrivals,
        parameters.samples,
        parameters.rounds,
        interests.indptr,
        interests.columns,
        starts.astype(np.int64),
        interests.rows[by_topic],
        topic_weights(workload, parameters.is_rate_weighted),
    )


def spread_evenly(order: Index) -> Words:
    """Identifiers with equal gaps for nodes in this order: room for later joins everywhere."""
    positions = np.empty(len(order), np.uint64)
    positions[order] = even_positions(len(order))
    return positions


# --- overlays ---


def control_ring(node_count: int, near: int) -> ClockwiseRing:
    return chord_ring(node_positions(node_count, CONTROL_SEED), near)


def two_rings(control: ClockwiseRing, skewed: ClockwiseRing) -> Overlay:
    one, other = control.overlay.links, skewed.overlay.links
    links = Relation.from_pairs(
        np.concatenate([one.rows, other.rows]),
        np.concatenate([one.columns, other.columns]),
        one.row_count,
        one.row_count,
    )
    return Overlay(links, skewed.positions)


def skewed_part(overlay: Overlay, control: ClockwiseRing, near: int) -> ClockwiseRing:
    """The skewed ring within an overlay of both: ring neighbours, and what the control ring does not account for."""
    assert overlay.positions is not None
    circle = Circle(overlay.positions)
    count = circle.node_count
    given, own = (_keys(relation) for relation in (overlay.links, control.overlay.links))
    long = given[~np.isin(given, own, assume_unique=True)]
    row, column = np.divmod(np.concatenate([long, _keys(circle.near(near))]), count)
    return clockwise_ring(circle, Relation.from_pairs(row, column, count, count), near)


def _keys(links: Relation) -> NDArray[np.int64]:
    return links.rows.astype(np.int64) * links.row_count + links.columns


def clockwise_ring(circle: Circle, links: Relation, near: int) -> ClockwiseRing:
    """A ring with these links, each node's put in clockwise order."""
    positions = circle.positions
    ahead = positions[links.columns] - positions[links.rows]
    return ClockwiseRing(circle, links.indptr, links.columns[np.lexsort([ahead, links.rows])], near)


def ring_of_order(
    workload: Workload, placement: Placement, channels: Channels, parameters: MagnetParameters, seed: int, order: Index
) -> Overlay:
    """Both rings, the skewed one in this order."""
    weights = topic_weights(workload, parameters.is_rate_weighted)
    likes = workload.node_interests(placement.node_of) if parameters.choices > 1 else None
    skewed = oscar_ring(spread_evenly(order), seed, parameters.shape, likes, weights)
    return two_rings(control_ring(workload.node_count, parameters.control_near), skewed)


def ordered_overlay(ordering: Ordering) -> Callable[..., Overlay]:
    """The overlay stage of a system that orders its ring like this."""

    def overlay(
        workload: Workload, placement: Placement, channels: Channels, parameters: MagnetParameters, seed: int
    ) -> Overlay:
        order = ordering(workload, workload.node_interests(placement.node_of), parameters, seed)
        return ring_of_order(workload, placement, channels, parameters, seed, order)

    return overlay


def greedy_paths(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: MagnetParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    """Trees are unions of greedy paths from the topics' homes; events travel to the homes on the control ring."""
    ring, homes, members, ways_in = _on_rings(workload, placement, overlay, parameters)
    return path_union(ring, homes, members, is_upward=False), ways_in


def _on_rings(
    workload: Workload, placement: Placement, overlay: Overlay, parameters: MagnetParameters
) -> tuple[ClockwiseRing, Index, Relation, Entries]:
    """The skewed ring, the topics' homes on the control ring, who wants each topic, and how events get to the homes."""
    control = control_ring(workload.node_count, parameters.control_near)
    members = workload.node_interests(placement.node_of).transposed
    said = workload.publications
    keys = topic_keys(workload.topic_count)
    ways_in = entries(control, placement.node_of[said.publisher], said.topic, keys)
    return skewed_part(overlay, control, parameters.near), control.owners(keys), members, ways_in


def interested_paths(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: MagnetParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    """Like `greedy_paths`, but trees begin with the first subscriber after the home, and prefer interested links."""
    ring, homes, members, ways_in = _on_rings(workload, placement, overlay, parameters)
    firsts = first_subscribers(ring.positions, homes, members)
    edges = interested_trees(ring.positions, ring.indptr, ring.links, firsts, members.indptr, members.columns)
    return Trees(Spread.ROOTED, members, homes, *below_homes(homes, firsts, *edges)), ways_in


def first_subscribers(positions: Words, homes: Index, members: Relation) -> Index:
    """The first member of each topic at or after its home; the home where there is none."""
    firsts = homes.copy()
    is_wanted = members.lengths > 0
    if is_wanted.any():
        ahead = positions[members.columns] - np.repeat(positions[homes], members.lengths)
        least = np.minimum.reduceat(ahead, members.indptr[:-1][is_wanted])
        is_first = ahead == np.repeat(least, members.lengths[is_wanted])
        firsts[is_wanted] = members.columns[is_first]
    return firsts


def below_homes(homes: Index, firsts: Index, indptr: Offset, node: Index, parent: Index) -> tuple[Offset, Index, Index]:
    """Trees from the first subscribers, each with one more edge from its home to that."""
    apart = np.flatnonzero(homes != firsts)
    at = indptr[apart]
    counts = np.diff(indptr) + (homes != firsts)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return starts, np.insert(node, at, firsts[apart]), np.insert(parent, at, homes[apart])


# --- the strawman ---


def uniform_overlay(
    workload: Workload, placement: Placement, channels: Channels, parameters: RingParameters, seed: int
) -> Overlay:
    return oscar_ring(node_positions(workload.node_count, CONTROL_SEED), seed, parameters.shape).overlay


def uniform_paths(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: RingParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    assert overlay.positions is not None
    ring = clockwise_ring(Circle(overlay.positions), overlay.links, parameters.near)
    keys = topic_keys(workload.topic_count)
    members = workload.node_interests(placement.node_of).transposed
    publications = workload.publications
    ways_in = entries(ring, placement.node_of[publications.publisher], publications.topic, keys)
    return top_down_trees(ring, keys, members), ways_in
