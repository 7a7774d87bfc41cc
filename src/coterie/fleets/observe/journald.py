"""What journald kept of a broker: `journalctl -o export`, `json`, `short`, `short-iso` or `short-unix`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from coterie.fleets.observe.stamps import MONTHS, Stamps, moment_us, zone_named
from coterie.pipeline.logpatterns import compiled

PROGRAM = "mosquitto"
_plain = compiled(
    r"(?s)^(?:([0-9]{9,11})\.([0-9]{1,6})"
    r"|([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]{1,6}))?(Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|([A-Z][a-z]{2}) +([0-9]{1,2}) ([0-9]{2}):([0-9]{2}):([0-9]{2}))"
    r" [^ ]+ ([^ :\[]+)(?:\[[0-9]+\])?: (.*)"
).match


class JournaldEntry(NamedTuple):
    """One message; no time: take the one inside it. `program` tells whose it is."""

    program: str
    t_us: int | None
    message: str


def form_of(head: bytes) -> str:
    """`export`, `json`, `short` or, for a file that mosquitto wrote itself, ``."""
    if head.startswith((b"__CURSOR=", b"__REALTIME_TIMESTAMP=")):
        return "export"
    if head.startswith(b"{") and b"MESSAGE" in head:
        return "json"
    lines = head.decode("utf-8", "replace").splitlines()
    return "short" if any(_plain(line) for line in lines[:3]) else ""


def json_entry(line: bytes) -> JournaldEntry | None:
    """One line of `-o json`; None if it is none."""
    try:
        fields = msgspec.json.decode(line)
        stamp = int(fields["__REALTIME_TIMESTAMP"])
        message = fields["MESSAGE"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError):
        return None
    if isinstance(message, list):  # bytes that are no printable text
        message = bytes(message).decode("utf-8", "backslashreplace")
    program = fields.get("SYSLOG_IDENTIFIER") or fields.get("_COMM") or PROGRAM
    return JournaldEntry(str(program), stamp, str(message))


def export_entries(data: bytes) -> Iterator[tuple[int, int, JournaldEntry | None]]:
    """(begin, end, entry) of each whole entry of `-o export`; what follows the last end is not finished yet."""
    at = 0
    while at < len(data):
        begin, fields = at, {}
        while at < len(data) and data[at : at + 1] != b"\n":
            end = data.find(b"\n", at)
            if end < 0:
                return
            name, equals, value = data[at:end].partition(b"=")
            at = end + 1
            if not equals:  # a field with any bytes: its length in eight bytes, then the bytes
                length = int.from_bytes(data[at : at + 8], "little")
                value = data[at + 8 : at + 8 + length]
                at += 8 + length + 1
            fields[name] = value
        if at >= len(data):
            return
        at += 1
        if fields:
            yield begin, at, _exported(fields)


def _exported(fields: dict[bytes, bytes]) -> JournaldEntry | None:
    stamp = fields.get(b"__REALTIME_TIMESTAMP", b"")
    if not stamp.isdigit() or b"MESSAGE" not in fields:
        return None
    program = fields.get(b"SYSLOG_IDENTIFIER") or fields.get(b"_COMM") or PROGRAM.encode()
    return JournaldEntry(
        program.decode("utf-8", "replace"), int(stamp), fields[b"MESSAGE"].decode("utf-8", "backslashreplace")
    )


class ShortLines:
    """Plain journal lines. `short` has no year: the one that fits before the file's last change is taken."""

    def __init__(self, changed_s: float, zone: str) -> None:
        self._changed = datetime.fromtimestamp(changed_s, UTC)
        self._zone = zone_named(zone)

    def entry(self, line: str) -> JournaldEntry | None:
        found = _plain(line)
        if found is None:
            return None
        seconds, micros, year, month, day, hour, minute, second, fraction, offset, name, *short, program, message = (
            found.groups()
        )
        t_us: int | None
        if seconds:
            t_us = int(seconds) * 1_000_000 + int(micros.ljust(6, "0"))
        elif year:
            parts = {"year": year, "month": month, "day": day, "hour": hour, "minute": minute, "second": second}
            t_us = moment_us({**parts, "fraction": fraction, "offset": offset}, self._zone)
        else:
            t_us = self._without_year(name, *short)
        return JournaldEntry(program, t_us, message)

    def _without_year(self, name: str, day: str, hour: str, minute: str, second: str) -> int | None:
        if name.lower() not in MONTHS:
            return None
        month = MONTHS.index(name.lower()) + 1
        year = self._changed.year - ((month, int(day)) > (self._changed.month, self._changed.day))
        parts = {"year": str(year), "month": str(month), "day": day, "hour": hour, "minute": minute, "second": second}
        return moment_us({**parts}, self._zone)


def inner(entry: JournaldEntry, stamps: Stamps) -> tuple[int | None, str]:
    """Time and message; mosquitto's own stamp is taken off if it wrote one."""
    split = stamps.split(entry.message)
    if split is None:
        return entry.t_us, entry.message
    return (split[0] if entry.t_us is None else entry.t_us), split[1]
