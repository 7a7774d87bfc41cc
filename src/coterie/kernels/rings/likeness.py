"""The order of a ring by likeness: linkage of a sample, everybody to the most similar of it, linkage of each block.

How it works. All pairs are too many, so a sample is clustered first. Everybody joins the sampled node it is most
similar to; the sample's clusters that hold at most a block of nodes become blocks, and each block is clustered by
itself. Blocks keep the order of the sample's leaves, and each is turned around if its ends fit its neighbours better
that way. Whoever shares nothing with the sample waits for the next sample, drawn from those who wait. Joining and
clustering blocks are independent jobs: `Jobs` does them here, one after the other; a cluster does them side by side,
with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.interests.minhash import band_hashes
from coterie.kernels.rings.chord import Index, Offset
from coterie.kernels.rings.linkage import by_topic, distances, leaf_order, linked_pairs, nearest_rows
from coterie.kernels.rings.oscar import similarity

DEPTH_MAX = 6  # after so many samples the rest is put in order by hash alone
LEAST_WEIGHT = 1e-6  # of the heaviest topic: who wants nothing but silent topics has a place too


@dataclass(frozen=True, eq=False)
class Likes:
    """Node -> topics (ascending in each row), and what each topic weighs."""

    indptr: Offset
    topics: Index
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, indptr: Offset, topics: Index, weights: NDArray[np.float64]) -> Likes:
        """With weights that are all positive."""
        heaviest = float(weights.max(initial=0.0))
        floor = heaviest * LEAST_WEIGHT if heaviest > 0 else 1.0
        return cls(indptr, topics, np.maximum(weights, floor))


@dataclass(frozen=True)
class Sizes:
    """How many nodes are compared with each other at once: memory and time of a job grow with the square."""

    sample: int = 4000
    block: int = 4000


DEFAULT_SIZES = Sizes()


class Jobs(Protocol):
    """What may be done anywhere."""

    def nearest(self, rows: Index, sample: Index) -> Index:
        """For each row the place in the sample of the most similar one, -1 if it shares nothing with any."""

    def ordered(self, blocks: Sequence[Index], depth: int) -> list[Index]:
        """Each block in order."""


@dataclass(frozen=True)
class HereJobs:
    """One after the other."""

    likes: Likes
    sizes: Sizes
    seed: int

    def nearest(self, rows: Index, sample: Index) -> Index:
        return nearest_in(self.likes, rows, sample)

    def ordered(self, blocks: Sequence[Index], depth: int) -> list[Index]:
        return [order_block(block, self.likes, self.sizes, self.seed, depth) for block in blocks]


def likeness_order(likes: Likes, seed: int, sizes: Sizes = DEFAULT_SIZES, jobs: Jobs | None = None) -> Index:
    """All nodes in ring order; those without interests last."""
    is_interested = np.diff(likes.indptr) > 0
    rows = np.flatnonzero(is_interested).astype(np.int32)
    others = np.flatnonzero(~is_interested).astype(np.int32)
    parts = _parts(rows, likes, sizes, seed, 0, jobs or HereJobs(likes, sizes, seed))
    return np.concatenate([put_together(parts, likes), others])


def order_block(rows: Index, likes: Likes, sizes: Sizes, seed: int, depth: int) -> Index:
    """One block; a block above the size is sampled and cut again."""
    return put_together(_parts(rows, likes, sizes, seed, depth, HereJobs(likes, sizes, seed)), likes)


def nearest_in(likes: Likes, rows: Index, sample: Index) -> Index:
    found = by_topic(sample, likes.indptr, likes.topics)
    return nearest_rows(0, len(rows), sample, *found, likes.indptr, likes.topics, likes.weights, rows)


def put_together(parts: Sequence[Index], likes: Likes) -> Index:
    """The parts in their order, each turned around or not, so that neighbouring ends are as similar as can be."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return np.zeros(0, np.int32)
    worth = (0.0, 0.0)  # of everything so far with the last part as it is, or turned around
    came: list[tuple[bool, bool]] = []
    for one, other in pairwise(parts):
        plain, turned = (
            [_alike(likes, end, start) + so_far for end, so_far in ((one[-1], worth[0]), (one[0], worth[1]))]
            for start in (other[0], other[-1])
        )
        came.append((plain[1] > plain[0], turned[1] > turned[0]))
        worth = (max(plain), max(turned))
    is_turned = worth[1] > worth[0]
    turns = [is_turned]
    for choice in reversed(came):
        is_turned = choice[is_turned]
        turns.append(is_turned)
    return np.concatenate([part[::-1] if turn else part for part, turn in zip(parts, reversed(turns), strict=True)])


