"""Sums over keys that many tasks make together: each writes what it found cut by ranges of keys, others add the ranges.

Everything is a few arrays in a file, so it works wherever files do, and neither the driver nor a shuffle sees rows.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.pipeline.storage import Folder, whole_file, write_whole

RANGES = 8  # at least; half as many as there are writers, so that what a reader gathers stays as large as it is
I64 = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]


def save_arrays(path: Folder, arrays: Mapping[str, NDArray[Any]]) -> None:
    data = io.BytesIO()
    np.savez(data, **dict[str, Any](arrays))
    write_whole(path, data.getbuffer())


def load_arrays(path: Folder) -> Arrays:
    with np.load(path if isinstance(path, Path) else whole_file(path)) as saved:
        return {name: saved[name] for name in saved.files}


def ranges_of(writers: int) -> int:
    return max(RANGES, writers // 2)


def range_start(width: int, ranges: int, number: int) -> int:
    """The first key of a range, of keys below `width`."""
    return -(-width * number // ranges)


def scatter(folder: Folder, index: int, width: int, ranges: int, key: I64, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write ascending keys (below `width`) and what belongs to them, one file for each range that has some."""
    cuts = np.searchsorted(key, [range_start(width, ranges, number) for number in range(ranges + 1)])
    for number, (low, high) in enumerate(pairwise(cuts)):
        if low < high:
            arrays = {"key": key[low:high], **{name: column[low:high] for name, column in columns.items()}}
            save_arrays(folder / f"{number}-{index:05d}.npz", arrays)


def gather(folder: Folder, number: int, names: tuple[str, ...]) -> Arrays:
    """Everything that was written into one range, in the order of the writers."""
    paths: list[Any] = sorted(folder.glob(f"{number}-*.npz"))
    found = [load_arrays(path) for path in paths]
    empty: Arrays = {"key": np.zeros(0, np.int64)}
    return {
        name: np.concatenate([one[name] for one in found]) if found else empty.get(name, np.zeros(0))
        for name in ("key", *names)
    }


def summed(key: I64, columns: Mapping[str, NDArray[Any]]) -> tuple[I64, Arrays]:
    """Ascending distinct keys, and the sums of what belongs to each."""
    if not len(key):
        return key, dict(columns)
    order = np.argsort(key, kind="stable")
    ascending = key[order]
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    return ascending[first], {name: np.add.reduceat(column[order], first) for name, column in columns.items()}
