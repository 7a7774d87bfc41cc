"""Turns raw columns into the columns of a canonical table and says, row by row, why a row cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.filters import filter_faults, topic_faults
from coterie.pipeline.mapping import Source
from coterie.pipeline.schemas import ARROW_TYPES, TIME, Field, table_schema
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
    columns = {}
    for field in schema.fields:
        if field.name not in raw:
            columns[field.name] = _defaulted(pa.nulls(length, ARROW_TYPES[field.kind]), field)
            continue
        values, converted = raw[field.name], _converted(raw[field.name], field, source)
        if converted.null_count:
            wrong = pc.and_(_is_present(values), pc.is_null(converted))
            reasons = _noted(reasons, wrong, f"{field.name} is not {_WANTED[field.kind]}", values)
            converted = _defaulted(converted, field)
        columns[field.name] = converted
    # What has the right type may still make no sense.
    for field in schema.fields:
        values = columns[field.name]
        if field.required:
            reasons = _noted(reasons, pc.is_null(values), f"{field.name} is missing")
        if field.lowest is not None:
            reasons = _noted(reasons, pc.less(values, field.lowest), f"{field.name} is below {field.lowest:g}")
        if field.highest is not None:
            reasons = _noted(reasons, pc.greater(values, field.highest), f"{field.name} is above {field.highest:g}")
        if field.kind == "number":
            reasons = _noted(reasons, pc.invert(pc.is_finite(values)), f"{field.name} is not a number")
        if field.mqtt and source.topics == "mqtt":
            reasons = pc.coalesce(reasons, (filter_faults if field.mqtt == "filter" else topic_faults)(values))
        if field.past:
            late = pc.greater(values, pa.scalar(latest_us, TIME))
            reasons = _noted(reasons, late, f"{field.name} lies in the future")
    if schema.ordered:
        earlier, later = schema.ordered
        swapped = pc.less(columns[later], columns[earlier])
        reasons = _noted(reasons, swapped, f"{later} is before {earlier}")
    if schema.either:
        absent = reduce(pc.and_, (pc.is_null(columns[name]) for name in schema.either))
        reasons = _noted(reasons, absent, f"{' and '.join(schema.either)} are missing")
    return Checked(pa.Table.from_pydict(columns, schema=schema.arrow), reasons)


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


def _is_present(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(values), ""), False)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return pc.fill_null(pc.greater(pc.list_value_length(values), 0), False)
    return pc.is_valid(values)


def _defaulted(values: pa.Array, field: Field) -> pa.Array:
    return values if field.default is None else pc.fill_null(values, field.default)


def _converted(values: pa.Array, field: Field, source: Source) -> pa.Array:
    """Values of the wanted type; null where there is none, where it is empty, or where it is of another kind."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_large_string(values.type):
        values = values.cast(pa.string())
    if field.kind == "time":
        return parse_times(values, source.time_unit, source.zone)
    if field.kind == "texts":
        return _lists_or_null(values, source.separator)
    if field.kind != "text":
        return _numbers_or_null(values, field.kind)
    if pa.types.is_string(values.type):
        trimmed = pc.utf8_trim_whitespace(values)
        return pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    return values.cast(pa.string()) if pa.types.is_integer(values.type) else pa.nulls(len(values), pa.string())


def _lists_or_null(values: pa.Array, separator: str) -> pa.Array:
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        items = values.type.value_type
        if pa.types.is_string(items) or pa.types.is_integer(items) or pa.types.is_large_string(items):
            return pc.if_else(pc.equal(pc.list_value_length(values), 0), None, values.cast(ARROW_TYPES["texts"]))
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
