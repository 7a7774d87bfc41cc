"""Finds input files and looks into their first bytes: compression, format, columns.

A file keeps the name its user gave it; `place` is where any process finds it, whatever folder that one works in.
"""

from __future__ import annotations

import bz2
import csv
import fnmatch
import glob
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import InputError
from coterie.pipeline.etags import tagged_files
from coterie.pipeline.mapping import Source
from coterie.pipeline.storage import FileStat, Remote, folder_of, is_remote

EMPTY_FILE, UNREADABLE, IN_ONE_PIECE = "empty file", "unreadable", "read by one task"  # notes, or how they begin
CHUNK_BYTES = 1 << 22
LOOKED_AT_ONCE = 16
MAGIC = ((b"\x1f\x8b", "gz"), (b"BZh", "bz2"), (b"\x28\xb5\x2f\xfd", "zst"), (b"\x04\x22\x4d\x18", "lz4"))
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
DELIMITERS = ",\t;|"
BOM = b"\xef\xbb\xbf"
IN_TEXT = {ord("\t"): None, ord("\r"): None}  # of what is below a blank


class Torn(Exception):
    """Compressed data that stops or breaks in the middle; what came before it is good."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True)
class InputFile:
    """One file as found. `note` says what is odd about it; a file that cannot be read at all has format ""."""

    path: str
    format: str  # csv, jsonl, json (one array) or parquet
    compression: str = ""
    size_bytes: int = 0
    columns: tuple[str, ...] = ()
    delimiter: str = ","
    has_header: bool = False
    rows: int = 0  # Parquet only: what its footer says
    group_rows: tuple[int, ...] = ()  # Parquet only: rows of each row group
    note: str = ""
    absolute: str | Remote = ""
    has_breaks: bool = False  # CSV only: some quoted text goes over several lines, so the file is read in one piece

    @property
    def place(self) -> str | Remote:
        return self.absolute or self.path


class ListedFile(NamedTuple):
    """A file as a listing shows it: by the name its user gave it, or its place in a store."""

    where: str | Remote
    status: FileStat


Looker = Callable[[Sequence[str | Remote], Source], list[InputFile]]


def list_files(source: Source) -> list[ListedFile]:
    """Every file of a source, in order, none of them opened; inside folders, names that begin with a dot or an
    underscore are passed over."""
    found: dict[str, FileStat] = {}
    remote: list[ListedFile] = []
    for pattern in source.paths:
        if is_remote(pattern):
            remote += _stored(pattern)
            continue
        path = pattern.removeprefix("file://")
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        if not matches:
            raise InputError(pattern, "no such file, folder or glob match")
        for match in (str(Path(match)) for match in matches):
            inside = _inside(match) if os.path.isdir(match) else [match]
            found.update((name, _status(name)) for name in inside)
    return [ListedFile(name, status) for name, status in found.items()] + remote


def find_files(source: Source, look: Looker | None = None) -> list[InputFile]:
    """The same, with what is in them; `look` is for whoever can look into many at once."""
    listed = [one.where for one in list_files(source)]
    looked = (look or look_into_all)(listed, source)
    places = (where if isinstance(where, Remote) else os.path.abspath(where) for where in listed)
    return [replace(file, absolute=place) for file, place in zip(looked, places, strict=True)]


def look_into_all(listed: Sequence[str | Remote], source: Source) -> list[InputFile]:
    """Looking waits for the disk or the store: many files are looked into side by side."""
    with ThreadPoolExecutor(LOOKED_AT_ONCE) as pool:
        return list(pool.map(lambda where: look_into(where, source), listed))


def _inside(folder: str) -> list[str]:
    found: list[str] = []
    for home, folders, names in os.walk(folder):
        folders[:] = filter(_is_visible, folders)
        paths = (os.path.join(home, name) for name in names if _is_visible(name))
        found += (path.removeprefix("./") for path in paths if os.path.isfile(path))
    return sorted(found, key=lambda path: path.split(os.sep))


def _status(path: str) -> FileStat:
    status = os.stat(path)
    return FileStat(status.st_size, status.st_mtime_ns)


def _stored(pattern: str) -> list[ListedFile]:
    """Files of a store, sorted: one by its name, a folder's, or those that a pattern in the last part matches."""
    place = folder_of(pattern)
    assert isinstance(place, Remote)
    if place.is_file():
        alone = tagged_files(place)
        return [ListedFile(place, place.stat() if alone is None else alone[""])]
    if "*" in place.name or "?" in place.name:
        there = _listing(place.parent, is_recursive=False)
        found = [
            ListedFile(place.parent / name, there[name]) for name in there if fnmatch.fnmatchcase(name, place.name)
        ]
    else:
        there = _listing(place)
        found = [ListedFile(place / name, there[name]) for name in there if all(map(_is_visible, name.split("/")))]
    if not found:
        raise InputError(pattern, "no such file, folder or match in the store")
    return found


def _listing(place: Remote, is_recursive: bool = True) -> dict[str, FileStat]:
    found = tagged_files(place, is_recursive)
    return place.files(is_recursive) if found is None else found


