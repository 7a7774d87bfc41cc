"""How often what a node wants changes: the log's comings and goings of wishes, seen from where clients are placed.

A node announces a wish when its first client asks for it and takes it back when the last one leaves; what others of its
clients do with the same wish stays its own affair. So good placement saves announcements too.
"""

from __future__ import annotations

import numpy as np

from coterie.model import Relation, Workload
from coterie.model.relation import Index


def node_wishes(workload: Workload, node_of: Index) -> Relation:
    """Node -> filters that somebody there asked for (topics, where the log has nothing but topics)."""
    asked = workload.interests if workload.wishes is None else workload.wishes.of
    return Relation.from_pairs(node_of[asked.rows], asked.columns, workload.node_count, asked.column_count)


def interest_changes(workload: Workload, node_of: Index) -> float:
    """Announcements and retractions per second in the whole network."""
    stays = workload.stays
    if stays is None or not len(stays.client):
        return 0.0
    asked = workload.interests if workload.wishes is None else workload.wishes.of
    width = asked.column_count
    moving = stays.client.astype(np.int64) * width + stays.filter
    steady = asked.rows.astype(np.int64) * width + asked.columns
    steady = steady[~np.isin(steady, moving)]
    client, wish = np.divmod(steady, max(width, 1))
    always = np.unique(node_of[client].astype(np.int64) * width + wish)
    key = node_of[stays.client].astype(np.int64) * width + stays.filter
    free = ~np.isin(key, always)
    return transitions(key[free], stays.begin_s[free], stays.end_s[free], stays.span_s) / stays.span_s


def transitions(
    key: np.ndarray[tuple[int], np.dtype[np.int64]],
    begin_s: np.ndarray[tuple[int], np.dtype[np.float64]],
    end_s: np.ndarray[tuple[int], np.dtype[np.float64]],
    span_s: float,
) -> int:
    """How often, inside the window, the number of overlapping stays of a key leaves or reaches zero."""
    count = len(key)
    keys = np.concatenate([key, key])
    times = np.concatenate([begin_s, end_s])
    steps = np.concatenate([np.ones(count, np.int64), -np.ones(count, np.int64)])
    order = np.lexsort([-steps, times, keys])  # who comes in the moment another leaves keeps the wish alive
    keys, times, steps = keys[order], times[order], steps[order]
    running = np.cumsum(steps)  # every key ends at zero again, so one running sum serves all
    starts = (steps > 0) & (running == 1)
    ends = (steps < 0) & (running == 0)
    inside = (times > 0) & (times < span_s)
    return int(np.count_nonzero((starts | ends) & inside))
