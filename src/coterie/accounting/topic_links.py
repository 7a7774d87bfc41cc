"""How few links can connect or cover every topic among its own members: mean degrees that no overlay goes below.

How it works: share each link equally among the topics it carries. A link between u and v carries |I_u & I_v| topics,
and v reaches topic t only by links with at most m(v, t) of them, m being the largest overlap with another member of t;
so each such link gives t at least 1 / m(v, t). Connecting t takes a link up a tree for every member but the root;
covering v takes K of its links for every topic. From these shares a subgradient ascent climbs towards the linear
programme over all possible links, in which a link can be taken once only; every step of it is a bound by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.links import bounds as spidercast_bounds
from coterie.kernels.links import measures as spidercast_measures
from coterie.model import Relation

Offers = NDArray[np.float64]

STEPS = 60  # of the climb; five times as many raise the bounds by less than 1 %
FIRST_STRIDE, LAST_STRIDE = 0.1, 0.002  # lengths of the steps, as shares of the bound
MOMENTUM = 0.7  # of a step's direction that goes on into the next


def connected_degree(interests: Relation, steps: int = STEPS) -> float:
    """Below the mean degree of every overlay that connects every topic. With 0 steps: the equal shares alone."""
    pairs = _Pairs.of(interests)
    wanted = (pairs.members > 1).astype(np.float64)
    wanted[pairs.smallest_of_topics()] = 0.0  # any member may be the root: the one whose share is missed least
    return 2 * _climb(pairs, spidercast_bounds.CONNECT, wanted, pairs.share * wanted, steps) / max(pairs.node_count, 1)


def covered_degree(interests: Relation, coverage: int, steps: int = STEPS) -> float:
    """Below the mean degree of every overlay in which each node has min(K, members - 1) neighbours for each topic.

    With K = 2 it holds for every overlay that no single crash cuts.
    """
    pairs = _Pairs.of(interests)
    wanted = np.minimum(coverage, pairs.members - 1).astype(np.float64)
    # Each end's links are a whole number, which equal shares can use and the programme over links cannot.
    whole = np.ceil(np.bincount(pairs.node, pairs.share * wanted, pairs.node_count) - 1e-9).sum()
    links = _climb(pairs, spidercast_bounds.COVER, wanted, pairs.share / 2, steps)
    return max(2 * links, float(whole)) / max(pairs.node_count, 1)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The (node, topic) pairs topic by topic: who, how many want the topic, and the equal share of a link."""

    interests: Relation
    by_topic: Relation
    place: NDArray[np.int64]  # where the pairs of `interests` lie
    share: Offers
    members: NDArray[np.int64]

    @classmethod
    def of(cls, interests: Relation) -> _Pairs:
        by_topic = interests.transposed
        most = spidercast_measures.greatest_overlaps(
            interests.indptr, interests.columns, by_topic.indptr, by_topic.columns
        )
        order = np.argsort(interests.columns, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        share = np.where(most > 0, 1.0 / np.maximum(most, 1), 0.0)[order]
        return cls(interests, by_topic, place, share, by_topic.lengths[by_topic.rows])

    @property
    def node_count(self) -> int:
        return self.interests.row_count

    @property
    def node(self) -> NDArray[np.int32]:
        return self.by_topic.columns

    def smallest_of_topics(self) -> NDArray[np.int64]:
        order = np.lexsort((self.share, self.by_topic.rows))
        _, first = np.unique(self.by_topic.rows[order], return_index=True)
        return order[first]


def _climb(pairs: _Pairs, kind: int, wanted: Offers, offer: Offers, steps: int) -> float:
    """The best bound on links along the ascent, whose steps become shorter."""
    built, direction = np.zeros(len(offer)), np.zeros(len(offer))
    best = 0.0
    for step in range(steps + 1):
        best = max(best, float((wanted * offer).sum()) - _surplus(pairs, kind, offer, built))
        slope = wanted - built
        slope[(offer <= 0) & (slope < 0)] = 0.0
        direction = slope + MOMENTUM * direction
        length = float((direction**2).sum())
        if length == 0:
            break
        stride = FIRST_STRIDE * (LAST_STRIDE / FIRST_STRIDE) ** (step / max(steps, 1))
        offer = np.maximum(offer + stride * best / length * direction, 0.0)
    return best


def _surplus(pairs: _Pairs, kind: int, offer: Offers, built: Offers) -> float:
    interests, by_topic = pairs.interests, pairs.by_topic
    return spidercast_bounds.surplus(
        kind, interests.indptr, interests.columns, by_topic.indptr, by_topic.columns, pairs.place, offer, built
    )
