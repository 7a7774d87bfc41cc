"""What a watch may follow: the nodes' journal, Kafka (JSON, CSV or Avro), or a table that grows; all as the same lines.

A line's place is its segment and position: file and byte in a journal, partition and offset in Kafka. Lines of a table
have no place of their own; among those of one moment the text decides. What cannot be read comes out as `malformed`
with its text in `detail`, as in a journal, and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pyspark

from coterie.errors import ConfigError, InputError
from coterie.pipeline.journal import AMOUNT_MAX, BATCH_BYTES_MAX, MALFORMED, stream_journal
from coterie.pipeline.storage import is_remote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = ("time", "node", "kind", "client", "topic", "count", "bytes")
KINDS = ("subscribe", "unsubscribe", "publish", "attach")
FORMATS = ("json", "csv", "avro")
MESSAGES_MAX = 1_000_000  # of one micro-batch
KAFKA_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
KAFKA_HELP = f"the Kafka source of your Spark version: --conf spark.jars.packages={KAFKA_PACKAGE}"


@dataclass(frozen=True)
class JournalLines:
    """The journal folder of our own nodes, or what `coterie observe` makes of other brokers' logs."""

    folder: Path
    batch_bytes: int = BATCH_BYTES_MAX

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise InputError(str(self.folder), "no such journal folder")

    def lines(self, spark: SparkSession) -> DataFrame:
        return stream_journal(spark, self.folder.resolve(), self.batch_bytes)


@dataclass(frozen=True)
class KafkaLines:
    """Topics of a Kafka cluster; `columns` says which of our names stands for which of theirs."""

    servers: str
    topics: str
    columns: Mapping[str, str] = field(default_factory=dict)
    format: str = "json"
    header: tuple[str, ...] = ()  # CSV: the names of the fields, in their order
    avro_schema: str = ""  # Avro: its schema as JSON
    options: Mapping[str, str] = field(default_factory=dict)
    batch_messages: int = MESSAGES_MAX

    def __post_init__(self) -> None:
        _check_columns(self.columns)
        if self.format not in FORMATS:
            raise ConfigError("format", self.format, f"one of {', '.join(FORMATS)}")
        if self.format == "csv" and not self.header:
            raise ConfigError("header", "", "the names of the CSV fields in their order: messages have no header line")
        if self.format == "avro" and not self.avro_schema:
            raise ConfigError("avro schema", "", "the schema of the messages as JSON")
        if not self.servers or not self.topics:
            raise ConfigError("kafka", f"kafka://{self.servers}/{self.topics}", "kafka://host:port/topic")

    def lines(self, spark: SparkSession) -> DataFrame:
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        told = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.topics,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.batch_messages),
            **self.options,
        }
        try:
            messages = spark.readStream.format("kafka").options(**told).load()
            messages.schema  # noqa: B018 -- Connect looks for the source only now
        except PySparkException as error:
            if "kafka" not in str(error).lower():
                raise
            # It is no part of Spark's own jars.
            raise ConfigError("kafka", "no source for it in this session", KAFKA_HELP) from None
        parsed = messages.select(
            self._parsed().alias("row"),
            sf.col("value").cast("string").alias("raw"),
            sf.concat_ws("-", "topic", sf.lpad(sf.col("partition").cast("string"), 9, "0")).alias("segment"),
            sf.col("offset").alias("position"),
        )
        return as_lines(parsed, self.columns)

    def _parsed(self) -> Column:
        """The message's fields as texts."""
        from pyspark.sql import functions as sf

        names = [self.columns.get(name, name) for name in COLUMNS]
        if self.format == "avro":
            from pyspark.sql.avro.functions import from_avro

            return from_avro(sf.col("value"), self.avro_schema, {"mode": "PERMISSIVE"})
        text = sf.col("value").cast("string")
        if self.format == "csv":
            return sf.from_csv(text, ", ".join(f"`{name}` string" for name in self.header), {"mode": "PERMISSIVE"})
        return sf.from_json(text, ", ".join(f"`{name}` string" for name in names), {"mode": "PERMISSIVE"})


