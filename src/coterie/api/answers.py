"""Answers that are kept: the same question over the same files is answered from here, before anything heavy is loaded.

A question is what was asked for, every file it reads by size and time, and this very version of the package. What is
kept is what was said: a document for programs, and lines and tables for people.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coterie.writing import write_whole

KEPT_MAX = 50


class ShownTable(msgspec.Struct, frozen=True):
    """A table of words; the first column is text. `marks` holds a style for each row, or nothing."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...]


class KeptAnswer(msgspec.Struct, frozen=True):
    """What was found, as it is told; `warnings` and `remarks` stand before and after the tables."""

    document: dict[str, Any]
    head: str
    warnings: tuple[str, ...]
    sentences: tuple[str, ...]
    tables: tuple[ShownTable, ...]
    remarks: tuple[str, ...]
    page: str


def question(words: Mapping[str, object], inputs: Sequence[str]) -> str | None:
    """The name of a question; None where its files cannot be listed without looking into them."""
    listed: list[tuple[str, int, int]] = []
    for word in inputs or [str(Path(__file__).parent.parent / "pipeline" / "debian")]:
        path = word.partition("=")[2] if "=" in word and not os.path.exists(word) else word
        found = sorted(_files(path))
        if not found:
            return None
        listed += found
    for value in words.values():
        if isinstance(value, Path) and value.is_file():
            listed += _files(str(value))
    told = json.dumps({name: str(value) for name, value in words.items()}, sort_keys=True)
    digest = hashlib.blake2b(told.encode(), digest_size=16)
    digest.update(json.dumps([listed, _package()]).encode())
    return digest.hexdigest()


def _files(path: str) -> Iterator[tuple[str, int, int]]:
    for name in [path] if os.path.exists(path) else glob.glob(path, recursive=True):
        inside = [str(one) for one in Path(name).rglob("*") if one.is_file()] if os.path.isdir(name) else [name]
        for one in inside:
            status = os.stat(one)
            yield os.path.abspath(one), status.st_size, status.st_mtime_ns


def _package() -> tuple[int, int]:
    """How much code there is and when it was changed last: an answer of other code is no answer."""
    status = [os.stat(one) for one in Path(__file__).parent.parent.rglob("*.py")]
    return sum(one.st_size for one in status), max(one.st_mtime_ns for one in status)


def kept_answer(folder: Path, name: str | None) -> KeptAnswer | None:
    """None where it was not asked before, or where the page that goes with it is gone."""
    if name is None:
        return None
    try:
        found = msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=KeptAnswer)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if os.path.exists(found.page) else None


def keep_answer(folder: Path, name: str | None, answer: KeptAnswer) -> None:
    if name is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / f"{name}.json", msgspec.json.encode(answer))
    oldest = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)[:-KEPT_MAX]
    for path in oldest:
        path.unlink(missing_ok=True)
