"""Derives subscriptions and publications from tables that imply them: positions on a grid, documents met by filters."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.kernels.interests import cosubscription, filtermatch
from coterie.model.relation import Relation
from coterie.pipeline.ingest import Account, write_table
from coterie.pipeline.stays import sorted_distinct
from coterie.pipeline.storage import Folder, read_rows, remove_all, write_rows
from coterie.pipeline.tasks import map_array, part_files, part_name, run_tasks, save_array

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Accounts = dict[str, Account]
RANGES = 8  # of the documents, so that few filters are several tasks and many matches fit into memory


def derive(spark: SparkSession, tables: Folder, cell_degrees: float) -> Accounts:
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


def from_positions(spark: SparkSession, tables: Folder, cell_degrees: float, shift_s: int = 0) -> Accounts:
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


def from_documents(spark: SparkSession, tables: Folder) -> Accounts:
    """Every document is a topic; a subscriber wants it if one of its filters finds all its keywords there.

    Documents are as many as topics, and every task maps them; filters, of which there may be more, stay in their parts.
    """
    from pyspark.sql import functions as sf

    work = tables / "matches"
    lengths = _number_documents(tables, work)
    parts = part_files(tables / "filters")
    ranges = cosubscription.ranges_of_equal_work(lengths, RANGES)
    jobs = [(path, start, stop) for path in parts for start, stop in ranges]
    found = run_tasks(spark, list(enumerate(jobs)), _matcher(work), "rows long")
    if not sum(found["rows"].to_pylist()):
        raise InputError(str(tables.name), "no filter matches any document: do both use the same words?")
    never = sf.lit(None).cast("timestamp")
    wanted = spark.read.parquet(str(work / "found")).withColumn("since", never).withColumn("until", never)
    accounts = {"subscriptions": write_table(wanted, "subscriptions", tables)}
    remove_all(work)
    if part_files(tables / "publications"):
        return accounts
    written = spark.read.parquet(str(tables / "documents")).select(
        "publisher", sf.col("document").alias("topic"), "time"
    )
    return accounts | {"publications": _write_events(written, tables)}


def _number_documents(tables: Folder, work: Folder) -> NDArray[np.int64]:
    """Leave documents as numbers of their words, and both names; how many words each has."""
    rows = pa.concat_tables([read_rows(path, ["document", "keywords"]) for path in part_files(tables / "documents")])
    keywords = rows["keywords"].combine_chunks()
    words = pc.unique(pc.list_flatten(keywords))
    documents = _coded(keywords, words)[0]
    save_array(documents.indptr, work, "indptr")
    save_array(documents.columns, work, "columns")
    write_rows(pa.table({"word": words}), work / "words.parquet")
    write_rows(pa.table({"document": rows["document"].cast(pa.string())}), work / "names.parquet")
    return documents.lengths


def _coded(lists: pa.Array, words: pa.Array) -> tuple[Relation, NDArray[np.bool_]]:
    """Lists of words as numbers, and which of them have no word that is not among `words`."""
    row = pc.list_parent_indices(lists).to_numpy()
    code = pc.fill_null(pc.index_in(pc.list_flatten(lists), value_set=words), -1).to_numpy()
    is_known = np.bincount(row[code < 0], minlength=len(lists)) == 0
    return Relation.from_pairs(row[code >= 0], code[code >= 0], len(lists), len(words)), is_known


def _matcher(work: Folder) -> Callable[[tuple[int, tuple[Folder, int, int]]], pa.Table]:
    """A part of the filters, which has all that a subscriber says, against a range of the documents."""

    def run(job: tuple[int, tuple[Folder, int, int]]) -> pa.Table:
        index, (path, start, stop) = job
        words, names = (read_rows(work / f"{one}.parquet").column(0).combine_chunks() for one in ("words", "names"))
        indptr, columns = np.asarray(map_array(work, "indptr")), np.asarray(map_array(work, "columns"))
        rows = read_rows(path, ["subscriber", "keywords"])
        filters, is_known = _coded(rows["keywords"].combine_chunks(), words)
        who = rows["subscriber"].combine_chunks().dictionary_encode()
        by_word, sizes = filters.transposed, np.where(is_known, filters.lengths, -1)  # no document has so many
        document, matched = filtermatch.match_filters(
            indptr, columns, by_word.indptr, by_word.columns, sizes, start, stop
        )
        key = sorted_distinct(who.indices.to_numpy()[matched].astype(np.int64) * len(names) + document)
        subscriber, topic = np.divmod(key, max(len(names), 1))
        found = [(subscriber, who.dictionary), (topic, names)]
        texts = [pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), values) for code, values in found]
        write_rows(pa.table(texts, ["subscriber", "topic"]), work / "found" / part_name(index))
        return pa.table({"rows": pa.array([len(key)], pa.int64())})

    return run


def _write_events(events: DataFrame, tables: Folder) -> Account:
    """Canonical publications of one event a row; equal rows are different events."""
    from pyspark.sql import functions as sf

    counted = events.withColumn("count", sf.lit(1).cast("bigint")).withColumn("bytes", sf.lit(None).cast("bigint"))
    return write_table(counted, "publications", tables, keep_duplicates=True)
