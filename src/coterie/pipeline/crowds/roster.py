"""Numbers clients, filters and topics and writes who wants and says what, part by part; nothing of it meets the driver.

Parts follow the canonical subscriptions, which are cut by subscriber; clients who only publish have parts behind them.
Ids are those that `windows` gives: (part, name), then the others by name. Below the roster's folder lie

    topics.parquet, filters.parquet     names by id
    names/part-k                        client_id, client
    wishes/part-k                       client_id, filters, marks (a bit for each window, and one if it held throughout)
    stays/W/part-k                      client_id, filter, begin, end: wishes of window W that did not hold throughout
    said/part-k                         client_id, topic, window, events, known, bytes
    seats/stay/part-k                   client_id, node: where clients are
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.model.relation import Relation
from coterie.pipeline.cutting import Windows
from coterie.pipeline.filters import has_filters, is_shared
from coterie.pipeline.ingest import has_plain_topics
from coterie.pipeline.interests import FILTERS_FILE, TOPICS_FILE, coded, numbered, read_wish_rows
from coterie.pipeline.legs import Leg, untold
from coterie.pipeline.stays import marked, short_stays, sorted_distinct, stays_in, wish_times
from coterie.pipeline.storage import Folder, read_rows, write_rows
from coterie.pipeline.tasks import map_array, part_files, part_name, run_tasks, save_array, task_frame
from coterie.pipeline.wishing import HELD_OUT, wanted_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

I64 = NDArray[np.int64]
NAMES, WISHES, STAYS, SAID, STAYING = "names", "wishes", "stays", "said", "seats/stay"
STEADY = 31  # bit so much above a window's own: the wish held throughout
LENGTHS, MATCHES, SHARED = "name_bytes", ("matches_indptr", "matches_columns"), "is_shared"


@dataclass(frozen=True, eq=False)
class Roster:
    """How many of everything there are, and where; small enough for anybody."""

    folder: Folder
    tables: Folder
    starts: I64  # the first client id of each part, and the number of clients
    people_parts: int  # parts of those who want something
    filters: int
    topics: int
    wishes: int
    windows: Windows
    is_timed: bool  # some wish has a time
    has_matches: bool

    @property
    def clients(self) -> int:
        return int(self.starts[-1])

    @property
    def people(self) -> int:
        return int(self.starts[self.people_parts])

    @property
    def parts(self) -> int:
        return len(self.starts) - 1

    def matches(self) -> Relation | None:
        """Filter -> topics; None: filters are topics."""
        if not self.has_matches:
            return None
        indptr, columns = (
            np.asarray(map_array(self.folder, name), kind)
            for name, kind in zip(MATCHES, (np.int64, np.int32), strict=True)
        )
        return Relation(indptr, columns, self.topics)

    def is_shared(self) -> NDArray[np.bool_]:
        if not self.has_matches:
            return np.zeros(self.filters, bool)
        return np.asarray(map_array(self.folder, SHARED), bool)


def number_wishes(
    spark: SparkSession, tables: Folder, out: Folder, windows: Windows, seed: int, leg: Leg = untold
) -> Roster:
    """The part of the roster that concerns those who want something."""
    paths = part_files(tables / "subscriptions")
    parts = list(enumerate(paths))
    leg(0.0, 0.3)
    told = _look(spark, parts, out)
    starts = np.concatenate([[0], np.cumsum(told["subscribers"].to_numpy())]).astype(np.int64)
    pairs = np.concatenate([[0], np.cumsum(told["pairs"].to_numpy())]).astype(np.int64)
    if not pairs[-1]:
        raise InputError(str(tables), "no subscription is left after the bad rows were set aside")
    is_timed = windows.is_timed and bool(pc.sum(told["timed"]).as_py())
    filters, topics, has_matches = _match(spark, tables, out)
    leg(0.35, 1.0)
    jobs = [(index, path, int(starts[index]), int(pairs[index])) for index, path in parts]
    run_tasks(spark, jobs, _encoder(out, windows if is_timed else None, windows.count, seed), "part int")
    return Roster(
        out, tables, starts, len(parts), filters, topics, int(pairs[-1]), windows, is_timed, has_matches
    )  # fmt: skip


def _look(spark: SparkSession, parts: list[tuple[int, Any]], out: Folder) -> pa.Table:
    """How many clients and wishes each part has; the names of what they want are gathered without repetition."""
    from pyspark.sql import functions as sf

    schema = "part int, subscribers long, pairs long, timed long, topics array<string>"
    found = task_frame(spark, parts, _look_into, schema).persist()
    try:
        told = found.select("part", "subscribers", "pairs", "timed").toArrow().sort_by("part")
        names = found.select(sf.explode("topics").alias("topic")).distinct().toArrow()["topic"].combine_chunks()
    finally:
        found.unpersist()
    names = names.take(pc.sort_indices(names))
    write_rows(pa.table({"topic": names}), out / TOPICS_FILE)
    return told


def _look_into(task: tuple[int, Any]) -> pa.Table:
    index, path = task
    rows = read_wish_rows(path)
    topics = numbered(rows["topic"])[0]
    people, key = coded(rows, topics)
    pairs = len(sorted_distinct(key))
    timed = 2 * len(rows) - rows["since"].null_count - rows["until"].null_count
    return pa.table(
        {
            "part": pa.array([index], pa.int32()),
            "subscribers": pa.array([len(people)], pa.int64()),
            "pairs": pa.array([pairs], pa.int64()),
            "timed": pa.array([timed], pa.int64()),
            "topics": pa.array([topics], pa.list_(pa.string())),
        }
    )


def _match(spark: SparkSession, tables: Folder, out: Folder) -> tuple[int, int, bool]:
    """The numbers of filters and topics; where filters are more than names, they and what they match are kept apart."""
    names = read_rows(out / TOPICS_FILE)["topic"].combine_chunks()
    if has_plain_topics(tables / "subscriptions") or not has_filters(names):
        save_array(_lengths(names), out, LENGTHS)
        return len(names), len(names), False
    topics, matches = wanted_topics(spark, tables, names, out / "matching")
    write_rows(pa.table({"filter": names}), out / FILTERS_FILE)
    write_rows(pa.table({"topic": topics}), out / TOPICS_FILE)
    save_array(_lengths(topics), out, LENGTHS)
    save_array(matches.indptr, out, MATCHES[0])
    save_array(matches.columns, out, MATCHES[1])
    save_array(is_shared(names), out, SHARED)
    return len(names), len(topics), True


def _lengths(names: pa.Array) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = pc.binary_length(names).to_numpy().astype(np.float64)
    return lengths


def wish_names(folder: Folder) -> pa.Array:
    """What clients asked for, by id."""
    path = folder / FILTERS_FILE
    return read_rows(path if path.exists() else folder / TOPICS_FILE).column(0).combine_chunks()


def _encoder(
    out: Folder, windows: Windows | None, window_count: int, seed: int
) -> Callable[[tuple[int, Any, int, int]], pa.Table]:
    """`windows` is None where no wish has a time: a tenth, drawn as if in one long row, arrives later."""

    def work(task: tuple[int, Any, int, int]) -> pa.Table:
        index, path, first_id, first_pair = task
        filters = wish_names(out)
        rows = read_wish_rows(path)
        people, key = coded(rows, filters)
        pairs = sorted_distinct(key)
        ids = pa.array(np.arange(first_id, first_id + len(people)), pa.int64())
        if windows is not None:
            since, until = wish_times(rows["since"], rows["until"])
            marks = marked(pairs, key, since, until, windows.periods)
            for bit, period in enumerate(windows.periods):
                stays = short_stays(*stays_in(period, key, since, until))
                is_steady = marks >> np.uint64(bit) & np.uint64(1) > 0
                is_steady[np.searchsorted(pairs, stays[0])] = False  # every stay is of one of the pairs
                marks[is_steady] |= np.uint64(1 << bit + STEADY)
                _write_stays(stays, first_id, len(filters), out / STAYS / str(bit), index)
        else:
            draw = np.random.default_rng(seed)
            draw.bit_generator.advance(first_pair)  # type: ignore[attr-defined]
            marks = np.full(len(pairs), (1 << window_count) - 1, np.uint64)
            marks[draw.random(len(pairs)) < HELD_OUT] &= ~np.uint64(1)
        _write_wishes(pairs, marks, ids, len(filters), out, index)
        write_rows(
            pa.table({"client_id": ids, "client": people.cast(pa.large_string())}), out / NAMES / part_name(index)
        )
        return pa.table({"part": pa.array([index], pa.int32())})

    return work


def _write_stays(stays: tuple[I64, Any, Any], first_id: int, width: int, folder: Folder, index: int) -> None:
    client, wish = np.divmod(stays[0], max(width, 1))
    write_rows(
        pa.table({"client_id": client + first_id, "filter": wish, "begin": stays[1], "end": stays[2]}),
        folder / part_name(index),
    )


def _write_wishes(pairs: I64, marks: Any, ids: pa.Array, width: int, out: Folder, index: int) -> None:
    row, column = np.divmod(pairs, max(width, 1))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(ids)))]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(indptr), pa.array(column.astype(np.int32)))
    bits = pa.ListArray.from_arrays(pa.array(indptr), pa.array(marks.astype(np.int64)))
    write_rows(pa.table({"client_id": ids, "filters": lists, "marks": bits}), out / WISHES / part_name(index))


def write_by_part(rows: DataFrame, roster: Roster, schema: str, write: Callable[[int, pa.Table], None]) -> None:
    """Rows of clients, of this schema, meet in a task for each part, which writes them."""
    from pyspark.sql import functions as sf

    starts, columns = roster.starts, [column.split()[0] for column in schema.split(", ")]

    def numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            part = np.searchsorted(starts, batch["client_id"].to_numpy(), side="right") - 1
            yield pa.RecordBatch.from_arrays([pa.array(part, pa.int32()), *batch.columns], names=["part", *columns])

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [one for one in batches if one.num_rows]
        if found:
            table = pa.Table.from_batches(found)
            index = int(table["part"][0].as_py())
            write(index, table.drop_columns("part"))
            yield pa.RecordBatch.from_pydict({"part": pa.array([index], pa.int32())})

    cut = rows.select(*columns).mapInArrow(numbered, f"part int, {schema}")
    cut.repartitionById(roster.parts, sf.col("part")).mapInArrow(written, "part int").toArrow()
