"""The planner beyond the paper: overlapping topic-clusters chosen centrally to lower the overall cost.

It takes turns, each of which can only lower the cost: new clusters grow from what is still subscribed to directly,
every user takes the cheaper of its clusters and a greedy weighted set cover, every cluster takes the topics that pay
for its members and gives up the others. Work per turn is linear in the interests of the members, so that a million
subscribers fit; the cost functions must be linear (`Prices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.clusters.covers import ClusterDemand, LinearCosts, TopicRows, cluster_rates, cover_users
from coterie.kernels.clusters.shapes import adjust_clusters, grow_clusters
from coterie.model import Relation

UNIT_PRICES = LinearCosts(1.0, 1.0, 1.0, 1.0)
_TURNS_MAX = 8  # per schedule step
_FIRST_SHARES = (0.5, 0.25, 0.05)
_PAIRS_TO_TRY = 1_000_000
_NEARLY = 1.5  # a start that is at most so much dearer is worth a search
_WORTHWHILE = 1e-4  # of the cost: a turn that saves less is the last one


@dataclass(frozen=True, eq=False)
class PlannedClusters:
    """Clusters, who is on them, and what that costs per interval in the paper's model."""

    topics: Relation  # cluster -> topics
    memberships: Relation  # user -> clusters
    direct: Relation  # user -> topics subscribed to directly
    maintenance: float  # MC
    dissemination: float  # DC

    @property
    def overall(self) -> float:
        return self.maintenance + self.dissemination


class ClusterSearch:
    """The state of one search: clusters, covers, cost."""

    def __init__(self, interests: Relation, rate: NDArray[np.float64], prices: LinearCosts = UNIT_PRICES) -> None:
        self.interests = interests
        self.prices = prices
        order = np.argsort(interests.columns, kind="stable")
        of_topic = np.concatenate([[0], np.cumsum(np.bincount(interests.columns, minlength=interests.column_count))])
        self.demand = ClusterDemand(
            interests.indptr, interests.columns, interests.rows, of_topic.astype(np.int64), order, rate
        )
        self.topics = Relation.empty(0, interests.column_count)
        self.memberships = Relation.empty(interests.row_count, 0)
        self.cover = np.zeros(interests.pair_count, np.int16)

    @property
    def rates(self) -> NDArray[np.float64]:
        return cluster_rates(self.demand.rate, _csr(self.topics))

    def use(self, topics: Relation) -> None:
        """Start from these clusters; everybody is covered anew."""
        self.topics = topics
        self.memberships = Relation.empty(self.interests.row_count, topics.row_count)
        self.cover[:] = 0
        self.cover_users()

    def grow(self, share: float = 0.0) -> int:
        """New clusters from the topics with most direct subscribers first; how many."""
        left = np.bincount(self.interests.columns[self.cover == 0], minlength=self.interests.column_count)
        seeds = np.argsort(-left, kind="stable").astype(np.int32)
        found = grow_clusters(self.demand, self.prices, seeds[left[seeds] > 1], share, self.cover)
        topic_ends, topics, user_ends, users = found
        fresh = len(topic_ends) - 1
        base = self.topics.row_count
        new = np.repeat(np.arange(fresh), np.diff(topic_ends)) + base
        self.topics = Relation.from_pairs(
            np.concatenate([self.topics.rows, new]),
            np.concatenate([self.topics.columns, topics]),
            base + fresh,
            self.topics.column_count,
        )
        joined = np.repeat(np.arange(fresh), np.diff(user_ends)) + base
        self.memberships = Relation.from_pairs(
            np.concatenate([self.memberships.rows, users]),
            np.concatenate([self.memberships.columns, joined]),
            self.interests.row_count,
            base + fresh,
        )
        return fresh

    def cover_users(self) -> None:
        ends, chosen = cover_users(
            self.demand, self.prices, _csr(self.topics.transposed), self.rates, _csr(self.memberships), self.cover
        )
        rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        self.memberships = Relation.from_pairs(rows, chosen, self.interests.row_count, self.topics.row_count)

    def adjust(self) -> None:
        """Topics of clusters follow their members; what does not pay is dissolved."""
        members = self.memberships.transposed
        ends, lists, is_kept = adjust_clusters(self.demand, self.prices, _csr(self.topics), _csr(members), self.cover)
        renumbered = np.cumsum(is_kept) - 1
        rows = np.repeat(np.arange(len(is_kept)), np.diff(ends))
        count = int(is_kept.sum())
        self.topics = Relation.from_pairs(renumbered[rows], lists, count, self.topics.column_count)
        kept = is_kept[self.memberships.columns]
        self.memberships = Relation.from_pairs(
            self.memberships.rows[kept],
            renumbered[self.memberships.columns[kept]],
            self.interests.row_count,
            count,
        )

    def result(self) -> PlannedClusters:
        prices, rate = self.prices, self.demand.rate
        direct = self.cover == 0
        members = np.bincount(self.memberships.columns, minlength=self.topics.row_count)
        alone = np.bincount(self.interests.columns[direct], minlength=len(rate))
        maintenance = prices.maintain * float(alone.sum() + members.sum()) + prices.associate * self.topics.pair_count
        dissemination = float((rate * (prices.notify + prices.disseminate * alone)).sum())
        dissemination += float((self.rates * (prices.notify + prices.disseminate * members)).sum())
        interests = self.interests
        taken = Relation.from_pairs(
            interests.rows[direct], interests.columns[direct], interests.row_count, interests.column_count
        )
        return PlannedClusters(self.topics, self.memberships, taken, maintenance, dissemination)

    def turn(self, share: float) -> float:
        """Grow, adjust, cover; the cost afterwards."""
        self.grow(share)
        self.adjust()
        self.cover_users()
        return self.result().overall

    def run(self, first_share: float) -> None:
        """Turns with growth ever less demanding, each while it pays."""
        cost = self.result().overall
        for share in (first_share, first_share / 3, 0.0):
            for _ in range(_TURNS_MAX):
                before, cost = cost, self.turn(share)
                if before - cost < _WORTHWHILE * before:
                    break


