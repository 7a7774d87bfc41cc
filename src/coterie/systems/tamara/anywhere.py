"""Topic-clusters over any other system: clusters become topics of the layer below.

Nodes ask the layer below for channels instead of topics, publishers send an event once into each channel that carries
its topic: the topic's own and every cluster's with members. Whatever system lies below, its design for this virtual
workload, read with the real topics, is what clusters cost over it; `layered` is the node that does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.model import Channels, Design, Overlay, Placement, Publications, Relation, Workload
from coterie.model.design import Bundles
from coterie.protocol.system import Parameters, Stages, System
from coterie.systems.tamara.layered import Envelopes, LayeredNode
from coterie.systems.tamara.planner import cover_with
from coterie.systems.tamara.stages import ClusterStages, clusters_of, per_heartbeat, planned_channels, with_clusters

CLUSTERED = "+clusters"  # behind the name of the system below


@dataclass(frozen=True, eq=False)
class Below:
    """What the layer below is asked for. Channels are its topics, nodes its subscribers."""

    workload: Workload
    origin: NDArray[np.int64]  # of each of its publications: the real one
    members: Relation  # cluster -> nodes


def virtual_workload(
    workload: Workload, node_of: NDArray[np.int32], channels: Channels, parameters: Parameters
) -> Below:
    """Every node is one subscriber of the channels of its cover."""
    interests = workload.node_interests(node_of)
    topics, nodes = workload.topic_count, workload.node_count
    plan = cover_with(clusters_of(channels), interests, per_heartbeat(workload, parameters))
    wanted = Relation.from_pairs(
        np.concatenate([plan.direct.rows, plan.memberships.rows]),
        np.concatenate([plan.direct.columns, plan.memberships.columns + topics]),
        nodes,
        channels.count,
    )
    origin, publications = _publications(workload, node_of, channels, wanted)
    below = replace(
        workload,
        name=f"{workload.name}, clustered",
        interests=wanted,
        publications=publications,
        attachment=np.arange(nodes, dtype=np.int32),
        content=None,
        modes=None,
        topic_bytes=None,
        weights=None,
        wishes=None,
        stays=None,
    )
    members = Relation.from_pairs(plan.memberships.columns, plan.memberships.rows, plan.memberships.column_count, nodes)
    return Below(below, origin, members)


def _publications(
    workload: Workload, node_of: NDArray[np.int32], channels: Channels, wanted: Relation
) -> tuple[NDArray[np.int64], Publications]:
    """One row per publication and channel: the topic's own, then its clusters with members."""
    publications = workload.publications
    is_used = np.bincount(wanted.columns, minlength=channels.count) > 0
    is_used[: workload.topic_count] = True  # a publisher cannot know whether anybody is there
    row, channel = _expanded(publications.topic, channels.topics.transposed)
    kept = is_used[channel]
    row, channel = row[kept], channel[kept]
    node = node_of[publications.publisher]
    return row, Publications.of(node[row], channel, publications.rate[row], publications.size[row])


def _expanded(keys: NDArray[np.int32], relation: Relation) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(i, c) for every c in the relation's row of keys[i], in order."""
    counts = relation.lengths[keys]
    row = np.repeat(np.arange(len(keys)), counts)
    first = np.concatenate([[0], np.cumsum(counts)])[:-1]
    place = np.arange(len(row)) - first[row]
    return row, relation.columns[relation.indptr[keys[row]] + place]


def _real_topics(channels: Channels, virtual: Channels) -> Channels:
    """The channels below with the topics that their virtual topics stand for."""
    pair, topic = _expanded(channels.topics.columns, virtual.topics)
    rows = channels.topics.rows[pair]
    return Channels(Relation.from_pairs(rows, topic, channels.count, virtual.topics.column_count))


@dataclass(frozen=True)
class LayeredStages(Stages):
    """`channels` are topics and clusters; everything to their right is the layer's below, for the virtual workload."""

    below: Stages = field(kw_only=True)

    def adopt(self, design: Design, workload: Workload, parameters: Parameters, seed: int) -> Design:
        assert design.bundles is not None
        return super().adopt(replace(design, channels=with_clusters(design.bundles.topics)), workload, parameters, seed)

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
        below = virtual_workload(workload, placement.node_of, channels, parameters)
        everyone = _everyone(below.workload)
        carried = self.below.channels(below.workload, everyone, parameters, seed)
        design = self.below._finish(system, below.workload, everyone, carried, overlay, parameters, seed)
        return replace(
            design,
            placement=placement,
            channels=_real_topics(carried, channels),
            entries=replace(design.entries, publication=below.origin[design.entries.publication].astype(np.int32)),
            bundles=Bundles(clusters_of(channels), below.members),
        )


def _everyone(workload: Workload) -> Placement:
    return Placement(workload.attachment, workload.node_count)


def over(below: System) -> System:
    """Planned topic-clusters over this system; its parameters and messages stay its own."""
    stages = below.stages
    if isinstance(stages, ClusterStages | LayeredStages):
        raise ConfigError("system below", below.name, "a system without topic-clusters of its own")

    def overlay(workload: Workload, placement: Placement, channels: Channels, parameters: Any, seed: int) -> Overlay:
        virtual = virtual_workload(workload, placement.node_of, channels, parameters).workload
        everyone = _everyone(virtual)
        carried = stages.channels(virtual, everyone, parameters, seed)
        return stages.overlay(virtual, everyone, carried, parameters, seed)

    envelopes = Envelopes(below.messages)
    return System(
        name=below.name + CLUSTERED,
        title=f"Planned topic-clusters over: {below.title}",
        paper=below.paper,
        parameters=below.parameters,
        stages=LayeredStages(
            placement=stages.placement,
            channels=planned_channels,
            overlay=overlay,
            trees=stages.trees,
            upkeep=stages.upkeep,
            below=stages,
        ),
        node=lambda address, parameters, random: LayeredNode(
            address, below.node(address, parameters, random), envelopes, random
        ),
        messages=(*below.messages, *envelopes.messages),
        fits=below.fits,
    )
