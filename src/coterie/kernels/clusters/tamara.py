"""Tamara's algorithm on one array state, operation by operation: subscriptions, tosses, surveys and what follows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.kernels.clusters.benefit import (
    SLACK,
    absorb_benefit,
    add_benefit,
    join_benefit,
    leave_benefit,
    merge_benefit,
    pair_benefit,
    remove_benefit,
    shared_needed,
)
from coterie.kernels.clusters.state import (
    ADDED,
    AUDITED,
    CREATED,
    DESTROYED,
    INFORMED,
    MERGED,
    MESSAGE_KINDS,
    NOTICES,
    PROPOSALS,
    RAISED,
    REMOVED,
    SURVEYED,
    SURVEYS,
    TOSSES,
    Bytes,
    ClusterState,
    CostTables,
    Floats,
    Ints,
    Longs,
    dissemination_cost,
    drop_cluster,
    enter_cluster,
    exit_cluster,
    join,
    leave,
    maintenance_cost,
    plain_costs,
)
from coterie.kernels.clusters.update import absorb_topic, add_topic, merge_clusters, pair_topics, remove_topic
from coterie.kernels.jit import kernel

_SURVEYS_PER_OPERATION = 256


class Triggers(NamedTuple):
    """What triggers updates; `is_adaptive` off leaves the clusters as they are (SC in section 5.2)."""

    confidence: float  # phi
    survey_size: int  # sample of a large channel, 0: ask everybody
    survey_share: float  # a channel surveys when this share of its subscribers has come or gone
    is_adaptive: bool
    is_audited: bool  # recompute the overall cost before and after every update


@kernel
def sample_size(survey_size: int, population: int) -> int:
    """Cochran's sample with the correction for small populations (reference [1] of the paper)."""
    if survey_size == 0 or population == 0:
        return population
    return int(np.ceil(survey_size / (1.0 + (survey_size - 1.0) / population)))


@kernel
def draw_sample(s: ClusterState, rules: Triggers, channel: int, draw: np.random.Generator) -> int:
    """Moves a random sample to the front of the channel's list and returns its size; 2 messages each."""
    size = s.size[channel]
    wanted = sample_size(rules.survey_size, size)
    if wanted < size:
        row = s.listing[channel]
        for i in range(wanted):
            j = i + int(draw.random() * (size - i))
            one, other = row[i], row[j]
            row[i], row[j] = other, one
            s.place[other, channel] = i + 1
            s.place[one, channel] = j + 1
    s.counts[SURVEYS] += 1
    s.counts[SURVEYED] += 2 * wanted
    return wanted


@kernel
def is_toss_won(s: ClusterState, rules: Triggers, needed: int, draw: np.random.Generator) -> bool:
    """With omega = 1 - (1 - phi)^(1 / needed), section 3.1."""
    s.counts[TOSSES] += 1
    omega = 1.0 - (1.0 - rules.confidence) ** (1.0 / max(needed, 1))
    return bool(draw.random() < omega)


@kernel
def consider_adding(
    s: ClusterState, costs: CostTables, rules: Triggers, cluster: int, topic: int, draw: np.random.Generator
) -> None:
    """The cluster's channel hears that a member subscribed to the topic directly."""
    channel = len(s.rate) + cluster
    s.counts[NOTICES] += 1
    size, topics = s.size[channel], s.topic_count[cluster]
    if not is_toss_won(s, rules, shared_needed(costs, s.rate[topic], s.size[topic], size, topics), draw):
        return
    asked = draw_sample(s, rules, channel, draw)
    hits = 0
    for i in range(asked):
        if s.place[s.listing[channel, i], topic] > 0:
            hits += 1
    shared = min(int(np.rint(hits / asked * size)), s.size[topic])
    if add_benefit(costs, s.rate[topic], s.size[topic], shared, size, topics) < -SLACK:
        before = _updates_and_cost(s, costs, rules)
        add_topic(s, costs, cluster, topic)
        _audit(s, costs, rules, before)


