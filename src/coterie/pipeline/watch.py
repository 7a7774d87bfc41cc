"""Follows the nodes' journal as a stream and publishes a new plan when it pays; exactly once, whatever is killed when.

How it works: what grows with clients and topics lies in Spark's state store, in shards (pipeline/shards). Each
micro-batch leaves a report: how far the stream is, and how things stand after the windows that a decision may be due
after. The driver takes reports in their order, decides, and ends by writing down which one it has taken. Spark repeats
a micro-batch that was not done, from the same state with the same lines, and so with the same report. One that was
taken is not taken again; one that was not finds the plans it had already published under the same keys.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import ConfigError, InputError, RunError
from coterie.locking import lock
from coterie.pipeline.clock import TimeRules
from coterie.pipeline.features import ALPHA
from coterie.pipeline.journal import BATCH_BYTES_MAX
from coterie.pipeline.progress import Progress, load_progress, save_progress
from coterie.pipeline.reconfiguration import Decision, DecisionRules, Reconfigurer
from coterie.pipeline.sharding import reports, use_state_store
from coterie.pipeline.shards import ABOUT, ShardAbout
from coterie.pipeline.storage import Folder, read_rows, remove_all
from coterie.pipeline.streams import JournalLines, Lines
from coterie.pipeline.views import Gathered
from coterie.plans.store import PlanStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

RETRIES, RETRY_FIRST_S, RETRY_LAST_S = 8, 1.0, 60.0
SHARDS = 32
WANTED_MAX = 20_000_000  # subscriptions that a decision is made for, in one memory
ANEW = "output and checkpoint are not of one stream: begin anew with both empty"
CHECKPOINT, REPORTS, WORK, WHOLE = "checkpoint", "reports", "work", "_SUCCESS"
_about_of = msgspec.msgpack.Decoder(ShardAbout).decode


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
    checkpoint: Folder | None = None  # for what Spark keeps; driver and executors must see it. None: `out`
    shards: int = SHARDS  # of the state, for the life of the stream
    wanted_max: int = WANTED_MAX  # with more subscriptions it stops before it gathers them

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
        if self.shards < 1:
            raise ConfigError("shards", self.shards, "at least one")


class WatchLock:
    """One process at a time may watch with one output folder."""

    def __init__(self, spark: SparkSession, watch: Watch, tell: Callable[[Decision], None] = lambda _: None) -> None:
        self.spark = spark
        # Executors work in other folders.
        self.watch = watch = replace(watch, journal=watch.journal.resolve(), out=watch.out.resolve())
        self._place: Folder = (watch.checkpoint or watch.out).resolve()
        self.tell = tell
        self.store = PlanStore(watch.out)
        self._reconfigurer = Reconfigurer(spark, watch.rules, self.store, watch.out / WORK)
        self._taken = 0
        self._pause = time.sleep

    def progress(self) -> Progress:
        """As of the last report that was taken."""
        return load_progress(self.watch.out, Progress(self.watch.window_s, self.watch.alpha, self.watch.shards))

    def run_once(self) -> int:
        """Take in what is in the journal now; returns the number of micro-batches that took."""
        before = self._taken
        with self._locked():
            self._persist(is_following=False)
        return self._taken - before

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
            taken = self._taken
            try:
                while self._run(is_following):
                    pass
                return
            except RunError as error:
                failed = 1 if self._taken > taken else failed + 1
                if failed > self.watch.retries:
                    raise
                wait_s = min(RETRY_FIRST_S * 2 ** (failed - 1), RETRY_LAST_S)
                log.warning("%s (trying again in %g s)", error, wait_s)
                self._pause(wait_s)

    def _run(self, is_following: bool) -> bool:
        """One query from its start to its end; whether another one is to follow."""
        from pyspark.errors import StreamingQueryException

        self.take_all()  # what an earlier run has left
        is_planned = self.progress().plan is not None
        query = self._start(is_following, is_planned)
        try:
            while not query.awaitTermination(1):
                self.take_all()
                if is_following and not is_planned and self.progress().plan is not None:
                    return True  # from now on shards need not tell how things stand after every window
        except StreamingQueryException as error:
            raise RunError(f"the stream stopped: {str(error).splitlines()[0]}; run the same command again") from error
        finally:
            if query.isActive:
                query.stop()
        self.take_all()
        return False

    def _start(self, is_following: bool, is_planned: bool) -> StreamingQuery:
        watch, place = self.watch, self._place
        source = watch.source or JournalLines(watch.journal, watch.batch_bytes)
        rules = TimeRules(
            round(watch.window_s * 1e6), round(watch.late_s * 1e6), watch.rules.windows_per_period, is_planned
        )
        use_state_store(self.spark)
        told = reports(source.lines(self.spark), watch.window_s, watch.shards, watch.alpha, rules)
        writer = told.writeStream.foreachBatch(report_writer(_uri(place / REPORTS))).outputMode("update")
        writer = writer.option("checkpointLocation", _uri(place / CHECKPOINT))
        if is_following:
            return writer.trigger(processingTime=f"{round(watch.every_s * 1000)} milliseconds").start()
        return writer.trigger(availableNow=True).start()

    def take_all(self) -> None:
        """Every report that is there and whole, in its order."""
        progress = self.progress()
        for batch, place in self._whole_reports():
            if batch not in (progress.batch, progress.batch + 1):  # Spark repeats the last one at most
                due = f"report {progress.batch + 1} of the stream is due, this is {batch}"
                raise InputError(str(place), f"{due}; {ANEW}")
            if batch > progress.batch:
                with _may_pass(place):
                    about = read_rows(place, ["told"], filters=[("window", "==", ABOUT)])
                self._check_size(sum(one.wanted_count for one in map(_about_of, about["told"].to_pylist())))
                with _may_pass(place):
                    report = read_rows(place)
                self.take(report, batch)
                del report
                progress = self.progress()
            with _may_pass(place):
                remove_all(place)

    def _check_size(self, wanted: int) -> None:
        """A decision needs every subscription in one memory: too many are told before they are gathered."""
        if wanted > self.watch.wanted_max:
            most = f"at most {self.watch.wanted_max:,}, because watch decides in one memory"
            raise ConfigError("subscriptions", wanted, most, do="coterie plan, run now and then, takes more")

    def _whole_reports(self) -> list[tuple[int, Folder]]:
        folder = self._place / REPORTS
        with _may_pass(folder):
            found = sorted(place for place in folder.iterdir() if place.name.isdigit()) if folder.exists() else []
            return [(int(place.name), place) for place in found if (place / WHOLE).exists()]

    def take(self, report: pa.Table, batch: int) -> None:
        """One micro-batch: decide for the windows it has closed, then write down that this is done."""
        progress = self.progress()
        if batch <= progress.batch:
            return
        about = [_about_of(piece) for piece in _told(report, ABOUT)]
        progress.hear(batch, about)
        decisions = []
        for one in about:
            if one.clock is None or one.closing is None:
                continue
            gathered = Gathered(self.watch.window_s, self.watch.alpha, one.clock.nodes)
            for window in one.closing.moments:
                gathered.add(_told(report, window))
                progress.has_news = progress.has_news or window in one.closing.content
                if window in one.closing.told and self.watch.rules.is_due(window, progress):
                    decisions.append(self._reconfigurer.decide(gathered.view(window), progress.plan))
                    progress.has_news, progress.plan = False, decisions[-1].plan
        save_progress(self.watch.out, progress)
        self._taken += 1
        self._tell_all(decisions)

    def _tell_all(self, decisions: list[Decision]) -> None:
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


def _told(report: pa.Table, window: int) -> Iterator[bytes]:
    """One piece after the other: together they may be large."""
    found = report.filter(pc.equal(report["window"], window))["told"]
    return (piece.as_py() for piece in found)


@contextmanager
def _may_pass(place: Folder) -> Iterator[None]:
    """A store or disk that does not answer now may do so later."""
    try:
        yield
    except (OSError, InputError) as error:
        raise RunError(f"what the stream has told cannot be read in {place}: {error}") from error


def _uri(place: Folder) -> str:
    """A path means this machine's disk, whatever Spark takes for its own."""
    return place.as_uri() if isinstance(place, Path) else str(place)


def report_writer(folder: str) -> Callable[[DataFrame, int], None]:
    """Runs wherever Spark's driver is, which need not be this process; so it knows nothing but a place."""

    def write(report: DataFrame, batch: int) -> None:
        report.write.mode("overwrite").parquet(f"{folder}/{batch:09d}")

    return write
