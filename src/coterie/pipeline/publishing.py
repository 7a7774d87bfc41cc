"""Who published what how often in each window, in events per second, and how large the events were."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.model import Publications
from coterie.model.workload import PAYLOAD_BYTES
from coterie.pipeline.cutting import HOUR_S, Windows
from coterie.pipeline.here import is_here
from coterie.pipeline.storage import read_rows
from coterie.pipeline.tasks import part_files
from coterie.plans.tables import OUTSIDE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, eq=False)
class WindowPublications:
    """Publications of each window, and what is worth saying about them."""

    windows: list[Publications]
    publishes: NDArray[np.bool_]  # of all clients
    unwanted_rate: float = 0.0  # events per second on topics that nobody wants
    sizes_assumed: float = 1.0  # share of the events whose size the log does not tell
    publishers_per_topic: int | None = None  # None: all are there; else the busiest so many, who carry all events
    is_rate_assumed: bool = False
    is_logged: bool = True


def count_publications(
    spark: SparkSession, tables: Path, windows: Windows, topics: pa.Array, people: pa.Array, pairs_max: int
) -> tuple[pa.Array, WindowPublications]:
    """All clients: `people`, who want something, in the order of their ids, then those who only publish."""
    if not part_files(tables / "publications"):
        return _assumed(len(topics), people, windows.count)
    found, publishers = _counted(spark, tables / "publications", windows, pairs_max)
    topic = pc.fill_null(pc.index_in(found["topic"], value_set=topics), -1).to_numpy().astype(np.int64)
    strangers = pc.unique(found["publisher"].filter(pc.invert(pc.is_in(found["publisher"], value_set=people))))
    clients = pa.concat_arrays([people, strangers.take(pc.sort_indices(strangers))])
    publisher = pc.index_in(found["publisher"], value_set=clients).to_numpy().astype(np.int64)
    window, events = found["window"].to_numpy(), found["events"].to_numpy()
    known, total = found["known"].to_numpy(), found["bytes"].to_numpy()
    sizes = np.where(known > 0, total / np.maximum(known, 1e-300), PAYLOAD_BYTES)
    is_wanted = topic >= 0
    made = []
    for number, length_s in enumerate(windows.lengths_s):
        rows = np.flatnonzero(is_wanted & (window == number))
        rows = rows[np.lexsort((publisher[rows], topic[rows]))]
        made.append(Publications.of(publisher[rows], topic[rows], events[rows] / length_s, sizes[rows]))
    span_s = sum(windows.lengths_s)
    publishes = np.bincount(publisher, minlength=len(clients)) > 0
    in_all = float(events[is_wanted].sum())
    told = float(np.where(known[is_wanted] > 0, events[is_wanted], 0.0).sum())
    return clients, WindowPublications(
        made,
        publishes,
        unwanted_rate=float(events[~is_wanted].sum()) / span_s,
        sizes_assumed=1.0 - told / in_all if in_all else 1.0,
        publishers_per_topic=publishers,
        is_rate_assumed=not windows.is_timed,
    )


def _assumed(topic_count: int, people: pa.Array, window_count: int) -> tuple[pa.Array, WindowPublications]:
    """No log of publications: an event per hour and topic, published by nobody in particular."""
    made = Publications.of(
        np.full(topic_count, len(people)), np.arange(topic_count), np.full(topic_count, 1.0 / HOUR_S)
    )
    clients = pa.concat_arrays([people, pa.array([OUTSIDE], pa.string())])
    publishes = np.arange(len(clients)) == len(people)
    return clients, WindowPublications([made] * window_count, publishes, is_rate_assumed=True, is_logged=False)


def _counted(spark: SparkSession, table: Path, windows: Windows, pairs_max: int) -> tuple[pa.Table, int | None]:
    if is_here(spark):
        here = counted_here(pa.concat_tables([read_rows(path) for path in part_files(table)]), windows)
        if len(here) <= pairs_max:
            return here, None
    counted = counted_by_window(spark.read.parquet(str(table)), windows).persist()
    try:
        kept, publishers = _bounded(counted, pairs_max)
        return kept.toArrow(), publishers
    finally:
        counted.unpersist()


def counted_here(rows: pa.Table, windows: Windows) -> pa.Table:
    """What `counted_by_window` gives, of rows in memory."""
    when = np.full(len(rows), windows.count, np.int64)  # one more than the last: without a time
    if windows.is_timed:
        at = pc.fill_null(rows["time"].cast(pa.int64()), 0).to_numpy()
        edges = np.array([round(edge_s * 1e6) for edge_s in windows.edges_s])
        inside = np.searchsorted(edges, at, side="right") - 1
        when = np.where(pc.is_valid(rows["time"]).to_numpy(), np.where(inside >= windows.count, -1, inside), when)
    table = pa.table(
        {
            "topic": rows["topic"].cast(pa.string()),
            "publisher": pc.fill_null(rows["publisher"].cast(pa.string()), OUTSIDE),
            "window": when,
            "events": rows["count"],
            "known": pc.if_else(pc.is_valid(rows["bytes"]), rows["count"], 0),
            "bytes": pc.fill_null(rows["bytes"], 0),
        }
    ).filter(pa.array(when >= 0))
    sums = [(name, "sum") for name in ("events", "known", "bytes")]
    counted = table.group_by(["topic", "publisher", "window"]).aggregate(sums)
    span_s = sum(windows.lengths_s)
    pieces = [_part(counted, pc.less(counted["window"], windows.count), None, 1.0)]
    for number, length_s in enumerate(windows.lengths_s):
        share = length_s / span_s if windows.is_timed else 1.0
        pieces.append(_part(counted, pc.equal(counted["window"], windows.count), number, share))
    spread = pa.concat_tables(pieces).group_by(["topic", "publisher", "window"]).aggregate(sums)
    return spread.rename_columns([name.removesuffix("_sum") for name in spread.column_names])


def _part(counted: pa.Table, mask: pa.Array, window: int | None, share: float) -> pa.Table:
    rows = counted.filter(mask)
    amounts = {
        name: pc.multiply(rows[f"{name}_sum"].cast(pa.float64()), share) for name in ("events", "known", "bytes")
    }
    number = rows["window"] if window is None else np.full(len(rows), window, np.int64)
    return pa.table({"topic": rows["topic"], "publisher": rows["publisher"], "window": number, **amounts})


def counted_by_window(publications: DataFrame, windows: Windows) -> DataFrame:
    """(topic, publisher, window, events, known, bytes); events without a time are spread evenly over all windows."""
    from pyspark.sql import functions as sf

    who = sf.coalesce(sf.col("publisher"), sf.lit(OUTSIDE)).alias("publisher")
    when = _window_of(windows)
    sized = sf.col("bytes").isNotNull()
    sums = (
        sf.sum("count").cast("double").alias("events"),
        sf.coalesce(sf.sum(sf.when(sized, sf.col("count"))), sf.lit(0)).cast("double").alias("known"),
        sf.coalesce(sf.sum("bytes"), sf.lit(0)).cast("double").alias("bytes"),
    )
    counted = publications.select("*", when.alias("when")).where("when is null or when >= 0")
    counted = counted.groupBy("topic", who, "when").agg(*sums)
    span_s = sum(windows.lengths_s)
    parts = [length_s / span_s if windows.is_timed else 1.0 for length_s in windows.lengths_s]
    everywhere = sf.array(*[sf.lit(number) for number in range(windows.count)])
    spread = counted.withColumn(
        "window", sf.explode(sf.when(sf.col("when").isNull(), everywhere).otherwise(sf.array(sf.col("when"))))
    )
    part = sf.when(sf.col("when").isNotNull(), 1.0).otherwise(
        sf.element_at(sf.array(*[sf.lit(one) for one in parts]), sf.col("window") + 1)
    )
    amounts = [sf.sum(sf.col(name) * part).alias(name) for name in ("events", "known", "bytes")]
    return spread.groupBy("topic", "publisher", "window").agg(*amounts)


def _window_of(windows: Windows) -> Column:
    """The number of an event's window; -1 for one outside of all, null for one without a time."""
    from pyspark.sql import functions as sf

    if not windows.is_timed:
        return sf.lit(None).cast("int")
    at = sf.unix_micros("time")
    edges = [round(edge_s * 1e6) for edge_s in windows.edges_s]
    found = sf.when(at < edges[0], -1)
    for number, edge in enumerate(edges[1:]):
        found = found.when(at < edge, number)
    return sf.when(at.isNotNull(), found.otherwise(-1))


def _bounded(counted: DataFrame, pairs_max: int) -> tuple[DataFrame, int | None]:
    """All rows if they are not too many; else those of the busiest publishers, who carry their topic's events."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    if counted.count() <= pairs_max:
        return counted, None
    of_topic = Window.partitionBy("topic", "window")
    ranked = counted.withColumn("rank", sf.row_number().over(of_topic.orderBy(sf.desc("events"), "publisher")))
    by_rank = ranked.groupBy("rank").agg(sf.count("*").alias("rows")).orderBy("rank").toArrow()
    fits = np.flatnonzero(np.cumsum(by_rank["rows"].to_numpy()) <= pairs_max)
    publishers = int(by_rank["rank"][int(fits[-1])].as_py()) if len(fits) else 1
    whole = ranked.withColumn("all", sf.sum("events").over(of_topic)).where(sf.col("rank") <= publishers)
    carried = sf.sum("events").over(of_topic)
    factor = sf.when(carried > 0, sf.col("all") / carried).otherwise(0.0)
    scaled = [(sf.col(name) * factor).alias(name) for name in ("events", "known", "bytes")]
    return whole.select("topic", "publisher", "window", *scaled), publishers