def plan_clusters(
    interests: Relation,
    rate: NDArray[np.float64],
    prices: LinearCosts = UNIT_PRICES,
    starts: Sequence[Relation] = (),
    seed: int = 0,
) -> PlannedClusters:
    """The cheapest plan found: from nothing by several schedules, and from each of the clusterings in `starts`.

    On a large instance a sample of the users decides which schedule to run on everybody.
    """
    users = interests.row_count
    sample = interests
    if interests.pair_count > _PAIRS_TO_TRY:
        count = max(1, users * _PAIRS_TO_TRY // interests.pair_count)
        chosen = np.sort(np.random.default_rng(seed).permutation(users)[:count])
        keep = np.isin(interests.rows, chosen)
        rows = np.searchsorted(chosen, interests.rows[keep])
        sample = Relation.from_pairs(rows, interests.columns[keep], count, interests.column_count)
    trials = [_run(sample, rate, prices, share, None) for share in _FIRST_SHARES]
    best = int(np.argmin([trial.overall for trial in trials]))
    plans = [trials[best] if sample is interests else _run(interests, rate, prices, _FIRST_SHARES[best], None)]
    everything = Relation.from_rows([np.unique(interests.columns).tolist()], interests.column_count)
    if cover_with(everything, interests, rate, prices).overall < _NEARLY * plans[0].overall:
        plans.append(_run(interests, rate, prices, 0.0, everything))  # events so rare that one channel may do
    plans += [_run(interests, rate, prices, 0.0, start) for start in starts]
    return min(plans, key=lambda plan: plan.overall)


def _run(
    interests: Relation, rate: NDArray[np.float64], prices: LinearCosts, first_share: float, start: Relation | None
) -> PlannedClusters:
    search = ClusterSearch(interests, rate, prices)
    if start is not None:
        search.use(start)
        search.adjust()
        search.cover_users()
    search.run(first_share)
    return search.result()


def cover_with(
    topics: Relation, interests: Relation, rate: NDArray[np.float64], prices: LinearCosts = UNIT_PRICES
) -> PlannedClusters:
    """The given clusters under these interests: every user chooses its cover."""
    search = ClusterSearch(interests, rate, prices)
    search.use(topics)
    return search.result()


def lower_bound(interests: Relation, rate: NDArray[np.float64], prices: LinearCosts = UNIT_PRICES) -> float:
    """No clusters can cost less: everybody interested is on one channel at least, and every event is sent to all who
    want it and once to its topic's channel."""
    wanting = np.bincount(interests.columns, minlength=interests.column_count)
    events = float((rate * (prices.notify + prices.disseminate * wanting)).sum())
    return events + prices.maintain * float(np.count_nonzero(interests.lengths))


def plain_cost(interests: Relation, rate: NDArray[np.float64], prices: LinearCosts = UNIT_PRICES) -> float:
    """Without clusters: every interest is a direct subscription (Scribe)."""
    wanting = np.bincount(interests.columns, minlength=interests.column_count)
    events = float((rate * (prices.notify + prices.disseminate * wanting)).sum())
    return events + prices.maintain * float(interests.pair_count)


def _csr(relation: Relation) -> TopicRows:
    return TopicRows(relation.indptr, relation.columns)
