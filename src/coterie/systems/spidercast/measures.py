"""What SpiderCast is judged by: topic connectivity, topic diameter, degree, tdi(d), and bounds no overlay can beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.kernels import spidercast_blocks, spidercast_measures
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


def topic_diameter(links: Relation, interests: Relation) -> int:
    """The longest shortest path between two members of any topic inside that topic (section 3.2); exact."""
    by_topic = interests.transposed
    return int(
        spidercast_measures.diameters(by_topic.indptr, by_topic.columns, links.indptr, links.columns).max(initial=0)
    )


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


@dataclass(frozen=True)
class DegreeBounds:
    """Mean degrees that no overlay with the property can go below on this instance."""

    connected: float  # every topic connected
    covered: float  # every node has min(K, members - 1) neighbours for each topic


def degree_bounds(interests: Relation, coverage: int) -> DegreeBounds:
    """Instance bounds by sharing out each link.

    A link between u and v carries |I_u & I_v| topics; give each of them an equal share of it, so shares add up to at
    most one per link. Node v can reach topic t only by links with at most m(v, t) topics, m being the largest overlap
    with another member of t, so each such link's share is at least 1 / m(v, t). Connecting t takes a link up the tree
    for every member but the root; covering v K times takes K links of v for each topic.
    """
    by_topic = interests.transposed
    most = spidercast_measures.greatest_overlaps(interests.indptr, interests.columns, by_topic.indptr, by_topic.columns)
    share = np.where(most > 0, 1.0 / np.maximum(most, 1), 0.0)
    by_share = np.zeros(interests.column_count)
    np.maximum.at(by_share, interests.columns, share)
    per_topic = np.bincount(interests.columns, share, interests.column_count) - by_share
    need = np.minimum(coverage, by_topic.lengths - 1)[interests.columns]
    per_node = np.ceil(np.bincount(interests.rows, share * need, interests.row_count) - 1e-9)
    count = interests.row_count
    return DegreeBounds(2.0 * float(per_topic.sum()) / count, float(per_node.sum()) / count)