def look_into(where: str | Remote, source: Source) -> InputFile:
    """Read only the beginning (Parquet: the footer)."""
    path = str(where)
    size = (where if isinstance(where, Remote) else Path(where)).stat().st_size
    if size == 0:
        return InputFile(path, "", note=EMPTY_FILE)
    with _opened(where) as file:
        head = bytes(file.read(8))
    if head[:4] == b"PAR1" or source.format == "parquet" or _by_suffix(path) == "parquet":
        return _look_into_parquet(where, size)
    compression = next((name for magic, name in MAGIC if head.startswith(magic)), "")
    try:
        chunks = (chunk.lstrip(b"\r\n") for chunk in read_chunks(where, compression))
        start = next(filter(None, chunks), b"")
    except (OSError, Torn) as error:
        return InputFile(path, "", compression, size, note=f"{UNREADABLE}: {error}")
    if not start.strip():
        return InputFile(path, "", compression, size, note=EMPTY_FILE)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return InputFile(path, "", compression, size, note=f"{UNREADABLE}: it is UTF-16; save it as UTF-8")
    text_format = source.format if source.format != "auto" else _by_suffix(path)
    visible = start.removeprefix(BOM).lstrip()
    if not text_format:
        text_format = "jsonl" if visible.startswith((b"{", b"[{")) else "csv"
    if text_format == "jsonl":
        return InputFile(path, "json" if visible.startswith(b"[") else "jsonl", compression, size)
    has_breaks = b'"' in start and any(line.count(b'"') % 2 for line in start.split(b"\n")[:-1])
    return replace(
        _by_header(start.split(b"\n", 1)[0], path, source),
        compression=compression,
        size_bytes=size,
        has_breaks=has_breaks,
    )


def _opened(where: str | Remote) -> Any:
    return where.open_file() if isinstance(where, Remote) else open(where, "rb")


def read_chunks(path: str | Remote, compression: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Decompressed bytes of a file (or of a range of a plain one); raises Torn after the last good bytes."""
    with _opened(path) as file:
        if compression in ("gz", "bz2"):
            yield from _unpacked(file, compression)
        elif compression:
            yield from _unpacked_by_arrow(path, compression)
        else:
            file.seek(start)
            left = None if stop is None else stop - start
            while left is None or left > 0:
                block = bytes(file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left)))
                if not block:
                    return
                left = None if left is None else left - len(block)
                yield block


def _unpacked(file: object, compression: str) -> Iterator[bytes]:
    read = file.read  # type: ignore[attr-defined]
    fresh = _gzip_decompressor if compression == "gz" else bz2.BZ2Decompressor
    machine: _Decompressor = fresh()
    begun = False
    while block := bytes(read(CHUNK_BYTES // 4)):
        while block:
            if machine.eof:  # files made by appending compressed pieces have several members
                machine, begun = fresh(), False
            begun = True
            try:
                data = machine.decompress(block)
            except (zlib.error, OSError) as error:
                raise Torn(f"broken {compression} data ({error})") from None
            if data:
                yield data
            block = machine.unused_data if machine.eof else b""
            if block and not block.strip(b"\0"):
                block = b""
    if begun and not machine.eof:
        raise Torn(f"truncated {compression} data")


def _gzip_decompressor() -> _Decompressor:
    return zlib.decompressobj(wbits=31)


def _unpacked_by_arrow(path: str | Remote, compression: str) -> Iterator[bytes]:
    codec = {"zst": "zstd", "lz4": "lz4"}[compression]
    if not pa.Codec.is_available(codec):
        raise Torn(f"no {codec} codec here: unpack the file first")
    with pa.input_stream(_opened(path), compression=codec) as stream:
        while True:
            try:
                block = stream.read(CHUNK_BYTES)
            except OSError as error:
                raise Torn(f"broken or truncated {compression} data ({error})") from None
            if not block:
                return
            yield block


def _by_header(first: bytes, path: str, source: Source) -> InputFile:
    """A CSV file by its first line, or by the header that its user gave."""
    text = first.rstrip(b"\r").removeprefix(BOM).decode(source.encoding, errors="replace")
    delimiter = source.delimiter
    if delimiter == "auto":
        delimiter = "\t" if ".tsv" in Path(path).name else max(DELIMITERS, key=text.count)
    if source.header:
        return InputFile(path, "csv", columns=source.header, delimiter=delimiter)
    no_text = "it does not begin with a line of text"
    if any(letter < " " or letter == "\x7f" for letter in text.translate(IN_TEXT) if letter != delimiter):
        return InputFile(path, "", note=f"{UNREADABLE}: {no_text}")
    try:
        names = tuple(name.strip() for name in next(csv.reader([text], delimiter=delimiter)))
    except csv.Error:
        why = "its lines end with CR alone; save it with LF" if "\r" in text else no_text
        return InputFile(path, "", note=f"{UNREADABLE}: {why}")
    return InputFile(path, "csv", columns=names, delimiter=delimiter, has_header=True)


def _look_into_parquet(where: str | Remote, size: int) -> InputFile:
    path = str(where)
    try:
        with _opened(where) as file:
            footer = pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        return InputFile(path, "", size_bytes=size, note=f"{UNREADABLE}: {str(error).splitlines()[0]}")
    note = "" if footer.num_rows else EMPTY_FILE
    names = tuple(footer.schema.to_arrow_schema().names)
    groups = tuple(footer.row_group(index).num_rows for index in range(footer.num_row_groups))
    return InputFile(path, "parquet", "", size, names, rows=footer.num_rows, group_rows=groups, note=note)


def _by_suffix(path: str) -> str:
    suffixes = [suffix for suffix in Path(path).suffixes if suffix not in (".gz", ".bz2", ".zst", ".lz4")]
    return SUFFIXES.get(suffixes[-1].lower(), "") if suffixes else ""


def _is_visible(name: str) -> bool:
    return not name.startswith((".", "_"))
