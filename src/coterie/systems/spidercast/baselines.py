"""A ring per topic with merged links, the overlay of section 3.9.2, and the parts a graph falls into."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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


def parts(links: Relation) -> NDArray[np.int64]:
    """Of every node the lowest node of its part of the graph; `links` in both directions."""
    lowest = np.arange(links.row_count)
    rows, columns = links.rows, links.columns
    while True:
        before = lowest.copy()
        np.minimum.at(lowest, rows, lowest[columns])
        lowest = lowest[lowest]
        if np.array_equal(lowest, before):
            return lowest
