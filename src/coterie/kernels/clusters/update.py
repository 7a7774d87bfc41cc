"""Tamara's cluster updates: how topics, members and direct subscriptions move, and what users tidy up afterwards."""

from __future__ import annotations

from coterie.kernels.clusters.benefit import SLACK, leave_benefit
from coterie.kernels.clusters.state import (
    ADDED,
    CREATED,
    DESTROYED,
    INFORMED,
    MERGED,
    REMOVED,
    ClusterState,
    CostTables,
    drop_cluster,
    enter_cluster,
    exit_cluster,
    leave,
    new_cluster,
    put_topic,
    take_topic,
)
from coterie.kernels.jit import kernel


@kernel
def tidy_user(s: ClusterState, costs: CostTables, user: int) -> None:
    """After an update: leave clusters that have become redundant or unprofitable."""
    topic_total = len(s.rate)
    at = 0
    while at < s.channel_count[user]:
        channel = s.channels[user, at]
        if channel >= topic_total and leave_benefit(s, costs, user, channel - topic_total) < -SLACK:
            exit_cluster(s, user, channel - topic_total)  # another channel takes this place in the list
        else:
            at += 1


@kernel
def tidy_members(s: ClusterState, costs: CostTables, cluster: int) -> None:
    channel = len(s.rate) + cluster
    members = s.listing[channel, : s.size[channel]].copy()
    s.counts[INFORMED] += len(members)
    for user in members:
        tidy_user(s, costs, user)
    if s.size[channel] == 0:
        s.counts[DESTROYED] += 1
        s.counts[INFORMED] += s.topic_count[cluster]
        drop_cluster(s, cluster)


@kernel
def _tell_clusters(s: ClusterState, topic: int) -> None:
    """The topic's channel tells the clusters it belongs to about an update of that list (section 3.2)."""
    for cluster in range(s.marks[0]):
        s.counts[INFORMED] += s.inside[topic, cluster]


@kernel
def add_topic(s: ClusterState, costs: CostTables, cluster: int, topic: int) -> None:
    s.counts[ADDED] += 1
    put_topic(s, cluster, topic)
    _tell_clusters(s, topic)
    channel = len(s.rate) + cluster
    for i in range(s.size[channel]):
        user = s.listing[channel, i]
        if s.place[user, topic] > 0:
            leave(s, user, topic)
    tidy_members(s, costs, cluster)


@kernel
def remove_topic(s: ClusterState, costs: CostTables, cluster: int, topic: int) -> None:
    """Of two topics neither stays: the cluster is split into individual topics."""
    _tell_clusters(s, topic)
    take_topic(s, cluster, topic)
    s.counts[REMOVED] += 1
    if s.topic_count[cluster] > 1:
        tidy_members(s, costs, cluster)
        return
    s.counts[DESTROYED] += 1
    s.counts[INFORMED] += s.size[len(s.rate) + cluster] + 1
    drop_cluster(s, cluster)


@kernel
def merge_clusters(s: ClusterState, costs: CostTables, one: int, other: int) -> int:
    """The larger one takes the other's topics and members; returns it."""
    topic_total = len(s.rate)
    into, gone = one, other
    if s.size[topic_total + gone] > s.size[topic_total + into]:
        into, gone = other, one
    s.counts[MERGED] += 1
    for i in range(s.topic_count[gone]):
        topic = s.topics[gone, i]
        _tell_clusters(s, topic)
        if s.inside[topic, into] == 0:
            put_topic(s, into, topic)
    channel = topic_total + into
    for i in range(s.size[channel]):  # members of the larger one drop what they get from it now
        user = s.listing[channel, i]
        for j in range(s.topic_count[gone]):
            if s.place[user, s.topics[gone, j]] > 0:
                leave(s, user, s.topics[gone, j])
    s.counts[INFORMED] += s.size[topic_total + gone]
    members = s.listing[topic_total + gone, : s.size[topic_total + gone]].copy()
    for user in members:
        if s.place[user, channel] == 0:
            enter_cluster(s, user, into)
    drop_cluster(s, gone)  # all it covered is covered by the other one
    tidy_members(s, costs, into)
    return into


@kernel
def absorb_topic(s: ClusterState, costs: CostTables, cluster: int, topic: int) -> None:
    """The topic and all its direct subscribers go into the cluster."""
    s.counts[ADDED] += 1
    put_topic(s, cluster, topic)
    _tell_clusters(s, topic)
    s.counts[INFORMED] += s.size[topic]
    members = s.listing[topic, : s.size[topic]].copy()
    for user in members:
        if s.place[user, len(s.rate) + cluster] > 0:
            leave(s, user, topic)
        else:
            enter_cluster(s, user, cluster)
    tidy_members(s, costs, cluster)


@kernel
def pair_topics(s: ClusterState, costs: CostTables, one: int, other: int) -> int:
    """A new cluster of two topics with all their direct subscribers; -1 if no channel is free."""
    cluster = new_cluster(s)
    if cluster < 0:
        return -1
    s.counts[CREATED] += 1
    put_topic(s, cluster, one)
    put_topic(s, cluster, other)
    for side in range(2):
        topic = one if side == 0 else other
        _tell_clusters(s, topic)
        s.counts[INFORMED] += s.size[topic]
        while s.size[topic] > 0:
            enter_cluster(s, s.listing[topic, s.size[topic] - 1], cluster)
    tidy_members(s, costs, cluster)
    return cluster
