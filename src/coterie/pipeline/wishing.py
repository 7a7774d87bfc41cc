"""Who wanted what in each window: wishes as the log has them, the topics they come to, and the stays that were short.

Ids are the same in all windows: filters (or topics, where every wish names one topic) follow the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model.relation import Index, Relation
from coterie.model.workload import Stays, Wishes
from coterie.pipeline.filters import bodies_of, has_filters, is_shared, match_filters, without_wildcards
from coterie.pipeline.here import is_here
from coterie.pipeline.ingest import has_plain_topics
from coterie.pipeline.interests import (
    ALWAYS,
    SUBSCRIBERS,
    TOPICS_FILE,
    Period,
    alive_rows,
    codes_of,
    encode_interests,
    filter_names,
    name_filters,
    used_names,
)
from coterie.pipeline.storage import Folder, read_rows
from coterie.pipeline.tasks import map_array, part_files, part_name, run_tasks, save_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELD_OUT = 0.1  # of untimed wishes
PAIRS_MAX = 2_000_000_000  # (client, topic): what 32-bit machines of a plan can number
PAIRS_AT_ONCE = 8_000_000
MARKS = "marks"
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Wanted:
    """One window: `interests` are the topics that the wishes come to, `weights` only where groups share."""

    interests: Relation  # client -> topics
    weights: F64 | None
    wishes: Wishes | None  # None: every wish is a topic
    stays: Stays | None


@dataclass(frozen=True, eq=False)
class WishBook:
    """All wishes of all times."""

    of: Relation  # client -> filters
    matches: Relation | None  # filter -> topics; None: filters are topics
    is_shared: NDArray[np.bool_]
    folder: Path


def read_wishes(spark: SparkSession, tables: Path, encoded: Path) -> WishBook:
    """Number clients, filters and topics, and match the two; names and arrays land in `encoded`."""
    of = encode_interests(spark, tables / "subscriptions", encoded, ALWAYS)
    if of.pair_count == 0:
        raise InputError(str(tables), "no subscription is left after the bad rows were set aside")
    names = pq.read_table(encoded / TOPICS_FILE, columns=["topic"])["topic"].combine_chunks()
    if has_plain_topics(tables / "subscriptions") or not has_filters(names):
        return WishBook(of, None, np.zeros(of.column_count, bool), encoded)
    topics = all_topics(spark, tables, names)
    matches = match_filters(spark, names, topics, encoded / "matching")
    is_wanted = np.bincount(matches.columns, minlength=len(topics)) > 0
    number = np.cumsum(is_wanted, dtype=np.int64) - 1
    matches = Relation(matches.indptr, number[matches.columns].astype(np.int32), int(is_wanted.sum()))
    name_filters(encoded, names, topics.filter(pa.array(is_wanted)))
    return WishBook(of, matches, is_shared(names), encoded)


def all_topics(spark: SparkSession, tables: Folder, filters: pa.Array) -> pa.Array:
    """Every topic that is published or asked for by its name."""
    named = [without_wildcards(bodies_of(filters))]
    if part_files(tables / "publications"):
        named += [without_wildcards(chunk) for chunk in _published(spark, tables / "publications").chunks]
    distinct = pc.unique(pa.chunked_array(named, pa.string()))
    return distinct.take(pc.sort_indices(distinct))


def _published(spark: SparkSession, table: Folder) -> pa.ChunkedArray:
    if is_here(spark):
        rows = pa.concat_tables([read_rows(path, ["topic"]) for path in part_files(table)])
        return pa.chunked_array([pc.unique(rows["topic"].cast(pa.string()))])
    return spark.read.parquet(str(table)).select("topic").distinct().toArrow()["topic"]


def wanted_in(spark: SparkSession, tables: Path, book: WishBook, periods: Sequence[Period], seed: int) -> list[Wanted]:
    """The windows' wishes. Wishes without times are cut by chance: a tenth arrives after the first window."""
    found = _marks(spark, tables / "subscriptions", book.folder, periods) if periods else None
    if found is not None:
        marks, short = found
    else:
        count = max(len(periods), 2)
        marks, short = np.full(book.of.pair_count, (1 << count) - 1, np.uint64), [None] * count
        marks[np.random.default_rng(seed).random(len(marks)) < HELD_OUT] &= ~np.uint64(1)
    save_array(marks, book.folder, MARKS)
    return [_window(book, (marks >> bit) & 1 > 0, stays) for bit, stays in enumerate(short)]


