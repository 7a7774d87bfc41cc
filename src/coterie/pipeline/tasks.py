"""Runs a list of plain Python jobs as Spark tasks that read and write files themselves and report back a few rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.errors import CoterieError, RunError
from coterie.pipeline.storage import Folder, Remote, write_whole
from coterie.writing import replacing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Task = TypeVar("Task")
FULL_DISK = ("No space left on device", "Disk quota exceeded")


def run_tasks(spark: SparkSession, tasks: Sequence[Task], work: Callable[[Task], pa.Table], schema: str) -> pa.Table:
    """`work` on every task, one Spark task each, results together in task order.

    `work` must give the same files and the same rows when Spark runs it twice. What it returns travels to the driver,
    so it reports, and leaves the data in files on storage that all executors share.
    """
    if getattr(spark, "is_here", False) and tasks:  # see pipeline.here
        return pa.concat_tables(list(map(work, tasks)))
    return task_frame(spark, tasks, work, schema).toArrow()


def task_frame(spark: SparkSession, tasks: Sequence[Task], work: Callable[[Task], pa.Table], schema: str) -> DataFrame:
    """The same as a frame, for results that are better worked on where they are."""
    listed = list(tasks)
    if not listed:
        return spark.createDataFrame([], schema)

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from work(listed[index]).to_batches()

    return spark.range(0, len(listed), 1, len(listed)).mapInArrow(each, schema)


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


def part_files(folder: str | Folder) -> list[Any]:
    """Local ones are Paths, those in a store are Remotes; tasks take both."""
    return sorted(_place(folder).glob("part-*.parquet"))


@overload
def save_array(array: NDArray[np.generic], folder: str | Path, name: str) -> Path: ...
@overload
def save_array(array: NDArray[np.generic], folder: Folder, name: str) -> Folder: ...
def save_array(array: NDArray[np.generic], folder: str | Folder, name: str) -> Folder:
    target = _place(folder) / f"{name}.npy"
    if isinstance(target, Remote):
        data = io.BytesIO()
        np.save(data, array)
        write_whole(target, data.getvalue())
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as unfinished:
        np.save(unfinished, array)
    return target


def map_array(folder: str | Folder, name: str) -> NDArray[np.generic]:
    """An array file as memory that all workers of a machine share; writing into it stays private."""
    path = _place(folder) / f"{name}.npy"
    if isinstance(path, Remote):
        return np.asarray(np.load(io.BytesIO(path.read_bytes())))
    loaded = np.load(path) if path.stat().st_size < 4096 else np.load(path, mmap_mode="c")
    return np.asarray(loaded)


def _place(folder: str | Folder) -> Folder:
    return Path(folder) if isinstance(folder, str) else folder
