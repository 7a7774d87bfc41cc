"""Big mosquitto logs in Spark: lines are taken apart by SQL expressions, clients' histories follow in partitions.

How it works: tasks hand over whole lines with their positions; SQL finds time, kind, client and topic of each
(`logparsing`) and the result is kept as Parquet. From there the control lines of each client go to one partition, where
the very code runs that small logs are read with (`histories`), and publications are only counted. Nothing but accounts
and what is remembered of live sessions comes to the driver.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.histories import SessionRecord, Sighting, client_history
from coterie.pipeline.logfiles import FILE_BITS, LogPiece, cut, line_blocks
from coterie.pipeline.logparsing import parsed_lines
from coterie.pipeline.logpatterns import StampShape
from coterie.pipeline.logresolving import Resolved, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECE_BYTES = 32 << 20
BLOCK_BYTES = 4 << 20
ROWS_PER_PART = 250_000
LINES_PER_SEGMENT = 150_000
LINES = "node int, order long, line string, torn boolean"
HISTORY = "node int, order long, t_us long, kind string, client string, topic string, seen string, detail string"
CARRY, BACKWARDS = "carry", "backwards"


@dataclass
class BrokerLog:
    """What there is of one broker: pieces of its log, and what was remembered of it."""

    node: str
    pieces: Sequence[LogPiece]
    block: tuple[str, str] = ("", "")
    expected: tuple[str, str] = ("", "")
    bridges: Sequence[str] = ()
    names_accepted: bool = False
    sessions: Mapping[str, SessionRecord] = field(default_factory=dict)


@dataclass
class BrokerFindings:
    """What came out for one broker: segments of its journal, the account of its lines, and what to remember."""

    files: list[Path] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    backwards: int = 0
    block: tuple[str, str] = ("", "")
    expected: tuple[str, str] = ("", "")
    bridges: list[str] = field(default_factory=list)
    names_accepted: bool = False
    sessions: dict[str, SessionRecord] = field(default_factory=dict)
    line_count: int = 0


def read_broker_logs(
    spark: SparkSession,
    logs: Sequence[BrokerLog],
    shapes: Sequence[StampShape],
    zone: str,
    out: Path,
    report: Callable[[str, float], None] = lambda stage, share: None,
) -> list[BrokerFindings]:
    """Journal segments in folders below `out`, one finding per log. Temporary files are below `out` too."""
    report("taking lines apart", 0.1)
    kept = out / "parsed"
    parsed_lines(_lines(spark, logs), shapes, zone).write.mode("overwrite").parquet(str(kept))
    report("telling who is who", 0.5)
    resolved = resolve(spark, spark.read.parquet(str(kept)), logs)
    report("following clients", 0.6)
    told = out / "told"
    _histories(spark, resolved, logs).write.mode("overwrite").parquet(str(told))
    findings = [
        BrokerFindings(
            counts=resolved.counts[index],
            examples=resolved.examples[index],
            block=resolved.blocks[index],
            expected=resolved.expected[index],
            bridges=resolved.bridges[index],
            names_accepted=resolved.names_accepted[index],
        )
        for index in range(len(logs))
    ]
    _remember(spark.read.parquet(str(told)), findings)
    report("writing the journal", 0.8)
    _write(spark, spark.read.parquet(str(told)), resolved.publications, logs, out, findings)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.rmtree(told, ignore_errors=True)
    return findings


def _lines(spark: SparkSession, logs: Sequence[BrokerLog]) -> DataFrame:
    pieces = [
        (index, piece) for index, log in enumerate(logs) for whole in log.pieces for piece in cut(whole, PIECE_BYTES)
    ]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from lines_of(*pieces[at])

    count = max(1, len(pieces))
    return spark.range(0, count, 1, count).where(f"id < {len(pieces)}").mapInArrow(read, LINES)


def lines_of(index: int, piece: LogPiece) -> Iterator[pa.RecordBatch]:
    """Lines as text columns, found by the array: no line is touched by Python."""
    is_closed = piece.stop is None  # of a file that still grows only whole lines were cut out
    for position, data, is_torn in line_blocks(piece, BLOCK_BYTES, is_closed):
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        starts = np.concatenate([[0], ends + 1])
        if not is_torn:
            starts = starts[:-1]
        text = pa.array([data.decode("utf-8", "backslashreplace")], pa.large_string())
        lines = pc.split_pattern(text, "\n").values
        lines = (lines if is_torn else lines[:-1]).cast(pa.string())
        if b"\r" in data:
            lines = pc.utf8_rtrim(lines, "\r")
        order = (piece.number << FILE_BITS) + position + starts
        columns = [
            pa.array(np.full(len(lines), index, np.int32)),
            pa.array(order.astype(np.int64)),
            lines,
            pa.array(np.full(len(lines), is_torn)),
        ]
        yield pa.RecordBatch.from_arrays(columns, ["node", "order", "line", "torn"])


def _histories(spark: SparkSession, resolved: Resolved, logs: Sequence[BrokerLog]) -> DataFrame:
    """Every client's rows to one partition, and what follows from them."""
    from pyspark.sql import functions as sf

    carried = _carried(spark, logs)
    rows = resolved.sightings.withColumn("detail", sf.lit(None).cast("string")).unionByName(carried)
    restarts, names = resolved.restarts, [log.node for log in logs]

    def follow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        listed = list(batches)
        if listed:
            yield from histories_of(pa.Table.from_batches(listed), names, restarts)

    parts = max(1, -(-resolved.sighting_count // ROWS_PER_PART))
    return rows.repartition(parts, "client").mapInArrow(follow, HISTORY)


def _carried(spark: SparkSession, logs: Sequence[BrokerLog]) -> DataFrame:
    rows = [
        (index, -1, 0, CARRY, client, "", True, msgspec.json.encode(session).decode())
        for index, log in enumerate(logs)
        for client, session in sorted(log.sessions.items())
    ]
    schema = "node int, order long, t_us long, kind string, client string, topic string, clean boolean, detail string"
    return spark.createDataFrame(rows, schema)


def histories_of(
    table: pa.Table, names: Sequence[str], restarts: Mapping[str, Sequence[tuple[int, int]]]
) -> Iterator[pa.RecordBatch]:
    """All rows of some clients -> lines of the journal, and what to remember."""
    number_of = {name: index for index, name in enumerate(names)}
    told: list[tuple[int, int, int, str, str, str, str, str | None]] = []
    table = table.sort_by("client")
    columns = [
        table[name].to_pylist() for name in ("node", "order", "t_us", "kind", "client", "topic", "clean", "detail")
    ]
    at, rows = 0, list(zip(*columns, strict=True))
    while at < len(rows):
        client, end = rows[at][4], at
        while end < len(rows) and rows[end][4] == client:
            end += 1
        mine = rows[at:end]
        at = end
        known = {names[row[0]]: msgspec.json.decode(row[7], type=SessionRecord) for row in mine if row[3] == CARRY}
        seen = [Sighting(names[row[0]], *row[1:7]) for row in mine if row[3] != CARRY]
        lines, sessions, backwards = client_history(client, seen, known, restarts)
        told += [(number_of[one.node], *one[1:], None) for one in lines]
        for node, session in sessions.items():
            kept = msgspec.json.encode(session).decode()
            told.append((number_of[node], 0, 0, CARRY, client, "", "", kept))
        told += [(number_of[node], 0, 0, BACKWARDS, client, "", "", str(count)) for node, count in backwards.items()]
    types = (pa.int32(), pa.int64(), pa.int64(), *[pa.string()] * 5)
    arrays = (
        [pa.array(column, kind) for column, kind in zip(zip(*told, strict=True), types, strict=True)] if told else []
    )
    if arrays:
        yield pa.RecordBatch.from_arrays(arrays, [part.split()[0] for part in HISTORY.split(", ")])


def _remember(told: DataFrame, findings: Sequence[BrokerFindings]) -> None:
    kept = told.where(f"kind in ('{CARRY}', '{BACKWARDS}')").select("node", "kind", "client", "detail").toArrow()
    for row in kept.to_pylist():
        finding = findings[row["node"]]
        if row["kind"] == CARRY:
            finding.sessions[row["client"]] = msgspec.json.decode(row["detail"], type=SessionRecord)
        else:
            finding.backwards += int(row["detail"])


def _write(
    spark: SparkSession,
    told: DataFrame,
    publications: DataFrame,
    logs: Sequence[BrokerLog],
    out: Path,
    findings: Sequence[BrokerFindings],
) -> None:
    """Lines by broker and time, in files of about a segment each."""
    from pyspark.sql import functions as sf

    names = sf.element_at(sf.array(*[sf.lit(log.node) for log in logs]), sf.col("node") + 1)
    shared = ((sf.col("t_us") / sf.lit(1e6)).cast("decimal(20,6)").alias("t"), names.alias("node"))
    wish = sf.to_json(sf.struct(*shared, "kind", "client", "topic", sf.expr("nullif(seen, '')").alias("seen")))
    message = sf.to_json(
        sf.struct(
            *shared, sf.lit("publish").alias("kind"), "client", "topic", sf.col("size").alias("bytes"),
            sf.expr("nullif(count, 1)").alias("count"),
        )
    )  # fmt: skip
    wishes = told.where("kind in ('subscribe', 'unsubscribe')").select("node", "t_us", "order", wish.alias("value"))
    last = sf.lit(1 << 62).alias("order")
    lines = wishes.union(publications.select("node", "t_us", last, message.alias("value"))).persist()
    counts = {row["node"]: row["count"] for row in lines.groupBy("node").count().collect()}
    parts = max(1, -(-sum(counts.values()) // LINES_PER_SEGMENT))
    ordered = lines.repartitionByRange(parts, "node", "t_us").sortWithinPartitions("node", "t_us", "order", "value")
    ordered.select("node", "value").write.mode("overwrite").partitionBy("node").text(str(out / "segments"))
    lines.unpersist()
    for index, finding in enumerate(findings):
        finding.files = sorted((out / "segments" / f"node={index}").glob("part-*"))
        finding.line_count = counts.get(index, 0)
