"""What kernels do with plain arrays again and again: make room, find a place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

Array = NDArray[Any]


@kernel
def grown(array: Array, used: int, wanted: int) -> Array:
    """The array, or a copy at least twice as long if `wanted` more entries would not fit after the `used` ones."""
    if used + wanted <= len(array):
        return array
    longer = np.empty(max(2 * len(array), used + wanted), array.dtype)
    longer[:used] = array[:used]
    return longer


@kernel
def noted(array: Array, used: int, value: int) -> Array:
    """The array, or a longer copy, with this value behind the `used` ones."""
    array = grown(array, used, 1)
    array[used] = value
    return array


@kernel
def noted_all(array: Array, used: int, values: Array) -> Array:
    """The same with several values."""
    array = grown(array, used, len(values))
    array[used : used + len(values)] = values
    return array


@kernel
def first_not_below(ascending: Array, low: int, high: int, value: int | np.uint64) -> int:
    """The first place in [low, high) whose entry is at least the value, else `high`; log n steps.

    >>> first_not_below(np.array([1, 3, 3, 7]), 0, 4, 3), first_not_below(np.array([1, 3]), 0, 2, 9)
    (1, 2)
    """
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
