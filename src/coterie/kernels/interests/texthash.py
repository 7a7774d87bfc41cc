"""Hashes whole rows, column by column, so that equal rows meet in one part whoever reads them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

U64 = NDArray[np.uint64]


@kernel
def hash_texts(offsets: NDArray[np.int32], data: NDArray[np.uint8], rows: U64) -> None:
    """Fold text i, data[offsets[i]:offsets[i + 1]], into rows[i] in place. O(bytes).

    >>> rows = np.zeros(2, np.uint64)
    >>> hash_texts(np.array([0, 1, 2], np.int32), np.array([97, 97], np.uint8), rows)
    >>> bool(rows[0] == rows[1] != 0)
    True
    """
    for row in range(len(rows)):
        value = rows[row] ^ np.uint64(0xCBF29CE484222325)
        for position in range(offsets[row], offsets[row + 1]):
            value = (value ^ np.uint64(data[position])) * np.uint64(0x100000001B3)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        rows[row] = value ^ (value >> np.uint64(31))


@kernel
def hash_numbers(numbers: U64, rows: U64) -> None:
    """Fold numbers[i] into rows[i] in place."""
    for row in range(len(rows)):
        value = (rows[row] ^ numbers[row]) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        rows[row] = value ^ (value >> np.uint64(31))


def warm() -> None:
    """Compile for the argument types that the pipeline uses."""
    rows = np.zeros(1, np.uint64)
    hash_texts(np.zeros(2, np.int32), np.zeros(1, np.uint8), rows)
    hash_numbers(rows.copy(), rows)
