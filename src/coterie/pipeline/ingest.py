"""Brings files of any supported shape into one canonical table and accounts for every row.

How it works: tasks read text files (or Spark reads Parquet), rows go to the part that their key belongs to, and each
part is sorted, freed of exact duplicates and written by its own task, bad rows to the quarantine beside it. What was
read is counted by the readers (Parquet: by the footers), what was written by the writers, and the two must agree.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.errors import ConfigError, InputError
from coterie.pipeline.files import InputFile, find_files
from coterie.pipeline.mapping import Source
from coterie.pipeline.parquetread import (
    PARQUET_BIT,
    ParquetNumbers,
    Placed,
    is_native,
    parquet_frames,
    parquet_place,
)
from coterie.pipeline.parts import CARRIED, QUARANTINE_FOLDER, PartReport, finish_part
from coterie.pipeline.schemas import QUARANTINE, SPARK_TYPES, TableSchema, table_schema
from coterie.pipeline.tasks import part_files, write_part
from coterie.pipeline.textread import LINE_BITS, Split, read_split

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SPLIT_BYTES = 64 << 20
ROWS_PER_PART = 2_500_000  # what one Python worker holds comfortably
CLOCK_SKEW_S = 300.0


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
        return asdict(self)


def ingest(
    spark: SparkSession,
    sources: Sequence[Source],
    out: Path,
    *,
    strict: bool = False,
    now_s: float | None = None,
) -> Account:
    """Write out/<table>/ and out/quarantine/<table>/ from sources that all mean the same table.

    `strict` raises InputError for the first bad row (by file, then line) and leaves nothing behind.
    """
    schema = _one_table(sources)
    latest_us = round(((time.time() if now_s is None else now_s) + CLOCK_SKEW_S) * 1e6)
    listed = [(file, source) for source in sources for file in find_files(source)]
    placed: list[Placed] = [(index, file, source) for index, (file, source) in enumerate(listed)]
    native = [entry for entry in placed if is_native(entry[1], entry[2])]
    taken = {entry[0] for entry in native}
    splits = _splits([entry for entry in placed if entry[0] not in taken and entry[1].format and not entry[1].note])
    frames = _text_frames(spark, schema, splits, latest_us)
    tables, numbers = parquet_frames(spark, native)
    keep_duplicates = sources[0].duplicates == "keep"
    reports = _write_parts(frames + tables, schema, out, _part_count(placed), latest_us, keep_duplicates)
    account = _settle(schema, out, placed, splits, numbers, reports)
    if strict:
        _raise_first(out, account)
    return account


def write_table(frame: DataFrame, table: str, out: Path, *, keep_duplicates: bool = False) -> Account:
    """Write out/<table>/ from a frame that was derived from other tables and has the canonical columns already."""
    from pyspark.sql import functions as sf

    schema = table_schema(table)
    columns = [sf.col(field.name).cast(SPARK_TYPES[field.kind]).alias(field.name) for field in schema.fields]
    rows_in = frame.count()
    # Derived rows have no line in a file; a number that no file has stands for the frame itself.
    rows = frame.select(*columns, sf.lit(0).cast("bigint").alias("origin"), sf.lit(None).cast("string").alias("fault"))
    parts = max(1, min(8, rows_in // 200_000), -(-rows_in // ROWS_PER_PART))
    reports = _write_parts([rows], schema, out, parts, round(time.time() * 1e6), keep_duplicates)
    derived = InputFile(f"derived {table}", "", rows=rows_in)
    split = Split(0, derived, 0, Source(("",), table=table))
    reports[0]["splits"].append({"split": 0, "lines": rows_in, "rows": 0, "note": ""})
    return _settle(schema, out, [(0, derived, split.source)], [split], {}, reports)


def _one_table(sources: Sequence[Source]) -> TableSchema:
    names = sorted({source.table for source in sources})
    if len(names) != 1:
        raise ConfigError("sources", names, "one table at a time")
    if len({source.duplicates for source in sources}) != 1:
        raise ConfigError("duplicates", "mixed", "the same choice for all sources of a table")
    return table_schema(names[0])


def _splits(files: Sequence[Placed]) -> list[Split]:
    splits: list[Split] = []
    for file_index, file, source in files:
        if file.compression or file.format == "parquet" or file.size_bytes <= SPLIT_BYTES:
            splits.append(Split(len(splits), file, file_index, source))
            continue
        for start in range(0, file.size_bytes, SPLIT_BYTES):
            stop = min(start + SPLIT_BYTES, file.size_bytes)
            splits.append(Split(len(splits), file, file_index, source, start, stop))
    return splits


def _part_count(files: Sequence[Placed]) -> int:
    """Decided by the data alone, so that every machine cuts the table alike."""
    rows = sum(file.rows or file.size_bytes * (4 if file.compression else 1) // 40 for _, file, _ in files)
    return max(1, min(8, rows // 200_000), -(-rows // ROWS_PER_PART))


def _text_frames(spark: SparkSession, schema: TableSchema, splits: list[Split], latest_us: int) -> list[DataFrame]:
    if not splits:
        return []
    bins = _bins(splits)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for split in bins[index]:
                    for table in read_split(split, latest_us):
                        yield from table.to_batches()

    return [spark.range(0, len(bins), 1, len(bins)).mapInArrow(read, f"{schema.spark}, {CARRIED}")]


def _bins(splits: list[Split]) -> list[list[Split]]:
    """Small files share a task: starting one costs more than reading a few hundred kilobytes."""
    bins: list[list[Split]] = []
    room = 0
    for split in splits:
        size = (split.stop or split.file.size_bytes) - split.start
        if room < size or not bins:
            bins.append([])
            room = SPLIT_BYTES // (4 if split.file.compression else 1) // 4
        bins[-1].append(split)
        room -= size
    return bins


def _write_parts(
    frames: list[DataFrame], schema: TableSchema, out: Path, parts: int, latest_us: int, keep_duplicates: bool
) -> list[PartReport]:
    from pyspark import TaskContext
    from pyspark.sql import functions as sf

    for folder in (out / schema.name, out / QUARANTINE_FOLDER / schema.name):
        shutil.rmtree(folder, ignore_errors=True)
    target = str(out)
    name = schema.name
    if not frames:
        return [finish_part([], name, target, 0, latest_us, keep_duplicates)]
    # A bad row has no key; its origin spreads it, so that a flood of them cannot sink one task.
    spread = sf.col("origin").cast("string")
    key = sf.coalesce(sf.col(schema.cut_by), spread) if schema.cut_by else _row_hash(schema, spread)

    def finish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        report = finish_part(list(batches), name, target, context.partitionId(), latest_us, keep_duplicates)
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    rows = reduce(lambda a, b: a.unionByName(b), frames)
    told = rows.repartition(parts, key).mapInArrow(finish, "report string").toArrow()
    return [json.loads(text) for text in told["report"].to_pylist()]


def _row_hash(schema: TableSchema, spread: Column) -> Column:
    from pyspark.sql import functions as sf

    return sf.xxhash64(*[sf.col(name) for name in schema.names], sf.when(sf.col("fault").isNotNull(), spread))


def _settle(
    schema: TableSchema,
    out: Path,
    placed: list[Placed],
    splits: list[Split],
    numbers: ParquetNumbers,
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
    reasons: Counter[str] = Counter()
    bad: Counter[int] = Counter()
    for path in part_files(out / QUARANTINE_FOLDER / schema.name):
        table = pq.read_table(path)
        file_index, line = _whereabouts(table["origin"].to_numpy(), file_of_split, first_line, numbers)
        files = pa.array([placed[index][1].path for index in file_index], pa.string())
        columns = [pa.array([schema.name] * len(table), pa.string()), files, pa.array(line)]
        resolved = pa.Table.from_arrays([*columns, table["reason"], table["raw"]], schema=QUARANTINE)
        write_part(resolved, path.parent, int(path.stem.partition("-")[2]))
        reasons.update(table["reason"].to_pylist())
        bad.update(file_index.tolist())
    kept = sum(report["kept"] for report in reports)
    rows_in = sum(rows.values())
    assert rows_in == kept + reasons.total(), f"{rows_in} rows in, {kept} kept, {reasons.total()} quarantined"
    files_told = tuple(FileAccount(file.path, rows[i], bad[i], notes[i]) for i, file, _ in placed)
    return Account(schema.name, rows_in, kept, reasons.total(), dict(sorted(reasons.items())), files_told)


def _whereabouts(
    origin: NDArray[np.int64], file_of_split: NDArray[np.int64], first_line: NDArray[np.int64], numbers: ParquetNumbers
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(number of the file, line): for Parquet the line is the row, counted from 1."""
    native = (origin & PARQUET_BIT) != 0
    file_index = np.zeros(len(origin), np.int64)
    line = np.zeros(len(origin), np.int64)
    split = origin[~native] >> LINE_BITS
    if len(split):
        file_index[~native] = file_of_split[split]
        line[~native] = first_line[split] + (origin[~native] & ((1 << LINE_BITS) - 1))
    if native.any():
        mark, row = parquet_place(origin[native])
        known = np.array(sorted(numbers), np.int64)
        at = np.searchsorted(known, mark)
        assert np.array_equal(known[np.minimum(at, len(known) - 1)], mark), "a row from a file nobody listed"
        file_index[native] = np.array([numbers[int(m)] for m in known], np.int64)[at]
        line[native] = row + 1
    return file_index, line


def _raise_first(out: Path, account: Account) -> None:
    """The first bad row in the order of the files, or else the first file that could not be read to its end."""
    order = {file.path: index for index, file in enumerate(account.files)}
    worst: tuple[int, int, str, str] | None = None
    for path in part_files(out / QUARANTINE_FOLDER / account.table):
        for row in pq.read_table(path, columns=["file", "line", "reason"]).to_pylist():
            here = (order[row["file"]], row["line"], row["file"], row["reason"])
            worst = here if worst is None else min(worst, here)
    torn = next((file for file in account.files if file.note not in ("", "empty file")), None)
    if worst is None and torn is None:
        return
    for folder in (out / account.table, out / QUARANTINE_FOLDER / account.table):
        shutil.rmtree(folder, ignore_errors=True)
    if worst is not None:
        raise InputError(worst[2], worst[3], worst[1])
    assert torn is not None
    raise InputError(torn.path, torn.note)
