"""Overlays made with the whole network in sight: greedy merge, our lean K-cover, and the two-connected one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.links import blocks as spidercast_blocks
from coterie.kernels.links import dense as spidercast_dense
from coterie.kernels.links import greedy as spidercast_greedy
from coterie.model import Relation
from coterie.systems.spidercast.measures import connectivity
from coterie.systems.spidercast.search import fewer_links

ROUNDS_MAX = 200
EVERYTHING = 2**62  # needs to meet before it is enough


def greedy_merge(interests: Relation, seed: int) -> Relation:
    """GM: repeatedly the link that joins most topics' components; connected, without any redundancy."""
    return _Builder(interests, seed).serve(wanted=0).links()


def lean(interests: Relation, coverage: int, seed: int, bare_share: float = 1.0, rounds: int = 30) -> Relation:
    """Our overlay: every topic connected and every interest covered `coverage` times, with clearly fewer links.

    SpiderCast's nodes choose alone, so a link is chosen for what it does for one end. Here a link counts for both
    ends and for every topic it connects; what the greedy order made superfluous goes again, rounds of local search
    find what greed overlooked, and a last pass joins what the removal cut. When many nodes crash at once, those are
    cut off who had `coverage` neighbours and no more; so links are added until at most this share is that bare.
    """
    covered = _Builder(interests, seed).serve(wanted=coverage).prune(coverage).serve(wanted=coverage)
    if bare_share < 1:
        covered.serve(wanted=coverage + 1, left_share=bare_share)
    links = fewer_links(interests, covered.links(), coverage, bare_share, rounds, seed)
    return joined(interests, links, seed)


def two_connected(interests: Relation, seed: int) -> Relation:
    """Every topic stays connected after the crash of any one node: covered twice first, then leaf blocks tied twice."""
    return _Builder(interests, seed).serve(wanted=2).tie_blocks().links()


def uncut(interests: Relation, links: Relation, seed: int) -> Relation:
    """These links and a few more, so that no crash of one member cuts a topic; coverage alone may leave a cut."""
    return _Builder(interests, seed, _once(links)).tie_blocks().links()


def joined(interests: Relation, links: Relation, seed: int) -> Relation:
    """These links and the fewest that greedy merging finds to connect every topic that is in pieces."""
    if connectivity(links, interests).partitioned_count == 0:
        return links
    return _Builder(interests, seed, _once(links)).serve(wanted=0).links()


def _once(links: Relation) -> NDArray[np.int32]:
    """Both ends of every link, the lower one first."""
    once = links.rows < links.columns
    return np.stack([links.rows[once], links.columns[once]], axis=1).astype(np.int32)


def is_dense(interests: Relation) -> bool:
    """Whether there are fewer possible links than interests, so that a table of all of them takes no more memory."""
    return interests.row_count * (interests.row_count - 1) // 2 < interests.pair_count


