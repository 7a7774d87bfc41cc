"""Pieces of log files as lines: plain or compressed, from a position on, never half a line.

A file is known by its first bytes, so it may be renamed, compressed or copied and emptied by whoever rotates it.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

import msgspec

HEAD_BYTES = 512
BLOCK_BYTES = 1 << 20
FILE_BITS = 44  # a line's order: number of the file, then its position
COMPRESSED = (".gz", ".bz2", ".xz")
DAMAGED = (OSError, EOFError, lzma.LZMAError)
_rotated = re.compile(r"[.-](?:([0-9]{1,5})|([0-9]{8}[0-9-]*|[0-9]{4}-[0-9]{2}-[0-9]{2}.*?))(?:\.(?:gz|bz2|xz|zst))?\Z")


class Reached(msgspec.Struct):
    """How far a file was read, whatever it is called now."""

    head_bytes: int
    head: str
    offset: int
    looked: tuple[int, int] = (0, 0)  # size and time of change when it was last read to its end


class LogPiece(NamedTuple):
    """Whole lines of one file: from `start` to `stop` (None: to the end) in its uncompressed bytes."""

    node: str
    number: int  # of the file among those of the broker
    path: str
    start: int
    stop: int | None


class LineBlock(NamedTuple):
    """Bytes of whole lines, and where the first of them stands."""

    position: int
    data: bytes
    is_torn: bool = False  # the last line has no end and never will have


def rotations(path: Path) -> list[Path]:
    """The log and what was rotated away from it, oldest first."""
    found: list[tuple[tuple[int, int, str], Path]] = [((2, 0, ""), path)] if path.exists() else []
    for other in sorted(path.parent.glob(f"{_escaped(path.name)}[.-]*")):
        match = _rotated.fullmatch(other.name[len(path.name) :])
        if match is not None and other.is_file():
            number, date = match.groups()
            found.append(((1, -int(number), "") if number else (0, 0, date), other))
    return [other for _, other in sorted(found)]


def rotated_from(path: Path) -> Path:
    """The name of the log that this file was rotated away from; its own if it was not."""
    match = _rotated.search(path.name)
    return path.with_name(path.name[: match.start()]) if match is not None and match.start() else path


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def open_log(path: str | Path) -> IO[bytes]:
    """The uncompressed bytes, by the name's ending."""
    match os.path.splitext(path)[1]:
        case ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        case ".bz2":
            return cast(IO[bytes], bz2.open(path, "rb"))
        case ".xz":
            return cast(IO[bytes], lzma.open(path, "rb"))
    return open(path, "rb")


def is_compressed(path: str | Path) -> bool:
    return os.path.splitext(path)[1] in COMPRESSED


def head_of(path: str | Path, length: int = HEAD_BYTES) -> bytes:
    with open_log(path) as file:
        return file.read(length)


def fingerprint(head: bytes) -> str:
    return hashlib.blake2b(head, digest_size=12).hexdigest()


def find_reached(head: bytes, known: list[Reached]) -> Reached | None:
    """The entry of a file that begins like this; the longest beginning decides."""
    fits = [one for one in known if len(head) >= one.head_bytes and fingerprint(head[: one.head_bytes]) == one.head]
    return max(fits, key=lambda one: (one.head_bytes, one.offset), default=None)


def line_blocks(piece: LogPiece, block_bytes: int = BLOCK_BYTES, is_closed: bool = False) -> Iterator[LineBlock]:
    """Blocks of whole lines. A last line without its end is left for later, or told as torn if the file is closed."""
    with open_log(piece.path) as file:
        file.seek(piece.start)
        position, rest = piece.start, b""
        while piece.stop is None or position + len(rest) < piece.stop:
            left = block_bytes if piece.stop is None else min(block_bytes, piece.stop - position - len(rest))
            data = file.read(left)
            if not data:
                break
            data = rest + data
            cut = data.rfind(b"\n") + 1
            if cut:
                yield LineBlock(position, data[:cut])
            position, rest = position + cut, data[cut:]
        if rest and is_closed:
            yield LineBlock(position, rest, True)


def cut(piece: LogPiece, piece_bytes: int) -> list[LogPiece]:
    """The same lines as several pieces; what is compressed cannot be cut."""
    if is_compressed(piece.path):
        return [piece]
    stop = os.path.getsize(piece.path) if piece.stop is None else piece.stop
    pieces, start = [], piece.start
    with open(piece.path, "rb") as file:
        while start < stop:
            end = min(stop, start + piece_bytes)
            if end < stop:
                file.seek(end)
                end = min(stop, end + len(file.readline()))
            pieces.append(piece._replace(start=start, stop=end))
            start = end
    return pieces


def last_line_end(path: str | Path, start: int, end: int | None = None) -> int:
    """The position behind the last whole line from `start` on (up to `end`)."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END) if end is None else end
        while end > start:
            begin = max(start, end - BLOCK_BYTES)
            file.seek(begin)
            found = file.read(end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
    return start
