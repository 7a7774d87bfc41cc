"""Turns the subscriptions table into dense ids and the interest relation (subscriber -> topics) as CSR arrays.

The canonical subscriptions table is cut by subscriber, so every part is encoded by its own task without a shuffle.
Topic ids follow the order of the names; subscriber ids follow (part, name).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.model.relation import Relation
from coterie.pipeline.stays import I64, Period, marked, short_stays, sorted_distinct, stays_in, wish_times
from coterie.pipeline.storage import Folder, read_rows, write_rows
from coterie.pipeline.tasks import map_array, part_files, part_name, run_tasks, save_array

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS_FILE = "topics.parquet"
FILTERS_FILE = "filters.parquet"  # where wishes are filters that stand for any number of topics
SUBSCRIBERS = "subscribers"
MARKS, STAYS = "marks", "stays"


def encode_interests(
    spark: SparkSession, subscriptions: Path, out: Path, periods: Sequence[Period] = ()
) -> tuple[Relation, bool]:
    """Write topics.parquet (topic, size), subscribers/ (subscriber, topics) and the CSR arrays into `out`.

    For each pair of the relation `marks` has a bit per period in which it was alive, and `stays-<period>` those that
    were short; it is also told whether any row has a time.
    """
    parts = [(index, str(path)) for index, path in enumerate(part_files(subscriptions))]
    found = run_tasks(spark, parts, _names_of_part, "part int, subscribers long, topics array<string>")
    names = pc.unique(pc.list_flatten(found["topics"].combine_chunks()))
    topics = names.take(pc.sort_indices(names))
    out.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"topic": topics}), out / TOPICS_FILE)
    starts = np.concatenate([[0], np.cumsum(found["subscribers"].to_numpy())])
    jobs = [(index, path, int(starts[index])) for index, path in parts]
    told = run_tasks(spark, jobs, _encode_part(out, periods), "part int, timed long")
    relation = _join_parts(out, len(parts), len(topics))
    is_timed = bool(periods) and bool(pc.sum(told["timed"]).as_py())
    if is_timed:
        _join_times(out, len(parts), len(periods))
    sizes = np.bincount(relation.columns, minlength=len(topics))
    pq.write_table(pa.table({"topic": topics, "size": pa.array(sizes, pa.int64())}), out / TOPICS_FILE)
    return relation, is_timed


def load_interests(folder: Path) -> Relation:
    """The relation as arrays mapped from the files that `encode_interests` wrote."""
    topic_count = pq.read_metadata(folder / TOPICS_FILE).num_rows
    return Relation(map_array(folder, "indptr"), map_array(folder, "columns"), topic_count)  # type: ignore[arg-type]


def names_in(folder: Path, what: str = "topic") -> pa.Array:
    """By id: of each `topic`, `subscriber`, or `filter` (the topics themselves where nobody asked for more)."""
    if what == "filter" and not (folder / FILTERS_FILE).exists():
        what = "topic"
    paths = part_files(folder / SUBSCRIBERS) if what == "subscriber" else [folder / f"{what}s.parquet"]
    tables = [read_rows(path, [what]) for path in paths]
    return pa.concat_tables(tables)[what].combine_chunks() if tables else pa.array([], pa.string())


def name_filters(folder: Path, filters: pa.Array, topics: pa.Array) -> None:
    """What was encoded were filters: keep their names as such, and these topics as the topics."""
    pq.write_table(pa.table({"filter": filters}), folder / FILTERS_FILE)
    pq.write_table(pa.table({"topic": topics}), folder / TOPICS_FILE)


def _names_of_part(task: tuple[int, str]) -> pa.Table:
    index, path = task
    rows = read_wish_rows(path)
    return pa.table(
        {
            "part": pa.array([index], pa.int32()),
            "subscribers": pa.array([len(numbered(rows["subscriber"])[0])], pa.int64()),
            "topics": pa.array([numbered(rows["topic"])[0]], pa.list_(pa.string())),
        }
    )


def _encode_part(out: Path, periods: Sequence[Period]) -> Callable[[tuple[int, str, int]], pa.Table]:
    target = str(out)

    def work(task: tuple[int, str, int]) -> pa.Table:
        index, path, first_id = task
        rows, topics = read_wish_rows(path), names_in(Path(target))
        names, key = coded(rows, topics)
        since, until = wish_times(rows["since"], rows["until"])
        pairs = sorted_distinct(key)
        row, column = np.divmod(pairs, max(len(topics), 1))
        indptr = np.searchsorted(row, np.arange(len(names) + 1)).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(indptr), pa.array(column.astype(np.int32)))
        ids = pa.array(np.arange(first_id, first_id + len(names), dtype=np.int32))
        table = pa.table({"subscriber_id": ids, "subscriber": names, "topics": lists})
        write_rows(table, Path(target) / SUBSCRIBERS / part_name(index))
        save_array(marked(pairs, key, since, until, periods), target, f"{MARKS}-{index:05d}")
        for number, period in enumerate(periods):
            stay = short_stays(*stays_in(period, key, since, until))
            client, wish = np.divmod(stay[0], max(len(topics), 1))
            save_array(np.stack([client + first_id, wish, *stay[1:]]), target, f"{STAYS}-{number}-{index:05d}")
        timed = int((np.isfinite(since) | np.isfinite(until)).sum())
        return pa.table({"part": pa.array([index], pa.int32()), "timed": pa.array([timed], pa.int64())})

    return work


def read_wish_rows(path: str | Folder) -> pa.Table:
    """A part of the subscriptions, each column in one piece."""
    columns = ["subscriber", "topic"]
    return read_rows(path, [*columns, "since", "until"], read_dictionary=columns).unify_dictionaries().combine_chunks()


def coded(rows: pa.Table, filters: pa.Array) -> tuple[pa.Array, I64]:
    """The clients of these rows by name, and each row as client * (number of filters) + filter."""
    (clients, client), (wishes, wish) = numbered(rows["subscriber"]), numbered(rows["topic"])
    of_wish = pc.fill_null(pc.index_in(wishes, value_set=filters), -1).to_numpy().astype(np.int64)
    return clients, client * max(len(filters), 1) + of_wish[wish]


def numbered(column: pa.ChunkedArray) -> tuple[pa.Array, I64]:
    """The sorted distinct values, and the place of each row's among them.

    A dictionary may hold names that no row uses any more.
    """
    if column.num_chunks == 0:
        return pa.array([], pa.string()), np.zeros(0, np.int64)
    encoded = column.chunk(0)
    index = encoded.indices.to_numpy()
    used = np.flatnonzero(np.bincount(index, minlength=len(encoded.dictionary)))
    values = encoded.dictionary.take(pa.array(used))
    order = pc.sort_indices(values)
    place = np.zeros(len(encoded.dictionary), np.int64)
    place[used[order.to_numpy()]] = np.arange(len(used))
    return values.take(order), place[index]


def _join_parts(out: Path, part_count: int, topic_count: int) -> Relation:
    lengths, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for index in range(part_count):
        lists = pq.read_table(out / SUBSCRIBERS / part_name(index), columns=["topics"])["topics"]
        for chunk in lists.chunks:
            lengths.append(np.diff(chunk.offsets.to_numpy()).astype(np.int64))
            columns.append(chunk.flatten().to_numpy().astype(np.int32))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    relation = Relation(indptr, np.concatenate(columns), topic_count)
    save_array(relation.indptr, out, "indptr")
    save_array(relation.columns, out, "columns")
    return relation


def _join_times(out: Path, part_count: int, period_count: int) -> None:
    marks = [map_array(out, f"{MARKS}-{index:05d}") for index in range(part_count)]
    save_array(np.concatenate(marks), out, MARKS)
    for number in range(period_count):
        stays = [map_array(out, f"{STAYS}-{number}-{index:05d}") for index in range(part_count)]
        save_array(np.concatenate(stays, axis=1), out, f"{STAYS}-{number}")