class _Builder:
    """Links under construction; every step serves one kind of need."""

    def __init__(self, interests: Relation, seed: int, links: NDArray[np.int32] | None = None) -> None:
        self._interests = interests
        self._by_topic = interests.transposed
        self._pair = np.argsort(interests.columns, kind="stable")  # the order in which `transposed` lists the pairs
        self._seed = seed
        count = interests.row_count
        self._web = _web(count, 6 * interests.pair_count + 1)
        self._cover = np.zeros(interests.pair_count, np.int32)
        self._group = np.arange(interests.pair_count, dtype=np.int64)
        self._parts = self._by_topic.lengths.copy()
        self._leaf = np.full(interests.pair_count, -1, np.int64)
        self._cut = np.zeros(interests.pair_count + 1, np.int32)
        self._board = spidercast_greedy.Board(
            np.zeros(count, np.int32),
            np.zeros(count, np.int64),
            np.zeros(count, np.int32),
            np.zeros(count, np.int64),
            np.zeros(1, np.int64),
        )
        self._draw = np.random.default_rng([seed, 6]).integers(2**63, size=1, dtype=np.uint64)
        if links is not None:
            spidercast_greedy.add_links(self._needs(spidercast_greedy.COVERAGE, 0, 0), self._web, links)

    def _needs(
        self, kind: int, wanted: int, leaves: int, labels: spidercast_greedy.PartLabels = spidercast_greedy.NO_LABELS
    ) -> spidercast_greedy.Needs:
        return spidercast_greedy.Needs(
            kind,
            wanted,
            True,
            self._interests.indptr,
            self._interests.columns,
            self._by_topic.indptr,
            self._by_topic.columns,
            self._pair,
            self._cover,
            self._group,
            self._parts,
            self._leaf,
            self._cut,
            np.ones(leaves, np.uint8),
            labels,
        )

    def serve(self, wanted: int, left_share: float = 0.0) -> _Builder:
        """Until every pair is covered so often, but for this share of them, and every topic connected."""
        needs = self._needs(spidercast_greedy.COVERAGE, wanted, 0)
        enough = EVERYTHING
        if left_share > 0:
            enough = max(int((self._cover < wanted).sum()) - int(left_share * self._interests.pair_count), 0)
        if is_dense(self._interests):
            spidercast_dense.serve_dense(needs, self._web, self._interests.rows, enough, self._draw)
            return self
        if not wanted:
            labels = spidercast_greedy.labels_of(self._pair, self._group)
            needs = self._needs(spidercast_greedy.COVERAGE, wanted, 0, labels)
        spidercast_greedy.serve(needs, self._web, self._board, enough, self._draw)
        return self

    def tie_blocks(self) -> _Builder:
        """Leaf blocks of topics get a second way out, until there are none."""
        for _ in range(ROUNDS_MAX):
            if not self.serve_leaf_blocks():
                break
        return self

    def serve_leaf_blocks(self) -> bool:
        """One link for every leaf block that can have one; False if there was none to serve."""
        links = self.links()
        before = int(self._web.size[0])
        leaves = spidercast_blocks.leaf_blocks(
            self._by_topic.indptr,
            self._by_topic.columns,
            self._pair,
            links.indptr,
            links.columns,
            self._leaf,
            self._cut,
        )
        needs = self._needs(spidercast_greedy.BLOCKS, 0, leaves)
        if leaves:
            spidercast_greedy.serve(needs, self._web, self._board, EVERYTHING, self._draw)
        self._leaf[:] = -1
        return bool(self._web.size[0] > before)

    def prune(self, wanted: int) -> _Builder:
        """A new builder without the links that coverage does not need, those that share fewest topics gone first."""
        needs = self._needs(spidercast_greedy.COVERAGE, wanted, 0)
        ends = self._ends()
        shared = _shared_counts(self._interests, ends)
        order = np.argsort(shared, kind="stable")
        keep = spidercast_greedy.prune(needs, ends[:, 0].copy(), ends[:, 1].copy(), order)
        return _Builder(self._interests, self._seed + 1, ends[keep.astype(bool)])

    def _ends(self) -> NDArray[np.int32]:
        return self._web.end[: 2 * self._web.size[0]].reshape(-1, 2)[:, ::-1]

    def links(self) -> Relation:
        ends = self._ends()
        count = self._interests.row_count
        both = np.concatenate([ends, ends[:, ::-1]])
        return Relation.from_pairs(both[:, 0], both[:, 1], count, count)


def _web(node_count: int, link_room: int) -> spidercast_greedy.Web:
    return spidercast_greedy.Web(
        np.full(node_count, -1, np.int64),
        np.zeros(2 * link_room, np.int64),
        np.zeros(2 * link_room, np.int32),
        np.zeros(1, np.int64),
    )


def _shared_counts(interests: Relation, ends: NDArray[np.int32]) -> NDArray[np.int64]:
    """Topics both ends of each link want."""
    rows = np.repeat(np.arange(len(ends)), interests.lengths[ends[:, 0]])
    lengths = interests.lengths[ends[:, 0]]
    first = np.repeat(interests.indptr[ends[:, 0]], lengths)
    offset = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    topics = interests.columns[first + offset].astype(np.int64)
    wanted = interests.rows.astype(np.int64) * interests.column_count + interests.columns
    asked = ends[:, 1][rows].astype(np.int64) * interests.column_count + topics
    at = np.minimum(np.searchsorted(wanted, asked), max(len(wanted) - 1, 0))
    return np.bincount(rows[wanted[at] == asked], minlength=len(ends)) if len(wanted) else np.zeros(len(ends), np.int64)
