"""Hypergraph placement block by block: each block of users is refined against one picture of all, then pictures merge.

The picture is `counts` int32[p, b] and `load` int64[b]: small, whatever the number of users, so it can be sent to
wherever a block lies. A round costs one pass over the blocks, in any order or at once, and one sum of their counts. No
block may use more than its part of the room left at a broker, so a round never fills a broker beyond its capacity. All
blocks follow the same picture: in a round only a share of the users may move, or all would crowd at the same places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coterie.kernels import fanout
from coterie.kernels.rings import Index, Offset

SHARE = 0.5  # of a block's users that are asked in a round
ROUNDS = ((0.9, 6), (0.7, 8), (0.5, 10), (0.3, 8), (0.1, 6), (0.0, 8))  # (smoothing, rounds)


def refine_block(
    indptr: Offset,
    topics: Index,
    part: Index,
    rate: NDArray[np.float64],
    counts: Index,
    load: NDArray[np.int64],
    capacity: int,
    blocks: int,
    smoothing: float,
    seed: int,
) -> Index:
    """The new brokers of one block's users (CSR `indptr/topics`, now at `part`); changes none of its arguments."""
    draw = np.random.default_rng(seed)
    asked = draw.permutation(len(part))[: int(np.ceil(len(part) * SHARE))].astype(np.int32)
    moved = part.astype(np.int32).copy()
    shared_load = capacity - (capacity - load) // blocks
    table = fanout.powers(smoothing)
    fanout.sweep(indptr, topics, rate, moved, counts.copy(), shared_load, capacity, table, asked)
    return moved


def refine_blocks(
    blocks: Sequence[tuple[Offset, Index, Index]],
    rate: NDArray[np.float64],
    broker_count: int,
    capacity: int,
    seed: int,
    rounds: tuple[tuple[float, int], ...] = ROUNDS,
) -> list[Index]:
    """All rounds over blocks of (indptr, topics, part), one after the other: what a cluster does side by side."""
    parts = [part for _, _, part in blocks]
    number = 0
    for smoothing, repeats in rounds:
        for _ in range(repeats):
            counts = np.zeros((len(rate), broker_count), np.int32)
            load = np.zeros(broker_count, np.int64)
            for (indptr, topics, _), part in zip(blocks, parts, strict=True):
                counts += fanout.pin_counts(indptr, topics, part, len(rate), broker_count)
                load += np.bincount(part, np.diff(indptr), broker_count).astype(np.int64)
            parts = [
                refine_block(
                    *(indptr, topics, part, rate, counts, load, capacity, len(blocks), smoothing),
                    seed=seed + 7919 * number + index,
                )
                for index, ((indptr, topics, _), part) in enumerate(zip(blocks, parts, strict=True))
            ]
            number += 1
    return parts
