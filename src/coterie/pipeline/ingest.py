"""Brings files of any supported shape into one canonical table and accounts for every row.

How it works: tasks read and check pieces of files, rows go in blocks to the part that their key belongs to, and each
part is sorted, freed of exact duplicates and written by its own task, bad rows to the quarantine beside it. What was
read is counted by the readers (Parquet: by the footers), what was written by the writers, and the two must agree.
"""

from __future__ import annotations

import json
import os
import pickle
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.errors import ConfigError, InputError
from coterie.pipeline.canonical import VALUE_MARK
from coterie.pipeline.files import EMPTY_FILE, IN_ONE_PIECE, InputFile, find_files, look_into_all
from coterie.pipeline.here import is_here
from coterie.pipeline.mapping import Source
from coterie.pipeline.packing import PACKED, carried_schema, cut, packed, unpacked
from coterie.pipeline.parts import QUARANTINE_FOLDER, SET_ASIDE, PartReport, finish_part
from coterie.pipeline.reading import LINE_BITS, Split, checked_rows, read_splits
from coterie.pipeline.schemas import QUARANTINE, SPARK_TYPES, TableSchema, table_schema
from coterie.pipeline.storage import Folder, Remote, read_rows, remove_all, write_rows
from coterie.pipeline.tasks import part_files, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_BYTES = 64 << 20
ROWS_PER_PART = 2_500_000  # what one Python worker holds comfortably
OPENED_BYTES = 1 << 16  # as long as it takes to open a file, and much more in a store
LOOKED_HERE = 2000  # files that one process looks into; more are looked into by tasks
FILES_MAX = 1000  # files that an account names one by one
WHOLE_BYTES = 4 * SPLIT_BYTES  # what one task may read alone without a word
CLOCK_SKEW_S = 300.0
PLAIN_MARK = "_plain_topics"  # a file in the folder of a table; Spark passes over names that begin so
I64 = NDArray[np.int64]
Placed = tuple[int, InputFile, Source]  # number of the file, the file, what it means


@dataclass(frozen=True)
class FileAccount:
    """What became of one file."""

    path: str
    rows: int
    quarantined: int
    note: str = ""


@dataclass(frozen=True)
class Account:
    """What became of every row of one table; rows_in = kept + quarantined always."""

    table: str
    rows_in: int
    kept: int
    quarantined: int
    reasons: dict[str, int] = field(default_factory=dict)
    files: tuple[FileAccount, ...] = ()

    def as_facts(self) -> dict[str, object]:
        """Where there are very many files, only those of which there is something to say."""
        files = self.files
        if len(files) > FILES_MAX:
            files = tuple(file for file in files if file.quarantined or file.note)
        return asdict(replace(self, files=files)) | {"file_count": len(self.files)}


def ingest(
    spark: SparkSession,
    sources: Sequence[Source],
    out: Folder,
    *,
    strict: bool = False,
    now_s: float | None = None,
) -> Account:
    """Write out/<table>/ and out/quarantine/<table>/ from sources that all mean the same table.

    `strict` raises InputError for the first bad row (by file, then line) and leaves nothing behind.
    """
    schema = _one_table(sources)
    latest_us = round(((time.time() if now_s is None else now_s) + CLOCK_SKEW_S) * 1e6)
    look = partial(_looked, spark)
    listed = [(file, source) for source in sources for file in find_files(source, look)]
    placed: list[Placed] = [(index, file, source) for index, (file, source) in enumerate(listed)]
    splits = _splits([entry for entry in placed if entry[1].format and not entry[1].note])
    bins = [_wrapped(found) for found in _bins(splits)]
    name, parts = schema.name, _part_count(placed)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chosen = [
            split for batch in batches for index in batch.column(0).to_pylist() for split in _unwrapped(bins[index])
        ]
        yield from packed(read_splits(chosen, latest_us), name, parts)

    for folder in (out / name, out / QUARANTINE_FOLDER / name, out / SET_ASIDE / name):
        remove_all(folder)
    keeps = sources[0].keeps_duplicates
    if is_here(spark):
        rows = pa.concat_tables([carried_schema(schema).empty_table(), *read_splits(splits, latest_us)])
        reports = [finish_part(mine, name, out, part, keeps) for part, mine in enumerate(cut(rows, name, parts))]
    else:
        numbers = spark.range(0, max(1, len(bins)), 1, max(1, len(bins))).where(f"id < {len(bins)}")
        reports = _write_parts(numbers.mapInArrow(read, PACKED), schema, out, parts, keeps)
    mark_names(out / name, sources[0].topics)
    account = _settle(spark, schema, out, placed, splits, reports)
    if strict:
        _raise_first(out, account)
    return account


