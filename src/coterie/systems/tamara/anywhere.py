"""Topic-clusters over any other system's structures: clusters become topics of the layer below.

Nodes ask the layer below for channels instead of topics, publishers send an event once into each channel that carries
its topic. Whatever system lies below, its design for this virtual workload is what clusters cost over it; filtered
copies count as wanted ones there, which changes no sum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coterie.model import Channels, Publications, Relation, Workload
from coterie.systems.tamara.planner import cover_with
from coterie.systems.tamara.stages import clusters_of


def virtual_workload(workload: Workload, channels: Channels) -> Workload:
    """Every node is one subscriber of the channels of its cover; the attachment of subscribers must be final."""
    interests = workload.node_interests()
    topics = workload.topic_count
    plan = cover_with(clusters_of(channels), interests, workload.rates)
    wanted = Relation.from_pairs(
        np.concatenate([plan.direct.rows, plan.memberships.rows]),
        np.concatenate([plan.direct.columns, plan.memberships.columns + topics]),
        workload.node_count,
        channels.count,
    )
    return replace(
        workload,
        name=f"{workload.name}, clustered",
        interests=wanted,
        publications=_publications(workload, channels, wanted),
        attachment=np.arange(workload.node_count, dtype=np.int32),
        content=None,
        modes=None,
    )


def _publications(workload: Workload, channels: Channels, wanted: Relation) -> Publications:
    """One row per publication and channel that carries its topic and has members."""
    publications = workload.publications
    is_used = np.bincount(wanted.columns, minlength=channels.count) > 0
    carriers = channels.topics.transposed
    counts = carriers.lengths[publications.topic]
    row = np.repeat(np.arange(publications.count), counts)
    first = np.concatenate([[0], np.cumsum(counts)])[:-1]
    place = np.arange(len(row)) - first[row]
    channel = carriers.columns[carriers.indptr[publications.topic[row]] + place]
    kept = is_used[channel]
    node = workload.attachment[publications.publisher]
    return Publications.of(node[row[kept]], channel[kept], publications.rate[row[kept]])
