"""Magnet's workloads (section 4): multi-modal, spatial and hierarchical topics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from coterie.errors import ConfigError
from coterie.kernels.interests.growing import grow_subscriptions
from coterie.model import Publications, Relation, Workload
from coterie.workloads.parameters import (
    INTERESTS,
    INTERVAL_S,
    MODES,
    PUBLICATIONS,
    Sized,
    above,
    at_least,
    one_of,
    stream,
    within,
)
from coterie.workloads.popularity import draw_interests, draw_modal_interests, even_bounds, fixed_sizes, zipf
from coterie.workloads.rates import topic_rates
from coterie.workloads.spidercast import attach, workload_of

SIZES = ("fixed", "average")


class MultiModal(Sized, frozen=True, kw_only=True):
    """Section 4.2: topics fall into categories, and a peer draws from a few of them."""

    nodes: int = 10_000
    topics: int = 1000
    subscriptions: int = 50  # topics per peer
    sizes: str = "fixed"  # every peer that many, or only on average (placed one after the other at random peers)
    modes: int = 10  # categories of topics (b_n)
    modes_per_peer: int = 1  # categories of a peer (b_p)
    exponent: float = 1.0  # of the popularity inside a category (alpha)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.modes <= self.topics:
            allowed = f"from 1 to {self.topics} (as many as topics)"
            raise ConfigError("modes", self.modes, allowed, do="set more topics or fewer modes")
        within("modes_per_peer", self.modes_per_peer, 1, self.modes)
        at_least("exponent", self.exponent, 0)
        one_of("sizes", self.sizes, SIZES)
        room = self.modes_per_peer * (self.topics // self.modes)
        if not 0 <= self.subscriptions <= room:
            allowed = f"from 0 to {room} (the topics in {self.modes_per_peer} of {self.modes} modes)"
            raise ConfigError("subscriptions", self.subscriptions, allowed, do="set more topics or fewer modes")


class Uncorrelated(MultiModal, frozen=True, kw_only=True):
    """One category for all: the same popularity, no correlation (section 4.2, b_p = b_n)."""

    modes: int = 1


def multimodal(parameters: MultiModal, seed: int) -> Workload:
    """`modes` of the workload: the category of a peer, or one of its categories where it has several."""
    draw = stream(seed, INTERESTS)
    count = parameters.subscriber_count
    chosen, home = choose_modes(stream(seed, MODES), parameters.modes, parameters.modes_per_peer, count)
    bounds = even_bounds(parameters.topics, parameters.modes)
    room = np.diff(bounds)
    interests = draw_modal_interests(
        draw,
        zipf(int(room.max()), parameters.exponent),
        np.minimum(_sizes(draw, parameters, count), room[chosen].sum(axis=1)),
        chosen,
        bounds,
    )
    return workload_of("multimodal", parameters, interests, seed, home)


def choose_modes(
    draw: np.random.Generator, modes: int, per_peer: int, count: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Per peer: its distinct modes (ascending), and one of them at random."""
    if per_peer == 1:
        chosen = draw.integers(modes, size=(count, 1), dtype=np.int32)
        return chosen, chosen[:, 0].copy()
    chosen = draw_interests(draw, np.ones(modes), fixed_sizes(count, per_peer)).columns.reshape(count, per_peer)
    return chosen, chosen[np.arange(count), draw.integers(per_peer, size=count)]


def _sizes(draw: np.random.Generator, parameters: MultiModal, count: int) -> NDArray[np.int64]:
    if parameters.sizes == "fixed":
        return fixed_sizes(count, parameters.subscriptions)
    return np.bincount(draw.integers(count, size=count * parameters.subscriptions), minlength=count)


class Spatial(Sized, frozen=True, kw_only=True):
    """Section 4.3: users on the unit square want the topics of everybody within a radius; each has one of its own."""

    nodes: int = 10_000
    topics: int = 0  # as many as there are users
    subscriptions: int = 32  # t, topics per user on average, the own one included: it decides the radius r

    def __post_init__(self) -> None:
        users = self.subscriber_count
        if self.topics not in (0, users):
            raise ConfigError("topics", self.topics, f"0, or one for each of the {users} users", do="leave it out")
        within("subscriptions", self.subscriptions, 1, users)
        within("nodes", self.nodes, 1, 2**31 - 1)
        super(Sized, self).__post_init__()


