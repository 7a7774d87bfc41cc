"""Who published what how often, as a table beside the wishes; who only publishes is numbered behind the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from coterie.pipeline.crowds.roster import NAMES, SAID, Roster, write_by_part
from coterie.pipeline.cutting import HOUR_S
from coterie.pipeline.interests import TOPICS_FILE
from coterie.pipeline.publishing import counted_by_window
from coterie.pipeline.storage import Folder, read_rows, remove_all, write_rows
from coterie.pipeline.tasks import part_files, part_name, run_tasks
from coterie.plans.tables import OUTSIDE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLIENTS_PER_PART = 250_000
STRANGERS = "strangers"
SAID_SCHEMA = "client_id long, topic int, window int, events double, known double, bytes double"


@dataclass(frozen=True)
class Spoken:
    """What is worth saying about the publications; rates are per second."""

    publishers: int = 1
    strangers: int = 1
    unwanted_rate: float = 0.0
    sizes_assumed: float = 1.0
    is_rate_assumed: bool = True
    is_logged: bool = False


def number_publishers(spark: SparkSession, roster: Roster) -> tuple[Roster, Spoken]:
    """Write what everybody said; the roster comes back with those who want nothing."""
    if not part_files(roster.tables / "publications"):
        return _assumed(roster)
    publications = spark.read.parquet(str(roster.tables / "publications"))
    counted = counted_by_window(publications, roster.windows).persist()
    try:
        roster, strangers = _number_strangers(spark, roster, counted)
        said = _by_number(spark, roster, counted)
        _write_said(said, roster)
        return roster, _told(spark, roster, counted, strangers)
    finally:
        counted.unpersist()


def _assumed(roster: Roster) -> tuple[Roster, Spoken]:
    """No log of publications: an event per hour and topic, published by nobody in particular."""
    index, first = roster.people_parts, roster.people
    ids = pa.array([first], pa.int64())
    write_rows(
        pa.table({"client_id": ids, "client": pa.array([OUTSIDE], pa.large_string())}),
        _names(roster) / part_name(index),
    )
    lengths = np.array(roster.windows.lengths_s)
    window = np.repeat(np.arange(len(lengths), dtype=np.int32), roster.topics)
    nothing = np.zeros(len(window))
    rows = {
        "client_id": np.full(len(window), first),
        "topic": np.tile(np.arange(roster.topics, dtype=np.int32), len(lengths)),
        "window": window,
        "events": lengths[window] / HOUR_S,
        "known": nothing,
        "bytes": nothing,
    }
    write_rows(pa.table(rows), roster.folder / SAID / part_name(index))
    return replace(roster, starts=np.append(roster.starts, first + 1)), Spoken()


def _names(roster: Roster) -> Folder:
    return roster.folder / NAMES


def _number_strangers(spark: SparkSession, roster: Roster, counted: DataFrame) -> tuple[Roster, int]:
    """Those who want nothing, in the order of their names however they are cut into parts."""
    names = spark.read.parquet(str(_names(roster)))
    unknown = counted.select("publisher").distinct()
    unknown = unknown.join(names, unknown["publisher"] == names["client"], "left_anti").persist()
    try:
        count = unknown.count()
        parts = -(-count // CLIENTS_PER_PART)
        if not parts:
            return roster, 0
        work = roster.folder / STRANGERS
        ordered = unknown.repartitionByRange(parts, "publisher").sortWithinPartitions("publisher")
        told = ordered.mapInArrow(_keeper(work), "part int, clients long").toArrow().sort_by("part")
    finally:
        unknown.unpersist()
    found = np.zeros(parts, np.int64)
    found[told["part"].to_numpy()] = told["clients"].to_numpy()
    starts = roster.people + np.concatenate([[0], np.cumsum(found)])
    jobs = [(number, roster.people_parts + number, int(starts[number])) for number in range(parts)]
    run_tasks(spark, jobs, _namer(work, _names(roster)), "part int")
    remove_all(work)
    return replace(roster, starts=np.concatenate([roster.starts, starts[1:]])), count


def _keeper(work: Folder) -> Any:
    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        schema = pa.schema([("client", pa.large_string())])
        rows = [pa.RecordBatch.from_arrays([one.column(0).cast(pa.large_string())], schema=schema) for one in batches]
        write_rows(pa.Table.from_batches(rows, schema), work / part_name(context.partitionId()))
        told = {
            "part": pa.array([context.partitionId()], pa.int32()),
            "clients": pa.array([sum(map(len, rows))], pa.int64()),
        }
        yield pa.RecordBatch.from_pydict(told)

    return keep


def _namer(work: Folder, names: Folder) -> Any:
    def run(task: tuple[int, int, int]) -> pa.Table:
        number, index, first = task
        found = {path.name: path for path in part_files(work)}.get(f"part-{number:05d}.parquet")
        clients = pa.array([], pa.large_string()) if found is None else read_rows(found)["client"].combine_chunks()
        ids = pa.array(np.arange(first, first + len(clients)), pa.int64())
        write_rows(pa.table({"client_id": ids, "client": clients.cast(pa.large_string())}), names / part_name(index))
        return pa.table({"part": pa.array([index], pa.int32())})

    return run


def _by_number(spark: SparkSession, roster: Roster, counted: DataFrame) -> DataFrame:
    """(client_id, topic, window, ...) of topics that somebody wants."""
    from pyspark.sql import functions as sf

    names = spark.read.parquet(str(_names(roster)))
    wanted = counted.join(sf.broadcast(_topic_numbers(spark, roster)), "topic")
    found = wanted.join(names, wanted["publisher"] == names["client"])
    return found.select("client_id", sf.col("number").alias("topic"), "window", "events", "known", "bytes")


def _topic_numbers(spark: SparkSession, roster: Roster) -> DataFrame:
    names = read_rows(roster.folder / TOPICS_FILE, ["topic"])["topic"]
    numbers = pa.array(np.arange(len(names), dtype=np.int32))
    return spark.createDataFrame(pa.table({"topic": names, "number": numbers}))


def _write_said(said: DataFrame, roster: Roster) -> None:
    target = roster.folder / SAID

    def write(index: int, table: pa.Table) -> None:
        table = table.sort_by([("client_id", "ascending"), ("topic", "ascending"), ("window", "ascending")])
        write_rows(table, target / part_name(index))

    write_by_part(said, roster, SAID_SCHEMA, write)


def _told(spark: SparkSession, roster: Roster, counted: DataFrame, strangers: int) -> Spoken:
    from pyspark.sql import functions as sf

    known = counted.join(sf.broadcast(_topic_numbers(spark, roster)), "topic", "left")
    is_wanted, events = sf.col("number").isNotNull(), sf.col("events")
    sums = known.agg(
        sf.sum(sf.when(is_wanted, events)),
        sf.sum(sf.when(~is_wanted, events)),
        sf.sum(sf.when(is_wanted & (sf.col("known") > 0), events)),
    ).toArrow()
    in_all, unwanted, sized = (float(column[0].as_py() or 0.0) for column in sums.columns)
    return Spoken(
        counted.select("publisher").distinct().count(),
        strangers,
        unwanted / sum(roster.windows.lengths_s),
        1.0 - sized / in_all if in_all else 1.0,
        is_rate_assumed=not roster.windows.is_timed,
        is_logged=True,
    )