@kernel
def consider_removing(
    s: ClusterState, costs: CostTables, rules: Triggers, cluster: int, topic: int, draw: np.random.Generator
) -> None:
    """The cluster's channel hears that a member is no longer interested in the topic."""
    channel = len(s.rate) + cluster
    s.counts[NOTICES] += 1
    size, topics = s.size[channel], s.topic_count[cluster]
    if not is_toss_won(s, rules, shared_needed(costs, s.rate[topic], s.size[topic], size, topics - 1), draw):
        return
    asked = draw_sample(s, rules, channel, draw)
    hits = 0
    for i in range(asked):
        user = s.listing[channel, i]
        if s.interest[user, topic] == 1 and s.cover[user, topic] == 1:
            hits += 1
    shared = min(int(np.rint(hits / asked * size)), len(s.interest) - s.size[topic])
    if remove_benefit(costs, s.rate[topic], s.size[topic], shared, size, topics) < -SLACK:
        before = _updates_and_cost(s, costs, rules)
        remove_topic(s, costs, cluster, topic)
        _audit(s, costs, rules, before)


@kernel
def busiest_partner(
    s: ClusterState, rules: Triggers, channel: int, draw: np.random.Generator, tally: Longs
) -> tuple[int, int]:
    """Survey the channel: the other one that most subscribers are on, and how many, estimated; -1 for none.

    Of equally many, one of the same kind (topic or cluster) and then the lowest goes first.
    """
    asked = draw_sample(s, rules, channel, draw)
    is_topic = channel < len(s.rate)
    best = -1
    for i in range(asked):
        user = s.listing[channel, i]
        for j in range(s.channel_count[user]):
            tally[s.channels[user, j]] += 1
    tally[channel] = 0
    for i in range(asked):
        user = s.listing[channel, i]
        for j in range(s.channel_count[user]):
            other = s.channels[user, j]
            if tally[other] == 0:
                continue
            if best < 0 or (tally[other], (other < len(s.rate)) == is_topic, -other) > (
                tally[best],
                (best < len(s.rate)) == is_topic,
                -best,
            ):
                best = other
    shared = 0 if best < 0 else int(np.rint(tally[best] * s.size[channel] / max(asked, 1)))
    for i in range(asked):
        user = s.listing[channel, i]
        for j in range(s.channel_count[user]):
            tally[s.channels[user, j]] = 0
    return best, shared


@kernel
def survey(
    s: ClusterState, costs: CostTables, rules: Triggers, channel: int, draw: np.random.Generator, tally: Longs
) -> None:
    """A channel asks the one it shares most subscribers with to merge if that pays (section 3.2).

    Topics are viewed as clusters of one topic there ("Single topics"), so all their direct subscribers move.
    """
    topic_total = len(s.rate)
    partner, shared = busiest_partner(s, rules, channel, draw, tally)
    if partner < 0:
        return
    if channel < topic_total and partner < topic_total:
        propose_pair(s, costs, channel, partner, shared)
    elif channel < topic_total:
        propose_topic(s, costs, partner - topic_total, channel, shared)
    elif partner < topic_total:
        propose_topic(s, costs, channel - topic_total, partner, shared)
    else:
        propose_merge(s, costs, channel - topic_total, partner - topic_total, shared)


@kernel
def propose_pair(s: ClusterState, costs: CostTables, topic: int, partner: int, shared: int) -> None:
    s.counts[PROPOSALS] += 2
    shared = min(shared, s.size[partner])
    change = pair_benefit(costs, s.rate[topic], s.rate[partner], s.size[topic], s.size[partner], shared)
    if change < -SLACK:
        pair_topics(s, costs, topic, partner)


