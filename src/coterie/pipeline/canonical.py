"""Turns raw columns into the columns of a canonical table and says, row by row, why a row cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.filters import filter_faults, topic_faults
from coterie.pipeline.mapping import Source
from coterie.pipeline.packing import text_buffers
from coterie.pipeline.schemas import ARROW_TYPES, TIME, Field, TableSchema, table_schema
from coterie.pipeline.times import NUMBER, parse_times

WHOLE = r"^[+-]?\d{1,18}$"
VALUE_MARK = "\2"  # between a reason and the value it is about
SHOWN_CHARS_MAX = 40


class Checked(NamedTuple):
    """Canonical columns, and for every row null or the reason why it is bad."""

    table: pa.Table
    reasons: pa.Array


def canonicalise(raw: Mapping[str, pa.Array], length: int, source: Source, latest_us: int) -> Checked:
    """Raw columns under their canonical names, any type each; absent ones count as empty."""
    schema = table_schema(source.table)
    reasons = pa.nulls(length, pa.string())
    columns = []
    for field in schema.fields:
        values = raw.get(field.name)
        if values is None:
            columns.append(_defaulted(pa.nulls(length, ARROW_TYPES[field.kind]), field))
            continue
        converted = _convert(values, field, source)
        if converted.null_count:
            wrong = pc.and_(_is_present(values), pc.is_null(converted))
            reasons = _noted(reasons, wrong, f"{field.name} is not {_WANTED[field.kind]}", values)
            converted = _defaulted(converted, field)
        columns.append(converted)
    table = pa.Table.from_arrays(columns, schema=schema.arrow)
    return Checked(table, pc.coalesce(reasons, check_values(table, schema, latest_us, source.topics)))


def check_values(table: pa.Table, schema: TableSchema, latest_us: int, topics: str) -> pa.Array:
    """Reasons for rows whose values have the right types and still make no sense; `topics` as in a source."""
    reasons = pa.nulls(len(table), pa.string())
    for field in schema.fields:
        values = table[field.name].combine_chunks()
        if field.required:
            reasons = _noted(reasons, _is_missing(values, field), f"{field.name} is missing")
        if field.lowest is not None:
            reasons = _noted(reasons, pc.less(values, field.lowest), f"{field.name} is below {field.lowest:g}")
        if field.highest is not None:
            reasons = _noted(reasons, pc.greater(values, field.highest), f"{field.name} is above {field.highest:g}")
        if field.kind == "number":
            reasons = _noted(reasons, pc.invert(pc.is_finite(values)), f"{field.name} is not a number")
        if field.mqtt and topics == "mqtt":
            reasons = pc.coalesce(reasons, (filter_faults if field.mqtt == "filter" else topic_faults)(values))
        if field.past:
            late = pc.greater(values, pa.scalar(latest_us, TIME))
            reasons = _noted(reasons, late, f"{field.name} lies in the future")
    if schema.ordered:
        earlier, later = schema.ordered
        swapped = pc.less(table[later], table[earlier]).combine_chunks()
        reasons = _noted(reasons, swapped, f"{later} is before {earlier}")
    if schema.either:
        absent = [_is_missing(table[name].combine_chunks(), schema.field(name)) for name in schema.either]
        for one in absent[1:]:
            absent[0] = pc.and_(absent[0], one)
        reasons = _noted(reasons, absent[0], f"{' and '.join(schema.either)} are missing")
    return reasons


_WANTED = {
    "text": "a text",
    "time": "a time",
    "number": "a number",
    "whole": "a whole number",
    "texts": "a list of words",
}


def _noted(reasons: pa.Array, faulty: pa.Array, reason: str, values: pa.Array | None = None) -> pa.Array:
    """The first reason found for a row stands; where values are given, it shows the row's."""
    if not pc.any(faulty, min_count=0).as_py():
        return reasons
    told = pa.scalar(reason)
    if values is not None:
        told = pc.binary_join_element_wise(told, _shown(values), VALUE_MARK, null_handling="replace")
    return pc.if_else(pc.and_(pc.is_null(reasons), pc.fill_null(faulty, False)), told, reasons)


