"""The journal that is written, with what must be remembered to go on later: both change together or not at all.

A commit writes the new lines aside, then the state that names them, then puts them in place; whoever comes after a
crash finishes what the state names and throws away the rest. Nothing is lost and nothing written twice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from coterie.errors import ConfigError, InputError
from coterie.fleets.observe.gathering import Carried
from coterie.fleets.observe.mosquitto import LogMemory
from coterie.locking import lock
from coterie.pipeline.histories import SessionRecord
from coterie.pipeline.logfiles import Reached
from coterie.writing import sync, write_whole

HIDDEN = ".observe"
SEGMENT_BYTES_MAX = 16 << 20
VERSION = 1


class Unplaced(msgspec.Struct):
    """Lines that are written aside: whose they are, which segment they belong to and from which byte on."""

    node: str
    segment: int
    start: int
    file: str


class BrokerState(msgspec.Struct):
    """What is remembered of one broker."""

    reached: list[Reached] = []
    memory: LogMemory = msgspec.field(default_factory=LogMemory)
    sessions: dict[str, SessionRecord] = {}
    totals: dict[str, list[int]] = {}  # counters of the last poll, by connection


class ObserveState(msgspec.Struct):
    """All that is remembered between two runs."""

    version: int = VERSION
    source: str = ""
    serial: int = 0  # of the commit: names of files that wait are never used twice
    brokers: dict[str, BrokerState] = {}
    unplaced: list[Unplaced] = []

    def broker(self, node: str) -> BrokerState:
        return self.brokers.setdefault(node, BrokerState())

    def carried(self) -> Carried:
        return {node: broker.sessions for node, broker in self.brokers.items()}


class JournalStore:
    """One writer at a time."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder, self._hidden = folder, folder / HIDDEN
        try:
            self._hidden.mkdir(parents=True, exist_ok=True)
            self._lock = open(self._hidden / "lock", "w")  # noqa: SIM115
        except (FileExistsError, NotADirectoryError):
            raise ConfigError("--out", str(folder), "a folder, or a name that is still free") from None
        self.line_count = 0
        self._open: dict[str, tuple[int, int]] = {}  # node -> number and size of its open segment
        try:
            self._take_lock()
            self.state = self._load(source)
            self._place()
        except BaseException:
            self._lock.close()
            raise

    def _take_lock(self) -> None:
        try:
            lock(self._lock)
        except OSError:
            raise ConfigError("--out", str(self.folder), "a journal that no other 'coterie observe' writes") from None

    def _load(self, source: str) -> ObserveState:
        path = self._hidden / "state.json"
        if not path.exists():
            return ObserveState(source=source)
        try:
            state = msgspec.json.decode(path.read_bytes(), type=ObserveState)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(str(path), f"is no state of 'coterie observe' ({error}); begin a new journal") from None
        if state.version != VERSION:
            raise InputError(str(path), f"is of version {state.version}, this is {VERSION}; begin a new journal")
        if state.source != source:
            raise ConfigError("--as", source, f"{state.source}, which this journal was begun with, or another --out")
        return state

    @property
    def aside(self) -> Path:
        """Where lines wait for their commit; a new folder each time."""
        folder = self._hidden / "unplaced" / str(self.state.serial)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def commit(self, lines: Mapping[str, list[bytes]]) -> None:
        """Lines by broker, and the state as it is now."""
        for node in sorted(lines):
            data = b"".join(lines[node])
            if data:
                segment, size = self._segment(node)
                file = self.aside / f"{len(self.state.unplaced)}.part"
                file.write_bytes(data)
                sync(file)
                self.state.unplaced.append(Unplaced(node, segment, size, str(file.relative_to(self._hidden))))
                self._open[node] = (segment, size + len(data))
                self.line_count += len(lines[node])
        self._save_and_place()

    def commit_files(self, files: Mapping[str, list[Path]], line_count: int) -> None:
        """The same with whole segments that somebody else has written into a folder below `aside`."""
        for node in sorted(files):
            for path in files[node]:
                segment = self._next_segment(node)
                self._open[node] = (segment, SEGMENT_BYTES_MAX)
                self.state.unplaced.append(Unplaced(node, segment, 0, str(path.relative_to(self._hidden))))
        self.line_count += line_count
        self._save_and_place()

    def _segment(self, node: str) -> tuple[int, int]:
        """Number and size of the segment that is written next; the first of every run is a new one."""
        segment, size = self._open.get(node, (0, SEGMENT_BYTES_MAX))
        return (segment, size) if size < SEGMENT_BYTES_MAX else (self._next_segment(node), 0)

    def _next_segment(self, node: str) -> int:
        numbers = (int(path.stem) for path in (self.folder / node).glob("*.jsonl") if path.stem.isdigit())
        return 1 + max([*numbers, self._open.get(node, (0, 0))[0]], default=0)

    def _save_and_place(self) -> None:
        write_whole(self._hidden / "state.json", msgspec.json.encode(self.state))
        self._place()

    def _place(self) -> None:
        """Put in place what the state names; may be repeated."""
        for entry in self.state.unplaced:
            source = self._hidden / entry.file
            target = self.folder / entry.node / f"{entry.segment:012d}.jsonl"
            if not source.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.start == 0 and not target.exists():
                os.replace(source, target)
                continue
            with open(source, "rb") as written, open(target, "ab") as file:
                written.seek(max(0, target.stat().st_size - entry.start))
                shutil.copyfileobj(written, file)
            source.unlink()
        self.state.unplaced = []
        self.state.serial += 1
        shutil.rmtree(self._hidden / "unplaced", ignore_errors=True)

    def close(self) -> None:
        self._lock.close()

    def __enter__(self) -> JournalStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def checked_name(node: str) -> str:
    """A broker's name is a folder's name."""
    if not node or node.startswith(".") or "/" in node or "\0" in node or len(node.encode()) > 200:
        raise ConfigError("--broker", node, "a short name without slashes that does not begin with a dot")
    return node


def encode_line(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode(fields) + b"\n"
