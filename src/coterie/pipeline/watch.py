"""Follows the nodes' journal as a stream and publishes a new plan when it pays; exactly once, whatever is killed when.

How it works: Spark's checkpoint says which lines belong to micro-batch n and repeats the batch until it is done. The
batch starts from the state after n - 1, decides for every window it closes, and ends by renaming the state after n
into place. A batch whose state is there is done and skipped; one that died before is repeated from the same state with
the same lines, and finds the plans it had already published under the same keys.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.errors import ConfigError, CoterieError, InputError, RunError
from coterie.locking import lock
from coterie.pipeline.checkpoints import Checkpoints
from coterie.pipeline.features import ALPHA, events_by_window, window_index
from coterie.pipeline.filters import NO_FILTER_PATTERN, NO_TOPIC_PATTERN, SHARED
from coterie.pipeline.journal import BATCH_BYTES_MAX, MALFORMED, publications_of
from coterie.pipeline.reconfiguration import Decision, DecisionRules, Reconfigurer
from coterie.pipeline.streams import JournalLines, Lines
from coterie.pipeline.streamstate import CHANGES, COUNTS, SAMPLE, SAMPLE_PER_WINDOW, Observed, Span, StreamState
from coterie.plans.store import PlanStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

CLOCK_SKEW_S = 300.0
RETRIES, RETRY_FIRST_S, RETRY_LAST_S = 8, 1.0, 60.0
STATE, CHECKPOINT, WORK = "state", "checkpoint", "work"


@dataclass(frozen=True)
class Watch:
    """What to follow, where to keep everything, and how time is cut."""

    journal: Path
    out: Path
    rules: DecisionRules
    window_s: float = 60.0
    alpha: float = ALPHA
    late_s: float = 10.0  # how long after its end a window waits for lines
    every_s: float = 5.0  # between two looks at the journal
    batch_bytes: int = BATCH_BYTES_MAX
    source: Lines | None = None  # instead of the journal
    retries: int = RETRIES  # in a row, before a failure that may pass is given up

    def __post_init__(self) -> None:
        if self.source is None and not self.journal.is_dir():
            raise InputError(str(self.journal), "no such journal folder")
        if self.window_s < 1e-3:
            raise ConfigError("window", self.window_s, "at least a millisecond, in seconds")
        if not 0 < self.alpha <= 1:
            raise ConfigError("alpha", self.alpha, "above 0 and at most 1")
        if self.late_s < 0:
            raise ConfigError("late", self.late_s, "0 or more seconds")
        if self.every_s <= 0:
            raise ConfigError("every", self.every_s, "a positive number of seconds")


class WatchLock:
    """One process at a time may watch with one output folder."""

    def __init__(self, spark: SparkSession, watch: Watch, tell: Callable[[Decision], None] = lambda _: None) -> None:
        self.spark = spark
        # Executors work in other folders.
        self.watch = watch = replace(watch, journal=watch.journal.resolve(), out=watch.out.resolve())
        self.tell = tell
        self.store = PlanStore(watch.out)
        self.checkpoints = Checkpoints(watch.out / STATE, watch.window_s, watch.alpha, watch.late_s)
        self._reconfigurer = Reconfigurer(spark, watch.rules, self.store, watch.out / WORK)
        self._problem: CoterieError | None = None
        self._batches = self._done = 0
        self._pause = time.sleep

    def state(self) -> StreamState | None:
        """As of the last micro-batch that is done."""
        latest = self.checkpoints.latest()
        return None if latest is None else self.checkpoints.load(latest)

    def run_once(self) -> int:
        """Take in what is in the journal now; returns the number of micro-batches that took."""
        self._batches = 0
        with self._locked():
            self._persist(is_following=False)
        return self._batches

    def run_until_idle(self) -> None:
        """Go on until a look at the journal finds nothing new."""
        while self.run_once():
            pass

    def follow(self) -> None:
        """Go on until interrupted."""
        with self._locked():
            self._persist(is_following=True)

    def _persist(self, is_following: bool) -> None:
        """Failures that may pass (a worker, a broker, a network) are tried again, later each time.

        Nothing is counted twice thereby: the stream begins again with the batch that was not done.
        """
        failed = 0
        while True:
            done = self._done
            try:
                self._await(self._start(is_following))
                return
            except RunError as error:
                failed = 1 if self._done > done else failed + 1
                if failed > self.watch.retries:
                    raise
                wait_s = min(RETRY_FIRST_S * 2 ** (failed - 1), RETRY_LAST_S)
                log.warning("%s (trying again in %g s)", error, wait_s)
                self._pause(wait_s)

    def _start(self, is_following: bool) -> StreamingQuery:
        self.state()  # wrong settings or damage are told before Spark starts anything
        source = self.watch.source or JournalLines(self.watch.journal, self.watch.batch_bytes)
        lines = source.lines(self.spark)
        writer = lines.writeStream.foreachBatch(self.take).option(
            "checkpointLocation", str(self.watch.out / CHECKPOINT)
        )
        if is_following:
            return writer.trigger(processingTime=f"{round(self.watch.every_s * 1000)} milliseconds").start()
        return writer.trigger(availableNow=True).start()

    def _await(self, query: StreamingQuery) -> None:
        from pyspark.errors import StreamingQueryException

        try:
            while not query.awaitTermination(1):
                pass
        except StreamingQueryException as error:
            if self._problem is not None:
                raise self._problem from None
            raise RunError(f"the stream stopped: {str(error).splitlines()[0]}; run the same command again") from error
        finally:
            if query.isActive:
                query.stop()

    def take(self, lines: DataFrame, batch: int) -> None:
        """One micro-batch, from the state before it to the state after it."""
        self._batches += 1
        if self.checkpoints.has(batch):
            return
        try:
            state = self.checkpoints.before(batch)
            state.absorb(observe(lines, self.watch.window_s))
            decisions = []
            for window in state.close_windows():
                if self.watch.rules.is_due(window, state):
                    decisions.append(self._reconfigurer.decide(state, window))
                    state.has_news, state.plan = False, decisions[-1].plan
            self.checkpoints.save(batch, state)
            self._done += 1
        except CoterieError as error:
            self._problem = error
            raise
        for decision in decisions:
            self.tell(decision)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.watch.out.mkdir(parents=True, exist_ok=True)
        with open(self.watch.out / ".watching", "w") as file:
            try:
                lock(file)
            except OSError:
                raise ConfigError(
                    "out",
                    str(self.watch.out),
                    "a folder that no other watcher uses",
                    do="end the other one, or say --out",
                ) from None
            yield


def observe(lines: DataFrame, window_s: float, now_s: float | None = None) -> Observed:
    """Count a micro-batch where it lies; only sums, net changes and a bounded sample travel to the driver."""
    from pyspark.sql import functions as sf

    latest_us = round(((time.time() if now_s is None else now_s) + CLOCK_SKEW_S) * 1e6)
    is_good = (sf.col("kind") != MALFORMED) & (sf.unix_micros("time") <= sf.lit(latest_us)) & ~_is_faulty()
    lines.persist()
    try:
        of_node = lines.groupBy("node").agg(
            sf.min(sf.when(is_good, sf.unix_micros("time"))).alias("first_us"),
            sf.max(sf.when(is_good, sf.unix_micros("time"))).alias("last_us"),
            sf.count("*").alias("lines"),
            sf.count_if(~is_good).alias("bad"),
        )
        nodes = of_node.toArrow().to_pylist()
        good = lines.where(is_good)
        window = window_index(sf.col("time"), window_s).alias("window")
        counts = events_by_window(publications_of(good), window_s).select(*COUNTS.names).toArrow()
        changes = _changes(good, window).toArrow()
        sample = _sample(good, window).toArrow()
    finally:
        lines.unpersist()
    return Observed(
        {row["node"]: None if row["last_us"] is None else Span(row["first_us"], row["last_us"]) for row in nodes},
        counts.cast(COUNTS),
        changes.cast(CHANGES),
        sample.cast(SAMPLE),
        sum(row["lines"] for row in nodes),
        sum(row["bad"] for row in nodes),
    )


def _is_faulty() -> Column:
    """A wish that is no MQTT filter, or an event on a name that is no MQTT topic."""
    from pyspark.sql import functions as sf

    topic, kind = sf.coalesce(sf.col("topic"), sf.lit("")), sf.col("kind")
    is_no_filter = topic.rlike(NO_FILTER_PATTERN) | (topic.startswith("$share/") & ~topic.rlike(SHARED))
    return (kind.isin("subscribe", "unsubscribe") & is_no_filter) | (
        (kind == "publish") & topic.rlike(NO_TOPIC_PATTERN)
    )


def _changes(lines: DataFrame, window: Column) -> DataFrame:
    """The last thing each client said about each topic in each window."""
    from pyspark.sql import functions as sf

    said = lines.where(
        sf.col("kind").isin("subscribe", "unsubscribe") & sf.col("client").isNotNull() & sf.col("topic").isNotNull()
    )
    is_on = (sf.col("kind") == "subscribe").alias("is_on")
    last = sf.max(sf.struct(sf.unix_micros("time").alias("time_us"), "segment", "position", "node", is_on))
    found = said.groupBy(window, "client", "topic").agg(last.alias("last"))
    return found.select("window", "client", "topic", "last.*")


def _sample(lines: DataFrame, window: Column) -> DataFrame:
    """Some publications of each window, drawn by a hash of where their line stands.

    A line that stands for many messages is drawn as often as they would be: the least -ln(u) / count win.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    drawn = (sf.pmod(sf.xxhash64("node", "segment", "position"), sf.lit(1 << 52)) + 1) / 2.0**52
    published = lines.where("kind = 'publish' and topic is not null").select(
        window,
        (-sf.log(drawn) / sf.col("count") * 2.0**40).cast("bigint").alias("priority"),
        "topic",
        sf.col("client").alias("publisher"),
        "node",
        "bytes",
    )
    rank = sf.row_number().over(Window.partitionBy("window").orderBy("priority"))
    return published.withColumn("rank", rank).where(sf.col("rank") <= SAMPLE_PER_WINDOW).drop("rank")
