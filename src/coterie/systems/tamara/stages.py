"""From clusters to a design: channels, members by each node's cover, Scribe's trees, and the ways events take.

An event goes from its publisher to the root of its topic, spreads there, and goes on from that root to the roots of the
topic's clusters. Each cluster's root reminds its topics' roots of itself once per heartbeat, hop by hop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.model import Channels, Design, Entries, Overlay, Placement, Relation, Trees, Workload
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.system import Parameters, Stages
from coterie.substrate.identifiers import topic_key, topic_keys
from coterie.substrate.pastry import PastryRing
from coterie.substrate.trees import bottom_up_trees
from coterie.systems.scribe import ScribeParameters
from coterie.systems.tamara.bulk import TopicClusters
from coterie.systems.tamara.names import planned_name
from coterie.systems.tamara.parameters import TamaraParameters
from coterie.systems.tamara.planner import cover_with, plan_clusters

# So small a workload that the distributed algorithm's clusters are one more start: users x topics, and subscriptions,
# with whose square its time grows where everybody wants nearly everything.
_CELLS_TO_GROW, _PAIRS_TO_GROW = 10_000_000, 200_000


def per_heartbeat(workload: Workload, parameters: Parameters) -> NDArray[np.float64]:
    """Events of each topic between two heartbeats of a tree edge: Tamara weighs one against the other."""
    return workload.rates * float(getattr(parameters, "tree_heartbeat_s", HEARTBEAT_S))


def adaptive_channels(workload: Workload, placement: Placement, parameters: TamaraParameters, seed: int) -> Channels:
    """Topics, and the clusters that the distributed algorithm ends with when all nodes subscribe in random order."""
    return with_clusters(
        _grown(workload.node_interests(placement.node_of), per_heartbeat(workload, parameters), parameters, seed)
    )


def _grown(interests: Relation, rate: NDArray[np.float64], parameters: TamaraParameters, seed: int) -> Relation:
    clusters = TopicClusters(interests.row_count, rate, parameters, seed=seed)
    order = np.random.default_rng(seed).permutation(interests.pair_count)
    clusters.apply(np.zeros(len(order), np.uint8), interests.rows[order], interests.columns[order])
    return clusters.clusters()


def planned_channels(workload: Workload, placement: Placement, parameters: ScribeParameters, seed: int) -> Channels:
    """Topics, and the clusters that the central planner chooses."""
    interests, rates = workload.node_interests(placement.node_of), per_heartbeat(workload, parameters)
    starts = []
    cells = interests.row_count * interests.column_count
    if cells <= _CELLS_TO_GROW and interests.pair_count <= _PAIRS_TO_GROW:
        starts.append(_grown(interests, rates, TamaraParameters(), seed))
    return with_clusters(plan_clusters(interests, rates, starts=starts, seed=seed).topics)


def with_clusters(clusters: Relation) -> Channels:
    """One channel per topic, then one per cluster."""
    topics = clusters.column_count
    rows = np.concatenate([np.arange(topics), clusters.rows + topics])
    columns = np.concatenate([np.arange(topics), clusters.columns])
    return Channels(Relation.from_pairs(rows, columns, topics + clusters.row_count, topics))


def clusters_of(channels: Channels) -> Relation:
    """Cluster -> topics."""
    topics = channels.topics.column_count
    first = channels.topics.indptr[topics]
    return Relation(channels.topics.indptr[topics:] - first, channels.topics.columns[first:], topics)


def channel_keys(channels: Channels) -> NDArray[np.uint64]:
    """Where each channel's root is found on the ring."""
    clusters = clusters_of(channels)
    names = [topic_key(name) for name in cluster_names(clusters)]
    return np.concatenate([topic_keys(clusters.column_count), np.array(names, np.uint64)])


def cluster_names(clusters: Relation) -> list[str]:
    return [planned_name(clusters.row(cluster).tolist()) for cluster in range(clusters.row_count)]