def is_held_out(wanted: Sequence[Wanted]) -> bool:
    """Whether the cut was made by chance, for want of times."""
    return all(one.stays is None for one in wanted)


def _window(book: WishBook, keep: NDArray[np.bool_], stays: Stays | None) -> Wanted:
    of = _subset(book.of, keep)
    if book.matches is None:
        return Wanted(of, None, None, stays)
    interests, weights = expanded(of, book.matches, book.is_shared)
    return Wanted(interests, weights, Wishes(of, book.matches), stays)


def _subset(relation: Relation, keep: NDArray[np.bool_]) -> Relation:
    kept = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)
    return Relation(kept[relation.indptr], relation.columns[keep], relation.column_count)


# --- from wishes to topics ---


def expanded(of: Relation, matches: Relation, shared: NDArray[np.bool_]) -> tuple[Relation, F64 | None]:
    """Client -> topics, and deliveries per event of each pair: members of a group share, nobody gets more than one."""
    members = np.bincount(of.columns, minlength=of.column_count)
    share = np.where(shared, 1.0 / np.maximum(members, 1), 1.0)
    reach = np.concatenate([[0], np.cumsum(matches.lengths[of.columns])]).astype(np.int64)
    if reach[-1] > PAIRS_MAX:
        told = (
            f"the filters come to {reach[-1]:,} pairs of client and topic, {PAIRS_MAX:,} fit; leave out the widest (#)"
        )
        raise InputError("subscriptions", told)
    ends = reach[of.indptr]  # pairs before each client
    lengths, columns, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0)]
    low = 0
    while low < of.row_count:
        high = max(low + 1, int(np.searchsorted(ends, ends[low] + PAIRS_AT_ONCE, side="right")) - 1)
        length, column, weight = expanded_rows(of, matches, share, low, high)
        lengths.append(length)
        columns.append(column)
        weights.append(weight)
        low = high
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    interests = Relation(indptr, np.concatenate(columns), matches.column_count)
    return interests, np.concatenate(weights) if shared[of.columns].any() else None


def expanded_rows(of: Relation, matches: Relation, share: F64, low: int, high: int) -> tuple[I64, Index, F64]:
    wish = slice(of.indptr[low], of.indptr[high])
    filters = of.columns[wish]
    lengths = matches.lengths[filters]
    starts = np.cumsum(lengths) - lengths
    at = np.arange(lengths.sum()) + np.repeat(matches.indptr[filters] - starts, lengths)
    client = np.repeat(np.repeat(np.arange(high - low), np.diff(of.indptr[low : high + 1])), lengths)
    key = client * np.int64(matches.column_count) + matches.columns[at]
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
    weight = np.add.reduceat(np.repeat(share[filters], lengths)[order], first) if len(first) else np.zeros(0)
    row, column = np.divmod(key[first], max(matches.column_count, 1))
    return np.bincount(row, minlength=high - low), column.astype(np.int32), np.minimum(weight, 1.0)


# --- which window a wish belongs to ---


def _marks(
    spark: SparkSession, subscriptions: Path, encoded: Path, periods: Sequence[Period]
) -> tuple[NDArray[np.uint64], list[Stays | None]] | None:
    """For every wish a bit per window in which it was alive, and each window's stays; None if no wish has a time."""
    parts = [(index, str(path)) for index, path in enumerate(part_files(subscriptions))]
    told = run_tasks(spark, parts, _marker(encoded, periods), "part int, timed bigint")
    if not pc.sum(told["timed"]).as_py():
        return None
    marks = np.concatenate([np.asarray(map_array(encoded, f"{MARKS}-{index:05d}")) for index, _ in parts])
    stays: list[Stays | None] = []
    for window, period in enumerate(periods):
        rows = np.concatenate([np.load(encoded / f"stays-{window}-{index:05d}.npy") for index, _ in parts], axis=1)
        client, wish = rows[0].astype(np.int32), rows[1].astype(np.int32)
        assert period.start_s is not None
        assert period.end_s is not None
        stays.append(Stays(client, wish, rows[2], rows[3], period.end_s - period.start_s))
    return marks.astype(np.uint64), stays


