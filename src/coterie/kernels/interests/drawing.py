"""Drawing interests: distinct columns per row from a popularity, and rows per column for publishers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


@kernel
def rank_of(point: float, upto: Floats, guide: Ints) -> int:
    """The rank whose share of the cumulated popularity `upto` (ascending, last 1.0) holds `point` in [0, 1).

    `guide[g]` is the rank that holds g / len(guide), so that the walk is a step or two. Inverting the sum rather than
    using an alias table means that a last-bit difference in `upto` between machines practically never shows.
    """
    rank = int(guide[int(point * len(guide))])
    while upto[rank] <= point and rank < len(upto) - 1:
        rank += 1
    return rank


@kernel
def fill_guide(upto: Floats) -> Ints:
    """The guide of `rank_of`: one entry per rank. O(n)."""
    count = len(upto)
    guide = np.zeros(count, np.int32)
    rank = 0
    for entry in range(count):
        while upto[rank] <= entry / count and rank < count - 1:
            rank += 1
        guide[entry] = rank
    return guide


@kernel
def finish_row(
    draw: np.random.Generator, weights: Floats, row_modes: Ints, first: Longs, seen: Ints, stamp: int, left: Ints
) -> None:
    """Fill `left` from an exponential race among the columns not `seen`: the same law as going on drawing."""
    total = 0
    for mode in row_modes:
        total += first[mode + 1] - first[mode]
    keys = np.empty(total, np.float64)
    columns = np.empty(total, np.int32)
    count = 0
    for mode in row_modes:
        for column in range(first[mode], first[mode + 1]):
            if seen[column] != stamp:
                keys[count] = -np.log1p(-draw.random()) / weights[column - first[mode]]
                columns[count] = column
                count += 1
    order = np.argsort(keys[:count])
    for entry in range(len(left)):
        left[entry] = columns[order[entry]]


@kernel
def draw_in_modes(
    draw: np.random.Generator, upto: Floats, guide: Ints, weights: Floats, modes: Ints, first: Longs, indptr: Longs
) -> Ints:
    """Distinct columns for every row, each drawn by rank inside a mode drawn evenly from the row's modes.

    modes (rows, per row) int32; mode m holds columns first[m]:first[m + 1], most popular first; upto, guide, weights
    belong to the longest mode; row r gets indptr[r + 1] - indptr[r] columns, ascending, which its modes must be able to
    give. O(pairs) while popularity leaves room; a row that keeps meeting what it has is finished by a race over its
    modes.

    >>> one = np.zeros((2, 1), np.int32)
    >>> upto = np.array([0.5, 1.0])
    >>> bounds = np.array([0, 2])
    >>> args = upto, fill_guide(upto), np.ones(2), one, bounds, np.array([0, 2, 4])
    >>> draw_in_modes(np.random.default_rng(0), *args).tolist()
    [0, 1, 0, 1]
    """
    columns = np.empty(indptr[-1], np.int32)
    seen = np.full(first[-1], -1, np.int32)
    per_row = modes.shape[1]
    for row in range(len(indptr) - 1):
        at, end = indptr[row], indptr[row + 1]
        start = at
        patience = 16 * (end - start) + 64
        while at < end and patience > 0:
            patience -= 1
            mode = modes[row, 0 if per_row == 1 else int(draw.random() * per_row)]
            column = first[mode] + rank_of(draw.random(), upto, guide)
            if column < first[mode + 1] and seen[column] != row:
                seen[column] = row
                columns[at] = column
                at += 1
        if at < end:
            finish_row(draw, weights, modes[row], first, seen, row, columns[at:end])
        columns[start:end].sort()
    return columns


@kernel
def draw_rows_of_columns(
    draw: np.random.Generator, indptr: Longs, columns: Ints, column_count: int, per_column: int
) -> tuple[Ints, Longs]:
    """Up to `per_column` distinct rows of every column, evenly (a reservoir each); one pass over the pairs.

    Returns rows (column_count, per_column) int32, filled up to min(per_column, count of the column), and those counts.
    """
    chosen = np.full((column_count, per_column), -1, np.int32)
    counts = np.zeros(column_count, np.int64)
    for row in range(len(indptr) - 1):
        for at in range(indptr[row], indptr[row + 1]):
            column = columns[at]
            counts[column] += 1
            slot = counts[column] - 1
            if slot >= per_column:
                slot = int(draw.random() * counts[column])
            if slot < per_column:
                chosen[column, slot] = row
    return chosen, counts
