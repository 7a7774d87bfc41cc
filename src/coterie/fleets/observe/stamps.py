"""The time at the beginning of a log line: seconds since 1970, ISO, or what `log_timestamp_format` says."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from coterie.errors import ConfigError
from coterie.pipeline.logpatterns import EPOCH, ISO, StampShape, compiled

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# strftime -> the same as a pattern, and which part of a time its group is.
DIRECTIVES = {
    "Y": (r"([0-9]{4})", "year"),
    "m": (r"([0-9]{2})", "month"),
    "d": (r"([0-9]{2})", "day"),
    "H": (r"([0-9]{2})", "hour"),
    "M": (r"([0-9]{2})", "minute"),
    "S": (r"([0-9]{2})", "second"),
    "z": (r"([+-][0-9]{2}:?[0-9]{2})", "offset"),
    "s": (r"([0-9]{9,11})", "epoch"),
}
SHORTHANDS = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M"}
ISO_PARTS = ("year", "month", "day", "hour", "minute", "second", "fraction", "offset")
NEEDED = {"year", "month", "day", "hour", "minute"}
CACHE_MAX = 4096


def shapes_of(time_format: str | None) -> tuple[StampShape, ...]:
    """The stamps that are looked for, in this order."""
    known = (StampShape(EPOCH, ("epoch",)), StampShape(ISO, ISO_PARTS))
    return known if time_format is None else (_shape(time_format), *known)


def _shape(time_format: str) -> StampShape:
    """A strftime format as a pattern; mosquitto writes a colon and a blank behind it."""
    spelled = time_format
    for short, long in SHORTHANDS.items():
        spelled = spelled.replace(short, long)
    pattern, parts = "", []
    for piece in re.findall(r"%.|[^%]+|%", spelled):
        if piece == "%%":
            pattern += "%"
        elif piece.startswith("%"):
            if piece[1:] not in DIRECTIVES:
                allowed = " ".join(f"%{letter}" for letter in DIRECTIVES)
                raise ConfigError("--time-format", time_format, f"made of {allowed} %F %T and plain text")
            group, part = DIRECTIVES[piece[1:]]
            pattern += group
            parts.append(part)
        else:
            pattern += re.escape(piece)
    if ("epoch" not in parts and not set(parts) >= NEEDED) or len(set(parts)) != len(parts):
        raise ConfigError("--time-format", time_format, "a date with year, month, day, hour and minute, each once")
    return StampShape(f"(?s)^{pattern}: ", tuple(parts))


def zone_named(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError("--zone", name, "a time zone like UTC or Europe/Vienna") from None


class Stamps:
    """Takes the stamp off a line. Thousands of lines share one second, so what was worked out is kept for a while."""

    def __init__(self, time_format: str | None = None, zone: str = "UTC") -> None:
        self._shapes = [(compiled(shape.pattern), shape.parts) for shape in shapes_of(time_format)]
        self._zone = zone_named(zone)
        self._known: dict[str, int | None] = {}

    def split(self, line: str) -> tuple[int, str] | None:
        """(microseconds since 1970, the message); None where there is no time."""
        for pattern, parts in self._shapes:
            found = pattern.match(line)
            if found is None:
                continue
            text = found[0]
            if text not in self._known:
                if len(self._known) >= CACHE_MAX:
                    self._known.clear()
                self._known[text] = moment_us(dict(zip(parts, found.groups(), strict=True)), self._zone)
            t_us = self._known[text]
            if t_us is not None:
                return t_us, line[found.end() :]
        return None


def moment_us(parts: dict[str, str | None], zone: ZoneInfo) -> int | None:
    """Microseconds since 1970; None if there is no such time."""
    if parts.get("epoch"):
        return int(parts["epoch"] or 0) * 1_000_000
    names = ("year", "month", "day", "hour", "minute", "second")
    numbers = [int(parts.get(name) or 0) for name in names]
    offset = parts.get("offset")
    try:
        local = datetime(*numbers, tzinfo=_fixed(offset) if offset else zone)  # type: ignore[arg-type, misc]
        whole = (local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    return whole * 1_000_000 + int((parts.get("fraction") or "0").ljust(6, "0"))


def _fixed(offset: str) -> timezone:
    if offset == "Z":
        return UTC
    sign = -1 if offset[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:])))
