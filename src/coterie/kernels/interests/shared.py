"""The topics that two nodes both want."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import generator


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