def write_table(
    frame: DataFrame, table: str, out: Folder, *, keep_duplicates: bool = False, topics: str = "plain"
) -> Account:
    """Write out/<table>/ from a frame that was derived from other tables and has the canonical columns already."""
    from pyspark.sql import functions as sf

    schema = table_schema(table)
    columns = [sf.col(field.name).cast(SPARK_TYPES[field.kind]).alias(field.name) for field in schema.fields]
    rows_in = frame.count()
    parts = _part_count_of(rows_in)
    latest_us = round((time.time() + CLOCK_SKEW_S) * 1e6)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from packed((checked_rows(batch, table, latest_us, topics) for batch in batches), table, parts)

    for folder in (out / table, out / QUARANTINE_FOLDER / table, out / SET_ASIDE / table):
        remove_all(folder)
    reports = _write_parts(frame.select(*columns).mapInArrow(read, PACKED), schema, out, parts, keep_duplicates)
    mark_names(out / table, topics)
    derived = InputFile(f"derived {table}", "", rows=rows_in)
    split = Split(0, derived, 0, Source(("",), table=table))
    reports[0]["splits"].append({"split": 0, "lines": rows_in, "rows": 0, "note": ""})
    return _settle(frame.sparkSession, schema, out, [(0, derived, split.source)], [split], reports)


def has_plain_topics(table: Folder) -> bool:
    """Whether the names in a table are just names, and no MQTT filters."""
    return (table / PLAIN_MARK).exists()


def mark_names(folder: Folder, topics: str) -> None:
    """Keep with a table whether its topics are plain names."""
    if topics == "plain":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PLAIN_MARK).touch()


def _looked(spark: SparkSession, listed: Sequence[str | Remote], source: Source) -> list[InputFile]:
    """What is in files; of very many, tasks look."""
    if is_here(spark) or len(listed) <= LOOKED_HERE:
        return look_into_all(listed, source)
    chunks = [_wrapped(listed[start : start + LOOKED_HERE]) for start in range(0, len(listed), LOOKED_HERE)]
    home = os.getcwd()

    def look(chunk: bytes) -> pa.Table:
        places = [one if isinstance(one, Remote) else os.path.join(home, one) for one in _unwrapped(chunk)]
        found = look_into_all(places, source)
        named = [replace(file, path=str(one)) for file, one in zip(found, _unwrapped(chunk), strict=True)]
        return pa.table({"found": pa.array([_wrapped(named)], pa.binary())})

    told = run_tasks(spark, chunks, look, "found binary")["found"].to_pylist()
    return [file for data in told for file in _unwrapped(data)]


def _one_table(sources: Sequence[Source]) -> TableSchema:
    names = sorted({source.table for source in sources})
    if len(names) != 1:
        raise ConfigError("sources", names, "one table at a time")
    if len({source.keeps_duplicates for source in sources}) != 1:
        raise ConfigError("duplicates", "mixed", "the same choice for all sources of a table")
    if len({source.topics for source in sources}) != 1:
        raise ConfigError("topics", "mixed", "the same choice for all sources of a table")
    return table_schema(names[0])


def _splits(files: Sequence[Placed]) -> list[Split]:
    splits: list[Split] = []
    for file_index, file, source in files:
        if file.format == "parquet":
            splits += [
                Split(len(splits) + at, file, file_index, source, at, at + 1) for at in range(len(file.group_rows))
            ]
            continue
        if file.compression or file.size_bytes <= SPLIT_BYTES or file.format == "json" or file.has_breaks:
            splits.append(Split(len(splits), file, file_index, source))
            continue
        for start in range(0, file.size_bytes, SPLIT_BYTES):
            stop = min(start + SPLIT_BYTES, file.size_bytes)
            splits.append(Split(len(splits), file, file_index, source, start, stop))
    return splits


