"""Says how a user's files become canonical tables: from `name=column` words or from a small TOML file."""

from __future__ import annotations

import re
import tomllib
import zoneinfo
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from coterie.errors import ConfigError
from coterie.pipeline.schemas import table_schema
from coterie.pipeline.times import is_pattern

FORMATS = ("auto", "csv", "jsonl", "parquet")
TIME_UNITS = ("auto", "s", "ms", "us", "ns", "iso")
DUPLICATES = ("auto", "quarantine", "keep")
TOPIC_NAMES = ("mqtt", "plain")


@dataclass(frozen=True)
class Source:
    """Files (paths, folders, globs) with one meaning; a canonical column not mapped is looked up under its own name."""

    paths: tuple[str, ...]
    table: str = "subscriptions"
    columns: Mapping[str, str] = field(default_factory=dict)  # canonical name -> column of the files
    format: str = "auto"
    time_unit: str = "auto"
    zone: str = "UTC"  # for times that carry none
    delimiter: str = "auto"
    header: tuple[str, ...] = ()  # names of the columns, for CSV files that begin with data
    separator: str = " "  # between keywords in one cell
    encoding: str = "utf-8"  # of text files
    duplicates: str = "auto"  # publications are events, and equal ones are two; of other rows the second says nothing
    topics: str = "mqtt"  # topics of subscriptions are MQTT filters; plain: + and # are letters like any other

    def __post_init__(self) -> None:
        schema = table_schema(self.table)
        _one_of("format", self.format, FORMATS)
        check_time_unit(self.time_unit)
        _one_of("duplicates", self.duplicates, DUPLICATES)
        _one_of("topics", self.topics, TOPIC_NAMES)
        for name in self.columns:
            if name not in schema.names:
                raise ConfigError(f"columns of {self.table}", name, f"one of {', '.join(schema.names)}")
        try:
            zoneinfo.ZoneInfo(self.zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigError("zone", self.zone, "a time zone name such as UTC or Europe/Vienna") from None
        if self.delimiter != "auto" and len(self.delimiter) != 1:
            raise ConfigError("delimiter", self.delimiter, "one character, or auto")
        if not _is_ascii_compatible(self.encoding):
            raise ConfigError("encoding", self.encoding, "utf-8, or one in which ASCII is ASCII, such as latin-1")
        if not self.separator:
            raise ConfigError("separator", self.separator, "at least one character")

    @property
    def keeps_duplicates(self) -> bool:
        return self.duplicates == "keep" or (self.duplicates == "auto" and self.table == "publications")

    def column(self, canonical: str) -> str:
        return self.columns.get(canonical, canonical)


def check_time_unit(unit: str) -> None:
    """A unit's name, or a pattern that reads what it wrote."""
    if unit in TIME_UNITS:
        return
    moment = datetime(2026, 11, 9, 18, 30)
    try:
        is_whole = is_pattern(unit) and datetime.strptime(moment.strftime(unit), unit).date() == moment.date()
    except (ValueError, re.error):
        is_whole = False
    if not is_whole:
        wanted = f"{', '.join(TIME_UNITS)}, or a pattern with a day such as '%d.%m.%Y %H:%M:%S'"
        raise ConfigError("time_unit", unit, wanted)


def _is_ascii_compatible(encoding: str) -> bool:
    """Lines are cut before they are decoded, so a line break must be the byte that it is in ASCII."""
    try:
        return '\n,\t;|"{}'.encode(encoding) == b'\n,\t;|"{}'
    except (LookupError, UnicodeError):
        return False


def parse_columns(words: Iterable[str], table: str = "subscriptions") -> dict[str, str]:
    """`["subscriber=user", "topic=page"]` as a mapping; every canonical name at most once."""
    names = table_schema(table).names
    columns: dict[str, str] = {}
    for word in words:
        canonical, equals, column = (part.strip() for part in word.partition("="))
        if not equals or not canonical or not column:
            raise ConfigError("column", word, "name=column, for instance subscriber=user")
        if canonical not in names:
            raise ConfigError("column", word, f"a name of {table}: {', '.join(names)}")
        if canonical in columns:
            raise ConfigError("column", word, f"{canonical} only once: it is {columns[canonical]} already")
        columns[canonical] = column
    return columns


def read_sources(path: Path) -> list[Source]:
    """The [[source]] tables of a TOML file; relative paths are meant from the folder of that file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError("mapping", str(path), f"a readable file ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("mapping", str(path), f"valid TOML ({error})") from None
    listed = content.pop("source", None)
    if content:
        raise ConfigError(f"{path}: key", next(iter(content)), "only [[source]] tables")
    if not isinstance(listed, list) or not listed or not all(isinstance(entry, dict) for entry in listed):
        raise ConfigError("mapping", str(path), "at least one [[source]] table")
    return [_source(entry, path, index) for index, entry in enumerate(listed, 1)]


def _source(entry: Mapping[str, object], path: Path, index: int) -> Source:
    where = f"{path}: source {index}"
    known = {f.name for f in fields(Source)}
    for key in entry:
        if key not in known and key != "path":
            raise ConfigError(f"{where}: key", key, f"one of {', '.join(sorted(known | {'path'}))}")
    given = entry.get("path", entry.get("paths"))
    paths = [given] if isinstance(given, str) else given
    if not isinstance(paths, list) or not paths or not all(isinstance(item, str) for item in paths):
        raise ConfigError(f"{where}: path", given, "a path, or a list of paths")
    columns = entry.get("columns", {})
    if not isinstance(columns, dict) or not all(isinstance(value, str) for value in columns.values()):
        raise ConfigError(f"{where}: columns", columns, 'a table of names, for instance subscriber = "user"')
    header = entry.get("header", [])
    if not isinstance(header, list) or not all(isinstance(item, str) for item in header):
        raise ConfigError(f"{where}: header", header, "a list of column names")
    words: dict[str, Any] = {}
    for key in sorted(known - {"paths", "columns", "header"}):
        value = entry.get(key)
        if isinstance(value, str):
            words[key] = value
        elif key in entry:
            raise ConfigError(f"{where}: {key}", value, "a text")
    return Source(tuple(str(path.parent / item) for item in paths), columns=columns, header=tuple(header), **words)


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(key, value, f"one of {', '.join(allowed)}")
