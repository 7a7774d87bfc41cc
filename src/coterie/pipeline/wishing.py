"""Who wanted what in each window: wishes as the log has them, the topics they come to, and the stays that were short.

Ids are the same in all windows: filters (or topics, where every wish names one topic) follow the order of their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model.relation import Index, Relation
from coterie.model.workload import Stays, Wishes
from coterie.pipeline.filters import bodies_of, has_filters, is_shared, match_filters, without_wildcards
from coterie.pipeline.here import is_here
from coterie.pipeline.ingest import has_plain_topics
from coterie.pipeline.interests import MARKS, STAYS, encode_interests, name_filters, names_in
from coterie.pipeline.stays import Period
from coterie.pipeline.storage import Folder, read_rows
from coterie.pipeline.tasks import map_array, part_files, save_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELD_OUT = 0.1  # of untimed wishes
PAIRS_MAX = 2_000_000_000  # (client, topic): what 32-bit machines of a plan can number
PAIRS_AT_ONCE = 8_000_000
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
    is_timed: bool  # some wish has a time
    folder: Path


def read_wishes(spark: SparkSession, tables: Path, encoded: Path, periods: Sequence[Period]) -> WishBook:
    """Number clients, filters and topics, and match the two; names and arrays land in `encoded`."""
    of, is_timed = encode_interests(spark, tables / "subscriptions", encoded, periods)
    if of.pair_count == 0:
        raise InputError(str(tables), "no subscription is left after the bad rows were set aside")
    names = names_in(encoded)
    if has_plain_topics(tables / "subscriptions") or not has_filters(names):
        return WishBook(of, None, np.zeros(of.column_count, bool), is_timed, encoded)
    topics, matches = wanted_topics(spark, tables, names, encoded / "matching")
    name_filters(encoded, names, topics)
    return WishBook(of, matches, is_shared(names), is_timed, encoded)


def wanted_topics(spark: SparkSession, tables: Folder, filters: pa.Array, work: Folder) -> tuple[pa.Array, Relation]:
    """The topics that some filter matches, and filter -> topics."""
    topics = all_topics(spark, tables, filters)
    matches = match_filters(spark, filters, topics, work)
    is_wanted = np.bincount(matches.columns, minlength=len(topics)) > 0
    number = np.cumsum(is_wanted, dtype=np.int64) - 1
    matches = Relation(matches.indptr, number[matches.columns].astype(np.int32), int(is_wanted.sum()))
    return topics.filter(pa.array(is_wanted)), matches


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


def wanted_in(book: WishBook, periods: Sequence[Period], seed: int) -> list[Wanted]:
    """The windows' wishes. Wishes without times are cut by chance: a tenth arrives after the first window."""
    short: list[Stays | None]
    if book.is_timed:
        marks = np.asarray(map_array(book.folder, MARKS), np.uint64)
        short = [_stays(book.folder, number, period) for number, period in enumerate(periods)]
    else:
        count = len(periods) or 2
        marks, short = np.full(book.of.pair_count, (1 << count) - 1, np.uint64), [None] * count
        if count > 1:
            marks[np.random.default_rng(seed).random(len(marks)) < HELD_OUT] &= ~np.uint64(1)
        save_array(marks, book.folder, MARKS)
    return [_window(book, (marks >> bit) & 1 > 0, stays) for bit, stays in enumerate(short)]


def _stays(folder: Path, window: int, period: Period) -> Stays:
    client, wish, begin, end = map_array(folder, f"{STAYS}-{window}")
    return Stays(client.astype(np.int32), wish.astype(np.int32), begin, end, period.end_s - period.start_s)


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
