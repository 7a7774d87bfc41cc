"""What SpiderCast is judged by: topic connectivity, topic diameter, degree and tdi(d)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.links import blocks as spidercast_blocks
from coterie.kernels.links import measures as spidercast_measures
from coterie.model import Relation


@dataclass(frozen=True, eq=False)
class Connectivity:
    """Per topic that anybody wants: components, and members outside of the largest one."""

    components: NDArray[np.int64]
    cut_off: NDArray[np.int64]

    @property
    def component_count(self) -> int:
        """Over all topics; as many as topics if every topic is connected (Figure 13)."""
        return int(self.components.sum())

    @property
    def partitioned_count(self) -> int:
        return int(np.count_nonzero(self.components > 1))


def connectivity(links: Relation, interests: Relation) -> Connectivity:
    """`links` in both directions (`Overlay.undirected`), `interests` node -> topics."""
    by_topic = interests.transposed
    largest = np.zeros(by_topic.row_count, np.int64)
    counts = spidercast_measures.component_counts(
        by_topic.indptr, by_topic.columns, links.indptr, links.columns, largest
    )
    wanted = by_topic.lengths > 0
    return Connectivity(counts[wanted], (by_topic.lengths - largest)[wanted])


@dataclass(frozen=True, eq=False)
class TopicPaths:
    """Shortest paths inside topics, per topic; exact."""

    diameter: NDArray[np.int64]
    mean: NDArray[np.float64]  # over pairs of members that reach each other


def topic_paths(links: Relation, interests: Relation) -> TopicPaths:
    """Section 3.2: the longest is a topic's diameter."""
    by_topic = interests.transposed
    mean = np.zeros(by_topic.row_count)
    longest = spidercast_measures.diameters(by_topic.indptr, by_topic.columns, links.indptr, links.columns, mean)
    return TopicPaths(longest, mean)


def topic_diameter(links: Relation, interests: Relation) -> int:
    """The longest shortest path between two members of any topic inside that topic."""
    return int(topic_paths(links, interests).diameter.max(initial=0))


def cut_vertices(links: Relation, interests: Relation) -> NDArray[np.int64]:
    """Per topic: members whose crash alone would cut it. All 0 in a two-connected overlay."""
    by_topic = interests.transposed
    return spidercast_blocks.cut_vertex_counts(by_topic.indptr, by_topic.columns, links.indptr, links.columns)


def top_intersection(interests: Relation, depth: int) -> float:
    """tdi(d) in %, section 3.4."""
    by_topic = interests.transposed
    per_node = spidercast_measures.top_intersections(
        interests.indptr, interests.columns, by_topic.indptr, by_topic.columns, depth
    )
    return float(per_node.mean())


def after_crashes(links: Relation, interests: Relation, crashed: NDArray[np.integer]) -> Connectivity:
    """Connectivity among the survivors right after these nodes crash together, before any repair."""
    is_up = np.ones(interests.row_count, bool)
    is_up[crashed] = False
    kept = is_up[interests.rows]
    left = Relation.from_pairs(
        interests.rows[kept], interests.columns[kept], interests.row_count, interests.column_count
    )
    return connectivity(links, left)
