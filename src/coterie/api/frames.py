"""Data that is in memory already, as canonical tables: pandas, Polars, Arrow, DuckDB, Spark, or plain lists.

Nothing is started for them. Rows that cannot be used are set aside and counted, by reason, as the pipeline does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import ConfigError, InputError
from coterie.pipeline.filters import filter_faults, topic_faults
from coterie.pipeline.schemas import ARROW_TYPES, Field, table_schema
from coterie.pipeline.times import parse_times

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
        return pa.Table.from_pylist(list(frame))
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
    frame: Any, table: str, columns: Mapping[str, str], *, time_unit: str, zone: str, is_plain: bool
) -> tuple[pa.Table, SetAside]:
    """The rows with the columns that a table of this kind has, and what was set aside."""
    schema, given = table_schema(table), to_arrow(frame)
    made: dict[str, pa.Array] = {}
    for one in schema.fields:
        wanted = columns.get(one.name, one.name)
        if wanted in given.column_names:
            made[one.name] = _converted(_flat(given[wanted]), one, time_unit, zone)
        elif one.required or one.name in columns:
            has = ", ".join(given.column_names)
            raise ConfigError(
                f"columns of {table}",
                wanted,
                f"one of the columns it has: {has}",
                do=f'say columns={{"{one.name}": ...}}',
            )
        else:
            made[one.name] = pa.nulls(len(given), ARROW_TYPES[one.kind])
    account = SetAside(len(given))
    rows = pa.table(made)
    if table == "publications" and "count" in made:
        rows = rows.set_column(rows.column_names.index("count"), "count", pc.fill_null(rows["count"], 1))
    for one in schema.fields:
        rows = _without(rows, _missing(rows[one.name], one), account)
        rows = _without(rows, _unsound(rows[one.name], one, is_plain), account)
    if len(given) and not len(rows):
        reason = max(account.reasons, key=lambda name: account.reasons[name])
        raise InputError(table, f"all {len(given):,} rows were set aside ({reason}); see columns=")
    return rows, account


def _flat(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], column.type)
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _converted(values: pa.Array, wanted: Field, time_unit: str, zone: str) -> pa.Array:
    if wanted.kind == "time":
        return parse_times(values, time_unit, zone)
    return pc.cast(values, ARROW_TYPES[wanted.kind], safe=wanted.kind != "whole")


def _missing(values: pa.ChunkedArray, wanted: Field) -> pa.Array | None:
    """Why each row cannot be used; null where it can."""
    if not wanted.required:
        return None
    missing = pc.is_null(values)
    if wanted.kind == "text":
        missing = pc.or_(missing, pc.fill_null(pc.equal(values, ""), False))
    return pc.if_else(missing, f"{wanted.name} is missing", None).combine_chunks()


def _unsound(values: pa.ChunkedArray, wanted: Field, is_plain: bool) -> pa.Array | None:
    if not wanted.mqtt or is_plain:
        return None
    names = values.combine_chunks()
    return filter_faults(names) if wanted.mqtt == "filter" else topic_faults(names)


def _without(rows: pa.Table, faults: pa.Array | None, account: SetAside) -> pa.Table:
    if faults is None or faults.null_count == len(faults):
        return rows
    for one in pc.value_counts(faults.drop_null()).to_pylist():
        account.reasons[one["values"]] = account.reasons.get(one["values"], 0) + one["counts"]
    return rows.filter(pc.is_null(faults))