def spatial(parameters: Spatial, seed: int) -> Workload:
    """Coordinates are kept where every user is a node; a user publishes on its own topic alone."""
    count = parameters.subscriber_count
    points = stream(seed, INTERESTS).random((count, 2))
    interests = neighbourhoods(points, parameters.subscriptions)
    rates = topic_rates(
        stream(seed, PUBLICATIONS), parameters, np.bincount(interests.columns, minlength=count).astype(np.int64)
    )
    users = np.arange(count, dtype=np.int32)
    return Workload(
        name="spatial",
        interests=interests,
        publications=Publications.of(users, users, rates / INTERVAL_S),
        attachment=attach(parameters, seed),
        node_count=parameters.nodes,
        coordinates=None if parameters.subscribers else points,
    )


def neighbourhoods(points: NDArray[np.float64], mean_size: int) -> Relation:
    """Everybody within the one radius that gives neighbourhoods (oneself included) of that mean size."""
    count = len(points)
    wanted = count * (mean_size - 1) // 2
    radius = np.sqrt(mean_size / (np.pi * count))
    tree = cKDTree(points)
    pairs = tree.query_pairs(radius, output_type="ndarray")
    while len(pairs) < wanted:  # the border of the square holds fewer
        radius *= 1.1
        pairs = tree.query_pairs(radius, output_type="ndarray")
    apart = ((points[pairs[:, 0]] - points[pairs[:, 1]]) ** 2).sum(axis=1)
    nearest = pairs[np.lexsort([pairs[:, 1], pairs[:, 0], apart])[:wanted]]
    own = np.arange(count)
    return Relation.from_pairs(
        np.concatenate([nearest[:, 0], nearest[:, 1], own]),
        np.concatenate([nearest[:, 1], nearest[:, 0], own]),
        count,
        count,
    )


class Hierarchical(Sized, frozen=True, kw_only=True):
    """Section 4.4: topics are leaves of a binary tree; peers of popular topics go on to topics close by."""

    nodes: int = 2**14
    topics: int = 2**14
    subscriptions: int = 16  # Z, topics per peer on average
    initial_fraction: float = 0.1  # initFrac, part of all subscriptions made before homophily starts
    homophily: float = 2.0  # lambda: a tree distance of x has probability C e^(-lambda x)
    initial_exponent: float = 2.0  # alpha_0, topic popularity after the initialisation

    def __post_init__(self) -> None:
        super().__post_init__()
        within("subscriptions", self.subscriptions, 1, self.topics)
        within("initial_fraction", self.initial_fraction, 0, 1)
        at_least("homophily", self.homophily, 0)
        above("initial_exponent", self.initial_exponent, 1)


def hierarchical(parameters: Hierarchical, seed: int) -> Workload:
    """The text's initialisation contradicts itself (alpha_0 = 2 gives topics of about 6 peers, the target is 1.6 each).

    Taken here: every peer has one home topic, spread evenly over the topics; what the initial fraction leaves is drawn
    by rank, with the rank exponent 1 / (alpha_0 - 1) that belongs to alpha_0.
    """
    draw = stream(seed, INTERESTS)
    count, topics = parameters.subscriber_count, parameters.topics
    total = count * parameters.subscriptions
    initial = min(max(count, round(total * parameters.initial_fraction)), total)
    peer, topic = _initial_subscriptions(draw, parameters, count, initial)
    height = max(1, (topics - 1).bit_length())
    reach = np.cumsum(np.exp(-parameters.homophily * np.arange(height)))
    pairs = grow_subscriptions(draw, peer, topic, total, topics, reach / reach[-1])
    interests = Relation.from_pairs(pairs // topics, pairs % topics, count, topics)
    return workload_of("hierarchical", parameters, interests, seed)


def _initial_subscriptions(
    draw: np.random.Generator, parameters: Hierarchical, count: int, initial: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    topics = parameters.topics
    home = draw.permutation(np.arange(count, dtype=np.int64) % topics)
    leaf_of_rank = draw.permutation(topics)
    upto = np.cumsum(zipf(topics, 1 / (parameters.initial_exponent - 1)))
    # Twice as many as needed: repeats fall out in the growing.
    ranks = np.searchsorted(upto, draw.random(2 * (initial - count)) * upto[-1], side="right")
    peers = draw.integers(count, size=len(ranks))
    drawn = peers * topics + leaf_of_rank[np.minimum(ranks, topics - 1)]
    key = np.concatenate([np.arange(count) * topics + home, drawn])
    first = np.sort(np.unique(key, return_index=True)[1])[:initial]
    return key[first] // topics, key[first] % topics
