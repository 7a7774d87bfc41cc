"""Reads times in any common form (numbers since 1970, ISO 8601, a pattern such as %d.%m.%Y) as UTC timestamps."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.pipeline.schemas import TIME

US_PER_UNIT = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
# Below its bound a number is taken for this unit: 1e11 seconds is the year 5138, 1e11 milliseconds is March 1973.
AUTO_BOUNDS = ((1e11, "s"), (1e14, "ms"), (1e17, "us"), (np.inf, "ns"))
US_MAX = 253_402_300_799_999_999  # the last microsecond of the year 9999
NUMBER = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
ISO = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?\s?(Z|z|[+-]\d\d(:?\d\d)?)?)?$"


def parse_times(values: pa.Array, unit: str, zone: str) -> pa.Array:
    """UTC timestamps; null where the value is null or cannot be a time."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        return _from_timestamps(values, zone)
    if pa.types.is_date(kind):
        return _from_timestamps(values.cast(pa.timestamp("us")), zone)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if is_pattern(unit):
            return _from_pattern(values.cast(pa.string()), unit, zone)
        return pa.nulls(len(values), TIME) if unit == "iso" else _from_numbers(values, unit)
    if pa.types.is_null(kind):
        return pa.nulls(len(values), TIME)
    text = pc.utf8_trim_whitespace(values.cast(pa.string()))
    if is_pattern(unit):
        return _from_pattern(text, unit, zone)
    if unit == "iso":
        return _from_iso(text, zone)
    numeric = pc.fill_null(pc.match_substring_regex(text, NUMBER), False)
    numbers = _from_numbers(pc.if_else(numeric, text, None), unit)
    if unit != "auto" or pc.all(numeric, min_count=0).as_py():
        return numbers
    return pc.coalesce(numbers, _from_iso(pc.if_else(numeric, None, text), zone))


def is_pattern(unit: str) -> bool:
    """A form of times in the letters of strftime, instead of a unit's name."""
    return "%" in unit


def _from_pattern(text: pa.Array, pattern: str, zone: str) -> pa.Array:
    if "%f" not in pattern and "%z" not in pattern:  # Arrow drops fractions of a second, and what a zone says
        return _from_timestamps(pc.strptime(text, pattern, "us", error_is_null=True), zone)
    return pa.array([_by_pattern(value, pattern, zone) for value in text.to_pylist()], TIME)


def _by_pattern(value: str | None, pattern: str, zone: str) -> datetime | None:
    try:
        moment = None if value is None else datetime.strptime(value, pattern)
    except ValueError:
        return None
    return moment.replace(tzinfo=ZoneInfo(zone)) if moment is not None and moment.tzinfo is None else moment


def _from_numbers(values: pa.Array, unit: str) -> pa.Array:
    """Whole numbers stay exact (nanoseconds since 1970 do not fit a float)."""
    if not pa.types.is_string(values.type):
        return _scaled(values, unit)
    whole = pc.fill_null(pc.match_substring_regex(values, r"^[+-]?\d{1,18}$"), False)
    exact = _scaled(pc.if_else(whole, pc.replace_substring_regex(values, r"^\+", ""), None).cast(pa.int64()), unit)
    if pc.all(pc.or_(whole, pc.is_null(values)), min_count=0).as_py():
        return exact
    return pc.coalesce(exact, _scaled(pc.if_else(whole, None, values).cast(pa.float64()), unit))


def _scaled(values: pa.Array, unit: str) -> pa.Array:
    floats = np.asarray(pc.fill_null(values.cast(pa.float64(), safe=False), np.nan))
    us = np.zeros(len(floats), np.int64)
    done = np.isnan(floats)
    bounds = AUTO_BOUNDS if unit == "auto" else ((np.inf, unit),)
    whole = np.asarray(pc.fill_null(values, 0)) if pa.types.is_integer(values.type) else None
    for bound, name in bounds:
        chosen = ~done & (np.abs(floats) < bound)
        us[chosen] = _to_us(floats, whole, chosen, US_PER_UNIT[name])
        done |= chosen
    bad = np.isnan(floats) | np.isinf(floats) | (np.abs(us) > US_MAX)
    return pa.array(us, pa.int64(), mask=bad).cast(TIME)


def _to_us(
    floats: NDArray[np.float64], whole: NDArray[np.integer] | None, chosen: NDArray[np.bool_], factor: float
) -> NDArray[np.int64]:
    rounded = np.round(floats[chosen] * factor)
    clipped = np.clip(rounded, -(2.0**62), 2.0**62).astype(np.int64)
    if whole is None:
        return clipped
    numbers = whole[chosen].astype(np.int64)
    exact = numbers // 1000 if factor < 1 else numbers * np.int64(factor)
    return np.where(np.abs(rounded) < 2.0**62, exact, clipped)


def _from_timestamps(values: pa.Array, zone: str) -> pa.Array:
    if values.type.tz is None:
        values = pc.assume_timezone(
            values.cast(pa.timestamp("us"), safe=False), zone, ambiguous="earliest", nonexistent="earliest"
        )
    return values.cast(TIME, safe=False)


def _from_iso(text: pa.Array, zone: str) -> pa.Array:
    shaped = pc.fill_null(pc.match_substring_regex(text, ISO), False)
    text = pc.if_else(shaped, text, None)
    zoned = pc.fill_null(pc.match_substring_regex(text, r":\d\d.*(Z|z|[+-]\d\d(:?\d\d)?)$"), False)
    if not pc.any(zoned, min_count=0).as_py():
        zoned_times = pa.nulls(len(text), TIME)
    else:
        zoned_times = _cast_or_each(pc.if_else(zoned, text, None), TIME, zone)
    naive = pc.if_else(zoned, None, text)
    if naive.null_count == len(naive):
        return zoned_times
    local = _cast_or_each(naive, pa.timestamp("us"), zone)
    return pc.coalesce(zoned_times, _from_timestamps(local, zone))


def _cast_or_each(text: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
    """All at once; one by one only when some value has the right shape and is no date (February 30)."""
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([_one(value, kind.tz, zone) for value in text.to_pylist()], kind)


def _one(value: str | None, tz: str | None, zone: str) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value.replace(",", ".").replace("z", "Z").replace(" Z", "Z"))
    except ValueError:
        return None
    if tz is None:
        return moment.replace(tzinfo=None)
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
