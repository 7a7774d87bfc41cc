"""Runs a list of plain Python jobs as Spark tasks that read and write files themselves and report back a few rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import CoterieError, RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
FULL_DISK = ("No space left on device", "Disk quota exceeded")


def run_tasks(spark: SparkSession, tasks: Sequence[Task], work: Callable[[Task], pa.Table], schema: str) -> pa.Table:
    """`work` on every task, one Spark task each, results together in task order.

    `work` must give the same files and the same rows when Spark runs it twice. What it returns travels to the driver,
    so it reports, and leaves the data in files on storage that all executors share.
    """
    listed = list(tasks)
    if not listed:
        return spark.createDataFrame([], schema).toArrow()

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from work(listed[index]).to_batches()

    return spark.range(0, len(listed), 1, len(listed)).mapInArrow(each, schema).toArrow()


@contextmanager
def disk_failures(doing: str) -> Iterator[None]:
    """A disk that fills up inside a task comes back as a page of traces of two languages: say it in one sentence."""
    try:
        yield
    except CoterieError:
        raise
    except Exception as error:
        found = next((words for words in FULL_DISK if words in str(error)), None)
        if found is None:
            raise
        told = f"{doing}: a disk is full ({found}); make room there and in Spark's temporary folder, then run again"
        raise RunError(told) from None


def part_name(index: int) -> str:
    return f"part-{index:05d}.parquet"


def write_part(table: pa.Table, folder: str | Path, index: int) -> Path:
    """One Parquet file of a table that tasks write together; appears whole or not at all."""
    target = Path(folder) / part_name(index)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}-{os.getpid()}")
    pq.write_table(table, unfinished, compression="zstd", compression_level=1, dictionary_pagesize_limit=1 << 26)
    unfinished.replace(target)
    return target


def part_files(folder: str | Path) -> list[Path]:
    return sorted(Path(folder).glob("part-*.parquet"))


def save_array(array: NDArray[np.generic], folder: str | Path, name: str) -> Path:
    target = Path(folder) / f"{name}.npy"
    target.parent.mkdir(parents=True, exist_ok=True)
    np.save(target, array)
    return target


def map_array(folder: str | Path, name: str) -> NDArray[np.generic]:
    """An array file as memory that all workers of a machine share; writing into it stays private."""
    path = Path(folder) / f"{name}.npy"
    loaded = np.load(path) if path.stat().st_size < 4096 else np.load(path, mmap_mode="c")
    return np.asarray(loaded)
