"""Finds subscribers with similar interests: MinHash bands, bounded buckets, exact similarity of every candidate.

How it works: a band hashes each interest to one number such that equal numbers are likely for similar interests. Rows
that agree in a band are candidates; a pair is judged in the first band that proposes it, so no pair comes out twice. In
a bucket above `bucket_max` rows only rows close to each other in (hash, row) order are paired: crowds of equal
interests cost linear, not quadratic, time and everybody in them still gets neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.arrays import grown
from coterie.kernels.interests.shared import shared
from coterie.kernels.jit import kernel
from coterie.kernels.mixing import mix

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F32 = NDArray[np.float32]


@kernel
def band_hashes(indptr: I64, columns: I32, seeds: U64, size_min: int) -> U64:
    """One number per row from len(seeds) min-hashes; 0 for rows with fewer than size_min columns. O(pairs x seeds).

    >>> same = band_hashes(np.array([0, 2, 4]), np.array([3, 7, 3, 7], np.int32), np.array([1, 2], np.uint64), 1)
    >>> bool(same[0] == same[1])
    True
    """
    hashes = np.zeros(len(indptr) - 1, np.uint64)
    for row in range(len(hashes)):
        if indptr[row + 1] - indptr[row] < size_min or indptr[row + 1] == indptr[row]:
            continue
        band = np.uint64(0)
        for seed in seeds:
            lowest = np.uint64(0xFFFFFFFFFFFFFFFF)
            for position in range(indptr[row], indptr[row + 1]):
                lowest = min(lowest, mix(np.uint64(columns[position]) ^ seed))
            band = mix(band ^ lowest) + np.uint64(1)
        hashes[row] = max(band, np.uint64(1))
    return hashes


@kernel
def jaccard(indptr: I64, columns: I32, row: int, other: int) -> float:
    """Shared columns over all columns of two rows; rows ascend. O(length of both)."""
    total = indptr[row + 1] - indptr[row] + indptr[other + 1] - indptr[other]
    common = 0
    for _ in shared(indptr, columns, row, other):
        common += 1
    return common / (total - common) if total else 0.0


@kernel
def proposed_before(hashes: U64, ranks: I32, crowded: NDArray[np.bool_], band: int, a: int, b: int, reach: int) -> bool:
    """Whether a band before `band` already paired rows a and b. Arrays are (bands, rows)."""
    for earlier in range(band):
        if hashes[earlier, a] == hashes[earlier, b] and hashes[earlier, a] != 0:
            distance = abs(ranks[earlier, a] - ranks[earlier, b])
            if distance <= reach or not crowded[earlier, a]:
                return True
    return False


@kernel
def neighbours_in_band(
    indptr: I64,
    columns: I32,
    hashes: U64,
    ranks: I32,
    crowded: NDArray[np.bool_],
    order: I32,
    band: int,
    reach: int,
    similarity_min: float,
) -> tuple[I32, I32, F32]:
    """Pairs (lower row, higher row, Jaccard similarity >= similarity_min) that this band is the first to propose.

    hashes, ranks, crowded are (bands, rows); order lists this band's hashed rows by (hash, row).
    """
    first, second, similarity = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.float32)
    found = 0
    for at in range(len(order)):
        a = order[at]
        last = at + reach if crowded[band, a] else len(order) - 1
        for next_at in range(at + 1, min(last, len(order) - 1) + 1):
            b = order[next_at]
            if hashes[band, b] != hashes[band, a]:
                break
            if proposed_before(hashes, ranks, crowded, band, a, b, reach):
                continue
            score = jaccard(indptr, columns, a, b)
            if score < similarity_min:
                continue
            if found == len(first):
                first, second, similarity = grown(first, found, 1), grown(second, found, 1), grown(similarity, found, 1)
            first[found], second[found], similarity[found] = min(a, b), max(a, b), score
            found += 1
    return first[:found], second[:found], similarity[:found]


def bucket_order(hashes: U64, bucket_max: int) -> tuple[I32, I32, NDArray[np.bool_]]:
    """(hashed rows by (hash, row), rank of every row in that order, whether a row's bucket exceeds bucket_max)."""
    rows = np.flatnonzero(hashes).astype(np.int32)
    order = rows[np.argsort(hashes[rows], kind="stable")]
    sorted_hashes = hashes[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_hashes[1:] != sorted_hashes[:-1]])[: len(order)])
    sizes = np.diff(np.append(starts, len(order)))
    ranks = np.full(len(hashes), -1, np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    crowded = np.zeros(len(hashes), np.bool_)
    crowded[order] = np.repeat(sizes > bucket_max, sizes)
    return order, ranks, crowded


def band_seeds(bands: int, rows_per_band: int, seed: int) -> U64:
    """The hash seeds of every band, shape (bands, rows_per_band)."""
    draw = np.random.default_rng(seed)
    return draw.integers(1, 2**63, size=(bands, rows_per_band), dtype=np.uint64)


def warm() -> None:
    """Compile everything for the argument types that the pipeline uses."""
    indptr, columns = np.array([0, 2, 4], np.int64), np.array([0, 1, 0, 1], np.int32)
    hashes = band_hashes(indptr, columns, np.ones(1, np.uint64), 1)
    order, ranks, crowded = bucket_order(hashes, 2)
    neighbours_in_band(indptr, columns, hashes[None], ranks[None], crowded[None], order, 0, 1, 0.0)
