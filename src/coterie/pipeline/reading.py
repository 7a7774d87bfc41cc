"""Reads CSV, JSON Lines and Parquet inside a task: vectorised where rows are clean, one by one where they are not.

Every line that is not blank is one row in and gives exactly one row out: canonical values, or a fault with the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from coterie.pipeline.canonical import canonicalise
from coterie.pipeline.files import InputFile, Torn
from coterie.pipeline.lines import FileLines, blocks_of, quoted_fields, rows_of
from coterie.pipeline.mapping import Source
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.storage import Remote

Faults = np.ndarray[tuple[int], np.dtype[np.object_]]
LINE_BITS = 40  # an origin is (split << 40) | line within the split
RAW_CHARS_MAX = 2000
PARQUET_BATCH_ROWS = 500_000
TINY_BYTES, TOGETHER = 1 << 16, 256  # how small, and how many at most
FAULT_MARK = "\0"  # between reason and text in a fault
REPORT_MARK = "\1"  # begins a fault that is no row but a split's report


@dataclass(frozen=True)
class Split:
    """What one task reads at a time: a whole file, a byte range of a plain one (lines that begin in it), row groups."""

    index: int
    file: InputFile
    file_index: int
    source: Source
    start: int = 0
    stop: int | None = None


def read_splits(splits: Iterable[Split], latest_us: int) -> Iterator[pa.Table]:
    """Tables of all. Tiny files that look alike are parsed together: a row alone costs as much as a thousand do."""
    for looks, alike in groupby(splits, _looks):
        if looks is None:
            for split in alike:
                yield from read_split(split, latest_us)
            continue
        while group := list(islice(alike, TOGETHER)):
            yield from _read_together(group, latest_us)


def _looks(split: Split) -> object:
    """What files have in common that are read together; None for those that are read alone."""
    file = split.file
    is_plain = file.format in ("csv", "jsonl") and not file.compression and not file.has_breaks
    if not is_plain or split.stop is not None or file.size_bytes > TINY_BYTES:
        return None
    return file.format, file.columns, file.delimiter, file.has_header, split.source


def _read_together(group: list[Split], latest_us: int) -> Iterator[pa.Table]:
    told: list[tuple[int, int, int, str]] = []
    found: list[pa.Table] = []
    for split in group:
        blocks = list(blocks_of(split.file, 0, None))  # one, and what stands after the last line break
        data, lines = b"".join(block.data for block in blocks), sum(block.lines for block in blocks)
        if not blocks or len(data) > 2 * TINY_BYTES or (len(blocks) > 1 and b'"' in data):
            yield from read_split(split, latest_us)  # rows may go over several lines, or it has grown since
            continue
        rows = _rows_in(split, FileLines(data, lines), 1, int(split.file.has_header))
        told.append((split.index, lines, len(rows), ""))
        found.append(rows)
    if found:
        rows, one = pa.concat_tables(found), group[0]
        yield _checked(one, rows, _faults_of(rows, one, _refusal(one.file, one.source)), latest_us)
        yield _reports(one.source.table, told)


def read_split(split: Split, latest_us: int) -> Iterator[pa.Table]:
    """Tables of canonical columns + origin + fault; the last one carries the split's report."""
    if split.file.format == "parquet":
        yield from _read_parquet(split, latest_us)
        return
    refusal = _refusal(split.file, split.source)
    line_count, row_count, note = 0, 0, ""
    blocks = blocks_of(split.file, split.start, split.stop)
    while True:
        try:
            block = next(blocks)
        except StopIteration:
            break
        except Torn as torn:
            note = str(torn)
            break
        first_line = line_count + 1
        line_count += block.lines
        skipped = 1 if split.file.has_header and split.start == 0 and first_line == 1 else 0
        table = _read_block(split, block, first_line, skipped, refusal, latest_us)
        row_count += len(table)
        note = note or block.torn
        yield table
    yield _report(split, line_count, row_count, note)


