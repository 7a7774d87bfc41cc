"""Shapes of topic-clusters for given members: topics that pay come in, others go, and new clusters grow from seeds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.arrays import noted, noted_all
from coterie.kernels.clusters.covers import (
    EPSILON,
    ClusterDemand,
    Floats,
    Ints,
    LinearCosts,
    Longs,
    Shorts,
    TopicRows,
)
from coterie.kernels.jit import kernel

Marks = NDArray[np.int8]

_OWN, _ADDED, _GONE = 1, 2, 3
_ROUNDS = 8  # of growing one seed; it stops by itself much earlier


@kernel
def adjust_clusters(
    demand: ClusterDemand, prices: LinearCosts, topics: TopicRows, members: TopicRows, cover: Shorts
) -> tuple[Longs, Ints, NDArray[np.bool_]]:
    """Each cluster in turn takes the topics that pay for its members and gives up those that do not.

    Tamara's formulas for adding and removing a topic, with exact counts. A cluster that costs more than its members'
    direct subscriptions would is dissolved (third result: kept or not). `members` is cluster -> users; `cover` is kept
    true.
    """
    clusters = len(topics.indptr) - 1
    direct = np.zeros(len(demand.rate), np.int64)
    sole = np.zeros(len(demand.rate), np.int64)
    mark = np.zeros(len(demand.rate), np.int8)
    ends = np.zeros(clusters + 1, np.int64)
    lists = np.empty(max(len(topics.columns), 16), np.int32)
    is_kept = np.ones(clusters, np.bool_)
    used = 0
    for cluster in range(clusters):
        own = topics.columns[topics.indptr[cluster] : topics.indptr[cluster + 1]]
        who = members.columns[members.indptr[cluster] : members.indptr[cluster + 1]]
        for topic in own:
            mark[topic] = _OWN
        touched = _count_wishes(demand, who, mark, cover, direct, sole)
        chosen = _paying_topics(demand, prices, own, touched, len(who), mark, direct, sole)
        if _is_worthless(demand, prices, chosen, len(who), direct, sole):
            chosen = chosen[:0]
            is_kept[cluster] = False
        _recount(demand, who, own, chosen, mark, cover)
        for topic in touched:
            direct[topic] = 0
            sole[topic] = 0
        lists = noted_all(lists, used, chosen)
        used += len(chosen)
        ends[cluster + 1] = used
    return ends, lists[:used].copy(), is_kept


@kernel
def _count_wishes(demand: ClusterDemand, who: Ints, mark: Marks, cover: Shorts, direct: Longs, sole: Longs) -> Ints:
    """Per topic: members that take it directly, members that only this cluster gives it to. Returns topics counted."""
    touched = np.empty(64, np.int32)
    count = 0
    for user in who:
        for pair in range(demand.indptr[user], demand.indptr[user + 1]):
            topic = demand.topic[pair]
            is_sole = cover[pair] == 1 and mark[topic] == _OWN
            if cover[pair] > 0 and not is_sole:
                continue
            if direct[topic] == 0 and sole[topic] == 0:
                touched = noted(touched, count, topic)
                count += 1
            if is_sole:
                sole[topic] += 1
            else:
                direct[topic] += 1
    return touched[:count].copy()


@kernel
def _upkeep(demand: ClusterDemand, prices: LinearCosts, topic: int, size: int) -> float:
    """What carrying the topic costs a cluster of this many members."""
    return float(demand.rate[topic] * (prices.disseminate * size + prices.notify) + prices.associate)


@kernel
def _paying_topics(
    demand: ClusterDemand,
    prices: LinearCosts,
    own: Ints,
    touched: Ints,
    size: int,
    mark: Marks,
    direct: Longs,
    sole: Longs,
) -> Ints:
    chosen = np.empty(len(own) + len(touched), np.int32)
    count = 0
    for topic in own:
        worth = sole[topic] * (prices.maintain + prices.disseminate * demand.rate[topic])
        if worth > _upkeep(demand, prices, topic, size) + EPSILON:
            chosen[count] = topic
            count += 1
    for topic in touched:
        worth = direct[topic] * (prices.maintain + prices.disseminate * demand.rate[topic])
        if mark[topic] != _OWN and worth > _upkeep(demand, prices, topic, size) + EPSILON:
            chosen[count] = topic
            count += 1
    return chosen[:count].copy()


@kernel
def _is_worthless(
    demand: ClusterDemand, prices: LinearCosts, chosen: Ints, size: int, direct: Longs, sole: Longs
) -> bool:
    if len(chosen) < 2 or size == 0:
        return True
    worth = -prices.maintain * size
    for topic in chosen:
        worth += (direct[topic] + sole[topic]) * (prices.maintain + prices.disseminate * demand.rate[topic])
        worth -= _upkeep(demand, prices, topic, size)
    return worth <= EPSILON


@kernel
def _recount(demand: ClusterDemand, who: Ints, own: Ints, chosen: Ints, mark: Marks, cover: Shorts) -> None:
    """Bring `cover` up to date and clear the marks."""
    for topic in own:
        mark[topic] = _GONE
    for topic in chosen:
        mark[topic] = _OWN if mark[topic] == _GONE else _ADDED
    for user in who:
        for pair in range(demand.indptr[user], demand.indptr[user + 1]):
            if mark[demand.topic[pair]] == _ADDED:
                cover[pair] += 1
            elif mark[demand.topic[pair]] == _GONE:
                cover[pair] -= 1
    for topic in own:
        mark[topic] = 0
    for topic in chosen:
        mark[topic] = 0


@kernel
def grow_clusters(
    demand: ClusterDemand, prices: LinearCosts, seeds: Ints, share: float, cover: Shorts
) -> tuple[Longs, Ints, Longs, Ints]:
    """New clusters out of what is still subscribed to directly, one seed topic after the other.

    From the seed's direct subscribers: the topics that pay for them, then the users that those topics pay for, and so
    on while the saving grows. A topic only comes in if at least `share` of them want it. Returns cluster -> topics
    and cluster -> users; `cover` counts the new clusters too.
    """
    direct = np.zeros(len(demand.rate), np.int64)
    gain = np.zeros(len(demand.indptr) - 1)
    topic_ends, user_ends = np.zeros(len(seeds) + 1, np.int64), np.zeros(len(seeds) + 1, np.int64)
    topics, users = np.empty(1024, np.int32), np.empty(1024, np.int32)
    count = 0
    for seed in seeds:
        chosen, who = _grow(demand, prices, seed, share, cover, direct, gain)
        if len(chosen) == 0:
            continue
        topics = noted_all(topics, topic_ends[count], chosen)
        users = noted_all(users, user_ends[count], who)
        topic_ends[count + 1] = topic_ends[count] + len(chosen)
        user_ends[count + 1] = user_ends[count] + len(who)
        count += 1
        for user in who:
            gain[user] = 1.0
        for topic in chosen:
            for at in range(demand.of_topic[topic], demand.of_topic[topic + 1]):
                if gain[demand.user[demand.pairs[at]]] > 0:
                    cover[demand.pairs[at]] += 1
        for user in who:
            gain[user] = 0.0
    return (
        topic_ends[: count + 1].copy(),
        topics[: topic_ends[count]].copy(),
        user_ends[: count + 1].copy(),
        users[: user_ends[count]].copy(),
    )


@kernel
def _grow(
    demand: ClusterDemand, prices: LinearCosts, seed: int, share: float, cover: Shorts, direct: Longs, gain: Floats
) -> tuple[Ints, Ints]:
    """The best cluster found around one seed, as (topics, users); empty if none saves anything."""
    who = np.empty(demand.of_topic[seed + 1] - demand.of_topic[seed], np.int32)
    size = 0
    for at in range(demand.of_topic[seed], demand.of_topic[seed + 1]):
        if cover[demand.pairs[at]] == 0:
            who[size] = demand.user[demand.pairs[at]]
            size += 1
    who = who[:size]
    best_topics, best_who = who[:0], who[:0]
    best = EPSILON
    for _ in range(_ROUNDS):
        chosen = _topics_for(demand, prices, who, share, cover, direct)
        if len(chosen) < 2:
            break
        who, saving = _users_for(demand, prices, chosen, cover, gain)
        if saving <= best:
            break
        best_topics, best_who, best = chosen, who, saving
    return best_topics, best_who


@kernel
def _topics_for(
    demand: ClusterDemand, prices: LinearCosts, who: Ints, share: float, cover: Shorts, direct: Longs
) -> Ints:
    touched = np.empty(64, np.int32)
    count = 0
    for user in who:
        for pair in range(demand.indptr[user], demand.indptr[user + 1]):
            if cover[pair] == 0:
                topic = demand.topic[pair]
                if direct[topic] == 0:
                    touched = noted(touched, count, topic)
                    count += 1
                direct[topic] += 1
    kept = 0
    for i in range(count):
        topic = touched[i]
        worth = direct[topic] * (prices.maintain + prices.disseminate * demand.rate[topic])
        if direct[topic] >= share * len(who) and worth > _upkeep(demand, prices, topic, len(who)) + EPSILON:
            touched[kept] = topic
            kept += 1
        direct[topic] = 0
    return touched[:kept].copy()


@kernel
def _users_for(
    demand: ClusterDemand, prices: LinearCosts, chosen: Ints, cover: Shorts, gain: Floats
) -> tuple[Ints, float]:
    """Users whose direct subscriptions among these topics cost more than the cluster would; and what is saved."""
    touched = np.empty(64, np.int32)
    count = 0
    rate = 0.0
    for topic in chosen:
        rate += demand.rate[topic]
        for at in range(demand.of_topic[topic], demand.of_topic[topic + 1]):
            pair = demand.pairs[at]
            if cover[pair] == 0:
                user = demand.user[pair]
                if gain[user] == 0:
                    touched = noted(touched, count, user)
                    count += 1
                gain[user] += prices.maintain + prices.disseminate * demand.rate[topic]
    price = prices.maintain + prices.disseminate * rate
    saving = -prices.associate * len(chosen) - prices.notify * rate
    kept = 0
    for i in range(count):
        user = touched[i]
        if gain[user] > price + EPSILON:
            saving += gain[user] - price
            touched[kept] = user
            kept += 1
        gain[user] = 0.0
    return touched[:kept].copy(), saving
