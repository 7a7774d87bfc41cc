"""Derives subscriptions and publications from tables that imply them: positions on a grid, documents met by filters."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.errors import InputError
from coterie.model.relation import Relation
from coterie.pipeline.ingest import Account, write_table
from coterie.pipeline.similarity import filter_matches
from coterie.pipeline.tasks import part_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Accounts = dict[str, Account]


def derive(spark: SparkSession, tables: Path, cell_degrees: float) -> Accounts:
    """Make subscriptions (and publications, if there are none) where other tables imply them."""
    if part_files(tables / "subscriptions"):
        return {}
    if part_files(tables / "positions"):
        return from_positions(spark, tables, cell_degrees)
    has_documents, has_filters = bool(part_files(tables / "documents")), bool(part_files(tables / "filters"))
    if has_documents and has_filters:
        return from_documents(spark, tables)
    if has_documents or has_filters:
        missing = "filters" if has_documents else "documents"
        raise InputError(str(tables.name), f"documents and filters go together: give {missing}=PATH as well")
    return {}


# --- positions ---


def from_positions(spark: SparkSession, tables: Path, cell_degrees: float, shift_s: int = 0) -> Accounts:
    """A user wants the grid cell where it is, from the sighting that enters to the one that leaves."""
    seen = cells(spark.read.parquet(str(tables / "positions")), cell_degrees, shift_s)
    accounts = {"subscriptions": write_table(stays(seen), "subscriptions", tables)}
    if part_files(tables / "publications"):
        return accounts
    written = seen.withColumnRenamed("subscriber", "publisher")
    return accounts | {"publications": _write_events(written, tables)}


def cells(positions: DataFrame, cell_degrees: float, shift_s: int = 0) -> DataFrame:
    """(subscriber, topic, time): the grid cell of every position, named by its south-west corner."""
    from pyspark.sql import functions as sf

    # As many decimals as the cell's edge has: fewer would give two cells one name.
    decimals = max(0, -int(Decimal(repr(float(cell_degrees))).normalize().as_tuple().exponent))

    def corner(name: str) -> Column:
        # A position on an edge must not slip into the cell before it by the last digit of a division.
        number = sf.floor(sf.col(name) / cell_degrees + 1e-9)
        return sf.format_number(number * cell_degrees, decimals)

    topic = sf.concat(sf.lit("cell/"), corner("lat"), sf.lit("/"), corner("lon"))
    moved = sf.timestamp_micros(sf.unix_micros("time") + sf.lit(shift_s * 1_000_000).cast("bigint"))
    return positions.select("subscriber", topic.alias("topic"), moved.alias("time"))


def stays(seen: DataFrame) -> DataFrame:
    """Canonical subscriptions: consecutive sightings in one topic become one stay; the last one is open."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    history = Window.partitionBy("subscriber").orderBy("time", "topic")
    entered = seen.withColumn("before", sf.lag("topic").over(history)).where("before is null or before != topic")
    return entered.select(
        "subscriber", "topic", sf.col("time").alias("since"), sf.lead("time").over(history).alias("until")
    )


# --- documents ---


def from_documents(spark: SparkSession, tables: Path) -> Accounts:
    """Every document is a topic; a subscriber wants it if one of its filters finds all its keywords there."""
    from pyspark.sql import functions as sf

    documents, filters = _column(tables, "documents"), _column(tables, "filters")
    met, wanted = _over_same_keywords(documents["keywords"].combine_chunks(), filters["keywords"].combine_chunks())
    matches = tables / ".matches"
    if filter_matches(spark, met, wanted, matches) == 0:
        raise InputError(str(tables.name), "no filter matches any document: do both use the same words?")
    pairs = spark.read.parquet(*map(str, part_files(matches)))
    named = pairs.join(_numbered(spark, documents["document"], "document", "topic"), "document").join(
        _numbered(spark, filters["subscriber"], "filter", "subscriber"), "filter"
    )
    never = sf.lit(None).cast("timestamp")
    found = named.select("subscriber", "topic").distinct().withColumn("since", never).withColumn("until", never)
    accounts = {"subscriptions": write_table(found, "subscriptions", tables)}
    shutil.rmtree(matches)
    if part_files(tables / "publications"):
        return accounts
    written = spark.read.parquet(str(tables / "documents")).select(
        "publisher", sf.col("document").alias("topic"), "time"
    )
    return accounts | {"publications": _write_events(written, tables)}


def _column(tables: Path, table: str) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in part_files(tables / table)])


def _over_same_keywords(documents: pa.Array, filters: pa.Array) -> tuple[Relation, Relation]:
    """Both as relations to the keywords of the filters; other words of the documents matter to nobody."""
    words = pc.unique(pc.list_flatten(filters))

    def relation(lists: pa.Array) -> Relation:
        row = pc.list_parent_indices(lists).to_numpy()
        code = pc.fill_null(pc.index_in(pc.list_flatten(lists), value_set=words), -1).to_numpy()
        return Relation.from_pairs(row[code >= 0], code[code >= 0], len(lists), len(words))

    return relation(documents), relation(filters)


def _numbered(spark: SparkSession, names: pa.ChunkedArray, number: str, name: str) -> DataFrame:
    return spark.createDataFrame(pa.table({number: np.arange(len(names), dtype=np.int32), name: names}))


def _write_events(events: DataFrame, tables: Path) -> Account:
    """Canonical publications of one event a row; equal rows are different events."""
    from pyspark.sql import functions as sf

    counted = events.withColumn("count", sf.lit(1).cast("bigint")).withColumn("bytes", sf.lit(None).cast("bigint"))
    return write_table(counted, "publications", tables, keep_duplicates=True)