def _read_parquet(split: Split, latest_us: int) -> Iterator[pa.Table]:
    """Row groups start..stop, batch by batch; the text of a bad row is its JSON."""
    fields = table_schema(split.source.table).fields
    columns = {f.name: split.source.column(f.name) for f in fields if split.source.column(f.name) in split.file.columns}
    refusal = _refusal(split.file, split.source)
    seen = 0
    groups = range(split.start, len(split.file.group_rows) if split.stop is None else split.stop)
    place = split.file.place
    file = pq.ParquetFile(place.open_file() if isinstance(place, Remote) else place)
    for batch in file.iter_batches(PARQUET_BATCH_ROWS, row_groups=list(groups), columns=list(columns.values())):
        raw = {name: batch.column(column) for name, column in columns.items()}
        checked = canonicalise(raw, batch.num_rows, split.source, latest_us)
        faults = _as_objects(checked.reasons)
        if refusal:
            faults = np.full(batch.num_rows, refusal, object)
        good = faults == None  # noqa: E711  (element by element)
        lines = _texts_of_bad(batch, good)
        numbers = np.arange(seen + 1, seen + 1 + batch.num_rows, dtype=np.int64)
        origins = (np.int64(split.index) << LINE_BITS) | numbers
        seen += batch.num_rows
        yield _assemble(checked.table, np.arange(batch.num_rows), good, lines, origins, faults)
    told = sum(split.file.group_rows[group] for group in groups)
    assert seen == told, f"{split.file.path}: {seen} rows read, footer says {told}"
    yield _report(split, seen, 0, "")  # its rows are counted from the footer


