"""The journal that live nodes write, as a Spark data source for batch and stream (format: docs/JOURNAL.md).

How it works: a position is (segment, byte) per node and always stands after a newline, so a line that is still being
written is not there yet. A segment is closed as soon as its node has begun a later one; a closed segment that ends
without a newline was torn by a crash, and its last line comes out as `malformed`. Positions and files alone decide what
a batch holds: reading it again after a restart gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from coterie.errors import InputError
from coterie.pipeline.logfiles import last_line_end
from coterie.pipeline.readlimits import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from coterie.pipeline.schemas import TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "coterie_journal"
SUFFIX = ".jsonl"
MALFORMED = "malformed"
BATCH_BYTES_MAX = 256 << 20  # of one micro-batch, unless option max_bytes says otherwise
RANGE_BYTES = 16 << 20  # of one task
LOOK_BYTES = 1 << 16
AMOUNT_MAX = 1 << 31  # of messages and of bytes in one line, so that their product stays a whole number
SCHEMA = (
    "time timestamp, node string, kind string, client string, topic string, count bigint, bytes bigint, detail string, "
    "segment string, position bigint"
)


class JournalPlace(NamedTuple):
    """Up to where one node's journal is read."""

    segment: str = ""
    byte: int = 0


class JournalRecord(msgspec.Struct):
    """One line. Fields that a later version adds are ignored."""

    t: float
    kind: str
    node: str | None = None
    client: str | None = None
    topic: str | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=AMOUNT_MAX)] = 1
    bytes: Annotated[int, msgspec.Meta(ge=0, le=AMOUNT_MAX)] | None = None
    counters: dict[str, float] | None = None


class Range(InputPartition):
    """Whole lines of one segment: bytes start..stop."""

    def __init__(self, node: str, path: str, start: int, stop: int) -> None:
        super().__init__((node, path, start, stop))
        self.node, self.path, self.start, self.stop = node, path, start, stop