# --- inside ---


def _parts(rows: Index, likes: Likes, sizes: Sizes, seed: int, depth: int, jobs: Jobs) -> list[Index]:
    parts: list[Index] = []
    while len(rows) > sizes.block:
        if depth == DEPTH_MAX:
            return [*parts, *jobs.ordered(_by_hash(rows, likes, sizes.block), depth)]
        depth += 1
        sample = drawn(rows, sizes.sample, seed, depth)
        left, right, order = _linked(sample, likes)
        nearest = jobs.nearest(rows, sample)
        counts = np.bincount(nearest[nearest >= 0], minlength=len(sample))
        block = np.append(cut_clusters(left, right, order, counts, sizes.block), -1)[nearest]
        by_block = np.argsort(block, kind="stable")
        bounds = np.searchsorted(block[by_block], np.arange(block.max() + 2))
        blocks = [rows[by_block[low:high]] for low, high in pairwise(bounds)]
        parts += jobs.ordered(blocks, depth)
        rows = rows[by_block[: bounds[0]]]
    if len(rows):
        parts.append(rows[_linked(rows, likes)[2]])
    return parts


def _linked(rows: Index, likes: Likes) -> tuple[Index, Index, Index]:
    """Merges of these rows, and their places in the order of the leaves."""
    left, right = linked_pairs(distances(rows, likes.indptr, likes.topics, likes.weights))
    return left, right, leaf_order(left, right, rows, likes.indptr, likes.topics, likes.weights)


def drawn(rows: Index, size: int, seed: int, depth: int) -> Index:
    """A sample that depends on nothing but the rows, the seed and the depth; ascending."""
    mixed = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64((seed * 64 + depth) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    chosen = np.argpartition(mixed ^ (mixed >> np.uint64(31)), min(size, len(rows)) - 1)[:size]
    return np.sort(rows[chosen])


def cut_clusters(left: Index, right: Index, order: Index, counts: NDArray[np.int64], block_max: int) -> Index:
    """Sampled row -> block. Blocks are the largest clusters of at most `block_max` nodes, numbered from left to right;
    a single row with more nodes than that is a block of its own."""
    count = len(order)
    total = np.concatenate([counts, np.zeros(count - 1, np.int64)])
    for merge in range(count - 1):
        total[count + merge] = total[left[merge]] + total[right[merge]]
    label = np.full(2 * count - 1, -1, np.int64)  # the cluster that is cut off here; from the top down
    for cluster in range(2 * count - 2, -1, -1):
        if label[cluster] < 0 and (cluster < count or total[cluster] <= block_max):
            label[cluster] = cluster
        if cluster >= count and label[cluster] >= 0:
            label[left[cluster - count]] = label[right[cluster - count]] = label[cluster]
    first_rank = np.full(2 * count - 1, count, np.int64)
    np.minimum.at(first_rank, label[order], np.arange(count))
    return np.searchsorted(np.unique(first_rank[label[:count]]), first_rank[label[:count]]).astype(np.int32)


def _by_hash(rows: Index, likes: Likes, block: int) -> list[Index]:
    """Runs of rows by the lowest hash of their topics: those who share most sit together more often than not."""
    low = band_hashes(likes.indptr, likes.topics, np.ones(1, np.uint64), 1)[rows]
    ordered = rows[np.argsort(low, kind="stable")]
    return [ordered[at : at + block] for at in range(0, len(ordered), block)]


def _alike(likes: Likes, one: np.int32, other: np.int32) -> float:
    return similarity(likes.indptr, likes.topics, likes.weights, int(one), int(other))
