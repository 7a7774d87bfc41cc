"""What a change of topic-clusters would bring: OC2 - OC1 of Tamara's sections 3 and 4, for any cost functions.

Every function returns the change of the overall cost of the part of the network that the change touches; negative is
good. Sizes are numbers of subscribers, before the change.
"""

from __future__ import annotations

from coterie.kernels.clusters.state import ClusterState, CostTables
from coterie.kernels.jit import kernel

SLACK = 1e-9  # an update must lower the cost by more than rounding


@kernel
def add_benefit(
    costs: CostTables, rate: float, topic_size: int, shared: int, cluster_size: int, cluster_topics: int
) -> float:
    """OC2 - OC1 of section 3.1: the topic joins the cluster, its `shared` subscribers drop it. Negative is good."""
    after = topic_size - shared
    return (
        costs.maintain[after]
        - costs.maintain[topic_size]
        + costs.associate[cluster_topics + 1]
        - costs.associate[cluster_topics]
        + rate * (costs.notify + costs.disseminate[cluster_size])
        + rate * (costs.disseminate[after] - costs.disseminate[topic_size])
    )


@kernel
def shared_needed(costs: CostTables, rate: float, topic_size: int, cluster_size: int, cluster_topics: int) -> int:
    """The least number of shared subscribers that makes adding the topic pay; cluster_size + 1 if none does."""
    low, high = 1, cluster_size + 1
    while low < high:
        middle = (low + high) // 2
        size = max(topic_size, middle)
        if add_benefit(costs, rate, size, middle, cluster_size, cluster_topics) < -SLACK:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def remove_benefit(
    costs: CostTables, rate: float, topic_size: int, shared: int, cluster_size: int, cluster_topics: int
) -> float:
    """The reverse of `add_benefit`: `shared` members take the topic directly from now on."""
    return -add_benefit(costs, rate, topic_size + shared, shared, cluster_size, cluster_topics - 1)


@kernel
def merge_benefit(
    costs: CostTables,
    size_1: int,
    size_2: int,
    shared: int,
    topics_1: int,
    topics_2: int,
    topics_shared: int,
    rate_1: float,
    rate_2: float,
    rate_shared: float,
) -> float:
    """OC2 - OC1 of section 3.2."""
    union = size_1 + size_2 - shared
    before = costs.maintain[size_1] + costs.associate[topics_1] + rate_1 * (costs.notify + costs.disseminate[size_1])
    before += costs.maintain[size_2] + costs.associate[topics_2] + rate_2 * (costs.notify + costs.disseminate[size_2])
    after = costs.maintain[union] + costs.associate[topics_1 + topics_2 - topics_shared]
    return after + (rate_1 + rate_2 - rate_shared) * (costs.notify + costs.disseminate[union]) - before


@kernel
def absorb_benefit(
    costs: CostTables, rate: float, topic_size: int, size: int, shared: int, topics: int, cluster_rate: float
) -> float:
    """A whole topic with all its direct subscribers merges into a cluster (section 3.2, "Single topics")."""
    union = topic_size + size - shared
    before = costs.maintain[topic_size] + rate * costs.disseminate[topic_size]
    before += costs.maintain[size] + costs.associate[topics] + cluster_rate * (costs.notify + costs.disseminate[size])
    after = costs.maintain[0] + rate * costs.disseminate[0] + costs.maintain[union] + costs.associate[topics + 1]
    return after + (cluster_rate + rate) * (costs.notify + costs.disseminate[union]) - before


@kernel
def pair_benefit(costs: CostTables, rate_1: float, rate_2: float, size_1: int, size_2: int, shared: int) -> float:
    """Two topics become a cluster that takes over all their direct subscribers (section 3.1, last remark)."""
    return absorb_benefit(costs, rate_1, size_1, size_2, shared, 1, rate_2) + (
        costs.maintain[0] + rate_2 * (costs.disseminate[0] + costs.notify) + costs.associate[1]
    )


@kernel
def direct_price(s: ClusterState, costs: CostTables, topic: int, size_after: int) -> float:
    """What the subscriber that makes the topic's channel `size_after` large costs."""
    more = costs.maintain[size_after] - costs.maintain[size_after - 1]
    return more + s.rate[topic] * (costs.disseminate[size_after] - costs.disseminate[size_after - 1])


@kernel
def cluster_price(s: ClusterState, costs: CostTables, cluster: int, size_after: int) -> float:
    more = costs.maintain[size_after] - costs.maintain[size_after - 1]
    return more + s.cluster_rate[cluster] * (costs.disseminate[size_after] - costs.disseminate[size_after - 1])


@kernel
def join_benefit(s: ClusterState, costs: CostTables, user: int, cluster: int, topic: int) -> float:
    """OC2 - OC1 of section 4: into the cluster, out of what is taken directly of it, `topic` included."""
    change = cluster_price(s, costs, cluster, s.size[len(s.rate) + cluster] + 1)
    for i in range(s.topic_count[cluster]):
        other = s.topics[cluster, i]
        if s.place[user, other] > 0:
            change -= direct_price(s, costs, other, s.size[other])
        elif other == topic:
            change -= direct_price(s, costs, other, s.size[other] + 1)
    return change


@kernel
def leave_benefit(s: ClusterState, costs: CostTables, user: int, cluster: int) -> float:
    """Out of the cluster, directly into what only it covers; topics that other clusters bring count as filtered.

    Where leaving does not pay, only that it does not: topics can only add to its price, so the rest is not looked at.
    """
    change = -cluster_price(s, costs, cluster, s.size[len(s.rate) + cluster])
    for i in range(s.topic_count[cluster]):
        if change >= 0.0:
            return change
        topic = s.topics[cluster, i]
        if s.interest[user, topic] == 1 and s.cover[user, topic] == 1:
            change += direct_price(s, costs, topic, s.size[topic] + 1)
    return change
