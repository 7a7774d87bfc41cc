"""Spark's tables in and out: catalog.schema.table as input, bills and plans as tables that others can query.

Parquet always; Delta and Iceberg where the session has their packages. Schemas are declared, so that an empty result
has its columns too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError, InputError
from coterie.pipeline.ingest import Account, write_table
from coterie.pipeline.mapping import Source
from coterie.pipeline.schemas import SPARK_TYPES, Field, table_schema
from coterie.pipeline.storage import Folder
from coterie.pipeline.tasks import part_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TABLE = "table:"
LEDGER_SCHEMA = (
    "run string, system string, placement string, window string, column string, "
    "value double, bound double, saved double"
)
PLACEMENT_SCHEMA = "run string, client string, node int, was int"
FORMATS = {"parquet": "", "delta": "io.delta.sql.DeltaSparkSessionExtension", "iceberg": "org.apache.iceberg.spark"}


def is_table(path: str) -> bool:
    return path.startswith(TABLE)


def tables_of(source: Source) -> list[str]:
    """Names of the catalog's tables that a source reads; all of its paths or none."""
    named = [path.removeprefix(TABLE) for path in source.paths if is_table(path)]
    if named and len(named) != len(source.paths):
        raise ConfigError("input", list(source.paths), "tables of a catalog or files for one table, not both")
    return named


def read_tables(spark: SparkSession, source: Source, out: Folder) -> Account:
    """What the catalog has, as one of our canonical tables; rows that make no sense are set aside as everywhere."""
    from pyspark.errors import PySparkException

    frames = []
    for name in tables_of(source):
        try:
            frames.append(canonical_columns(spark.table(name), source))
        except PySparkException as error:
            raise InputError(name, f"cannot be read: {str(error).splitlines()[0]}") from None
    whole = frames[0]
    for other in frames[1:]:
        whole = whole.unionByName(other)
    return write_table(whole, source.table, out, keep_duplicates=source.keeps_duplicates, topics=source.topics)


def canonical_columns(frame: DataFrame, source: Source) -> DataFrame:
    """Our columns, in our kinds; a column that must be there and is not is told with those that are."""
    from pyspark.sql import functions as sf

    from coterie.pipeline.streams import moment  # loads pyspark, which who plans in memory does without

    kinds = dict(frame.dtypes)

    def of(field: Field) -> Column:
        theirs = source.column(field.name)
        if theirs not in kinds:
            if field.required:
                there = ", ".join(kinds)
                told = f"has no column {theirs} for {field.name}; its columns are {there}: name yours with --map"
                raise InputError(", ".join(source.paths), told)
            default = sf.lit(field.default) if field.default is not None else sf.lit(None)
            return default.cast(SPARK_TYPES[field.kind])
        found = sf.col(f"`{theirs}`")
        if field.kind == "time":
            return moment(found, kinds[theirs])
        if field.kind == "texts" and kinds[theirs] == "string":
            return sf.split(found, r"[\s,;]+")
        return found.try_cast(SPARK_TYPES[field.kind]) if field.kind in ("whole", "number") else found.cast("string")

    fields = table_schema(source.table).fields
    return frame.select(*[of(field).alias(field.name) for field in fields])


def versions_of(spark: SparkSession, sources: tuple[Source, ...]) -> Mapping[str, str]:
    """What tells one state of the tables from another: the files they consist of now, or Iceberg's snapshot.

    A table that shows neither is another one at every look, so that it is read again and never taken for unchanged.
    """
    return {name: _state(spark, name) for source in sources for name in tables_of(source)}


def _state(spark: SparkSession, table: str) -> str:
    from hashlib import blake2b

    from pyspark.errors import PySparkException

    files = sorted(spark.table(table).inputFiles())
    if not files:
        try:
            history = spark.table(f"{table}.snapshots").select("snapshot_id").toArrow()
            files = sorted(str(one) for one in history["snapshot_id"].to_pylist())
        except PySparkException:
            files = [str(time.time_ns())]
    return blake2b("\n".join(files).encode(), digest_size=8).hexdigest()


def save_bills(spark: SparkSession, ledgers: Folder, run: str, table: str, format: str = "parquet") -> None:
    """The bills of a run as rows of a table; those of an earlier run of the same name give way."""
    from pyspark.sql import functions as sf

    check_format(spark, format)
    rows = spark.read.parquet(str(ledgers)).select(sf.lit(run).alias("run"), "*")
    _replace(spark, rows, LEDGER_SCHEMA, run, table, format)


def save_placement(spark: SparkSession, placement: Folder, run: str, table: str, format: str = "parquet") -> None:
    """Where everybody goes, as rows of a table; `placement` is the one that a crowd's plan holds."""
    if not part_files(placement):
        raise InputError(str(placement), "holds no placement: only plans of crowds have one as a table")
    save_seats(spark, spark.read.parquet(str(placement)), run, table, format)


def save_seats(spark: SparkSession, rows: DataFrame, run: str, table: str, format: str = "parquet") -> None:
    """The same from rows of client, node and the node it was at."""
    from pyspark.sql import functions as sf

    check_format(spark, format)
    _replace(spark, rows.select(sf.lit(run).alias("run"), "*"), PLACEMENT_SCHEMA, run, table, format)


def _replace(spark: SparkSession, rows: DataFrame, schema: str, run: str, table: str, format: str) -> None:
    """One partition for each run; the table is made if there is none."""
    from pyspark.sql import functions as sf

    names = [part.split()[0] for part in schema.split(", ")]
    kinds = [part.split()[1] for part in schema.split(", ")]
    typed = rows.select(*[rows[name].cast(kind).alias(name) for name, kind in zip(names, kinds, strict=True)])
    if not spark.catalog.tableExists(table):
        typed.write.format(format).partitionBy("run").saveAsTable(table)
        return
    if format == "parquet":
        kept = dict(spark.conf.getAll).get(OVERWRITE, "static")
        spark.conf.set(OVERWRITE, "dynamic")
        try:
            ordered = typed.select(*spark.table(table).columns)
            ordered.write.insertInto(table, overwrite=True)
        finally:
            spark.conf.set(OVERWRITE, kept)
        return
    typed.writeTo(table).overwrite(sf.col("run") == sf.lit(run))  # in one step: readers see the old rows or the new


OVERWRITE = "spark.sql.sources.partitionOverwriteMode"


def check_format(spark: SparkSession, format: str) -> None:
    if format not in FORMATS:
        raise ConfigError("format", format, f"one of {', '.join(FORMATS)}")
    settings: dict[str, Any] = dict(spark.conf.getAll)
    told = " ".join(str(value) for key, value in settings.items() if key.startswith("spark.sql."))
    if FORMATS[format] and FORMATS[format] not in told:
        raise ConfigError(
            "format",
            format,
            f"parquet, or a session with {format}'s package and settings (--conf spark.jars.packages=..., "
            f"--conf spark.sql.extensions=...; its own documentation has them)",
        )
