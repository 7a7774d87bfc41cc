"""Given clusters, users covered greedily by them: the state that experiments on shifting interests start from."""

from __future__ import annotations

from coterie.kernels.clusters.benefit import SLACK, join_benefit
from coterie.kernels.clusters.state import (
    ClusterState,
    CostTables,
    Ints,
    Longs,
    enter_cluster,
    join,
    new_cluster,
    put_topic,
)
from coterie.kernels.clusters.update import tidy_user
from coterie.kernels.jit import kernel


@kernel
def settle_users(s: ClusterState, costs: CostTables, indptr: Longs, topics: Ints) -> None:
    """Make the clusters (CSR), subscribe every user to its interests, and let each join what saves most, in turn."""
    for row in range(len(indptr) - 1):
        cluster = new_cluster(s)
        for at in range(indptr[row], indptr[row + 1]):
            put_topic(s, cluster, topics[at])
    for user in range(len(s.interest)):
        for topic in range(len(s.rate)):
            if s.interest[user, topic] == 1:
                join(s, user, topic)
        while True:
            best, least = -1, -SLACK
            for cluster in range(s.marks[0]):
                if s.topic_count[cluster] > 0 and s.place[user, len(s.rate) + cluster] == 0:
                    change = join_benefit(s, costs, user, cluster, -1)
                    if change < least:
                        best, least = cluster, change
            if best < 0:
                break
            enter_cluster(s, user, best)
        tidy_user(s, costs, user)
    s.marks[1] = 0
    s.is_queued[:] = 0