@kernel
def propose_topic(s: ClusterState, costs: CostTables, cluster: int, topic: int, shared: int) -> None:
    """A topic and a cluster with so many common subscribers: merge them, or only add the topic, or neither."""
    if s.inside[topic, cluster] == 1:
        return
    s.counts[PROPOSALS] += 2
    topic_size, size = s.size[topic], s.size[len(s.rate) + cluster]
    rate, topics = s.rate[topic], s.topic_count[cluster]
    shared = min(shared, size, topic_size)
    adding = add_benefit(costs, rate, topic_size, shared, size, topics)
    absorbing = absorb_benefit(costs, rate, topic_size, size, shared, topics, s.cluster_rate[cluster])
    if absorbing < -SLACK and absorbing < adding:
        absorb_topic(s, costs, cluster, topic)
    elif adding < -SLACK:
        add_topic(s, costs, cluster, topic)


@kernel
def propose_merge(s: ClusterState, costs: CostTables, cluster: int, other: int, shared: int) -> None:
    topic_total = len(s.rate)
    s.counts[PROPOSALS] += 2
    size, other_size = s.size[topic_total + cluster], s.size[topic_total + other]
    topics_shared = 0
    rate_shared = 0.0
    for i in range(s.topic_count[other]):
        topic = s.topics[other, i]
        if s.inside[topic, cluster] == 1:
            topics_shared += 1
            rate_shared += s.rate[topic]
    change = merge_benefit(
        costs,
        size,
        other_size,
        min(shared, other_size),
        s.topic_count[cluster],
        s.topic_count[other],
        topics_shared,
        s.cluster_rate[cluster],
        s.cluster_rate[other],
        rate_shared,
    )
    if change < -SLACK:
        merge_clusters(s, costs, cluster, other)


@kernel
def subscribe(
    s: ClusterState, costs: CostTables, rules: Triggers, user: int, topic: int, draw: np.random.Generator
) -> None:
    """SUBSCRIBE of section 4: through a cluster the user has, or one worth joining, or directly."""
    s.interest[user, topic] = 1
    s.wanting[topic] += 1
    if s.cover[user, topic] > 0:
        return
    best, most = -1, -1
    for cluster in range(s.marks[0]):
        if s.inside[topic, cluster] == 1:
            taken = taken_directly(s, user, cluster)
            if taken > most:
                best, most = cluster, taken
    if best >= 0 and join_benefit(s, costs, user, best, topic) < -SLACK:
        enter_cluster(s, user, best)
        return
    join(s, user, topic)
    if rules.is_adaptive:
        cluster = most_filtering_cluster(s, user)
        if cluster >= 0:
            consider_adding(s, costs, rules, cluster, topic, draw)


@kernel
def taken_directly(s: ClusterState, user: int, cluster: int) -> int:
    """How many of the cluster's topics the user is subscribed to directly; through the shorter of both lists."""
    taken = 0
    if s.channel_count[user] < s.topic_count[cluster]:
        for j in range(s.channel_count[user]):
            channel = s.channels[user, j]
            if channel < len(s.rate):
                taken += s.inside[channel, cluster]
    else:
        for i in range(s.topic_count[cluster]):
            if s.place[user, s.topics[cluster, i]] > 0:
                taken += 1
    return taken


@kernel
def most_filtering_cluster(s: ClusterState, user: int) -> int:
    """Whom to tell about a new direct subscription: the user's cluster with most topics filtered out (section 3.1)."""
    topic_total = len(s.rate)
    best, most = -1, -1
    for j in range(s.channel_count[user]):
        cluster = s.channels[user, j] - topic_total
        if cluster < 0:
            continue
        filtered = 0
        for i in range(s.topic_count[cluster]):
            topic = s.topics[cluster, i]
            if s.interest[user, topic] == 0 or s.cover[user, topic] > 1:
                filtered += 1
        if filtered > most or (filtered == most and cluster < best):
            best, most = cluster, filtered
    return best