def _shown(values: pa.Array) -> pa.Array:
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
        return pa.array([str(value)[:SHOWN_CHARS_MAX] for value in values.to_pylist()], pa.string())
    return pc.utf8_slice_codeunits(values.cast(pa.string()), 0, SHOWN_CHARS_MAX)


def is_trimmed(values: pa.Array) -> bool:
    """Whether surely no text is empty or has blanks around it; looks at the first and last byte of each only."""
    if values.null_count or not len(values):
        return False
    offsets, data = text_buffers(values)
    if (offsets[1:] == offsets[:-1]).any():
        return False
    edges = np.concatenate([data[offsets[:-1]], data[offsets[1:] - 1]])
    return bool(((edges > 32) & (edges < 128)).all())


def _is_present(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(values), ""), False)
    return pc.is_valid(values)


def _is_missing(values: pa.Array, field: Field) -> pa.Array:
    if field.kind == "texts":
        return pc.equal(pc.fill_null(pc.list_value_length(values), 0), 0)
    if field.kind == "text":
        return pc.fill_null(pc.equal(values, ""), True)
    return pc.is_null(values)


def _defaulted(values: pa.Array, field: Field) -> pa.Array:
    return values if field.default is None else pc.fill_null(values, field.default)


def _convert(values: pa.Array, field: Field, source: Source) -> pa.Array:
    """Values of the wanted type; null where there is none or where it is of another kind."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_large_string(values.type):
        values = values.cast(pa.string())
    if field.kind == "time":
        return parse_times(values, source.time_unit, source.zone)
    if field.kind == "text":
        return _texts_or_null(values)
    if field.kind == "texts":
        return _lists_or_null(values, source.separator)
    return _numbers_or_null(values, field.kind)


def _texts_or_null(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        if is_trimmed(values):
            return values
        trimmed = pc.utf8_trim_whitespace(values)
        return pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    if pa.types.is_integer(values.type):
        return values.cast(pa.string())
    return pa.nulls(len(values), pa.string())


def _lists_or_null(values: pa.Array, separator: str) -> pa.Array:
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        items = values.type.value_type
        if pa.types.is_string(items) or pa.types.is_integer(items) or pa.types.is_large_string(items):
            return values.cast(ARROW_TYPES["texts"])
    if not pa.types.is_string(values.type):
        return pa.nulls(len(values), ARROW_TYPES["texts"])
    trimmed = pc.utf8_trim_whitespace(values)
    words = pc.utf8_split_whitespace(trimmed) if separator == " " else pc.split_pattern(trimmed, separator)
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, words.type), words).cast(ARROW_TYPES["texts"])


def _numbers_or_null(values: pa.Array, kind: str) -> pa.Array:
    wanted = ARROW_TYPES[kind]
    if pa.types.is_string(values.type):
        trimmed = pc.utf8_trim_whitespace(values)
        shaped = pc.fill_null(pc.match_substring_regex(trimmed, WHOLE if kind == "whole" else NUMBER), False)
        plain = pc.replace_substring_regex(pc.if_else(shaped, trimmed, None), r"^\+", "")
        return plain.cast(wanted)
    if pa.types.is_integer(values.type) and values.type != pa.uint64():
        return values.cast(wanted, safe=False)
    if pa.types.is_floating(values.type):
        floats = values.cast(pa.float64())
        if kind == "number":
            return floats
        whole = np.asarray(pc.fill_null(floats, np.nan))
        fits = np.isfinite(whole) & (np.floor(whole) == whole) & (np.abs(whole) < 2**53)
        return pa.array(np.where(fits, whole, 0).astype(np.int64), mask=~fits)
    return pa.nulls(len(values), wanted)
