"""One portion of a micro-batch, counted where it was read: what each shard of the stream's state is told of it.

A stream cannot be grouped without state, so a portion is one task's share. Sums, the last words of clients and the
sample of publications are put together again by the shards, in whatever portions they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.clock import Heard, Span
from coterie.pipeline.features import window_index
from coterie.pipeline.filters import NO_FILTER_PATTERN, NO_TOPIC_PATTERN, SHARED
from coterie.pipeline.journal import MALFORMED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAMPLE_PER_WINDOW = 1000
CLOCK_SKEW_S = 300
PORTION_ROWS = 500_000  # counted at a time
PORTIONS = "shard int, told binary"


class LastWish(NamedTuple):
    """The last thing a client said about a topic; the first three fields are the order of lines."""

    time_us: int
    segment: str
    position: int
    node: str
    is_on: bool


class Sampled(NamedTuple):
    """A publication that was drawn; of each window those with the lowest priorities stay."""

    priority: int
    topic: str
    publisher: str | None
    node: str
    bytes: int | None

    @property
    def order(self) -> tuple[int, str, bool, str, str]:
        """As Arrow sorts: what is not known comes last."""
        return self.priority, self.topic, self.publisher is None, self.publisher or "", self.node


class Portion(msgspec.Struct, frozen=True, array_like=True):
    """For one shard; what it hears is the same for all of them."""

    heard: Heard
    events: list[tuple[int, str, int]]  # window, topic, how many
    wishes: list[tuple[int, str, str, LastWish]]  # window, client, topic
    sample: list[tuple[int, Sampled]]


def told_to_shards(lines: DataFrame, window_s: float, shards: int) -> DataFrame:
    """Lines of a stream as packed portions, one row for each task and shard."""
    from pyspark.sql import functions as sf

    is_wish = sf.col("kind").isin("subscribe", "unsubscribe")
    time_us = sf.unix_micros("time")
    # The time of the micro-batch, which Spark writes down: a batch that is repeated sees the same one.
    latest_us = sf.unix_micros(sf.current_timestamp()) + sf.lit(CLOCK_SKEW_S * 1_000_000)
    is_good = (sf.col("kind") != MALFORMED) & (time_us <= latest_us) & ~_is_faulty()
    drawn = (sf.pmod(sf.xxhash64("node", "segment", "position"), sf.lit(1 << 52)) + 1) / 2.0**52
    # A line that stands for many messages is drawn as often as they would be: the least -ln(u) / count win.
    priority = (-sf.log(drawn) / sf.col("count") * 2.0**40).cast("bigint")
    key = sf.when(is_wish, sf.xxhash64("client", "topic")).otherwise(sf.xxhash64("topic"))
    prepared = lines.select(
        "node",
        "kind",
        "client",
        "topic",
        "count",
        "bytes",
        "segment",
        "position",
        time_us.alias("time_us"),
        window_index(sf.col("time"), window_s).alias("window"),
        priority.alias("priority"),
        sf.coalesce(is_good, sf.lit(False)).alias("is_good"),
        sf.pmod(key, sf.lit(shards)).cast("int").alias("shard"),
    )

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _gathered(batches):
            told = pa.array([msgspec.msgpack.encode(one) for one in portions_of(rows, shards)], pa.binary())
            yield pa.record_batch([pa.array(range(shards), pa.int32()), told], names=["shard", "told"])

    return prepared.mapInArrow(each, PORTIONS)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.num_rows for one in held) >= PORTION_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if any(one.num_rows for one in held):
        yield pa.Table.from_batches(held)


def _is_faulty() -> Column:
    """A wish that is no MQTT filter, or an event on a name that is no MQTT topic."""
    from pyspark.sql import functions as sf

    topic, kind = sf.coalesce(sf.col("topic"), sf.lit("")), sf.col("kind")
    is_no_filter = topic.rlike(NO_FILTER_PATTERN) | (topic.startswith("$share/") & ~topic.rlike(SHARED))
    return (kind.isin("subscribe", "unsubscribe") & is_no_filter) | (
        (kind == "publish") & topic.rlike(NO_TOPIC_PATTERN)
    )


def portions_of(rows: pa.Table, shards: int) -> list[Portion]:
    """One portion for every shard, also for those that it has nothing for: they need to know how far the stream is."""
    good = rows.filter(rows["is_good"])
    has_topic = pc.is_valid(good["topic"])
    published = good.filter(pc.and_(pc.equal(good["kind"], "publish"), has_topic))
    is_wish = pc.is_in(good["kind"], value_set=pa.array(["subscribe", "unsubscribe"]))
    said = good.filter(pc.and_(is_wish, pc.and_(has_topic, pc.is_valid(good["client"]))))
    events = published.group_by(["shard", "window", "topic"]).aggregate([("count", "sum")])
    wishes, sample = _last_words(said), _lowest(published)
    heard = Heard(
        _spans(rows, good),
        pc.unique(events["window"]).to_pylist(),
        pc.unique(wishes["window"]).to_pylist(),
        len(rows),
        len(rows) - len(good),
    )
    found = [Portion(heard, [], [], []) for _ in range(shards)]
    for shard, *event in _rows(events, "shard", "window", "topic", "count_sum"):
        found[shard].events.append((event[0], event[1], event[2]))
    words_of = ("shard", "window", "client", "topic", "time_us", "segment", "position", "node", "kind")
    for shard, window, client, topic, time_us, segment, position, node, kind in _rows(wishes, *words_of):
        said = LastWish(time_us, segment, position, node, kind == "subscribe")
        found[shard].wishes.append((window, client, topic, said))
    for shard, window, *drawn in _rows(sample, "shard", "window", "priority", "topic", "client", "node", "bytes"):
        found[shard].sample.append((window, Sampled(*drawn)))
    return found


def _rows(table: pa.Table, *names: str) -> Iterator[tuple]:  # type: ignore[type-arg]
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def _spans(rows: pa.Table, good: pa.Table) -> dict[str, Span | None]:
    found: dict[str, Span | None] = dict.fromkeys(pc.unique(rows["node"]).to_pylist())
    times = good.group_by("node").aggregate([("time_us", "min"), ("time_us", "max")])
    for node, first, last in _rows(times, "node", "time_us_min", "time_us_max"):
        found[node] = Span(first, last)
    return found


def _last_words(said: pa.Table) -> pa.Table:
    """The last thing each client said about each topic in each window."""
    keys = ("window", "client", "topic")
    ordered = said.sort_by([(name, "ascending") for name in (*keys, "time_us", "segment", "position", "node", "kind")])
    if len(ordered) < 2:
        return ordered
    is_last = np.ones(len(ordered), bool)
    same = [pc.equal(ordered[name].slice(1), ordered[name].slice(0, len(ordered) - 1)).to_numpy() for name in keys]
    is_last[:-1] = ~np.logical_and.reduce(same)
    return ordered.filter(pa.array(is_last))


def _lowest(published: pa.Table) -> pa.Table:
    """Per window the publications of lowest priority number: the same ones in whatever portions they arrived."""
    keys = [(name, "ascending") for name in ("window", "priority", "topic", "client", "node")]
    ordered = published.sort_by(keys)
    window = ordered["window"].to_numpy()
    rank = np.arange(len(window)) - np.searchsorted(window, window)
    return ordered.filter(pa.array(rank < SAMPLE_PER_WINDOW))
