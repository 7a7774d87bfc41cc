"""Finishes one part of a canonical table: sorts it, sets exact duplicates aside, writes the part and its quarantine."""

from __future__ import annotations

import json
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.pipeline.reading import FAULT_MARK, REPORT_MARK, rendered
from coterie.pipeline.schemas import TableSchema, table_schema
from coterie.pipeline.storage import Folder, write_rows
from coterie.pipeline.tasks import part_name

QUARANTINE_FOLDER = "quarantine"
SET_ASIDE = "set_aside"  # the same before files and lines are known
DUPLICATE = "duplicate row"
KEY_LIMIT = 1 << 62
I64 = NDArray[np.int64]


class SplitReport(TypedDict):
    """What a text reader says about its piece of a file."""

    split: int
    lines: int
    rows: int
    note: str


class PartReport(TypedDict):
    """What a part's writer says."""

    part: int
    kept: int
    quarantined: int
    splits: list[SplitReport]


def finish_part(rows: pa.Table, table: str, out: Folder, part: int, keep_duplicates: bool) -> PartReport:
    """Write the part and its quarantine; the same rows in any order give the same files."""
    schema = table_schema(table)
    rows, faulty = (rows.filter(is_one) for is_one in (pc.is_null(rows["fault"]), pc.is_valid(rows["fault"])))
    is_report = pc.starts_with(faulty["fault"], REPORT_MARK)
    bad, told = faulty.filter(pc.invert(is_report)), faulty.filter(is_report)
    columns = [_in_order(rows[name].combine_chunks()) for name in schema.names]
    codes = [_codes(pc.fill_null(one.indices, -1) if pa.types.is_dictionary(one.type) else one) for one in columns]
    order, repeated = _order(codes, rows["origin"].to_numpy(), keep_duplicates)
    kept = order[~repeated]
    write_rows(pa.table(columns, schema.names).take(pa.array(kept)), out / table / part_name(part))
    twice = rows.take(pa.array(order[repeated]))
    count = _write_quarantine(bad, twice, schema, out, part)
    splits = [json.loads(text[len(REPORT_MARK) :]) for text in told["fault"].to_pylist()]
    return PartReport(part=part, kept=len(kept), quarantined=count, splits=splits)


def _in_order(values: pa.Array) -> pa.Array:
    """Texts leave as a dictionary in the order of the names, which Parquet stores as it is; all else as it came."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not pa.types.is_string(values.type):
        return values
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    indices = pa.array(rank).take(encoded.indices)
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary.take(pa.array(order)))


class _Codes(NamedTuple):
    """A column as whole numbers that sort and compare like its values; null is the smallest."""

    codes: I64
    size: int  # codes lie in 0..size; 0 means unknown bounds


def _codes(values: pa.Array) -> _Codes:
    if pa.types.is_list(values.type):
        values = pc.fill_null(_in_order(pc.binary_join(values, "\x1f")).indices, -1)
    missing = values.null_count > 0
    if pa.types.is_floating(values.type):
        numbers = np.ascontiguousarray(pc.fill_null(values, np.nan).to_numpy()).view(np.int64)
    else:
        numbers = pc.fill_null(values.cast(pa.int64()), np.iinfo(np.int64).min).to_numpy()
    if len(numbers) and not missing:
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < KEY_LIMIT:
            return _Codes(numbers - low, high - low + 1)
    return _Codes(numbers, 1 if len(values) == values.null_count else 0)


def _order(columns: list[_Codes], origin: I64, keep_duplicates: bool) -> tuple[I64, NDArray[np.bool_]]:
    """Row numbers sorted by all columns, then origin; and which of them repeat the row before them exactly.

    One 64-bit key holds as many leading columns as fit; only rows that share it are compared in full.
    """
    columns = [column for column in columns if column.size != 1]
    key = np.zeros(len(origin), np.int64)
    room, folded = 1, 0
    for column in columns:
        if not column.size or room * column.size >= KEY_LIMIT:
            break
        key = key * column.size + column.codes
        room *= column.size
        folded += 1
    order = np.argsort(key)
    same = key[order][1:] == key[order][:-1]
    in_run = np.concatenate([[False], same])[: len(order)] | np.concatenate([same, [False]])[: len(order)]
    rows = order[in_run]
    rest = [column.codes[rows] for column in columns[folded:]]
    order[in_run] = rows[np.lexsort((origin[rows], *reversed(rest), key[rows]))]
    repeated = np.zeros(len(order), bool)
    if not keep_duplicates and len(order):
        repeated[1:] = same
        for column in columns[folded:]:
            repeated[1:] &= column.codes[order][1:] == column.codes[order][:-1]
    return order, repeated


def _write_quarantine(bad: pa.Table, twice: pa.Table, schema: TableSchema, out: Folder, part: int) -> int:
    faults = [text.split(FAULT_MARK, 1) for text in bad["fault"].to_pylist()]
    reasons = [fault[0] for fault in faults] + [DUPLICATE] * len(twice)
    texts = [fault[1] for fault in faults] + rendered(twice.select(schema.names))
    origins = np.concatenate([table["origin"].to_numpy() for table in (bad, twice)])
    order = pa.array(np.argsort(origins, kind="stable"))
    table = pa.table(
        {"origin": origins, "reason": pa.array(reasons, pa.string()), "raw": pa.array(texts, pa.string())}
    ).take(order)
    if len(table):
        write_rows(table, out / SET_ASIDE / schema.name / part_name(part))
    return len(table)
