"""The topics that two both want, and with whom one has any."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import generator, kernel


@generator
def shared(indptr: NDArray[np.int64], columns: NDArray[np.int32], one: int, other: int) -> Iterator[tuple[int, int]]:
    """Where the columns that two rows have in common stand in each of them; rows ascend. O(length of both)."""
    left, right = indptr[one], indptr[other]
    left_end, right_end = indptr[one + 1], indptr[other + 1]
    while left < left_end and right < right_end:
        if columns[left] < columns[right]:
            left += 1
        elif columns[left] > columns[right]:
            right += 1
        else:
            yield left, right
            left += 1
            right += 1


@kernel
def meet(
    indptr: NDArray[np.int64],
    topics: NDArray[np.int32],
    by_topic: NDArray[np.int64],
    wanting: NDArray[np.int32],
    one: int,
    met: NDArray[np.int32],
    times: NDArray[np.int32],
) -> int:
    """Who else wants what this one wants: `met` gets them, `times` (nothing before) how many topics; returns how many.

    `topics` by row, and the rows that want each of them in `wanting`. O(the sum of its topics' rows).
    """
    count = 0
    for i in range(indptr[one], indptr[one + 1]):
        for j in range(by_topic[topics[i]], by_topic[topics[i] + 1]):
            other = wanting[j]
            if other == one:
                continue
            if times[other] == 0:
                met[count] = other
                count += 1
            times[other] += 1
    return count
