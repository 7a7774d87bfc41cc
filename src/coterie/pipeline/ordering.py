"""The order of a big ring by likeness, computed by all executors: the same order as on one machine, sooner.

The interests are compact, so they are not shuffled: workers map the same array files. Per sample there are two waves
of tasks: ranges of nodes look for the most similar sampled node, and runs of blocks are clustered. The driver clusters
the samples and puts the blocks together at their most similar ends.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.kernels.interests.cosubscription import ranges_of_equal_work
from coterie.kernels.rings.likeness import DEFAULT_SIZES, Likes, Sizes, likeness_order, nearest_in, order_block
from coterie.model import Relation
from coterie.model.relation import Index
from coterie.pipeline.tasks import map_array, run_tasks, save_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERED_NODES_MIN = 8000  # two blocks; below, one task is done before a wave of them has started
TASKS_MIN, NODES_PER_TASK = 16, 50_000  # in a wave
BLOCKS_FILE, ROWS_FILE, SAMPLE_FILE = "blocks", "rows", "sample"


def order_network(
    spark: SparkSession,
    interests: Relation,
    weights: NDArray[np.float64],
    scratch: Path,
    seed: int,
    sizes: Sizes = DEFAULT_SIZES,
) -> Index:
    """Nodes in ring order. `scratch`, on storage that all executors share, is gone afterwards."""
    likes = Likes.of(interests.indptr, interests.columns, weights)
    save_array(likes.indptr, scratch, "indptr")
    save_array(likes.topics, scratch, "topics")
    save_array(likes.weights, scratch, "weights")
    try:
        return likeness_order(likes, seed, sizes, SparkJobs(spark, scratch, likes, sizes, seed))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclass(frozen=True)
class SparkJobs:
    """Joins and clusters as Spark tasks."""

    spark: SparkSession
    scratch: Path
    likes: Likes
    sizes: Sizes
    seed: int

    def nearest(self, rows: Index, sample: Index) -> Index:
        save_array(rows, self.scratch, ROWS_FILE)
        save_array(sample, self.scratch, SAMPLE_FILE)
        ranges = ranges_of_equal_work(np.diff(self.likes.indptr)[rows], _tasks(len(rows)))
        return self._together(_find_nearest(self.scratch), ranges)

    def ordered(self, blocks: Sequence[Index], depth: int) -> list[Index]:
        if not blocks:
            return []
        save_array(np.concatenate(blocks), self.scratch, BLOCKS_FILE)
        ends = np.cumsum([len(block) for block in blocks])
        work = np.array([len(block) ** 2 for block in blocks], np.int64)
        bounds = np.concatenate([[0], ends])
        cuts = ranges_of_equal_work(work, _tasks(int(ends[-1])))
        runs = [bounds[first : last + 1].tolist() for first, last in cuts]
        together = self._together(_order_blocks(self.scratch, self.sizes, self.seed, depth), runs)
        return np.split(together, ends[:-1])

    def _together(self, work: Callable[[Any], pa.Table], tasks: Sequence[Any]) -> Index:
        """The numbers of all tasks in the order of the tasks."""
        found: Index = run_tasks(self.spark, tasks, work, "found int")["found"].to_numpy().astype(np.int32)
        return found


def _tasks(nodes: int) -> int:
    return max(TASKS_MIN, nodes // NODES_PER_TASK)


def _mapped(folder: str) -> Likes:
    arrays: list[Any] = [map_array(folder, name) for name in ("indptr", "topics", "weights")]
    return Likes(*arrays)


def _rows(folder: str, name: str) -> Index:
    rows: Index = map_array(folder, name).astype(np.int32, copy=False)
    return rows


def _find_nearest(scratch: Path) -> Callable[[tuple[int, int]], pa.Table]:
    folder = str(scratch)

    def work(task: tuple[int, int]) -> pa.Table:
        asked = _rows(folder, ROWS_FILE)[task[0] : task[1]]
        return _report(nearest_in(_mapped(folder), asked, _rows(folder, SAMPLE_FILE)))

    return work


def _order_blocks(scratch: Path, sizes: Sizes, seed: int, depth: int) -> Callable[[list[int]], pa.Table]:
    folder = str(scratch)

    def work(bounds: list[int]) -> pa.Table:
        likes, rows = _mapped(folder), _rows(folder, BLOCKS_FILE)
        found = [order_block(rows[low:high], likes, sizes, seed, depth) for low, high in pairwise(bounds)]
        return _report(np.concatenate(found))

    return work


def _report(found: Index) -> pa.Table:
    return pa.table({"found": pa.array(found, pa.int32())})