@kernel
def unsubscribe(
    s: ClusterState, costs: CostTables, rules: Triggers, user: int, topic: int, draw: np.random.Generator
) -> None:
    """UNSUBSCRIBE of section 4: filter the topic from now on, or leave the cluster it came through."""
    s.interest[user, topic] = 0
    s.wanting[topic] -= 1
    if s.place[user, topic] > 0:
        leave(s, user, topic)
        return
    topic_total = len(s.rate)
    for cluster in range(s.marks[0]):
        if s.inside[topic, cluster] == 0 or s.place[user, topic_total + cluster] == 0:
            continue
        if leave_benefit(s, costs, user, cluster) < -SLACK:
            exit_cluster(s, user, cluster)
        elif rules.is_adaptive:
            consider_removing(s, costs, rules, cluster, topic, draw)


@kernel
def look_at_channels(
    s: ClusterState, costs: CostTables, rules: Triggers, draw: np.random.Generator, tally: Longs
) -> None:
    """Empty clusters dissolve; channels with enough coming and going hold their periodic survey."""
    topic_total = len(s.rate)
    surveys = 0
    while s.marks[1] > 0 and surveys < _SURVEYS_PER_OPERATION:
        s.marks[1] -= 1
        channel = s.queue[s.marks[1]]
        s.is_queued[channel] = 0
        size = s.size[channel]
        if channel >= topic_total and s.topic_count[channel - topic_total] == 0:
            continue
        if channel >= topic_total and size == 0 and rules.is_adaptive:
            s.counts[DESTROYED] += 1
            s.counts[INFORMED] += s.topic_count[channel - topic_total]
            drop_cluster(s, channel - topic_total)
        elif rules.is_adaptive and size > 0 and s.moves[channel] >= rules.survey_share * size:
            s.moves[channel] = 0
            surveys += 1
            before = _updates_and_cost(s, costs, rules)
            survey(s, costs, rules, channel, draw, tally)
            _audit(s, costs, rules, before)


@kernel
def _updates_and_cost(s: ClusterState, costs: CostTables, rules: Triggers) -> tuple[int, float]:
    if not rules.is_audited:
        return 0, 0.0
    updates = s.counts[CREATED] + s.counts[ADDED] + s.counts[REMOVED] + s.counts[MERGED]
    return updates, maintenance_cost(s, costs) + dissemination_cost(s, costs)


@kernel
def _audit(s: ClusterState, costs: CostTables, rules: Triggers, before: tuple[int, float]) -> None:
    """Did the update lower the overall cost, recomputed in full?"""
    if not rules.is_audited:
        return
    after = _updates_and_cost(s, costs, rules)
    if after[0] > before[0]:
        s.counts[AUDITED] += 1
        if after[1] > before[1] - SLACK:
            s.counts[RAISED] += 1


@kernel
def run_operations(
    s: ClusterState,
    costs: CostTables,
    rules: Triggers,
    is_leaving: Bytes,
    who: Ints,
    what: Ints,
    sample_at: Longs,
    history: Floats,
    draw: np.random.Generator,
) -> None:
    """Apply operation i: user who[i] subscribes to what[i], or unsubscribes if is_leaving[i].

    After sample_at[j] operations (ascending) row j of `history` receives MC and DC as Scribe would pay them, MC and DC
    as they are, and the messages beyond them so far. Operations that change nothing are passed over.
    """
    tally = np.zeros(len(s.size), np.int64)
    sample = 0
    for i in range(len(who) + 1):
        while sample < len(sample_at) and sample_at[sample] <= i:
            record(s, costs, history[sample])
            sample += 1
        if i == len(who):
            return
        if s.interest[who[i], what[i]] != is_leaving[i]:
            continue
        if is_leaving[i]:
            unsubscribe(s, costs, rules, who[i], what[i], draw)
        else:
            subscribe(s, costs, rules, who[i], what[i], draw)
        look_at_channels(s, costs, rules, draw, tally)


@kernel
def record(s: ClusterState, costs: CostTables, row: Floats) -> None:
    row[0], row[1] = plain_costs(s, costs)
    row[2] = maintenance_cost(s, costs)
    row[3] = dissemination_cost(s, costs)
    row[4] = 0.0
    for kind in range(MESSAGE_KINDS):
        row[4] += s.counts[kind]