@dataclass(frozen=True)
class TableLines:
    """A table of a catalog (catalog.schema.table), or a folder of Parquet, Delta or Iceberg, as it grows."""

    table: str
    columns: Mapping[str, str] = field(default_factory=dict)
    format: str = ""  # of a folder; a name is a table of the catalog
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_columns(self.columns)

    def lines(self, spark: SparkSession) -> DataFrame:
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        try:
            reader = spark.readStream.options(**self.options)
            if self.format:
                if self.format in ("parquet", "json", "csv", "orc"):  # their streams want to be told the columns
                    reader = reader.schema(spark.read.format(self.format).load(self.table).schema)
                rows = reader.format(self.format).load(self.table)
            else:
                rows = reader.table(self.table)
        except PySparkException as error:
            raise InputError(self.table, f"cannot be followed: {str(error).splitlines()[0]}") from None
        whole = sf.struct("*")
        text = sf.to_json(whole)
        place = [sf.lit(self.table).alias("segment"), sf.xxhash64(text).alias("position")]
        return as_lines(rows.select(whole.alias("row"), text.alias("raw"), *place), self.columns)


Lines = JournalLines | KafkaLines | TableLines


def _check_columns(columns: Mapping[str, str]) -> None:
    for name in columns:
        if name not in COLUMNS:
            raise ConfigError("--map", name, f"one of {', '.join(COLUMNS)}")


def lines_of(text: str, columns: Mapping[str, str] | None = None, format: str = "") -> Lines:
    """What a user means: a folder, kafka://host:port/topic?format=csv&header=a,b, or table:catalog.schema.name."""
    mapped = dict(columns or {})
    if text.startswith("kafka://"):
        where, _, query = text.removeprefix("kafka://").partition("?")
        servers, _, topics = where.partition("/")
        told = dict(parse_qsl(query))
        header = tuple(name for name in told.pop("header", "").split(",") if name)
        path = told.pop("schema", "")
        schema = Path(path).read_text(encoding="utf-8") if path else ""
        how = told.pop("format", "") or format or "json"
        return KafkaLines(servers, topics, mapped, how, header, schema, told)
    if text.startswith("table:"):
        return TableLines(text.removeprefix("table:"), mapped, format)
    if format or is_remote(text):
        return TableLines(text, mapped, format or "parquet")
    return JournalLines(Path(text))


# --- from anybody's rows to lines ---


def as_lines(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """(row struct, raw, segment, position) as lines; a row without a time or of no kind we know is malformed."""
    from pyspark.sql import functions as sf

    there = _fields(rows)

    def of(name: str) -> Column:
        theirs = columns.get(name, name)
        if name in columns and theirs not in there:
            raise ConfigError("--map", f"{name}={theirs}", f"one of {', '.join(sorted(there))}")
        return sf.col(f"row.`{theirs}`") if theirs in there else sf.lit(None).cast("string")

    time = moment(of("time"), there.get(columns.get("time", "time"), "string"))
    kind = sf.lower(of("kind").cast("string")) if columns.get("kind", "kind") in there else sf.lit("publish")
    count = sf.coalesce(of("count").cast("string").try_cast("bigint"), sf.lit(1))
    size = of("bytes").cast("string").try_cast("bigint")
    is_good = (
        time.isNotNull()
        & kind.isin(*KINDS)
        & count.between(1, AMOUNT_MAX)
        & sf.coalesce(size.between(0, AMOUNT_MAX), sf.lit(True))
        & of("topic").isNotNull()
    )
    good = sf.coalesce(is_good, sf.lit(False))
    return rows.select(
        sf.when(good, time).otherwise(sf.timestamp_micros(sf.lit(0))).alias("time"),
        sf.coalesce(of("node").cast("string"), sf.col("segment")).alias("node"),
        sf.when(good, kind).otherwise(MALFORMED).alias("kind"),
        sf.when(good, of("client").cast("string")).alias("client"),
        sf.when(good, of("topic").cast("string")).alias("topic"),
        sf.when(good, count).otherwise(sf.lit(1)).cast("bigint").alias("count"),
        sf.when(good, size).alias("bytes"),
        sf.when(~good, sf.col("raw")).alias("detail"),
        "segment",
        "position",
    )


def _fields(rows: DataFrame) -> dict[str, str]:
    row: Any = rows.schema["row"].dataType
    return {one.name: one.dataType.simpleString() for one in row.fields}


def moment(value: Column, kind: str) -> Column:
    """A timestamp as it is; else a number since 1970 in the unit its size tells, else a text as ISO 8601 has it."""
    from pyspark.sql import functions as sf

    if kind.startswith("timestamp"):
        return value.cast("timestamp")
    text = value.cast("string")
    number = text.try_cast("double")
    units: Sequence[tuple[float, float]] = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0))  # seconds, ms, us; else ns
    micros = number / 1e3
    for limit, factor in reversed(units):
        micros = sf.when(sf.abs(number) < limit, number * factor).otherwise(micros)
    told = sf.timestamp_micros(micros.cast("bigint"))
    return sf.when(number.isNotNull(), told).otherwise(sf.try_to_timestamp(text))
