"""The overlays SpiderCast is compared with that need no protocol: a ring per topic with merged links."""

from __future__ import annotations

import numpy as np

from coterie.model import Relation


def ring_per_topic(interests: Relation) -> Relation:
    """Section 3.9.2: every topic's subscribers on a ring in the order of their numbers, links shared between rings."""
    by_topic = interests.transposed
    nodes = by_topic.columns
    count = interests.row_count
    following = np.roll(nodes, -1)
    ends = by_topic.indptr[1:][by_topic.lengths > 0]
    starts = by_topic.indptr[:-1][by_topic.lengths > 0]
    following[ends - 1] = nodes[starts]
    apart = nodes != following
    one, other = nodes[apart], following[apart]
    return Relation.from_pairs(np.concatenate([one, other]), np.concatenate([other, one]), count, count)
