"""Turns the subscriptions table into dense ids and the interest relation (subscriber -> topics) as CSR arrays.

The canonical subscriptions table is cut by subscriber, so every part is encoded by its own task without a shuffle.
Topic ids follow the order of the names; subscriber ids follow (part, name).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.model.relation import Relation
from coterie.pipeline.schemas import TIME
from coterie.pipeline.storage import Folder, read_rows
from coterie.pipeline.tasks import map_array, part_files, part_name, run_tasks, save_array, write_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS_FILE = "topics.parquet"
FILTERS_FILE = "filters.parquet"  # where wishes are filters that stand for any number of topics
SUBSCRIBERS = "subscribers"


@dataclass(frozen=True)
class Period:
    """A stretch of time [start, end) in seconds since 1970; an open side is None."""

    start_s: float | None = None
    end_s: float | None = None


ALWAYS = Period()


def encode_interests(spark: SparkSession, subscriptions: Path, out: Path, period: Period = ALWAYS) -> Relation:
    """Write topics.parquet (topic, size), subscribers/ (subscriber, topics) and the CSR arrays into `out`.

    A pair counts if the subscription was alive at some moment of the period.
    """
    parts = [(index, str(path)) for index, path in enumerate(part_files(subscriptions))]
    found = run_tasks(spark, parts, _names_of_part(period), "part int, subscribers long, topics array<string>")
    names = pc.unique(pc.list_flatten(found["topics"].combine_chunks()))
    topics = names.take(pc.sort_indices(names))
    out.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"topic": topics}), out / TOPICS_FILE)
    starts = np.concatenate([[0], np.cumsum(found["subscribers"].to_numpy())])
    jobs = [(index, path, int(starts[index])) for index, path in parts]
    run_tasks(spark, jobs, _encode_part(period, out), "part int, pairs long")
    relation = _join_parts(out, len(parts), len(topics))
    sizes = np.bincount(relation.columns, minlength=len(topics))
    pq.write_table(pa.table({"topic": topics, "size": pa.array(sizes, pa.int64())}), out / TOPICS_FILE)
    return relation


def load_interests(folder: Path) -> Relation:
    """The relation as arrays mapped from the files that `encode_interests` wrote."""
    topic_count = pq.read_metadata(folder / TOPICS_FILE).num_rows
    return Relation(map_array(folder, "indptr"), map_array(folder, "columns"), topic_count)  # type: ignore[arg-type]


def topic_names(folder: Path) -> pa.Array:
    return pq.read_table(folder / TOPICS_FILE, columns=["topic"])["topic"].combine_chunks()


def filter_names(folder: Path) -> pa.Array:
    """What clients asked for, by id: MQTT filters, or the topics themselves where nobody asked for more."""
    if not (folder / FILTERS_FILE).exists():
        return topic_names(folder)
    return pq.read_table(folder / FILTERS_FILE, columns=["filter"])["filter"].combine_chunks()


def name_filters(folder: Path, filters: pa.Array, topics: pa.Array) -> None:
    """What was encoded were filters: keep their names as such, and these topics as the topics."""
    pq.write_table(pa.table({"filter": filters}), folder / FILTERS_FILE)
    pq.write_table(pa.table({"topic": topics}), folder / TOPICS_FILE)


def subscriber_names(folder: Path) -> pa.ChunkedArray:
    return pa.chunked_array(
        [
            chunk
            for path in part_files(folder / SUBSCRIBERS)
            for chunk in pq.read_table(path, columns=["subscriber"])["subscriber"].chunks
        ],
        pa.string(),
    )


def _names_of_part(period: Period) -> Callable[[tuple[int, str]], pa.Table]:
    def work(task: tuple[int, str]) -> pa.Table:
        index, path = task
        rows = alive_rows(path, period)
        return pa.table(
            {
                "part": pa.array([index], pa.int32()),
                "subscribers": pa.array([len(used_names(rows["subscriber"]))], pa.int64()),
                "topics": pa.array([used_names(rows["topic"])], pa.list_(pa.string())),
            }
        )

    return work


def _encode_part(period: Period, out: Path) -> Callable[[tuple[int, str, int]], pa.Table]:
    target = str(out)

    def work(task: tuple[int, str, int]) -> pa.Table:
        index, path, first_id = task
        rows = alive_rows(path, period)
        topics = topic_names(Path(target))
        names = used_names(rows["subscriber"])
        row = codes_of(rows["subscriber"], names)
        column = codes_of(rows["topic"], topics)
        relation = Relation.from_pairs(row, column, len(names), len(topics))
        lists = pa.ListArray.from_arrays(pa.array(relation.indptr.astype(np.int32)), pa.array(relation.columns))
        ids = pa.array(np.arange(first_id, first_id + len(names), dtype=np.int32))
        table = pa.table({"subscriber_id": ids, "subscriber": names, "topics": lists})
        write_part(table, Path(target) / SUBSCRIBERS, index)
        return pa.table({"part": pa.array([index], pa.int32()), "pairs": pa.array([relation.pair_count], pa.int64())})

    return work


def alive_rows(path: str | Folder, period: Period) -> pa.Table:
    filtered = period.start_s is not None or period.end_s is not None
    columns = ["subscriber", "topic", "since", "until"] if filtered else ["subscriber", "topic"]
    rows = read_rows(path, columns, read_dictionary=["subscriber", "topic"])
    if period.end_s is not None and np.isfinite(period.end_s):
        began = pc.less(rows["since"], _moment(period.end_s))
        rows = rows.filter(pc.fill_null(began, True))
    if period.start_s is not None and np.isfinite(period.start_s):
        ended = pc.less_equal(rows["until"], _moment(period.start_s))
        rows = rows.filter(pc.invert(pc.fill_null(ended, False)))
    return rows.unify_dictionaries().combine_chunks()


def _moment(time_s: float) -> pa.Scalar:
    return pa.scalar(round(time_s * 1e6), TIME)


def used_names(column: pa.ChunkedArray) -> pa.Array:
    """The sorted distinct values; a dictionary may hold names that no row uses any more."""
    if column.num_chunks == 0:
        return pa.array([], pa.string())
    encoded = column.chunk(0)
    used = np.bincount(encoded.indices.to_numpy(), minlength=len(encoded.dictionary)) > 0
    values = encoded.dictionary.filter(pa.array(used))
    return values.take(pc.sort_indices(values))


def codes_of(column: pa.ChunkedArray, names: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if column.num_chunks == 0:
        return np.zeros(0, np.int64)
    encoded = column.chunk(0)
    of_value = pc.fill_null(pc.index_in(encoded.dictionary, value_set=names), -1).to_numpy()
    codes: np.ndarray[tuple[int], np.dtype[np.int64]] = of_value.astype(np.int64)[encoded.indices.to_numpy()]
    return codes


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
