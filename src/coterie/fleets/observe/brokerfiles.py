"""The log files of one broker: what was rotated away first, each from where the last run ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coterie.fleets.observe import journald
from coterie.fleets.observe.gathering import LineAccount
from coterie.fleets.observe.journalstore import BrokerState
from coterie.fleets.observe.mosquitto import MosquittoLog
from coterie.fleets.observe.stamps import Stamps
from coterie.pipeline.logfiles import (
    BLOCK_BYTES,
    DAMAGED,
    HEAD_BYTES,
    LogPiece,
    Reached,
    find_reached,
    fingerprint,
    head_of,
    is_compressed,
    line_blocks,
    open_log,
    rotations,
)

REMEMBERED_MAX = 64  # files of one broker that are not there any more
NOT_ENDED = "the last line has no end yet; it is read the next time"
TORN = "a line torn by rotation: "


@dataclass
class Unread:
    """A file that has something new."""

    piece: LogPiece
    head: bytes
    form: str  # of journald, or ""
    reached: Reached
    is_closed: bool  # nobody writes to it any more

    @property
    def size_bytes(self) -> int:
        """What is left to read, roughly."""
        size = os.path.getsize(self.piece.path)
        return size * 10 if is_compressed(self.piece.path) else max(0, size - self.piece.start)

    def advance(self, offset: int, is_finished: bool) -> None:
        """Remember how far it was read."""
        length = min(HEAD_BYTES, offset)
        self.reached.head_bytes, self.reached.head = length, fingerprint(self.head[:length])
        self.reached.offset = offset
        self.reached.looked = looked_at(self.piece.path) if is_finished and self.is_closed else (0, 0)


@dataclass
class BrokerFiles:
    """All files of one broker, found by the name of the newest."""

    node: str
    path: Path
    state: BrokerState
    account: LineAccount = field(default_factory=LineAccount)

    def unread(self) -> list[Unread]:
        """Files with something new, oldest first. What cannot be read is noted."""
        found: list[Unread] = []
        seen: list[Reached] = []
        files = rotations(self.path)
        for number, path in enumerate(files):
            try:
                head, size, stamp = head_of(path), os.path.getsize(path), looked_at(path)
            except DAMAGED as error:
                self.account.note(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
                continue
            if not head:
                self.account.note(f"{path}: is empty")
                continue
            reached = find_reached(head, [*self.state.reached, *seen])
            if reached is not None and any(one is reached for one in seen):
                self.account.note(f"{path}: is the same log under another name")
                continue
            if reached is None or (not is_compressed(path) and size < reached.offset):
                reached = Reached(0, "", 0)
                self.state.reached.append(reached)
            seen.append(reached)
            is_closed = path != self.path or is_compressed(path)
            if reached.looked == stamp or (not is_compressed(path) and size == reached.offset):
                continue
            piece = LogPiece(self.node, number, str(path), reached.offset, None)
            if reached.offset == 0:  # until it is read, it is known by what was looked at
                reached.head_bytes, reached.head = len(head), fingerprint(head)
            found.append(Unread(piece, head, journald.form_of(head), reached, is_closed))
        older = [one for one in self.state.reached if not any(one is other for other in seen)]
        self.state.reached = [*older[-REMEMBERED_MAX:], *seen]
        return found

    def read(self, log: MosquittoLog, stamps: Stamps, zone: str, budget: int) -> int:
        """Feed about `budget` bytes of what is new; how many it were."""
        used, order = 0, 0
        for file in self.unread():
            reader = _Reader(file, log, stamps, zone, self.account, order)
            try:
                used += reader.read(budget - used)
            except DAMAGED as error:
                self.account.note(f"{file.piece.path}: read up to where it is damaged: {error}")
                file.advance(reader.position, True)
            order = reader.order
            if used >= budget:
                break
        return used


def looked_at(path: str | Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


class _Reader:
    """One file into the log's parser."""

    def __init__(
        self, file: Unread, log: MosquittoLog, stamps: Stamps, zone: str, account: LineAccount, order: int
    ) -> None:
        self._file, self._log, self._stamps, self._account = file, log, stamps, account
        self.order, self.position = order, file.piece.start
        self._short = journald.ShortLines(os.path.getmtime(file.piece.path), zone)

    def read(self, budget: int) -> int:
        piece, begin = self._file.piece, self.position
        is_finished = True
        for position, data, is_torn in self._blocks():
            self.position = position + len(data)
            if is_torn:
                self._account.puzzle(TORN + data.decode("utf-8", "backslashreplace"))
            elif self._file.form == "export":
                self._feed_export(data)
            else:
                self._feed_lines(data)
            if self.position - begin >= budget:
                is_finished = False
                break
        if is_finished and not self._file.is_closed and os.path.getsize(piece.path) > self.position:
            self._account.note(f"{piece.path}: {NOT_ENDED}")
        self._file.advance(self.position, is_finished)
        return self.position - begin

    def _blocks(self) -> Iterator[tuple[int, bytes, bool]]:
        if self._file.form == "export":
            return _export_blocks(self._file.piece)
        return ((*block,) for block in line_blocks(self._file.piece, is_closed=self._file.is_closed))

    def _feed_lines(self, data: bytes) -> None:
        feed = self._log.feed if not self._file.form else self._feed_wrapped
        lines = data.decode("utf-8", "backslashreplace").split("\n")
        order = self.order
        for line in lines[:-1]:
            order += 1
            feed(order, line.rstrip("\r"))
        self.order = order

    def _feed_wrapped(self, order: int, line: str) -> None:
        is_json = self._file.form == "json"
        entry = journald.json_entry(line.encode("utf-8", "surrogatepass")) if is_json else self._short.entry(line)
        self._feed_entry(order, entry, line)

    def _feed_export(self, data: bytes) -> None:
        for begin, end, entry in journald.export_entries(data):
            self.order += 1
            self._feed_entry(self.order, entry, data[begin:end].decode("utf-8", "backslashreplace"))

    def _feed_entry(self, order: int, entry: journald.JournaldEntry | None, text: str) -> None:
        if entry is None:
            self._account.puzzle(text)
            return
        t_us, message = journald.inner(entry, self._stamps)
        if journald.PROGRAM not in entry.program:
            self._account.add("other")
        elif t_us is None:
            self._account.puzzle(text)
        else:
            self._log.say(order, t_us, message)


def _export_blocks(piece: LogPiece) -> Iterator[tuple[int, bytes, bool]]:
    """Whole entries; the last one is left if it is not finished."""
    with open_log(piece.path) as file:
        file.seek(piece.start)
        position, rest = piece.start, b""
        while data := file.read(BLOCK_BYTES):
            rest += data
            end = max((stop for _, stop, _ in journald.export_entries(rest)), default=0)
            if end:
                yield position, rest[:end], False
                position, rest = position + end, rest[end:]
