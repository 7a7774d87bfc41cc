"""Counts, exactly, how many subscribers each pair of topics shares, without ever holding the pairs that share few.

How it works: topics are taken one after the other. For a topic, every subscriber's remaining topics are added into one
dense accumulator, and only counts that reach the threshold leave it. Memory is one counter per topic and worker; the
cost is the number of (subscriber, topic, later topic) triples, whatever the skew.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.arrays import grown
from coterie.kernels.jit import kernel

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@kernel
def transpose(indptr: I64, columns: I32, column_count: int) -> tuple[I64, I32, I32]:
    """Column -> (offsets, rows, places of the column in these rows), rows ascending in each column. O(pairs).

    >>> t_indptr, rows, places = transpose(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), 2)
    >>> t_indptr.tolist(), rows.tolist(), places.tolist()
    ([0, 1, 3], [0, 0, 1], [0, 1, 0])
    """
    t_indptr = np.zeros(column_count + 1, np.int64)
    for position in range(len(columns)):
        t_indptr[columns[position] + 1] += 1
    for column in range(column_count):
        t_indptr[column + 1] += t_indptr[column]
    cursor = t_indptr[:-1].copy()
    rows = np.empty(len(columns), np.int32)
    places = np.empty(len(columns), np.int32)
    for row in range(len(indptr) - 1):
        for position in range(indptr[row], indptr[row + 1]):
            at = cursor[columns[position]]
            cursor[columns[position]] += 1
            rows[at] = row
            places[at] = position - indptr[row]
    return t_indptr, rows, places


@kernel
def pair_work(indptr: I64, columns: I32, column_count: int) -> I64:
    """Increments `count_pairs` will make for each topic; used to cut topics into ranges of equal work. O(pairs)."""
    work = np.zeros(column_count, np.int64)
    for row in range(len(indptr) - 1):
        for position in range(indptr[row], indptr[row + 1]):
            work[columns[position]] += indptr[row + 1] - position - 1
    return work


@kernel
def count_pairs(
    indptr: I64,
    columns: I32,
    t_indptr: I64,
    t_rows: I32,
    t_places: I32,
    start: int,
    stop: int,
    count_min: int,
) -> tuple[I32, I32, I32]:
    """Pairs (first, second, shared subscribers) with start <= first < stop, first < second and shared >= count_min.

    Rows of `columns` ascend; the other arrays come from `transpose`. The result is sorted by (first, second).

    >>> indptr, columns = np.array([0, 2, 4]), np.array([0, 1, 0, 1], np.int32)
    >>> [found.tolist() for found in count_pairs(indptr, columns, *transpose(indptr, columns, 2), 0, 2, 2)]
    [[0], [1], [2]]
    """
    topic_count = len(t_indptr) - 1
    shared = np.zeros(topic_count, np.int32)
    touched = np.empty(topic_count, np.int32)
    first = np.empty(1024, np.int32)
    second = np.empty(1024, np.int32)
    counts = np.empty(1024, np.int32)
    found = 0
    for topic in range(start, stop):
        touched_count = 0
        for at in range(t_indptr[topic], t_indptr[topic + 1]):
            row = t_rows[at]
            for position in range(indptr[row] + t_places[at] + 1, indptr[row + 1]):
                other = columns[position]
                if shared[other] == 0:
                    touched[touched_count] = other
                    touched_count += 1
                shared[other] += 1
        kept = 0
        for at in range(touched_count):
            if shared[touched[at]] >= count_min:
                touched[kept], touched[at] = touched[at], touched[kept]
                kept += 1
        touched[:kept].sort()
        first, second, counts = grown(first, found, kept), grown(second, found, kept), grown(counts, found, kept)
        for at in range(kept):
            first[found] = topic
            second[found] = touched[at]
            counts[found] = shared[touched[at]]
            found += 1
        for at in range(touched_count):
            shared[touched[at]] = 0
    return first[:found], second[:found], counts[:found]


@kernel
def without_columns(indptr: I64, columns: I32, keep: NDArray[np.bool_]) -> tuple[I64, I32]:
    """The relation restricted to the columns marked in `keep`; column numbers stay. O(pairs)."""
    kept_indptr = np.zeros_like(indptr)
    kept = np.empty_like(columns)
    count = 0
    for row in range(len(indptr) - 1):
        for position in range(indptr[row], indptr[row + 1]):
            kept[count] = columns[position]
            count += keep[columns[position]]
        kept_indptr[row + 1] = count
    return kept_indptr, kept[:count]


def ranges_of_equal_work(work: I64, parts: int) -> list[tuple[int, int]]:
    """Cut 0..len(work) into at most `parts` contiguous ranges of about the same total work; none is empty."""
    total = np.concatenate([[0], np.cumsum(work + 1)])
    cuts = np.searchsorted(total, np.linspace(0, total[-1], parts + 1))
    cuts[0], cuts[-1] = 0, len(work)
    return [(int(a), int(b)) for a, b in pairwise(cuts) if b > a]


def warm() -> None:
    """Compile everything for the argument types that the pipeline uses."""
    indptr, columns = np.array([0, 2, 4], np.int64), np.array([0, 1, 0, 1], np.int32)
    indptr, columns = without_columns(indptr, columns, np.ones(2, np.bool_))
    pair_work(indptr, columns, 2)
    count_pairs(indptr, columns, *transpose(indptr, columns, 2), 0, 2, 1)
