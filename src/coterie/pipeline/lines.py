"""Cuts text files into blocks of whole rows: lines, CSV rows that go over several lines, elements of a JSON array."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.pipeline.files import BOM, InputFile, Torn, read_chunks
from coterie.pipeline.storage import Remote

BREAKS_MAX = 200  # lines that one CSV row may have: a stray quote must not swallow the file
HELD_BYTES_MAX = 1 << 20
ELEMENTS_AT_ONCE = 50_000
SHOWN_BYTES_MAX = 2000


@dataclass(frozen=True)
class FileLines:
    """Whole lines, each with its line break."""

    data: bytes
    lines: int
    torn: str = ""  # why the last line is not whole


def blocks_of(file: InputFile, start: int, stop: int | None) -> Iterator[FileLines]:
    """Blocks of a file, or of the lines that begin between two bytes; raises Torn after the last good one."""
    return _elements(file) if file.format == "json" else _lines(file, start, stop)


def rows_of(block: FileLines, first_line: int, file: InputFile, encoding: str) -> pa.Table:
    """(text, line, is_garbled): each row with the number of its first line; what is not in this encoding is escaped."""
    data, is_sound = block.data.removeprefix(BOM), True
    if encoding != "utf-8":
        try:
            data = data.decode(encoding).encode()
        except UnicodeDecodeError:
            is_sound = False
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    texts = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(data))  # nothing is copied
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        is_sound = False
    is_garbled = np.zeros(len(ends), bool)
    if not is_sound:
        texts, is_garbled = _decoded_each(data, encoding)
    numbers = np.arange(first_line, first_line + len(ends), dtype=np.int64)
    rows = pa.table({"text": pc.ascii_rtrim(texts, characters="\r\n"), "line": numbers, "is_garbled": is_garbled})
    return _joined(rows, file) if file.format == "csv" and b'"' in data else rows


# --- lines ---


def _lines(file: InputFile, start: int, stop: int | None) -> Iterator[FileLines]:
    """A range skips the line that began before it and finishes the one that crosses its end."""
    rest = b""
    torn = ""
    chunks = read_chunks(file.place, file.compression, max(start - 1, 0), stop)
    skipping = start > 0
    may_break = file.format == "csv" and stop is None
    while True:
        try:
            chunk = next(chunks)
        except StopIteration:
            break
        except Torn as error:
            torn = str(error)
            break
        if skipping:
            _, newline, chunk = chunk.partition(b"\n")
            skipping = not newline
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline and may_break and b'"' in whole:
            at = _open_quote(whole, file)
            if at < len(whole):
                whole, newline, rest = whole[:at], b"", whole[at:] + newline + rest
        if whole or newline:
            yield FileLines(whole + newline, (whole + newline).count(b"\n"))
    if stop is not None and not skipping and rest:
        rest += _rest_of_line(file.place, stop)
    if rest:
        ended = rest if rest.endswith(b"\n") else rest + b"\n"
        yield FileLines(ended, ended.count(b"\n"), torn)
    elif torn:
        raise Torn(torn)


def _open_quote(lines: bytes, file: InputFile) -> int:
    """Where the last line begins that opens a quote and does not close it; the length if no such line is near the end.

    Counting quotes would not do: one stray quote before would turn all that follow inside out.
    """
    end = len(lines)
    while end > 0 and len(lines) - end < HELD_BYTES_MAX:
        begin = lines.rfind(b"\n", 0, end) + 1
        if lines.count(b'"', begin, end) % 2:
            text = lines[begin:end].decode("utf-8", "replace").rstrip("\r")
            return begin if _is_open(text, file) else len(lines)
        end = begin - 1
    return len(lines)


def _is_open(line: str, file: InputFile) -> bool:
    try:
        next(csv.reader([line], delimiter=file.delimiter, strict=True))
    except csv.Error:
        return True
    return False


def _rest_of_line(path: str | Remote, start: int) -> bytes:
    pieces = []
    for chunk in read_chunks(path, "", start):
        line, newline, _ = chunk.partition(b"\n")
        pieces.append(line)
        if newline:
            break
    return b"".join(pieces)


def _decoded_each(data: bytes, encoding: str) -> tuple[pa.Array, NDArray[np.bool_]]:
    texts: list[str] = []
    is_garbled: list[bool] = []
    for line in data.split(b"\n")[:-1]:
        try:
            texts.append(line.decode(encoding))
            is_garbled.append(False)
        except UnicodeDecodeError:
            texts.append(line.decode("utf-8", "backslashreplace"))
            is_garbled.append(True)
    return pa.array(texts, pa.string()), np.array(is_garbled, bool)


# --- CSV rows that go over several lines ---


def _joined(rows: pa.Table, file: InputFile) -> pa.Table:
    """A line that opens a quote joins those up to the one that closes it, if that makes a row of the right length."""
    odd = np.flatnonzero(np.asarray(pc.count_substring(rows["text"], '"')) % 2).tolist()
    if len(odd) < 2:
        return rows
    texts = rows["text"].to_pylist()
    keep, is_garbled = np.ones(len(texts), bool), np.array(rows["is_garbled"])
    at = 0
    while at + 1 < len(odd):
        first, last = odd[at], odd[at + 1]
        text = "\n".join(texts[first : last + 1]) if last - first <= BREAKS_MAX else ""
        if not text or isinstance(quoted_fields(text, file), str):
            at += 1
            continue
        texts[first] = text
        is_garbled[first] = is_garbled[first : last + 1].any()
        keep[first + 1 : last + 1] = False
        at += 2
    joined = {"text": pa.array(texts, pa.string()), "line": rows["line"], "is_garbled": is_garbled}
    return pa.table(joined).filter(pa.array(keep))


def quoted_fields(row: str, file: InputFile) -> list[str] | str:
    """The fields of a row with quotes, or what is wrong with it."""
    try:
        values = next(csv.reader([row], delimiter=file.delimiter, strict=True))
    except csv.Error as error:
        return f"broken quoting ({error})"
    return values if len(values) == len(file.columns) else f"{len(values)} fields instead of {len(file.columns)}"


# --- JSON arrays ---


def _elements(file: InputFile) -> Iterator[FileLines]:
    """Every element of one JSON array as a line; their numbers count from 1."""
    pieces = []
    torn = ""
    try:
        for chunk in read_chunks(file.place, file.compression):
            pieces.append(chunk)  # noqa: PERF402  (what came before a tear is kept)
    except Torn as error:
        torn = f"{error}: "
    data = b"".join(pieces).removeprefix(BOM)
    try:
        elements = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield FileLines(_flat(data[:SHOWN_BYTES_MAX]), 1, f"{torn}broken JSON array ({error})")
        return
    for low in range(0, len(elements), ELEMENTS_AT_ONCE):
        some = elements[low : low + ELEMENTS_AT_ONCE]
        yield FileLines(b"".join(_flat(bytes(element)) for element in some), len(some))


def _flat(element: bytes) -> bytes:
    """On one line: a line break in JSON stands between tokens only."""
    return element.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
