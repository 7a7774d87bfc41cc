"""Where time is cut: a window to learn from and a later one, or several windows that follow each other.

Cuts lie where given shares of all publications have happened. Times that are far from all others (a clock that was
never set, a typing error) would stretch the first window over decades: what is separated from the middle nine tenths by
more than ten times their span is a stray, left out and told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.pipeline.here import is_here
from coterie.pipeline.stays import Period
from coterie.pipeline.storage import Folder, read_rows
from coterie.pipeline.tasks import part_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CUT_STEPS = 1000  # how finely a cut is found where rows stand for many events
GRID: Sequence[float] = np.linspace(0.0, 1.0, CUT_STEPS + 1).tolist()
HOUR_S, DAY_S = 3600.0, 86400.0
MIDDLE = (0.05, 0.95)
STRAY_GAP = 10  # times the span of the middle, and that is at least a day
WINDOWS_MAX = 63  # a bit each


@dataclass(frozen=True)
class WindowChoices:
    """What a user may decide about windows and network."""

    learn_share: float = 0.5  # of the publications
    brokers: int = 0  # where the input lists none; 0 chooses by the number of clients
    zones: int = 0  # brokers stand in so many zones in turn, where the input says nothing of zones; 0: in one
    zone_of: tuple[tuple[str, str], ...] = ()  # broker and zone, where the input says nothing of zones
    is_peers: bool = False  # no brokers: every client is a node of its own
    publisher_pairs_max: int = 4_000_000  # (topic, publisher) pairs and windows; beyond, the busiest of each topic
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.learn_share < 1:
            raise ConfigError("learn_share", self.learn_share, "between 0 and 1")
        if self.brokers < 0:
            raise ConfigError("brokers", self.brokers, "at least 1, or 0 to choose by the number of clients")
        if self.zones < 0:
            raise ConfigError("zones", self.zones, "at least 1, or 0 for none")
        if self.brokers and self.is_peers:
            raise ConfigError("brokers", self.brokers, "0 where every client is a peer")
        if self.publisher_pairs_max < 1:
            raise ConfigError("publisher_pairs_max", self.publisher_pairs_max, "at least 1")


DEFAULT_WINDOWS = WindowChoices()


class Strays(NamedTuple):
    """Rows whose times are far from all others."""

    rows: int = 0
    first_s: float = 0.0
    last_s: float = 0.0

    def facts(self) -> dict[str, float | None]:
        return {
            "times_set_aside": self.rows,
            "times_set_aside_first_s": self.first_s if self.rows else None,
            "times_set_aside_last_s": self.last_s if self.rows else None,
        }


NO_STRAYS = Strays()


@dataclass(frozen=True)
class Windows:
    """Window k is [edges[k], edges[k + 1]) in seconds since 1970; no edges mean that the data has no times."""

    edges_s: tuple[float, ...] = ()
    strays: Strays = NO_STRAYS

    @property
    def is_timed(self) -> bool:
        return bool(self.edges_s)

    @property
    def count(self) -> int:
        return len(self.edges_s) - 1 if self.edges_s else 2

    @property
    def periods(self) -> list[Period]:
        return [Period(low, high) for low, high in pairwise(self.edges_s)]

    @property
    def lengths_s(self) -> list[float]:
        """What events are divided by. A log without times counts as one hour of traffic."""
        return [high - low for low, high in pairwise(self.edges_s)] or [HOUR_S] * self.count


def cut_windows(spark: SparkSession, tables: Folder, choices: WindowChoices) -> Windows:
    """Look at the times in the tables and cut them in two."""
    return cut_at(spark, tables, [choices.learn_share])


def cut_rolling(spark: SparkSession, tables: Folder, count: int) -> Windows:
    """So many windows, one more than pairs of neighbours, of equally many publications each."""
    if not 1 <= count < WINDOWS_MAX:
        raise ConfigError("windows", count, f"1 to {WINDOWS_MAX - 1}")
    return cut_at(spark, tables, [(number + 1) / (count + 1) for number in range(count)])


def cut_at(spark: SparkSession, tables: Folder, shares: Sequence[float]) -> Windows:
    """A window more than shares: cut where these shares of the publications (else: arrivals) have happened."""
    if is_here(spark):
        return _cut_here(tables, shares)
    from pyspark.sql import functions as sf

    for table, column in (("publications", "time"), ("subscriptions", "since")):
        if not part_files(tables / table):
            continue
        rows = spark.read.parquet(str(tables / table)).where(f"{column} is not null")  # may open the session
        weight = sf.col("count") if table == "publications" else sf.lit(1)
        times = rows.select((sf.unix_micros(column) / 1e6).alias("s"), weight.cast("long").alias("events"))
        found = _quantiles(times, shares)
        strays = NO_STRAYS
        if found.low_s is not None and found.may_have_strays:
            times, strays = _without_strays(times, found)
            found = _quantiles(times, shares)
        if found.low_s is not None and found.high_s > found.low_s:
            return Windows(_edges(found.low_s, _cuts(times, shares, found), found.high_s), strays)
    return Windows()


def _cut_here(tables: Folder, shares: Sequence[float]) -> Windows:
    """The same with everything in memory, where cuts are exact; Spark's lie within one in ten thousand of the rows."""
    for table, column in (("publications", "time"), ("subscriptions", "since")):
        columns = [column, "count"] if table == "publications" else [column]
        parts = [read_rows(path, columns) for path in part_files(tables / table)]
        rows = pa.concat_tables(parts).drop_null() if parts else pa.table({})
        if not len(rows):
            continue
        at = rows[column].cast(pa.int64()).to_numpy() / 1e6
        events = rows["count"].to_numpy().astype(np.int64) if table == "publications" else np.ones(len(at), np.int64)
        is_kept, strays = _strays_here(at)
        at, events = at[is_kept], events[is_kept]
        low_s, high_s = float(at.min()), float(at.max())
        if high_s > low_s:
            return Windows(_edges(low_s, _cuts_here(at, events, shares), high_s), strays)
    return Windows()