class JournalSource(DataSource):
    """`spark.read.format("coterie_journal").load(folder)`, and the same with readStream."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: object) -> JournalReader:
        return JournalReader(_root(self.options))

    def streamReader(self, schema: object) -> JournalStream:  # noqa: N802
        return JournalStream(_root(self.options), int(self.options.get("max_bytes", BATCH_BYTES_MAX)))


class JournalReader(DataSourceReader):
    """Everything that is in the journal now."""

    def __init__(self, root: str) -> None:
        self.root = root

    def partitions(self) -> Sequence[Range]:
        return ranges(self.root, {}, ends(self.root, {}, None))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return read_range(partition)


class JournalStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The journal as it grows, at most `max_bytes` in one micro-batch."""

    def __init__(self, root: str, max_bytes: int) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self.target: dict[str, JournalPlace] | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = ends(self.root, {}, None)

    def latestOffset(self, start: dict[str, str] | None = None, limit: ReadLimit | None = None) -> dict[str, str]:  # noqa: N802
        budget = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        assert budget is not None or limit is None or isinstance(limit, ReadAllAvailable)
        begun = _decode(start or {})
        reached = ends(self.root, begun, budget)
        if self.target is not None:
            # A node that appeared later has no target: it waits for the next run.
            reached = {node: min(place, self.target[node]) for node, place in reached.items() if node in self.target}
            reached = {node: max(place, begun.get(node, JournalPlace())) for node, place in reached.items()}
        return _encode({**begun, **reached})

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[Range]:
        return ranges(self.root, _decode(start), _decode(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return read_range(partition)


def read_journal(spark: SparkSession, root: Path) -> DataFrame:
    """One row per line of every node's journal."""
    spark.dataSource.register(JournalSource)
    return spark.read.format(FORMAT).load(str(root.resolve()))


def stream_journal(spark: SparkSession, root: Path, max_bytes: int = BATCH_BYTES_MAX) -> DataFrame:
    spark.dataSource.register(JournalSource)
    return spark.readStream.format(FORMAT).option("max_bytes", str(max_bytes)).load(str(root.resolve()))


def subscriptions_of(events: DataFrame) -> DataFrame:
    """Canonical subscriptions: one row for each stretch of time a client wanted a topic.

    Asking again while subscribed changes nothing; an end without a beginning (older segments are gone) has no `since`.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    told = events.where(sf.col("kind").isin("subscribe", "unsubscribe") & sf.col("client").isNotNull())
    history = Window.partitionBy("client", "topic").orderBy("time", "segment", "position")
    turns = told.withColumn("before", sf.lag("kind").over(history)).where("before is null or before != kind")
    turns = turns.withColumn("ended", sf.lead("time").over(history))
    opened = sf.col("kind") == "subscribe"
    return turns.where(opened | sf.col("before").isNull()).select(
        sf.col("client").alias("subscriber"),
        "topic",
        sf.when(opened, sf.col("time")).alias("since"),
        sf.when(opened, sf.col("ended")).otherwise(sf.col("time")).alias("until"),
    )


def publications_of(events: DataFrame) -> DataFrame:
    """Canonical publications: one row for each publish line, which may stand for many messages of about one size."""
    from pyspark.sql import functions as sf

    return events.where("kind = 'publish' and topic is not null").select(
        sf.col("client").alias("publisher"),
        "topic",
        "time",
        "count",
        (sf.col("bytes") * sf.col("count")).alias("bytes"),
    )


def attachments_of(events: DataFrame) -> DataFrame:
    """Canonical attachments: since when each client has been at the node where it last said something."""
    from pyspark.sql import functions as sf

    heard = events.where("client is not null and kind in ('subscribe', 'unsubscribe', 'publish', 'attach')")
    last = heard.groupBy("client", "node").agg(sf.min("time").alias("since"), sf.max("time").alias("last"))
    newest = last.groupBy("client").agg(sf.max(sf.struct("last", "node", "since")).alias("at"))
    return newest.select(
        sf.col("client").alias("subscriber"), "at.node", "at.since", sf.lit(None).cast("string").alias("zone")
    )


def ends(root: str, start: Mapping[str, JournalPlace], budget: int | None) -> dict[str, JournalPlace]:
    """How far each node can be read from `start`: whole lines, about `budget` bytes in all, every node its share."""
    nodes = _segments(root)
    share = None if budget is None else max(1, budget // max(1, len(nodes)))
    return {
        node: _end(Path(root) / node, names, start.get(node, JournalPlace()), share) for node, names in nodes.items()
    }


def ranges(root: str, start: Mapping[str, JournalPlace], end: Mapping[str, JournalPlace]) -> list[Range]:
    """Cut what lies between two positions into pieces for tasks."""
    listed = []
    for node, names in _segments(root).items():
        first, last = start.get(node, JournalPlace()), end.get(node, JournalPlace())
        for name in names:
            if not first.segment <= name <= last.segment:
                continue
            path = Path(root) / node / f"{name}{SUFFIX}"
            begin = first.byte if name == first.segment else 0
            stop = last.byte if name == last.segment else path.stat().st_size
            while begin < stop:
                cut = stop if stop - begin <= RANGE_BYTES else _after_line(path, begin + RANGE_BYTES, stop)
                listed.append(Range(node, str(path), begin, cut))
                begin = cut
    return listed


def read_range(piece: Range) -> Iterator[pa.RecordBatch]:
    """Every line of the range as one row; what is no record comes out as kind `malformed` with its text in `detail`."""
    with open(piece.path, "rb") as file:
        file.seek(piece.start)
        data = file.read(piece.stop - piece.start)
    records: list[JournalRecord] = []
    details: list[str | None] = []
    positions: list[int] = []
    position = piece.start
    for line in data.splitlines(keepends=True):
        if line.strip():
            record, detail = _record(line)
            records.append(record)
            details.append(detail)
            positions.append(position)
        position += len(line)
    segment = Path(piece.path).stem
    columns: list[Any] = [
        pa.array([round(record.t * 1e6) for record in records], pa.int64()).cast(TIME),
        pa.array([record.node or piece.node for record in records], pa.string()),
        pa.array([record.kind for record in records], pa.string()),
        pa.array([record.client for record in records], pa.string()),
        pa.array([record.topic for record in records], pa.string()),
        pa.array([record.count for record in records], pa.int64()),
        pa.array([record.bytes for record in records], pa.int64()),
        pa.array(details, pa.string()),
        pa.array([segment] * len(records), pa.string()),
        pa.array(positions, pa.int64()),
    ]
    names = [part.split()[0] for part in SCHEMA.split(", ")]
    yield from pa.Table.from_arrays(columns, names=names).to_batches(max_chunksize=100_000)


_decoder = msgspec.json.Decoder(JournalRecord)


def _record(line: bytes) -> tuple[JournalRecord, str | None]:
    try:
        record = _decoder.decode(line)
        if abs(record.t) < 2.5e11 and line.endswith(b"\n"):
            return record, None if record.counters is None else msgspec.json.encode(record.counters).decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    return JournalRecord(0.0, MALFORMED), line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")


def _root(options: Mapping[str, str]) -> str:
    root = options.get("path", "")
    if not Path(root).is_dir():
        raise InputError(root, "no such journal folder")
    return root


def _segments(root: str) -> dict[str, list[str]]:
    """Node -> names of its segments, both sorted."""
    nodes = sorted(path for path in Path(root).iterdir() if path.is_dir() and not path.name.startswith("."))
    return {node.name: sorted(path.stem for path in node.glob(f"*{SUFFIX}")) for node in nodes}


def _end(folder: Path, names: list[str], place: JournalPlace, share: int | None) -> JournalPlace:
    left = share
    for name in names:
        if name < place.segment:
            continue
        path = folder / f"{name}{SUFFIX}"
        size = path.stat().st_size
        begin = place.byte if name == place.segment else 0
        stop = size if name != names[-1] else last_line_end(path, begin, size)
        if left is not None and stop - begin > left:
            return JournalPlace(name, _after_line(path, begin + left, stop))
        place = JournalPlace(name, stop)
        left = None if left is None else left - (stop - begin)
        if left == 0:
            break
    return place


def _after_line(path: Path, position: int, stop: int) -> int:
    """The position after the line that `position` stands in (a position after a newline stays), at most stop."""
    with open(path, "rb") as file:
        at = position - 1
        file.seek(at)
        while at < stop:
            block = file.read(min(LOOK_BYTES, stop - at))
            found = block.find(b"\n")
            if found >= 0:
                return at + found + 1
            if not block:
                break
            at += len(block)
    return stop


def _encode(places: Mapping[str, JournalPlace]) -> dict[str, str]:
    return {node: f"{place.segment}:{place.byte}" for node, place in sorted(places.items())}


def _decode(offset: Mapping[str, str]) -> dict[str, JournalPlace]:
    return {node: JournalPlace(text.rpartition(":")[0], int(text.rpartition(":")[2])) for node, text in offset.items()}