def _marker(encoded: Path, periods: Sequence[Period]) -> Callable[[tuple[int, str]], pa.Table]:
    """Marks in the order of the relation; stays as rows of client, wish, begin and end."""
    target = str(encoded)

    def work(task: tuple[int, str]) -> pa.Table:
        index, path = task
        filters = filter_names(Path(target))
        rows = alive_rows(path, Period(-np.inf, np.inf))
        names = used_names(rows["subscriber"])
        key = codes_of(rows["subscriber"], names) * len(filters) + codes_of(rows["topic"], filters)
        since, until = wish_times(rows)
        pairs = _sorted_distinct(key)
        marks = marked(pairs, key, since, until, periods)
        first_id = _first_id(Path(target) / SUBSCRIBERS / part_name(index))
        for bit, period in enumerate(periods):
            stay = short_stays(*stays_in(period, key, since, until))
            client, wish = np.divmod(stay[0], max(len(filters), 1))
            save_array(np.stack([client + first_id, wish, *stay[1:]]), target, f"stays-{bit}-{index:05d}")
        save_array(marks, target, f"{MARKS}-{index:05d}")
        timed = int((np.isfinite(since) | np.isfinite(until)).sum())
        return pa.table({"part": pa.array([index], pa.int32()), "timed": pa.array([timed], pa.int64())})

    return work


def wish_times(rows: pa.Table) -> tuple[F64, F64]:
    """Since when and until when, in seconds; infinite where a row does not say."""
    return _seconds(rows["since"], -np.inf), _seconds(rows["until"], np.inf)


def marked(pairs: I64, key: I64, since: F64, until: F64, periods: Sequence[Period]) -> NDArray[np.uint64]:
    """For every pair a bit for each period in which one of its rows was alive."""
    marks = np.zeros(len(pairs), np.uint64)
    for bit, period in enumerate(periods):
        assert period.start_s is not None
        assert period.end_s is not None
        alive = (since < period.end_s) & (until > period.start_s)
        marks[np.searchsorted(pairs, key[alive])] |= np.uint64(1 << bit)
    return marks


def stays_in(period: Period, key: I64, since: F64, until: F64) -> tuple[I64, F64, F64]:
    """What of each row lies in the period, in seconds from its start; infinite where it goes on beyond."""
    assert period.start_s is not None
    assert period.end_s is not None
    alive = (since < period.end_s) & (until > period.start_s)
    begin = np.where(since[alive] > period.start_s, since[alive] - period.start_s, -np.inf)
    end = np.where(until[alive] < period.end_s, until[alive] - period.start_s, np.inf)
    return key[alive], begin, end


def short_stays(key: I64, begin: F64, end: F64) -> tuple[I64, F64, F64]:
    """Stays of each key, overlapping ones joined, without those that never began and never ended."""
    joined = joined_stays(key, begin, end)
    is_short = np.isfinite(joined[1]) | np.isfinite(joined[2])
    return joined[0][is_short], joined[1][is_short], joined[2][is_short]


def joined_stays(key: I64, begin: F64, end: F64) -> tuple[I64, F64, F64]:
    """Stays of each key in order, overlapping ones joined."""
    order = np.lexsort((end, begin, key))
    key, begin, end = key[order], begin[order], end[order]
    # A running maximum inside each key: by rank, so that a later key is always above an earlier one.
    rank = np.searchsorted(np.sort(end), end)
    group = np.cumsum(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
    reached = np.maximum.accumulate(group * (len(key) + 1) + rank) - group * (len(key) + 1) if len(key) else rank
    ends = np.sort(end)[reached]
    is_new = np.ones(len(key), bool)
    is_new[1:] = (key[1:] != key[:-1]) | (begin[1:] > ends[:-1])
    first = np.flatnonzero(is_new)
    last = np.concatenate([first[1:] - 1, [len(key) - 1]])[: len(first)].astype(np.int64)
    return key[first], begin[first], ends[last]


def _seconds(times: pa.ChunkedArray, missing: float) -> F64:
    seconds = pc.divide(times.cast(pa.int64()).cast(pa.float64()), 1e6)
    found: F64 = pc.fill_null(seconds, missing).to_numpy()
    return found


def _sorted_distinct(key: I64) -> I64:
    ordered = np.sort(key)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _first_id(path: Path) -> int:
    ids: Any = pq.read_table(path, columns=["subscriber_id"])["subscriber_id"]
    return int(ids[0].as_py()) if len(ids) else 0
