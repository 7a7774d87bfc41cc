"""Data that is in memory already, as canonical tables: pandas, Polars, Arrow, DuckDB, Spark, or plain lists.

Nothing is started for them. Rows that cannot be used are set aside and counted, by reason, as the pipeline does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import ConfigError, InputError
from coterie.pipeline.canonical import VALUE_MARK, canonicalise
from coterie.pipeline.ingest import CLOCK_SKEW_S
from coterie.pipeline.mapping import Source
from coterie.pipeline.schemas import table_schema

FRAMES = "a path, or a data frame of pandas, Polars, Arrow, DuckDB or Spark, or a list of dicts"


def is_frame(value: object) -> bool:
    """Whether this is data rather than the name of a file."""
    if isinstance(value, (str, bytes)) or hasattr(value, "__fspath__"):
        return False
    if isinstance(value, (list, tuple)):
        return not value or isinstance(value[0], Mapping)
    return value is not None


def to_arrow(frame: Any) -> pa.Table:
    """The data as an Arrow table, without a copy where that can be had."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, (list, tuple)):
        names = dict.fromkeys(name for row in frame for name in row)  # Arrow itself looks at the first row only
        return pa.table({name: [row.get(name) for row in frame] for name in names})
    if isinstance(frame, Mapping):
        return pa.table(dict(frame))
    if type(frame).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(frame, preserve_index=False)
    for method in ("collect", "toArrow", "to_arrow_table", "fetch_arrow_table"):
        if method == "collect" and type(frame).__name__ != "LazyFrame":
            continue  # of Polars; Spark's collect brings rows
        if hasattr(frame, method):
            found = getattr(frame, method)()
            return found if isinstance(found, pa.Table) else pa.table(found)
    if hasattr(frame, "__arrow_c_stream__") or isinstance(frame, pa.RecordBatch):
        return pa.table(frame)
    raise ConfigError("log", type(frame).__name__, FRAMES)


@dataclass
class SetAside:
    """What became of the rows of a table that was in memory."""

    rows_in: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.reasons.values())

    def as_facts(self) -> dict[str, Any]:
        return {
            "rows_in": self.rows_in,
            "kept": self.rows_in - self.count,
            "quarantined": self.count,
            "reasons": dict(self.reasons),
        }


def canonical(
    frame: Any, table: str, columns: Mapping[str, str], *, time_unit: str, zone: str, is_plain: bool, strict: bool
) -> tuple[pa.Table, SetAside]:
    """The rows of a table of this kind, checked as rows of a file are, and what was set aside.

    `strict` raises InputError for the first row that cannot be used.
    """
    schema, given = table_schema(table), to_arrow(frame)
    names = "plain" if is_plain else "mqtt"
    source = Source((table,), table, columns, time_unit=time_unit, zone=zone, topics=names)
    raw: dict[str, pa.Array] = {}
    for one in schema.fields:
        wanted = source.column(one.name)
        if wanted in given.column_names:
            raw[one.name] = _flat(given[wanted])
        elif one.required or one.name in columns:
            has = ", ".join(given.column_names)
            raise ConfigError(
                f"columns of {table}",
                wanted,
                f"one of the columns it has: {has}",
                do=f'say columns={{"{one.name}": ...}}',
            )
    rows, faults = canonicalise(raw, len(given), source, round((time.time() + CLOCK_SKEW_S) * 1e6))
    if strict and faults.null_count < len(given):
        first = pc.index(pc.is_valid(faults), True).as_py()
        reason, mark, value = faults[first].as_py().partition(VALUE_MARK)
        raise InputError(f"{table}, row {first + 1}", f"{reason}: {value!r}" if mark else reason)
    account, shown = SetAside(len(given)), ""
    for fault in faults.drop_null().to_pylist():
        reason, mark, value = fault.partition(VALUE_MARK)
        shown = shown or (f", such as {value!r}" if mark else "")
        account.reasons[reason] = account.reasons.get(reason, 0) + 1
    if len(given) and not faults.null_count:
        reason = max(account.reasons, key=lambda name: account.reasons[name])
        do = "time_unit='%d.%m.%Y %H:%M:%S'" if "is not a time" in reason else "columns="
        raise InputError(table, f"all {len(given):,} rows were set aside: {reason}{shown}; see {do}")
    return rows.filter(pc.is_null(faults)), account


def _flat(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(found.type):
        return found.dictionary_decode()
    return found.cast(pa.string()) if pa.types.is_string_view(found.type) else found  # as Polars has its texts