def _texts_of_bad(batch: pa.RecordBatch, good: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Array:
    if good.all():
        return pa.nulls(batch.num_rows, pa.string())
    texts = np.full(batch.num_rows, "", object)
    texts[~good] = rendered(batch.filter(pa.array(~good)))
    return pa.array(texts, pa.string())


def rendered(rows: pa.RecordBatch | pa.Table) -> list[str]:
    """Every row as JSON text."""
    return [json.dumps(row, default=str, ensure_ascii=False) for row in rows.to_pylist()]


def checked_rows(batch: pa.RecordBatch, table: str, latest_us: int, topics: str) -> pa.Table:
    """Rows that have the canonical columns already (they were derived from other tables) with their values checked."""
    raw = dict(zip(batch.schema.names, batch.columns, strict=True))
    rows, reasons = canonicalise(raw, batch.num_rows, Source(("",), table=table, topics=topics), latest_us)
    faults = [None] * len(rows)
    if reasons.null_count < len(rows):
        faults = [
            why and why + FAULT_MARK + text for why, text in zip(reasons.to_pylist(), rendered(batch), strict=True)
        ]
    # They have no line in a file.
    origins = pa.array(np.zeros(len(rows), np.int64))
    return rows.append_column("origin", origins).append_column("fault", pa.array(faults, pa.string()))


def _read_block(
    split: Split, block: FileLines, first_line: int, skipped: int, refusal: str, latest_us: int
) -> pa.Table:
    rows = _rows_in(split, block, first_line, skipped)
    faults = _faults_of(rows, split, refusal)
    if block.torn and len(rows):
        faults[-1] = f"the file is torn here: {block.torn}"
    return _checked(split, rows, faults, latest_us)


def _rows_in(split: Split, block: FileLines, first_line: int, skipped: int) -> pa.Table:
    """(text, is_garbled, origin) of what is not blank."""
    rows = rows_of(block, first_line, split.file, split.source.encoding).slice(skipped)
    origins = (np.int64(split.index) << LINE_BITS) | rows["line"].to_numpy()
    rows = rows.drop_columns("line").append_column("origin", pa.array(origins, pa.int64()))
    return rows.filter(pc.not_equal(pc.utf8_trim_whitespace(rows["text"]), ""))


def _faults_of(rows: pa.Table, split: Split, refusal: str) -> Faults:
    faults = np.full(len(rows), None, object)
    faults[rows["is_garbled"].to_numpy()] = f"not valid {split.source.encoding.upper()}"
    if refusal:
        faults[:] = refusal
    return faults


def _checked(split: Split, rows: pa.Table, faults: Faults, latest_us: int) -> pa.Table:
    """Rows of one file, or of several that are read alike."""
    lines, origins = rows["text"].combine_chunks(), rows["origin"].to_numpy()
    wanted = np.flatnonzero(faults == None)  # noqa: E711  (element by element)
    parse = _parse_csv if split.file.format == "csv" else _parse_json
    raw, complaints = parse(lines.take(pa.array(wanted)), split)
    faults[wanted] = complaints
    sound = wanted[complaints == None]  # noqa: E711
    table = canonicalise(raw, len(sound), split.source, latest_us)
    faults[sound] = _as_objects(table.reasons)
    good = faults == None  # noqa: E711
    return _assemble(table.table, sound, good, lines, origins, faults)


def _assemble(
    table: pa.Table,
    sound: np.ndarray[tuple[int], np.dtype[np.int64]],
    good: np.ndarray[tuple[int], np.dtype[np.bool_]],
    lines: pa.Array,
    origins: np.ndarray[tuple[int], np.dtype[np.int64]],
    faults: Faults,
) -> pa.Table:
    if good.all():
        whole = table.append_column("origin", pa.array(origins))
        return whole.append_column("fault", pa.nulls(len(table), pa.string()))
    kept = table.filter(pa.array(good[sound]))
    bad = np.flatnonzero(~good)
    texts = lines.take(pa.array(bad)).to_pylist()
    told = [f"{faults[row]}{FAULT_MARK}{text[:RAW_CHARS_MAX]}" for row, text in zip(bad, texts, strict=True)]
    empty = pa.table({name: pa.nulls(len(bad), kind) for name, kind in _types(table.schema)}, schema=table.schema)
    everything = pa.concat_tables([kept, empty])
    order = np.concatenate([np.flatnonzero(good), bad])
    everything = everything.append_column("origin", pa.array(origins[order]))
    return everything.append_column("fault", pa.array([None] * len(kept) + told, pa.string()))


def _as_objects(reasons: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    if reasons.null_count == len(reasons):
        return np.full(len(reasons), None, object)
    objects: np.ndarray[tuple[int], np.dtype[np.object_]] = reasons.to_numpy(zero_copy_only=False)
    return objects


def _types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return list(zip(schema.names, schema.types, strict=True))


def _report(split: Split, lines: int, rows: int, note: str) -> pa.Table:
    return _reports(split.source.table, [(split.index, lines, rows, note)])


def _reports(table: str, told: list[tuple[int, int, int, str]]) -> pa.Table:
    """A row for each split: its number, lines, rows and note."""
    schema = table_schema(table).arrow
    made = pa.table({name: pa.nulls(len(told), kind) for name, kind in _types(schema)}, schema=schema)
    names = ("split", "lines", "rows", "note")
    faults = [REPORT_MARK + json.dumps(dict(zip(names, one, strict=True))) for one in told]
    origins = np.array([one[0] for one in told], np.int64) << LINE_BITS
    return made.append_column("origin", pa.array(origins)).append_column("fault", pa.array(faults, pa.string()))


def _refusal(file: InputFile, source: Source) -> str:
    if file.format in ("jsonl", "json"):
        return ""
    for field in table_schema(source.table).fields:
        if field.required and source.column(field.name) not in file.columns:
            return f"the file has no column {source.column(field.name)}"
    return ""


Parsed = tuple[dict[str, pa.Array], np.ndarray[tuple[int], np.dtype[np.object_]]]


def _parse_csv(lines: pa.Array, split: Split) -> Parsed:
    """Raw columns of the lines that have the right number of fields, and complaints about the others."""
    file = split.file
    wanted = {
        field.name: file.columns.index(split.source.column(field.name))
        for field in table_schema(split.source.table).fields
        if split.source.column(field.name) in file.columns
    }
    complaints = np.full(len(lines), None, object)
    quoted = np.asarray(pc.match_substring(lines, '"'))
    plain_rows = np.flatnonzero(~quoted)
    fields = pc.split_pattern(lines.filter(pa.array(~quoted)), file.delimiter)
    counts = np.asarray(pc.list_value_length(fields))
    fits = counts == len(file.columns)
    for row, count in zip(plain_rows[~fits], counts[~fits], strict=True):
        complaints[row] = f"{count} fields instead of {len(file.columns)}"
    plain = {name: pc.list_element(fields.filter(pa.array(fits)), at) for name, at in wanted.items()}
    rows = [plain_rows[fits]]
    careful: dict[str, list[str]] = {name: [] for name in wanted}
    for row in np.flatnonzero(quoted):
        values = quoted_fields(lines[row].as_py(), file)
        if isinstance(values, str):
            complaints[row] = values
            continue
        rows.append(np.array([row]))
        for name, at in wanted.items():
            careful[name].append(values[at])
    order = pa.array(np.argsort(np.concatenate(rows), kind="stable"))
    both = {name: pa.concat_arrays([plain[name], pa.array(careful[name], pa.string())]) for name in wanted}
    return {name: column.take(order) for name, column in both.items()}, complaints


_json = msgspec.json.Decoder()


def _parse_json(lines: pa.Array, split: Split) -> Parsed:
    complaints = np.full(len(lines), None, object)
    records: list[dict[str, object]] = []
    for row, text in enumerate(lines.to_pylist()):
        try:
            record = _json.decode(text)
        except msgspec.DecodeError as error:
            complaints[row] = f"broken JSON ({error})"
            continue
        if isinstance(record, dict):
            records.append(record)
        else:
            complaints[row] = "not a JSON object"
    columns: dict[str, pa.Array] = {}
    schema = table_schema(split.source.table)
    keep = np.ones(len(records), bool)
    reasons = np.full(len(records), None, object)
    for field in schema.fields:
        name = split.source.column(field.name)
        values, wrong = _uniform([record.get(name) for record in records], field.kind, split.source.separator)
        reasons[wrong & keep] = f"{field.name} has the wrong type"
        keep &= ~wrong
        columns[field.name] = values
    complaints[np.flatnonzero(complaints == None)] = reasons  # noqa: E711
    return {name: values.filter(pa.array(keep)) for name, values in columns.items()}, complaints


def _uniform(
    values: list[object], kind: str, separator: str
) -> tuple[pa.Array, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """JSON values of one field as one array; numbers become text where both occur."""
    kinds = set(map(type, values)) - {type(None)}
    none_wrong = np.zeros(len(values), bool)
    if kind == "texts":
        mark = None if separator == " " else separator
        good = [v is None or isinstance(v, str) or _is_list_of_words(v) for v in values]
        lists = [v.split(mark) if isinstance(v, str) else v if ok else None for v, ok in zip(values, good, strict=True)]
        texts = [None if item is None else [str(word) for word in item] for item in lists]  # type: ignore[attr-defined]
        return pa.array(texts, pa.list_(pa.string())), ~np.array(good, bool)
    if kinds <= {str}:
        return pa.array(values, pa.string()), none_wrong
    if kinds == {int} and all(v is None or -(2**63) <= v < 2**63 for v in values):  # type: ignore[operator]
        return pa.array(values, pa.int64()), none_wrong
    if kinds == {float} and kind != "text":
        return pa.array(values, pa.float64()), none_wrong
    allowed = (str, int) if kind == "text" else (str, int, float)
    wrong = np.array([v is not None and (isinstance(v, bool) or not isinstance(v, allowed)) for v in values], bool)
    texts_only = [None if v is None or bad else str(v) for v, bad in zip(values, wrong, strict=True)]
    return pa.array(texts_only, pa.string()), wrong


def _is_list_of_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str | int) and not isinstance(item, bool) for item in value)
