"""Who is on which channel, in arrays that numba can change in place: the state of Tamara's bulk form.

Channels 0..T-1 are the topics, T..T+C-1 the topic-clusters. Every membership is kept twice, as a list per channel (to
sample from) and as a list per user (to answer surveys with), so that joining and leaving cost next to nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

# Messages beyond OC, by reason (Tamara+), then how often each thing was done.
JOINS, NOTICES, SURVEYED, PROPOSALS, INFORMED = 0, 1, 2, 3, 4
MESSAGE_KINDS = 5
TOSSES, SURVEYS, CREATED, ADDED, REMOVED, MERGED, DESTROYED = 5, 6, 7, 8, 9, 10, 11
AUDITED, RAISED = 12, 13  # updates checked by full recomputation, and those of them that raised the overall cost
COUNT_KINDS = 14


class CostTables(NamedTuple):
    """The four cost functions as tables: cost_m(0..U), cost_d(0..U), cost_a(0..T) and the constant cost_n."""

    maintain: Floats
    disseminate: Floats
    associate: Floats
    notify: float


class ClusterState(NamedTuple):
    """U users, T topics, at most C clusters. A cluster is in use if it has topics."""

    interest: Bytes  # U x T
    cover: NDArray[np.int16]  # U x T, how many of the user's clusters carry the topic
    place: Ints  # U x (T + C), where the user stands in the channel's list, from 1; 0 if it is not on it
    listing: Ints  # (T + C) x U, the users of a channel, in no order
    size: Longs  # T + C, size(t) and size(c)
    channels: Ints  # U x (T + C), the user's channels, in no order
    channel_count: Longs  # U
    topics: Ints  # C x T, the topics of a cluster, in no order
    topic_count: Longs  # C, |c|
    inside: Bytes  # T x C
    rate: Floats  # T, freq(t)
    cluster_rate: Floats  # C, sum of the rates of the cluster's topics
    wanting: Longs  # T, users interested
    moves: Longs  # T + C, joins and leaves since the channel's last survey
    is_queued: Bytes  # T + C
    queue: Ints  # T + C, channels somebody joined or left, to be looked at
    marks: Longs  # [clusters ever used, length of the queue]
    counts: Longs  # COUNT_KINDS


def empty_state(user_count: int, topic_count: int, cluster_count_max: int, rate: Floats) -> ClusterState:
    channels = topic_count + cluster_count_max
    return ClusterState(
        interest=np.zeros((user_count, topic_count), np.uint8),
        cover=np.zeros((user_count, topic_count), np.int16),
        place=np.zeros((user_count, channels), np.int32),
        listing=np.zeros((channels, user_count), np.int32),
        size=np.zeros(channels, np.int64),
        channels=np.zeros((user_count, channels), np.int32),
        channel_count=np.zeros(user_count, np.int64),
        topics=np.zeros((cluster_count_max, topic_count), np.int32),
        topic_count=np.zeros(cluster_count_max, np.int64),
        inside=np.zeros((topic_count, cluster_count_max), np.uint8),
        rate=np.asarray(rate, np.float64).copy(),
        cluster_rate=np.zeros(cluster_count_max, np.float64),
        wanting=np.zeros(topic_count, np.int64),
        moves=np.zeros(channels, np.int64),
        is_queued=np.zeros(channels, np.uint8),
        queue=np.zeros(channels, np.int32),
        marks=np.zeros(2, np.int64),
        counts=np.zeros(COUNT_KINDS, np.int64),
    )


@kernel
def join(s: ClusterState, user: int, channel: int) -> None:
    s.listing[channel, s.size[channel]] = user
    s.size[channel] += 1
    s.place[user, channel] = s.size[channel]
    s.channels[user, s.channel_count[user]] = channel
    s.channel_count[user] += 1
    _moved(s, channel)


@kernel
def leave(s: ClusterState, user: int, channel: int) -> None:
    at = s.place[user, channel] - 1
    last = s.listing[channel, s.size[channel] - 1]
    s.listing[channel, at] = last
    s.place[last, channel] = at + 1
    s.place[user, channel] = 0
    s.size[channel] -= 1
    own = s.channels[user]
    count = s.channel_count[user]
    for i in range(count):
        if own[i] == channel:
            own[i] = own[count - 1]
            break
    s.channel_count[user] -= 1
    _moved(s, channel)


@kernel
def _moved(s: ClusterState, channel: int) -> None:
    s.counts[JOINS] += 1
    s.moves[channel] += 1
    if s.is_queued[channel] == 0:
        s.is_queued[channel] = 1
        s.queue[s.marks[1]] = channel
        s.marks[1] += 1


@kernel
def enter_cluster(s: ClusterState, user: int, cluster: int) -> None:
    """Join and drop the direct subscriptions that are covered now."""
    topic_total = len(s.rate)
    join(s, user, topic_total + cluster)
    for i in range(s.topic_count[cluster]):
        topic = s.topics[cluster, i]
        s.cover[user, topic] += 1
        if s.place[user, topic] > 0:
            leave(s, user, topic)


@kernel
def uncover(s: ClusterState, user: int, topic: int) -> None:
    """One cluster fewer brings the topic to the user, who subscribes directly if that was the last and it is wanted."""
    s.cover[user, topic] -= 1
    if s.cover[user, topic] == 0 and s.interest[user, topic] == 1:
        join(s, user, topic)


@kernel
def exit_cluster(s: ClusterState, user: int, cluster: int) -> None:
    """Leave and subscribe directly to whatever is wanted and not covered any more."""
    leave(s, user, len(s.rate) + cluster)
    for i in range(s.topic_count[cluster]):
        uncover(s, user, s.topics[cluster, i])


@kernel
def put_topic(s: ClusterState, cluster: int, topic: int) -> None:
    """Add the topic and give every member its events; nobody's direct subscription changes yet."""
    s.topics[cluster, s.topic_count[cluster]] = topic
    s.topic_count[cluster] += 1
    s.inside[topic, cluster] = 1
    s.cluster_rate[cluster] += s.rate[topic]
    channel = len(s.rate) + cluster
    for i in range(s.size[channel]):
        s.cover[s.listing[channel, i], topic] += 1


