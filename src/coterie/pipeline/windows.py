"""From canonical tables to two workloads over the same ids: the window to learn from, and a later one.

Time is cut where the given share of all publications has happened. A subscription belongs to a window if it was alive
in it. Data without any times is cut by chance: a tenth of the subscriptions, drawn by the seed, counts as arriving
after the learning window. Rates are what each window really showed, in events per interval; publications without a
time are spread evenly over both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import ConfigError, InputError
from coterie.model import Publications, Relation, Workload
from coterie.model.graph import BrokerGraph
from coterie.model.relation import Index
from coterie.pipeline.brokers import attach, read_brokers
from coterie.pipeline.interests import (
    ALWAYS,
    Period,
    alive_rows,
    codes_of,
    encode_interests,
    load_interests,
    subscriber_names,
    topic_names,
    used_names,
)
from coterie.pipeline.tasks import map_array, part_files, run_tasks, save_array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD_OUT = 0.1  # of untimed subscriptions
CUT_STEPS = 1000  # how finely the cut is found where rows stand for many events
HOUR_S, DAY_S = 3600.0, 86400.0
LONG_TRACE_S = 60 * DAY_S
OUTSIDE = "(outside)"  # who publishes where the log does not say


@dataclass(frozen=True)
class WindowChoices:
    """What a user may decide about the two windows."""

    learn_share: float = 0.5  # of the publications
    interval_s: float = 0.0  # what "per interval" means; 0 chooses an hour, or a day for traces of more than two months
    nodes: int = (
        0  # 0: every subscriber is a node of its own, up to PEERS_MAX; else brokers, subscribers spread by hash
    )
    publishers_per_topic: int = 4  # the busiest ones; the topic's rate is shared among them
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.learn_share < 1:
            raise ConfigError("learn_share", self.learn_share, "between 0 and 1")
        if self.interval_s < 0:
            raise ConfigError("interval_s", self.interval_s, "a positive number of seconds")
        if self.nodes < 0:
            raise ConfigError("nodes", self.nodes, "at least 1, or 0 to make every subscriber a node")
        if self.publishers_per_topic < 1:
            raise ConfigError("publishers_per_topic", self.publishers_per_topic, "at least 1")


DEFAULT_WINDOWS = WindowChoices()
PEERS_MAX = 20_000
BROKERS = 100


@dataclass(frozen=True)
class Windows:
    """Where the two windows lie, in seconds since 1970; equal bounds mean that the data has no times."""

    start_s: float
    cut_s: float
    end_s: float
    interval_s: float

    @property
    def is_timed(self) -> bool:
        return self.end_s > self.start_s


def cut_windows(spark: SparkSession, tables: Path, choices: WindowChoices) -> Windows:
    """Look at the times in the tables and decide where to cut."""
    from pyspark.sql import functions as sf

    for table, column in (("publications", "time"), ("subscriptions", "since")):
        if not part_files(tables / table):
            continue
        weight = sf.col("count") if table == "publications" else sf.lit(1)
        times = (
            spark.read.parquet(str(tables / table))
            .where(f"{column} is not null")
            .select((sf.unix_micros(column) / 1e6).alias("s"), weight.cast("long").alias("events"))
        )
        low, cut, high = _low_cut_high(times, choices.learn_share)
        if low is not None and high > low:
            end_s = high + 1.0
            interval_s = choices.interval_s or (DAY_S if end_s - low > LONG_TRACE_S else HOUR_S)
            return Windows(low, min(max(cut, low + 1e-6), high), end_s, interval_s)
    return Windows(0.0, 0.0, 0.0, choices.interval_s or HOUR_S)


def _low_cut_high(times: DataFrame, share: float) -> tuple[Any, Any, Any]:
    """First time, the time before which `share` of the events lie, last time; nothing where there are no rows."""
    from pyspark.sql import functions as sf

    grid = np.linspace(0.0, 1.0, CUT_STEPS + 1).tolist()
    found = times.agg(
        sf.min("s"),
        sf.max("s"),
        sf.percentile_approx("s", [share, *grid], 10_000),
        sf.count("s") == sf.sum("events"),
    )
    low, high, quantiles, is_row_an_event = (column[0].as_py() for column in found.toArrow().columns)
    if low is None or is_row_an_event:
        return low, quantiles and quantiles[0], high
    # Rows stand for different numbers of events: count those between the quantiles of the rows.
    edges = np.array(sorted(set(quantiles)))

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bucket = np.searchsorted(edges, batch["s"].to_numpy(), side="right")
            events = np.bincount(bucket, batch["events"].to_numpy(), len(edges) + 1).astype(np.int64)
            yield pa.RecordBatch.from_arrays([pa.array(np.arange(len(events))), pa.array(events)], ["bucket", "events"])

    counted = times.mapInArrow(count, "bucket long, events long").groupBy("bucket").agg(sf.sum("events").alias("n"))
    events = np.zeros(len(edges) + 1)
    table = counted.toArrow()
    events[table["bucket"].to_numpy()] = table["n"].to_numpy()
    before = np.cumsum(events)  # before[i]: events earlier than edges[i]
    return low, float(edges[np.argmin(np.abs(before[: len(edges)] - share * before[-1]))]), high


def build_workloads(
    spark: SparkSession, tables: Path, out: Path, name: str, choices: WindowChoices
) -> tuple[Workload, Workload, dict[str, object]]:
    """The learning and the later workload, and what is worth saying about them."""
    if not part_files(tables / "subscriptions"):
        raise InputError(str(tables), "the input has no subscriptions; give a file of them or name its columns")
    windows = cut_windows(spark, tables, choices)
    everything = encode_interests(spark, tables / "subscriptions", out / "interests", ALWAYS)
    if everything.pair_count == 0:
        raise InputError(str(tables), "no subscription is left after the bad rows were set aside")
    learn, later, is_held_out = _interests(spark, tables / "subscriptions", out / "interests", windows, choices.seed)
    first, second, strangers, unwanted = _publications(spark, tables, out / "interests", windows, choices)
    outside = len(strangers)
    people = pa.chunked_array([*subscriber_names(out / "interests").chunks, strangers])
    network = _network(tables, people, choices)
    workloads = [
        Workload(name, _with_rows(interests, len(people)), publications, *network)
        for interests, publications in ((learn, first), (later, second))
    ]
    facts: dict[str, object] = {
        "subscribers": everything.row_count,
        "publishers_outside": outside,
        "topics": everything.column_count,
        "subscriptions": everything.pair_count,
        "learned_subscriptions": learn.pair_count,
        "later_subscriptions": later.pair_count,
        "nodes": workloads[0].node_count,
        "links": workloads[0].graph.link_count if workloads[0].graph else None,
        "interval_s": windows.interval_s,
        "is_timed": windows.is_timed,
        "is_held_out": is_held_out,
        "start_s": windows.start_s,
        "cut_s": windows.cut_s,
        "end_s": windows.end_s,
        "events_on_topics_nobody_wants": unwanted,
    }
    return workloads[0], workloads[1], facts


# --- interests ---


def _interests(
    spark: SparkSession, subscriptions: Path, encoded: Path, windows: Windows, seed: int
) -> tuple[Relation, Relation, bool]:
    """The relation of each window over the ids of all times, and whether it was cut by chance for want of times."""
    everything = load_interests(encoded)
    marks = _marks(spark, subscriptions, encoded, windows) if windows.is_timed else np.full(everything.pair_count, 3)
    if np.all(marks == 3):
        is_early = np.random.default_rng(seed).random(everything.pair_count) >= HELD_OUT
        return _subset(everything, is_early), everything, True
    return _subset(everything, (marks & 1) > 0), _subset(everything, (marks & 2) > 0), False


def _marks(spark: SparkSession, subscriptions: Path, encoded: Path, windows: Windows) -> np.ndarray:
    """For every pair of the relation a bit per window in which it was alive."""
    periods = [Period(windows.start_s, windows.cut_s), Period(windows.cut_s, windows.end_s)]
    parts = [(index, str(path)) for index, path in enumerate(part_files(subscriptions))]
    run_tasks(spark, parts, _marker(encoded, periods), "part int, pairs bigint")
    return np.concatenate([np.asarray(map_array(encoded, f"marks-{index:05d}")) for index, _ in parts])


def _marker(encoded: Path, periods: list[Period]) -> Callable[[tuple[int, str]], pa.Table]:
    """For every pair of a part, in the order of the relation, a bit per period in which it was alive."""
    target = str(encoded)

    def work(task: tuple[int, str]) -> pa.Table:
        index, path = task
        topics = topic_names(Path(target))
        everyone = alive_rows(path, ALWAYS)
        names = used_names(everyone["subscriber"])

        def keys(rows: pa.Table) -> np.ndarray:
            row, column = codes_of(rows["subscriber"], names), codes_of(rows["topic"], topics)
            key = row * len(topics) + column
            key.sort()
            return key[np.concatenate([[True], key[1:] != key[:-1]])] if len(key) else key

        all_keys = keys(everyone)
        marks = np.zeros(len(all_keys), np.uint8)
        for bit, period in enumerate(periods):
            marks[np.searchsorted(all_keys, keys(alive_rows(path, period)))] |= 1 << bit
        save_array(marks, target, f"marks-{index:05d}")
        return pa.table({"part": pa.array([index], pa.int32()), "pairs": pa.array([len(marks)], pa.int64())})

    return work


def _subset(relation: Relation, keep: np.ndarray) -> Relation:
    kept = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)
    return Relation(kept[relation.indptr], relation.columns[keep], relation.column_count)


def _with_rows(relation: Relation, rows: int) -> Relation:
    """The same relation with empty rows added: publishers from outside want nothing."""
    missing = rows - relation.row_count
    indptr = np.concatenate([relation.indptr, np.full(missing, relation.indptr[-1])])
    return Relation(indptr, relation.columns, relation.column_count)


# --- nodes ---


def _network(
    tables: Path, people: pa.ChunkedArray, choices: WindowChoices
) -> tuple[Index, int, NDArray[np.float64] | None, BrokerGraph | None]:
    """Where everybody sits, the number of nodes, and where the input gives them: their places and links."""
    brokers = read_brokers(tables)
    if brokers is None:
        node_count = choices.nodes or (len(people) if len(people) <= PEERS_MAX else BROKERS)
        return _spread(len(people), node_count), node_count, None, None
    if choices.nodes not in (0, brokers.count):
        raise ConfigError("nodes", choices.nodes, f"0, because the input lists {brokers.count} nodes itself")
    seated = attach(brokers, people.combine_chunks(), tables)
    return seated, brokers.count, brokers.coordinates, brokers.graph


def _spread(people: int, node_count: int) -> Index:
    """Peers sit at themselves; else a hash of the id spreads them evenly, without regard to interest."""
    ids = np.arange(people, dtype=np.uint64)
    if node_count == people:
        return ids.astype(np.int32)
    mixed = (ids + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(33)) % np.uint64(node_count)).astype(np.int32)


# --- publications ---


def _publications(
    spark: SparkSession, tables: Path, encoded: Path, windows: Windows, choices: WindowChoices
) -> tuple[Publications, Publications, pa.Array, float]:
    """Per window the busiest publishers of each topic; who publishes from outside; events nobody wants."""
    topics, people = topic_names(encoded), subscriber_names(encoded)
    if not part_files(tables / "publications"):
        # No log of publications: one event per interval and topic, published by nobody in particular.
        rates = np.ones(len(topics))
        publications = Publications.of(np.full(len(topics), len(people)), np.arange(len(topics)), rates)
        return publications, publications, pa.array([OUTSIDE]), 0.0
    busiest = _busiest(spark.read.parquet(str(tables / "publications")), windows, choices.publishers_per_topic)
    found = busiest.toArrow()
    topic = pc.fill_null(pc.index_in(found["topic"], value_set=topics), -1).to_numpy()
    publisher, strangers = _publisher_ids(found["publisher"].combine_chunks(), people)
    late = found["is_late"].to_numpy(zero_copy_only=False)
    intervals = _interval_counts(windows)
    share = found["share"].to_numpy()
    wanted = topic >= 0
    made = []
    for is_late in (False, True):
        rows = wanted & (late == is_late)
        made.append(Publications.of(publisher[rows], topic[rows], share[rows] / intervals[is_late]))
    unwanted = float(share[~wanted].sum() / sum(intervals))
    return made[0], made[1], strangers, unwanted


def _interval_counts(windows: Windows) -> tuple[float, float]:
    if not windows.is_timed:
        return 1.0, 1.0
    lengths = windows.cut_s - windows.start_s, windows.end_s - windows.cut_s
    return max(lengths[0] / windows.interval_s, 1e-9), max(lengths[1] / windows.interval_s, 1e-9)


def _busiest(publications: DataFrame, windows: Windows, publishers: int) -> DataFrame:
    """(topic, publisher, is_late, share): the busiest publishers carry the whole topic's events between them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    early, late = _interval_counts(windows)
    is_late = sf.unix_micros("time") >= round(windows.cut_s * 1e6) if windows.is_timed else sf.lit(None).cast("boolean")
    who = sf.coalesce(sf.col("publisher"), sf.lit(OUTSIDE)).alias("publisher")
    counted = publications.groupBy("topic", who, is_late.alias("when")).agg(sf.sum("count").alias("events"))
    both, one = sf.array(sf.lit(False), sf.lit(True)), sf.array(sf.col("when"))
    whole = late + early if windows.is_timed else 1.0
    part = sf.when(sf.col("when").isNotNull(), 1.0).when(sf.col("is_late"), late / whole).otherwise(early / whole)
    counted = (
        counted.withColumn("is_late", sf.explode(sf.when(sf.col("when").isNull(), both).otherwise(one)))
        .groupBy("topic", "publisher", "is_late")
        .agg(sf.sum(sf.col("events") * part).alias("events"))
    )
    of_topic = Window.partitionBy("topic", "is_late")
    ranked = counted.withColumn(
        "rank", sf.row_number().over(of_topic.orderBy(sf.desc("events"), "publisher"))
    ).withColumn("all", sf.sum("events").over(of_topic))
    kept = ranked.where(sf.col("rank") <= publishers)
    carried = sf.sum("events").over(of_topic)
    share = sf.when(carried > 0, sf.col("events") * sf.col("all") / carried).otherwise(0.0).cast("double")
    return kept.select("topic", "publisher", "is_late", share.alias("share")).orderBy("topic", "is_late", "publisher")


def _publisher_ids(publisher: pa.Array, people: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """Ids of subscribers where the name is one; the others are numbered behind them, and named."""
    known = pc.fill_null(pc.index_in(publisher, value_set=people.combine_chunks()), -1).to_numpy().astype(np.int64)
    strangers = pc.unique(publisher.filter(pa.array(known < 0)))
    strangers = strangers.take(pc.sort_indices(strangers))
    number = pc.fill_null(pc.index_in(publisher, value_set=strangers), 0).to_numpy().astype(np.int64)
    return np.where(known >= 0, known, len(people) + number), strangers


def write_names(encoded: Path, tables: Path, out: Path) -> None:
    """The dictionaries a plan needs to be understood outside: names of topics, subscribers and listed nodes by id."""
    pq.write_table(pa.table({"topic": topic_names(encoded)}), out / "topics.parquet")
    pq.write_table(pa.table({"subscriber": subscriber_names(encoded)}), out / "subscribers.parquet")
    brokers = read_brokers(tables)
    if brokers is not None:
        pq.write_table(pa.table({"node": brokers.names}), out / "nodes.parquet")
