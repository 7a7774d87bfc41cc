"""Batches of bytes in append-only files: whatever was appended is there after kill -9, and nothing half of it.

What stands in a file, and what reading makes of a torn end, is `broker.batches`; one `write` a batch. Files are begun
anew every few megabytes, so that those whose batches have a better place by now can be deleted whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from coterie.broker.batches import (
    Batch,
    DamagedBatchesError,
    boot_mark,
    encode_batch,
    encode_head,
    read_files,
)
from coterie.errors import InputError
from coterie.writing import sync_folder


class Batches:
    """The files of one folder. `append` is all that a message waits for, unless it waits for `syncing` too."""

    def __init__(self, folder: Path, boot: bytes, after: int = 0, is_synced: bool = False) -> None:
        """Reads what is there; `after` is the last batch that has a better place already.

        `is_synced`: somebody calls `syncing` again and again, so files are open until it was.
        """
        self._folder, self._boot = folder, boot_mark(boot)
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
        files = [(int(path.name.partition("-")[2]), path.read_bytes()) for path in paths]
        try:
            found = read_files(files, after, self._boot)
        except DamagedBatchesError as error:
            raise damaged(paths[error.index], error.at) from None
        self.unread, self.number = found.batches, found.number
        for index, path in enumerate(paths[found.torn :]):
            self.dropped_bytes += path.stat().st_size
            if index > 0 or found.end == 0:
                path.unlink()
                continue
            self.dropped_bytes -= found.end
            with path.open("r+b") as file:
                file.truncate(found.end)
                os.fsync(file.fileno())
        if self._is_synced:  # a process that was killed may have left what only the system's memory has
            for path in paths[: found.torn]:
                with path.open("rb") as file:
                    os.fdatasync(file.fileno())

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


def damaged(path: Path, at: int) -> InputError:
    reason = f"is damaged at byte {at}, and whole batches follow; restore a backup, or move it away to go on without"
    return InputError(str(path), reason)


def boot_of_machine() -> bytes:
    """Sixteen bytes that are others after every boot; empty where the system does not say."""
    try:
        return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))
    except (OSError, ValueError):
        return b""