def _at_shares(ascending: NDArray[np.float64], shares: Sequence[float]) -> NDArray[np.float64]:
    """The least value that so large a share of all does not exceed."""
    rank = np.ceil(np.asarray(shares) * len(ascending)).astype(np.int64) - 1
    found: NDArray[np.float64] = ascending[np.maximum(rank, 0)]
    return found


def _strays_here(at: NDArray[np.float64]) -> tuple[NDArray[np.bool_], Strays]:
    found = _Quantiles(at.min(), at.max(), _at_shares(np.sort(at), MIDDLE).tolist(), [], [], True)
    if not found.may_have_strays:
        return np.ones(len(at), bool), NO_STRAYS
    bucket = np.floor((at - found.middle_s[0]) / found.width_s).astype(np.int64)
    low, high = _counting_buckets(np.unique(bucket))
    is_kept = (bucket >= low) & (bucket <= high)
    away = at[~is_kept]
    return is_kept, Strays(len(away), float(away.min()), float(away.max())) if len(away) else NO_STRAYS


def _cuts_here(at: NDArray[np.float64], events: NDArray[np.int64], shares: Sequence[float]) -> list[float]:
    ascending = np.sort(at)
    if len(at) == events.sum():
        return [float(cut_s) for cut_s in _at_shares(ascending, shares)]
    edges = np.unique(_at_shares(ascending, GRID))
    counted = np.bincount(np.searchsorted(edges, at, side="right"), events.astype(np.float64), len(edges) + 1)
    return _nearest_edges(edges, counted.astype(np.float64), shares)


def _edges(low_s: float, cuts_s: Sequence[float], high_s: float) -> tuple[float, ...]:
    """Ascending, whatever many equal times there are."""
    edges = [low_s]
    for cut_s in cuts_s:
        after = max(cut_s, edges[-1] + 1e-6)
        if after <= high_s:
            edges.append(after)
    return (*edges, high_s + 1.0)