@kernel
def take_topic(s: ClusterState, cluster: int, topic: int) -> None:
    """Remove the topic; members who want it and have no other cluster with it subscribe directly."""
    count = s.topic_count[cluster]
    for i in range(count):
        if s.topics[cluster, i] == topic:
            s.topics[cluster, i] = s.topics[cluster, count - 1]
            break
    s.topic_count[cluster] -= 1
    s.inside[topic, cluster] = 0
    s.cluster_rate[cluster] -= s.rate[topic]
    channel = len(s.rate) + cluster
    for i in range(s.size[channel]):
        uncover(s, s.listing[channel, i], topic)


@kernel
def new_cluster(s: ClusterState) -> int:
    """An unused cluster, or -1."""
    for cluster in range(s.marks[0]):
        if s.topic_count[cluster] == 0:
            s.moves[len(s.rate) + cluster] = 0
            return cluster
    if s.marks[0] == len(s.topic_count):
        return -1
    s.marks[0] += 1
    return s.marks[0] - 1


@kernel
def drop_cluster(s: ClusterState, cluster: int) -> None:
    """Everybody leaves, the topics go; the channel is free for a later cluster."""
    channel = len(s.rate) + cluster
    while s.size[channel] > 0:
        exit_cluster(s, s.listing[channel, s.size[channel] - 1], cluster)
    for i in range(s.topic_count[cluster]):
        s.inside[s.topics[cluster, i], cluster] = 0
    s.topic_count[cluster] = 0
    s.cluster_rate[cluster] = 0.0


@kernel
def maintenance_cost(s: ClusterState, costs: CostTables) -> float:
    """MC of section 2."""
    topic_total = len(s.rate)
    total = 0.0
    for topic in range(topic_total):
        total += costs.maintain[s.size[topic]]
    for cluster in range(s.marks[0]):
        if s.topic_count[cluster] > 0:
            total += costs.maintain[s.size[topic_total + cluster]] + costs.associate[s.topic_count[cluster]]
    return total


@kernel
def dissemination_cost(s: ClusterState, costs: CostTables) -> float:
    """DC of section 2."""
    topic_total = len(s.rate)
    total = 0.0
    for topic in range(topic_total):
        total += s.rate[topic] * (costs.notify + costs.disseminate[s.size[topic]])
    for cluster in range(s.marks[0]):
        rate = 0.0  # summed afresh: cluster_rate gathers rounding errors
        for i in range(s.topic_count[cluster]):
            rate += s.rate[s.topics[cluster, i]]
        total += rate * (costs.notify + costs.disseminate[s.size[topic_total + cluster]])
    return total


@kernel
def plain_costs(s: ClusterState, costs: CostTables) -> tuple[float, float]:
    """(MC, DC) if every interest were a direct subscription, as in Scribe."""
    maintenance = 0.0
    dissemination = 0.0
    for topic in range(len(s.rate)):
        maintenance += costs.maintain[s.wanting[topic]]
        dissemination += s.rate[topic] * (costs.notify + costs.disseminate[s.wanting[topic]])
    return maintenance, dissemination
