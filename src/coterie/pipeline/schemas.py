"""The canonical tables: what columns each has, of what kind, which must be there, and what values make sense."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from coterie.errors import ConfigError

TIME = pa.timestamp("us", "UTC")
ARROW_TYPES = {
    "text": pa.string(),
    "time": TIME,
    "number": pa.float64(),
    "whole": pa.int64(),
    "texts": pa.list_(pa.string()),
}
SPARK_TYPES = {
    "text": "string",
    "time": "timestamp",
    "number": "double",
    "whole": "bigint",
    "texts": "array<string>",
}


@dataclass(frozen=True)
class Field:
    """One column. A required field without a value, or a value outside of its range, makes the row a bad one."""

    name: str
    kind: str
    required: bool = False
    lowest: float | None = None
    highest: float | None = None
    default: int | None = None
    past: bool = False  # a time that cannot lie in the future: it says when something was seen
    mqtt: str = ""  # "filter" or "topic", unless the source says that its names are plain


@dataclass(frozen=True)
class TableSchema:
    """One canonical table; `cut_by` is the column whose values stay together in one part file."""

    name: str
    fields: tuple[Field, ...]
    cut_by: str | None = None
    ordered: tuple[str, str] | None = None  # (earlier, later): two times that must not be swapped
    either: tuple[str, ...] = ()  # texts of which a row must have one at least

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([(field.name, ARROW_TYPES[field.kind]) for field in self.fields])

    @property
    def spark(self) -> str:
        return ", ".join(f"{field.name} {SPARK_TYPES[field.kind]}" for field in self.fields)

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)


TABLES: Mapping[str, TableSchema] = {
    table.name: table
    for table in (
        TableSchema(
            "subscriptions",
            (
                Field("subscriber", "text", required=True),
                Field("topic", "text", required=True, mqtt="filter"),
                Field("since", "time", past=True),
                Field("until", "time"),
            ),
            cut_by="subscriber",
            ordered=("since", "until"),
        ),
        TableSchema(
            "publications",
            (
                Field("publisher", "text"),
                Field("topic", "text", required=True, mqtt="topic"),
                Field("time", "time", past=True),
                Field("count", "whole", lowest=0, default=1),
                Field("bytes", "whole", lowest=0),
            ),
        ),
        TableSchema(
            "positions",
            (
                Field("subscriber", "text", required=True),
                Field("time", "time", required=True, past=True),
                Field("lat", "number", required=True, lowest=-90, highest=90),
                Field("lon", "number", required=True, lowest=-180, highest=180),
                Field("place", "text"),
            ),
            cut_by="subscriber",
        ),
        TableSchema(
            "documents",
            (
                Field("document", "text", required=True),
                Field("publisher", "text"),
                Field("time", "time", past=True),
                Field("keywords", "texts", required=True),
            ),
        ),
        TableSchema(
            "filters",
            (
                Field("subscriber", "text", required=True),
                Field("keywords", "texts", required=True),
            ),
            cut_by="subscriber",
        ),
        TableSchema(
            "nodes",
            (
                Field("node", "text", required=True),
                Field("lat", "number", lowest=-90, highest=90),
                Field("lon", "number", lowest=-180, highest=180),
                Field("capacity", "number"),
                Field("zone", "text"),
            ),
        ),
        TableSchema(
            "attachments",
            (
                Field("subscriber", "text", required=True),
                Field("node", "text"),
                Field("since", "time", past=True),
                Field("zone", "text"),
            ),
            cut_by="subscriber",
            either=("node", "zone"),
        ),
        TableSchema(
            "links",
            (
                Field("node_a", "text", required=True),
                Field("node_b", "text", required=True),
                Field("latency_ms", "number", lowest=0),
                Field("cost", "number", lowest=0),
            ),
        ),
    )
}

QUARANTINE = pa.schema(
    [
        ("table", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.string()),
    ]
)


def table_schema(name: str) -> TableSchema:
    if name not in TABLES:
        raise ConfigError("table", name, f"one of {', '.join(TABLES)}")
    return TABLES[name]
