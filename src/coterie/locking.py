"""A lock on an open file, held until the file is closed, on every operating system."""

from __future__ import annotations

import importlib
from typing import IO, Any


def lock(file: IO[Any], waits: bool = False) -> None:
    """Take the lock; OSError if somebody else has it, unless we wait for it."""
    try:
        unix = importlib.import_module("fcntl")
    except ModuleNotFoundError:  # Windows
        _lock_on_windows(file, waits)
        return
    unix.flock(file, unix.LOCK_EX if waits else unix.LOCK_EX | unix.LOCK_NB)


def _lock_on_windows(file: IO[Any], waits: bool) -> None:
    """The first byte of the file; Windows itself gives up waiting after ten tries, a second apart."""
    windows = importlib.import_module("msvcrt")
    file.seek(0)
    windows.locking(file.fileno(), windows.LK_LOCK if waits else windows.LK_NBLCK, 1)