def channel_members(workload: Workload, placement: Placement, channels: Channels, parameters: Parameters) -> Relation:
    """Channel -> nodes: every node on the clusters of its cheapest cover found, and directly on the rest."""
    interests = workload.node_interests(placement.node_of)
    plan = cover_with(clusters_of(channels), interests, per_heartbeat(workload, parameters))
    rows = np.concatenate([plan.direct.columns, plan.memberships.columns + workload.topic_count])
    nodes = np.concatenate([plan.direct.rows, plan.memberships.rows])
    return Relation.from_pairs(rows, nodes, channels.count, workload.node_count)


def cluster_trees(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: ScribeParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    ring = _ring(overlay, parameters)
    keys = channel_keys(channels)
    trees = bottom_up_trees(ring, keys, channel_members(workload, placement, channels, parameters))
    return trees, _entries(workload, placement, channels, ring, keys, trees)


def _ring(overlay: Overlay, parameters: ScribeParameters) -> PastryRing:
    assert overlay.positions is not None
    return PastryRing.of(overlay.positions, parameters.digit_bits, parameters.leaves)


def _carriers(channels: Channels, members: Relation) -> Relation:
    """Topic -> rank of cluster: those with members, in the order of their names, as topics' roots go through them."""
    clusters = clusters_of(channels)
    topics = clusters.column_count
    used = members.lengths[topics:][clusters.rows] > 0
    rank = _ranks(cluster_names(clusters))
    return Relation.from_pairs(clusters.columns[used], rank[clusters.rows[used]], topics, max(clusters.row_count, 1))


def _ranks(names: list[str]) -> NDArray[np.int64]:
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return rank


def _entries(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    ring: PastryRing,
    keys: NDArray[np.uint64],
    trees: Trees,
) -> Entries:
    """Per publication: to the topic's root, then from there to the root of each of its clusters."""
    publications = workload.publications
    carriers = _carriers(channels, trees.members)
    by_rank = np.argsort(_ranks(cluster_names(clusters_of(channels))), kind="stable")
    onward = carriers.lengths[publications.topic]
    publication = np.repeat(np.arange(publications.count), onward + 1)
    starts = np.concatenate([[0], np.cumsum(onward + 1)])
    first = starts[:-1]
    is_first = np.zeros(len(publication), bool)
    is_first[first] = True
    topic = publications.topic[publication]
    place = np.arange(len(publication)) - first[publication] - 1
    at = np.where(is_first, 0, carriers.indptr[topic] + place)
    channel = topic.astype(np.int64)
    channel[~is_first] = workload.topic_count + by_rank[carriers.columns[at[~is_first]]]
    source = np.where(is_first, placement.node_of[publications.publisher][publication], trees.root[topic])
    after = np.where(is_first, -1, first[publication]).astype(np.int32)
    paths = ring.paths(source.astype(np.int32), keys[channel])
    return Entries(publication.astype(np.int32), channel.astype(np.int32), after, paths.indptr, paths.hops)


def association_hops(channels: Channels, overlay: Overlay, trees: Trees, parameters: ScribeParameters) -> float:
    """Messages of one round in which every cluster's root reminds its topics' roots of itself."""
    clusters = clusters_of(channels)
    topics = clusters.column_count
    used = trees.members.lengths[topics:][clusters.rows] > 0
    ring = _ring(overlay, parameters)
    sources = trees.root[topics + clusters.rows[used]]
    paths = ring.paths(sources, topic_keys(topics)[clusters.columns[used]])
    return float(len(paths.hops) - paths.count)


@dataclass(frozen=True)
class ClusterStages(Stages):
    """Stages whose designs also pay for the ties between clusters and topics."""

    def _finish(
        self,
        system: str,
        workload: Workload,
        placement: Placement,
        channels: Channels,
        overlay: Overlay,
        parameters: Parameters,
        seed: int,
    ) -> Design:
        design = super()._finish(system, workload, placement, channels, overlay, parameters, seed)
        settings: Any = parameters
        hops = association_hops(channels, overlay, design.trees, settings)
        return replace(design, upkeep=replace(design.upkeep, associations=design.upkeep.tree * hops))
