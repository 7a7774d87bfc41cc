"""What was there before an export was applied, kept beside it, so that whoever comes later can tell and undo it.

`before/manifest.json` is written before the first change and says how far things went: `applying` that stays behind is
a process that was killed half-way, which the next command refuses to overlook.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from coterie.errors import InputError
from coterie.writing import replacing

BEFORE, MANIFEST = "before", "manifest.json"
APPLYING, APPLIED, UNDONE = "applying", "applied", "rolled back"


class KeptFile(msgspec.Struct, frozen=True):
    """A file that an export replaces: where it is used, and its text before (None: there was none)."""

    name: str
    place: str
    tells: str
    target: str
    needs_restart: bool = False
    text: str | None = None


class BeforeRecord(msgspec.Struct):
    """State of one application. `homes` is the balancer's map before, None where there is no balancer."""

    targets: list[str]
    version: int
    state: str
    files: list[KeptFile]
    homes: dict[str, str] | None = None
    seats: dict[str, str] = {}  # where clients were, for what lets them in anywhere
    moved: list[str] = []
    problem: str = ""


def read_record(folder: Path) -> BeforeRecord | None:
    path = folder / BEFORE / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=BeforeRecord)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise InputError(str(path), f"is damaged: {error}") from None


def write_record(folder: Path, record: BeforeRecord) -> None:
    (folder / BEFORE).mkdir(parents=True, exist_ok=True)
    for kept in record.files:  # people look for files, not for JSON
        if kept.text is not None:
            path = folder / BEFORE / kept.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                write_whole(path, kept.text)
    write_whole(folder / BEFORE / MANIFEST, msgspec.json.format(msgspec.json.encode(record), indent=1).decode())


def write_whole(path: Path, text: str) -> None:
    """Beside, synced, renamed, with the rights the file had: a reader sees the old text or the new one."""
    try:
        with replacing(path) as beside:
            beside.write_text(text, encoding="utf-8")
            with suppress(FileNotFoundError):
                shutil.copymode(path, beside)
                there = path.stat()
                if os.geteuid() == 0:
                    os.chown(beside, there.st_uid, there.st_gid)
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror or error}") from None


def check_writable(places: Iterable[Path]) -> None:
    """Before anything is changed: could all of it be?"""
    for place in places:
        if not place.parent.is_dir():
            raise InputError(str(place), "cannot be written: its folder does not exist")
        if place.exists() and not place.is_file():
            raise InputError(str(place), "cannot be written: it is not a file")
        if not os.access(place.parent, os.W_OK | os.X_OK) or (place.exists() and not os.access(place, os.W_OK)):
            raise InputError(str(place), "cannot be written: permission denied")
        probe = place.with_name(f".{place.name}.coterie")
        try:
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise InputError(str(place), f"cannot be written: {error.strerror or error}") from None
