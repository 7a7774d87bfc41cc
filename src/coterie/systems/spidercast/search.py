"""Local search over links: the same cover with fewer of them (`kernels.links.search`)."""

from __future__ import annotations

import numpy as np

from coterie.kernels.links import search
from coterie.model import Relation

ROOM = 8  # links a node may gain over what it began with


def fewer_links(
    interests: Relation, links: Relation, coverage: int, bare_share: float, rounds: int, seed: int
) -> Relation:
    """Links that cover every interest as often as these do, up to `coverage` times, and no more of them.

    At most `bare_share` of the interests (or as many as now) are left with `coverage` neighbours and no more.
    """
    cover = _cover_of(interests, links, coverage)
    first = np.concatenate([[0], np.cumsum(links.lengths + ROOM)])
    end = np.zeros(first[-1], np.int32)
    end[np.arange(links.pair_count) + ROOM * links.rows] = links.columns
    slots = search.NeighbourRoom(first, end, links.lengths.astype(np.int32))
    attempt = _empty_attempt(interests.row_count)
    draw = np.random.default_rng([seed, 8]).integers(2**63, size=1, dtype=np.uint64)
    for _ in range(rounds):
        search.improve(cover, slots, attempt, int(bare_share * interests.pair_count), draw)
    rows = np.repeat(np.arange(links.row_count, dtype=np.int32), slots.degree)
    at = np.arange(len(rows)) - np.repeat(np.cumsum(slots.degree) - slots.degree, slots.degree)
    return Relation.from_pairs(rows, end[first[rows] + at], links.row_count, links.row_count)


def _cover_of(interests: Relation, links: Relation, coverage: int) -> search.Cover:
    by_topic = interests.transposed
    others = (by_topic.lengths - 1)[interests.columns]
    cover = search.Cover(
        interests.indptr,
        interests.columns,
        by_topic.indptr,
        by_topic.columns,
        np.zeros(interests.pair_count, np.int32),
        np.minimum(coverage, others).astype(np.int32),
        np.zeros(3, np.int64),
    )
    cover.tally[search.LACKING] = int((cover.wanted > 0).sum())
    cover.tally[search.BARE] = int((cover.wanted < others).sum())
    once = links.rows < links.columns
    search.add_all(cover, links.rows[once], links.columns[once])
    return cover


def _empty_attempt(node_count: int) -> search.Attempt:
    return search.Attempt(
        np.zeros(search.LOG_MAX + 1, np.int32),
        np.zeros(search.LOG_MAX + 1, np.int32),
        np.zeros(search.LOG_MAX + 1, np.int32),
        np.zeros(1, np.int64),
        np.zeros(search.RUIN_MAX + 1, np.int32),
        np.zeros(1, np.int64),
        np.zeros(node_count, np.int32),
        np.zeros(node_count, np.int32),
        np.zeros(node_count, np.int64),
        np.zeros(1, np.int64),
    )