class _Quantiles(NamedTuple):
    low_s: Any  # None where there are no rows
    high_s: Any
    middle_s: Sequence[float]
    cuts_s: Sequence[float]
    grid_s: Sequence[float]
    is_row_an_event: bool

    @property
    def width_s(self) -> float:
        return max(self.middle_s[1] - self.middle_s[0], DAY_S)

    @property
    def may_have_strays(self) -> bool:
        far_s = STRAY_GAP * self.width_s
        return bool(self.middle_s[0] - self.low_s > far_s or self.high_s - self.middle_s[1] > far_s)


def _quantiles(times: DataFrame, shares: Sequence[float]) -> _Quantiles:
    from pyspark.sql import functions as sf

    found = times.agg(
        sf.min("s"),
        sf.max("s"),
        sf.percentile_approx("s", [*MIDDLE, *shares, *GRID], 10_000),
        sf.count("s") == sf.sum("events"),
    )
    low_s, high_s, quantiles, is_row_an_event = (column[0].as_py() for column in found.toArrow().columns)
    if low_s is None:
        return _Quantiles(None, None, [], [], [], True)
    cuts, grid_s = quantiles[2 : 2 + len(shares)], quantiles[2 + len(shares) :]
    return _Quantiles(low_s, high_s, quantiles[:2], cuts, grid_s, is_row_an_event)


def _without_strays(times: DataFrame, found: _Quantiles) -> tuple[DataFrame, Strays]:
    """Times in buckets as wide as the middle; going outwards from there, an empty stretch ends what counts."""
    from pyspark.sql import functions as sf

    first, width = float(found.middle_s[0]), found.width_s
    bucket = sf.floor((sf.col("s") - first) / width).cast("long")
    table = times.groupBy(bucket.alias("bucket")).agg(sf.count("*")).orderBy("bucket").toArrow()
    is_inside = bucket.between(*_counting_buckets(table["bucket"].to_numpy()))
    outside = times.where(~is_inside).agg(sf.count("*"), sf.min("s"), sf.max("s")).toArrow()
    rows, first_s, last_s = (column[0].as_py() for column in outside.columns)
    return times.where(is_inside), Strays(rows, first_s, last_s) if rows else NO_STRAYS


def _counting_buckets(buckets: NDArray[np.int64]) -> tuple[int, int]:
    """The first and the last bucket that counts, of those that hold anything."""
    is_apart = np.diff(buckets) > STRAY_GAP + 1
    below, above = np.flatnonzero(is_apart & (buckets[1:] <= 0)), np.flatnonzero(is_apart & (buckets[:-1] >= 0))
    low = int(below[-1]) + 1 if len(below) else 0
    high = int(above[0]) if len(above) else len(buckets) - 1
    return int(buckets[low]), int(buckets[high])


def _nearest_edges(edges: NDArray[np.float64], events: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    """`events` lie before the first edge, between one and the next, and after the last."""
    before = np.cumsum(events)  # before[i]: events earlier than edges[i]
    return [float(edges[np.argmin(np.abs(before[: len(edges)] - share * before[-1]))]) for share in shares]


def _cuts(times: DataFrame, shares: Sequence[float], found: _Quantiles) -> list[float]:
    """The times before which these shares of the events lie."""
    from pyspark.sql import functions as sf

    if found.is_row_an_event:
        return list(found.cuts_s)
    # Rows stand for different numbers of events: count those between the quantiles of the rows.
    edges = np.array(sorted(set(found.grid_s)))

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bucket = np.searchsorted(edges, batch["s"].to_numpy(), side="right")
            events = np.bincount(bucket, batch["events"].to_numpy(), len(edges) + 1).astype(np.int64)
            yield pa.RecordBatch.from_arrays([pa.array(np.arange(len(events))), pa.array(events)], ["bucket", "events"])

    counted = times.mapInArrow(count, "bucket long, events long").groupBy("bucket").agg(sf.sum("events").alias("n"))
    events = np.zeros(len(edges) + 1)
    table = counted.toArrow()
    events[table["bucket"].to_numpy()] = table["n"].to_numpy()
    return _nearest_edges(edges, events, shares)
