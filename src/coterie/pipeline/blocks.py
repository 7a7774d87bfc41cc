"""Places millions of users at brokers as hypergraph partitioning: rounds of Spark tasks, one for each block of users.

The interests lie in files that every executor maps; a round sends the picture of all (brokers by topics, small) the
same way and brings back where a block's users went. What comes out depends on the seed alone, not on the cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels import fanout
from coterie.kernels.fanout import Crowd, Seats
from coterie.kernels.fanout_blocks import (
    BLOCK_USERS,
    SAMPLE_USERS,
    Grouped,
    Round,
    Task,
    group_block,
    move_block,
    place,
)
from coterie.model import Relation
from coterie.model.relation import Index
from coterie.pipeline.interests import SUBSCRIBERS, encode_interests, topic_names
from coterie.pipeline.tasks import map_array, part_files, run_tasks, save_array, write_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cut = tuple[int, int, int, int, int]  # of a Task, all but its arrays
Arrays = dict[str, Any]
Compute = Callable[[Task, Round, int], Arrays]
PICTURE_MAX = 1 << 29  # brokers x topics: two gigabytes for every task


@dataclass(frozen=True)
class BlockChoices:
    """How far above the mean load a broker may be, and how the work is cut; the cut shows in the result."""

    imbalance: float = 0.03
    block_users: int = BLOCK_USERS
    sample_users: int = SAMPLE_USERS
    seed: int = 1


DEFAULT_BLOCKS = BlockChoices()


@dataclass(frozen=True, eq=False)
class Placed:
    """Where everybody goes, and copies per interval between brokers (rate x (brokers touched - 1)) before and after."""

    node_of: Index
    copies_before: float
    copies: float
    imbalance: float  # of subscriptions over brokers


def can_place(broker_count: int, topic_count: int) -> bool:
    """Whether the picture that every task needs fits in memory."""
    return broker_count * topic_count <= PICTURE_MAX


def place_users(
    spark: SparkSession,
    interests: Relation,
    rates: NDArray[np.float64],
    given: Index,
    broker_count: int,
    work: Path,
    choices: BlockChoices = DEFAULT_BLOCKS,
) -> Placed:
    """`given` is where users are now: kept if it fits and nothing cheaper is found. `work` is left empty."""
    if not can_place(broker_count, interests.column_count):
        asked = f"{broker_count} x {interests.column_count}"
        raise ConfigError(
            "brokers x topics", asked, f"at most {PICTURE_MAX}: take fewer brokers or place by similarity"
        )
    largest = int(interests.lengths.max(initial=0))
    capacity = fanout.capacity_of(interests.pair_count, largest, broker_count, choices.imbalance)
    cut = (broker_count, capacity, choices.seed, choices.block_users, choices.sample_users)
    task = Task(interests.indptr, interests.columns, rates.astype(np.float64), *cut)
    for name, array in (("indptr", task.indptr), ("topics", task.topics), ("rate", task.rate)):
        save_array(array, work, name)
    found = place(task, given, OnSpark(spark, task, work, cut))
    shutil.rmtree(work, ignore_errors=True)
    crowd = fanout.crowd_of(task.indptr, task.topics)
    before = fanout.pin_counts(crowd, given.astype(np.int32), interests.column_count, broker_count)
    copies_before, copies = fanout.touched(before, task.rate), fanout.touched(found.counts, task.rate)
    return Placed(found.part, copies_before, copies, float(found.load.max() / max(found.load.mean(), 1e-9) - 1))


def place_tables(
    spark: SparkSession, tables: Path, out: Path, broker_count: int, choices: BlockChoices = DEFAULT_BLOCKS
) -> Placed:
    """Canonical tables in; `out`/placement (subscriber, node) out, one part for each part of the subscribers.

    A topic's rate is the number of its publications; without a table of them all topics weigh the same.
    """
    interests = encode_interests(spark, tables / "subscriptions", out / "interests")
    given = (np.arange(interests.row_count) % broker_count).astype(np.int32)
    rates = _event_counts(spark, tables / "publications", topic_names(out / "interests"))
    placed = place_users(spark, interests, rates, given, broker_count, out / "rounds", choices)
    save_array(placed.node_of, out, "node_of")
    parts = [(index, str(path)) for index, path in enumerate(part_files(out / "interests" / SUBSCRIBERS))]
    run_tasks(spark, parts, _writer(out), "part int")
    return placed


@dataclass(frozen=True, eq=False)
class OnSpark:
    """The blocks of a round as Spark tasks; everything but a few numbers travels in files."""

    spark: SparkSession
    task: Task
    work: Path
    cut: Cut

    def moved(self, told: Round) -> list[Index]:
        return [block["moved"] for block in self._run(told, _moved)]

    def grouped(self, told: Round) -> list[Grouped]:
        blocks = self._run(told, _grouped)
        return [Grouped(Crowd(*(block[name] for name in Crowd._fields)), block["group"]) for block in blocks]

    def _run(self, told: Round, compute: Compute) -> list[Arrays]:
        folder = self.work / f"round-{told.number:03d}"
        for name in Seats._fields:
            save_array(getattr(told.seats, name), folder, name)
        job = _block(self.work, folder, self.cut, told.number, told.smoothing, compute)
        run_tasks(self.spark, range(self.task.block_count), job, "block int")
        found = [dict(np.load(folder / f"block-{block}.npz")) for block in range(self.task.block_count)]
        shutil.rmtree(folder)
        return found


def _moved(task: Task, told: Round, block: int) -> Arrays:
    return {"moved": move_block(task, told, block)}


def _grouped(task: Task, told: Round, block: int) -> Arrays:
    crowd, group = group_block(task, told, block)
    return {**crowd._asdict(), "group": group}


def _block(
    work: Path, folder: Path, cut: Cut, number: int, smoothing: float, compute: Compute
) -> Callable[[int], pa.Table]:
    source, target = str(work), str(folder)

    def run(block: int) -> pa.Table:
        indptr: Any = map_array(source, "indptr")
        topics: Any = map_array(source, "topics")
        rate: Any = map_array(source, "rate")
        seats: list[Any] = [map_array(target, name) for name in Seats._fields]
        told = Round(number, smoothing, Seats(*seats))
        np.savez(Path(target) / f"block-{block}.npz", **compute(Task(indptr, topics, rate, *cut), told, block))
        return pa.table({"block": pa.array([block], pa.int32())})

    return run


def _event_counts(spark: SparkSession, publications: Path, topics: pa.Array) -> NDArray[np.float64]:
    from pyspark.sql import functions as sf

    if not part_files(publications):
        return np.ones(len(topics))
    rows = spark.read.parquet(str(publications)).groupBy("topic").agg(sf.sum("count").alias("events")).toArrow()
    at = pc.fill_null(pc.index_in(rows["topic"], value_set=topics), -1).to_numpy()
    counts = np.zeros(len(topics))
    counts[at[at >= 0]] = rows["events"].to_numpy()[at >= 0]
    return counts


def _writer(out: Path) -> Callable[[tuple[int, str]], pa.Table]:
    target = str(out)

    def run(task: tuple[int, str]) -> pa.Table:
        index, path = task
        people = pq.read_table(path, columns=["subscriber_id", "subscriber"])
        node_of = np.asarray(map_array(target, "node_of"))[people["subscriber_id"].to_numpy()]
        nodes = pa.array(node_of, pa.int32())
        write_part(pa.table({"subscriber": people["subscriber"], "node": nodes}), Path(target) / "placement", index)
        return pa.table({"part": pa.array([index], pa.int32())})

    return run