def _part_count(files: Sequence[Placed]) -> int:
    """Decided by the data alone, so that every machine cuts the table alike."""
    rows = sum(file.rows or file.size_bytes * (4 if file.compression else 1) // 40 for _, file, _ in files)
    return _part_count_of(rows)


def _part_count_of(rows: int) -> int:
    return max(1, min(8, rows // 200_000), -(-rows // ROWS_PER_PART))


def _weight(split: Split) -> int:
    """Bytes to read, roughly; opening a file counts as well, so that many tiny ones are many tasks."""
    if split.file.format == "parquet":
        size = split.file.size_bytes // max(1, len(split.file.group_rows)) * 4
    else:
        size = (split.file.size_bytes if split.stop is None else split.stop) - split.start
    return max(size, OPENED_BYTES)


def _bins(splits: list[Split]) -> list[list[Split]]:
    """Small files share a task: starting one costs more than reading a few hundred kilobytes."""
    bins: list[list[Split]] = []
    room = 0
    for split in splits:
        size = _weight(split)
        if room < size or not bins:
            bins.append([])
            room = SPLIT_BYTES // (4 if split.file.compression else 1) // 4
        bins[-1].append(split)
        room -= size
    return bins


def _wrapped(found: Any) -> bytes:
    """Every task is sent all bins and opens its own: of a million files that is the difference between MB and hours."""
    return zlib.compress(pickle.dumps(found), 1)


def _unwrapped(data: bytes) -> Any:
    return pickle.loads(zlib.decompress(data))


def _write_parts(
    blocks: DataFrame, schema: TableSchema, out: Folder, parts: int, keep_duplicates: bool
) -> list[PartReport]:
    from pyspark import TaskContext
    from pyspark.sql import functions as sf

    target, name = out, schema.name

    def finish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        report = finish_part(unpacked(batches, name), name, target, context.partitionId(), keep_duplicates)
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    told = blocks.repartitionById(parts, sf.col("part")).mapInArrow(finish, "report string").toArrow()
    return [json.loads(text) for text in told["report"].to_pylist()]


def _settle(
    spark: SparkSession,
    schema: TableSchema,
    out: Folder,
    placed: list[Placed],
    splits: list[Split],
    reports: list[PartReport],
) -> Account:
    """Give quarantined rows their file and line, and prove that no row got lost."""
    told = {item["split"]: item for report in reports for item in report["splits"]}
    assert sorted(told) == [split.index for split in splits], "a reader did not report"
    rows = {index: file.rows for index, file, _ in placed}
    notes = {index: file.note for index, file, _ in placed}
    first_line = np.zeros(len(splits), np.int64)
    passed: Counter[int] = Counter()
    for split in splits:
        item = told[split.index]
        first_line[split.index] = passed[split.file_index]
        passed[split.file_index] += item["lines"]
        rows[split.file_index] += item["rows"]
        notes[split.file_index] = notes[split.file_index] or item["note"]
    file_of_split = np.array([split.file_index for split in splits], np.int64)
    for index, file, _ in placed:
        if (file.compression or file.format == "json" or file.has_breaks) and file.size_bytes > WHOLE_BYTES:
            notes[index] = notes[index] or f"{IN_ONE_PIECE}: {_why_whole(file)}"
    names = [file.path for _, file, _ in placed]
    where = (names, file_of_split, first_line)
    resolve = partial(_resolve, table=schema.name, where=where, target=out / QUARANTINE_FOLDER / schema.name)
    waiting = part_files(out / SET_ASIDE / schema.name)
    found = run_tasks(spark, waiting, resolve, "found string")["found"].to_pylist() if waiting else []
    remove_all(out / SET_ASIDE)
    bad: Counter[int] = Counter()
    reasons: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for one in map(json.loads, found):
        bad.update(dict(one["bad"]))
        reasons.update(one["reasons"])
        examples = one["examples"] | examples
    kept, set_aside = sum(report["kept"] for report in reports), reasons.total()
    rows_in = sum(rows.values())
    assert rows_in == kept + set_aside, f"{rows_in} rows in, {kept} kept, {set_aside} quarantined"
    files_told = tuple(FileAccount(file.path, rows[i], bad[i], notes[i]) for i, file, _ in placed)
    shown = {reason + examples.get(reason, ""): count for reason, count in sorted(reasons.items())}
    return Account(schema.name, rows_in, kept, set_aside, shown, files_told)


def _resolve(path: Folder, table: str, where: tuple[list[str], I64, I64], target: Folder) -> pa.Table:
    """Writes a part of the quarantine with files and lines instead of origins; tells what was found how often."""
    rows, (names, file_of_split, first_line) = read_rows(path), where
    origin = rows["origin"].to_numpy()
    file_index = file_of_split[origin >> LINE_BITS]
    line = first_line[origin >> LINE_BITS] + (origin & ((1 << LINE_BITS) - 1))
    files = pa.array([names[index] for index in file_index], pa.string())
    shown = pc.replace_substring_regex(rows["reason"], f"(?s){VALUE_MARK}(.*)$", r": '\1'")
    columns = [pa.array([table] * len(rows), pa.string()), files, pa.array(line), shown, rows["raw"]]
    write_rows(pa.Table.from_arrays(columns, schema=QUARANTINE), target / path.name)
    parted = [reason.partition(VALUE_MARK) for reason in rows["reason"].to_pylist()]
    told = {
        "bad": list(Counter(file_index.tolist()).items()),
        "reasons": Counter(reason for reason, _, _ in parted),
        "examples": {reason: f", such as {value!r}" for reason, mark, value in reversed(parted) if mark},
    }
    return pa.table({"found": [json.dumps(told)]})


def _why_whole(file: InputFile) -> str:
    if file.compression:
        return f"{file.compression} cannot be split; several files, or Parquet, are read side by side"
    return "a JSON array cannot be split; lines can" if file.format == "json" else "quoted text goes over several lines"


def _is_torn(note: str) -> bool:
    return note not in ("", EMPTY_FILE) and not note.startswith(IN_ONE_PIECE)


def _raise_first(out: Folder, account: Account) -> None:
    """The first bad row in the order of the files, or else the first file that could not be read to its end."""
    order = {file.path: index for index, file in enumerate(account.files)}
    worst: tuple[int, int, str, str] | None = None
    for path in part_files(out / QUARANTINE_FOLDER / account.table):
        for row in read_rows(path, ["file", "line", "reason"]).to_pylist():
            here = (order[row["file"]], row["line"], row["file"], row["reason"])
            worst = here if worst is None else min(worst, here)
    torn = next((file for file in account.files if _is_torn(file.note)), None)
    if worst is None and torn is None:
        return
    for folder in (out / account.table, out / QUARANTINE_FOLDER / account.table):
        remove_all(folder)
    if worst is not None:
        raise InputError(worst[2], worst[3], worst[1])
    assert torn is not None
    raise InputError(torn.path, torn.note)
