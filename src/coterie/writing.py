"""Write beside, sync, rename: how a file or folder appears whole or not at all, whoever is killed when."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".unfinished-"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A place beside `path` to write a file to; what stands there at the end takes the name, in one move.

    If the block fails, `path` is as it was and nothing is left behind. The name keeps its ending, which some writers
    look at.
    """
    beside = path.with_name(f"{UNFINISHED}{os.getpid()}-{path.name}")
    try:
        yield beside
        sync(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_whole(path: Path, content: bytes | str) -> None:
    """The same for content that is in memory."""
    with replacing(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def folder_replacing(place: Path) -> Iterator[Path]:
    """A new folder beside `place` to write into; at the end its files are on disk and it takes the name."""
    unfinished = place.with_name(f"{UNFINISHED}{os.getpid()}-{place.name}")
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        for file in sorted(unfinished.rglob("*")):
            if file.is_file():
                sync(file)
        shutil.rmtree(place, ignore_errors=True)
        unfinished.rename(place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sync_folder(place.parent)


def sweep(home: Path) -> None:
    """Remove what was killed before it had its name."""
    for entry in sorted(home.glob(f"{UNFINISHED}*")):
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Until this returns, a rename may survive a power cut that the content does not."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """So that a file or a name that is new in it is found after a power cut; Windows cannot open folders."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
