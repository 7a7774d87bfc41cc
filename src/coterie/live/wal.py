"""Batches of bytes in append-only files: whatever was appended is there after kill -9, and nothing half of it.

A batch is a head (length, checksum, number, the last number known to be on the disk) and a body; one `write` each.
Files are begun anew every few megabytes, so that those whose batches have a better place by now can be deleted whole.

What reading makes of damage: a process that is killed can leave only the very end of the last file torn; that end is
dropped. After a power cut (the machine's boot is another one than the file's) any batch that was not synced may be
damaged, and so may those behind it: they are dropped from the first such one on. Everything else is a damaged disk or a
stranger's hand, and reading says so rather than forget what was promised.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from coterie.errors import InputError

MAGIC = b"coterie batches 1\n"
_file_head = struct.Struct(">18s16sQI")  # magic, boot, first number, checksum of these
_batch_head = struct.Struct(">IIQQ")  # bytes of the body, checksum, number, synced
_checked = struct.Struct(">QQ")
BATCH_BYTES_MAX = 1 << 30


class Batch(NamedTuple):
    number: int
    synced: int  # the last batch that was on the disk, as far as known, when this one was written
    body: bytes


def encode_batch(number: int, synced: int, body: bytes) -> bytes:
    checksum = zlib.crc32(body, zlib.crc32(_checked.pack(number, synced)))
    return _batch_head.pack(len(body), checksum, number, synced) + body


def encode_head(boot: bytes, first: int) -> bytes:
    head = MAGIC + boot.ljust(16, b"\0")[:16] + first.to_bytes(8, "big")
    return head + zlib.crc32(head).to_bytes(4, "big")


def batch_at(data: bytes, at: int) -> tuple[Batch, int] | None:
    """The batch that begins there and where it ends; None if there is no whole one."""
    if at + _batch_head.size > len(data):
        return None
    length, checksum, number, synced = _batch_head.unpack_from(data, at)
    begin = at + _batch_head.size
    end = begin + length
    if end > len(data) or zlib.crc32(data[begin:end], zlib.crc32(_checked.pack(number, synced))) != checksum:
        return None
    return Batch(number, synced, data[begin:end]), end


class Found(NamedTuple):
    """What a file holds. `end` is where its whole batches end."""

    boot: bytes
    first: int
    batches: list[Batch]
    end: int
    is_whole: bool  # nothing stands behind the last whole batch
    synced: int  # the greatest `synced` of any batch in it, behind damage too


def read_file(data: bytes) -> Found | None:
    """None if even the head is not whole."""
    if len(data) < _file_head.size:
        return None
    magic, boot, first, checksum = _file_head.unpack_from(data)
    if magic != MAGIC or zlib.crc32(data[: _file_head.size - 4]) != checksum:
        return None
    batches: list[Batch] = []
    at = _file_head.size
    while (found := batch_at(data, at)) is not None and found[0].number == first + len(batches):
        batches.append(found[0])
        at = found[1]
    synced = max((one.synced for one in (*batches, *_behind(data, at, first + len(batches)))), default=0)
    return Found(boot, first, batches, at, at == len(data), synced)


def _behind(data: bytes, at: int, expected: int) -> Iterator[Batch]:
    """Whole batches somewhere behind damage: numbers are eight bytes of which the upper ones hardly ever change."""
    mark = expected.to_bytes(8, "big")[:5]
    place = data.find(mark, max(8, at + 8))
    while place >= 0:
        found = batch_at(data, place - 8)
        if found is not None and found[0].number > expected:
            yield found[0]
            place = found[1]
        place = data.find(mark, place + 1)


class Batches:
    """The files of one folder. `append` is all that a message waits for, unless it waits for `syncing` too."""

    def __init__(self, folder: Path, boot: bytes, after: int = 0, is_synced: bool = False) -> None:
        """Reads what is there; `after` is the last batch that has a better place already.

        `is_synced`: somebody calls `syncing` again and again, so files are open until it was.
        """
        self._folder, self._boot = folder, boot.ljust(16, b"\0")[:16]
        folder.mkdir(parents=True, exist_ok=True)
        self.unread: list[Batch] = []  # those beyond `after`, to be taken by the owner
        self.dropped_bytes = 0  # of a torn end
        self.number = after
        self.synced = 0
        self.size = 0
        self._file = -1
        self._is_synced = is_synced
        self._unsynced: list[int] = []  # files that were left before all of them was on the disk
        self._is_entered = True  # the folder's entry of the present file is on the disk, or will be
        self._read(after)
        self._closed = self._paths()

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("batches-*"))

    def _read(self, after: int) -> None:
        paths = self._paths()
        synced = 0
        for index, path in enumerate(paths):
            is_last = index == len(paths) - 1
            data = path.read_bytes()
            found = read_file(data)
            if found is None:
                if not is_last or any(True for _ in _behind(data, -8, int(path.name.partition("-")[2]) - 1)):
                    raise damaged(path, 0)
                self.dropped_bytes += len(data)  # begun, and cut off before its head was there
                path.unlink()
                return
            synced = max(synced, found.synced)
            if found.first > max(self.number, after) + 1:
                raise damaged(path, 0)
            self.unread += [one for one in found.batches if one.number > self.number]
            self.number = max(self.number, found.first + len(found.batches) - 1)
            if not found.is_whole:
                self._judge(path, found, data, is_last, paths[index + 1 :])
                return

    def _judge(self, path: Path, found: Found, data: bytes, is_last: bool, later: list[Path]) -> None:
        """The end of this file is not whole: a torn end, or damage?"""
        rest = [read_file(one.read_bytes()) for one in later]
        synced = max([found.synced, *(one.synced for one in rest if one is not None)])
        bad = found.first + len(found.batches)
        has_more = any(True for _ in _behind(data, found.end, bad)) or any(
            one is not None and one.batches for one in rest
        )
        was_cut = found.boot != self._boot
        if has_more and not (was_cut and synced < bad):
            raise damaged(path, found.end)
        self.dropped_bytes += len(data) - found.end + sum(one.stat().st_size for one in later)
        for one in later:
            one.unlink()
        with path.open("r+b") as file:
            file.truncate(found.end)
            os.fsync(file.fileno())

    # --- writing ---

    def append(self, body: bytes) -> int:
        """Hand a batch to the system; it survives this process from now on. OSError: nothing of it counts."""
        if self._file < 0:
            self._begin()
        data = encode_batch(self.number + 1, self.synced, body)
        written = os.write(self._file, data)
        if written != len(data):  # a full disk: take back what is half there
            os.ftruncate(self._file, self.size)
            raise OSError(28, os.strerror(28), str(self._path))
        self.size += written
        self.number += 1
        return self.number

    def _begin(self) -> None:
        self._path = self._folder / f"batches-{self.number + 1:016d}"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self.size = os.write(self._file, encode_head(self._boot, self.number + 1))
        self._is_entered = False

    def syncing(self) -> Callable[[], int]:
        """A call that waits until all that was appended so far is on the disk, for any thread; returns the last number.

        Give that number to `note_synced` here.
        """
        number, files, self._unsynced = self.number, self._unsynced, []
        if self._file >= 0:
            files.append(os.dup(self._file))
        folder, self._is_entered = (None if self._is_entered else self._folder), True

        def wait() -> int:
            try:
                for file in files:
                    os.fdatasync(file)
            finally:
                for file in files:
                    os.close(file)
            if folder is not None:
                sync_folder(folder)
            return number

        return wait

    def note_synced(self, number: int) -> None:
        self.synced = max(self.synced, number)

    def turn(self) -> int:
        """Go on in a new file; returns the last batch of the files before, which `forget` may delete."""
        if self._file >= 0:
            if self._is_synced and self.synced < self.number:
                self._unsynced.append(self._file)
            else:
                os.close(self._file)
            self._closed.append(self._path)
            self._file, self.size = -1, 0
        return self.number

    def forget(self) -> None:
        """All batches of the files before the present one have a better place now."""
        for path in self._closed:
            path.unlink(missing_ok=True)
        self._closed.clear()

    def close(self) -> None:
        self.turn()
        for file in self._unsynced:
            os.close(file)
        self._unsynced.clear()


def sync_folder(folder: Path) -> None:
    """So that a file that was made in it is found after a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def damaged(path: Path, at: int) -> InputError:
    reason = f"is damaged at byte {at}, and whole batches follow; restore a backup, or move it away to go on without"
    return InputError(str(path), reason)


def boot_of_machine() -> bytes:
    """Sixteen bytes that are others after every boot; empty where the system does not say."""
    try:
        return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))
    except (OSError, ValueError):
        return b""
