"""What a file of batches holds, byte by byte, and what is left of it when its end is torn or lost.

A file is a head (the machine's boot, the first number) and batches: a head (length, checksum, number, the last number
known to be on the disk) and a body, the rows of a turn. Whoever keeps such files, on a real disk (`live.wal`) or a
simulated one (`sim.world.disk`), reads them by the rules here.

What reading makes of damage: a process that is killed can leave only the very end of the last file torn; that end is
dropped. After a power cut (the machine's boot is another one than the file's) any batch that was not synced may be
damaged, and so may those behind it: they are dropped from the first such one on. Everything else is a damaged disk or a
stranger's hand, and reading says so rather than forget what was promised.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from coterie.broker.writes import INTEGER_KEYS, Between, StoreWrite

MAGIC = b"coterie batches 1\n"
_file_head = struct.Struct(">18s16sQI")  # magic, boot, first number, checksum of these
_batch_head = struct.Struct(">IIQQ")  # bytes of the body, checksum, number, synced
_checked = struct.Struct(">QQ")
pack_writes = msgspec.msgpack.Encoder().encode
_unpack_writes = msgspec.msgpack.Decoder(list[tuple[str, Any, bytes | None]]).decode


class Batch(NamedTuple):
    number: int
    synced: int  # the last batch that was on the disk, as far as known, when this one was written
    body: bytes


def encode_batch(number: int, synced: int, body: bytes) -> bytes:
    checksum = zlib.crc32(body, zlib.crc32(_checked.pack(number, synced)))
    return _batch_head.pack(len(body), checksum, number, synced) + body


def boot_mark(boot: bytes) -> bytes:
    return boot.ljust(16, b"\0")[:16]


def encode_head(boot: bytes, first: int) -> bytes:
    head = MAGIC + boot_mark(boot) + first.to_bytes(8, "big")
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


class DamagedBatchesError(ValueError):
    """No crash leaves files like these; `index` says which of them, and `at` from which byte on."""

    def __init__(self, index: int, at: int) -> None:
        super().__init__(f"file {index} is damaged at byte {at}")
        self.index, self.at = index, at


class Reading(NamedTuple):
    """What files hold together. From byte `end` of file `torn` on nothing counts, nor do the files behind it."""

    batches: list[Batch]
    number: int  # of the last batch
    torn: int  # behind the last file if all are whole
    end: int = 0


def read_files(files: Sequence[tuple[int, bytes]], after: int, boot: bytes) -> Reading:
    """Files in order, each with its first number. `after`: the last batch that has a better place; `boot`: today's."""
    batches: list[Batch] = []
    number = after
    for index, (first, data) in enumerate(files):
        found = read_file(data)
        is_last = index == len(files) - 1
        if found is None:
            if not is_last or any(True for _ in _behind(data, -8, first - 1)):
                raise DamagedBatchesError(index, 0)
            return Reading(batches, number, index)  # begun, and cut off before its head was there
        if found.first > number + 1:
            raise DamagedBatchesError(index, 0)
        batches += [one for one in found.batches if one.number > number]
        number = max(number, found.first + len(found.batches) - 1)
        if not found.is_whole:
            if not _may_drop(data, found, [read_file(later) for _, later in files[index + 1 :]], boot):
                raise DamagedBatchesError(index, found.end)
            return Reading(batches, number, index, found.end)
    return Reading(batches, number, len(files))


def _may_drop(data: bytes, found: Found, later: list[Found | None], boot: bytes) -> bool:
    """The end of this file is not whole: is it one that a crash leaves? Files behind it go with it."""
    bad = found.first + len(found.batches)
    has_more = any(True for _ in _behind(data, found.end, bad)) or any(one is not None and one.batches for one in later)
    synced = max([found.synced, *(one.synced for one in later if one is not None)])
    was_cut = found.boot != boot
    return not has_more or (was_cut and synced < bad)


def rows_of(batch: Batch) -> Iterator[StoreWrite]:
    return ((table, plain_key(table, key), value) for table, key, value in _unpack_writes(batch.body))


def plain_key(table: str, key: Any) -> Any:
    """A key, or a span: in a batch both are arrays, told apart by the table."""
    if isinstance(key, list):
        return Between(*key) if table in INTEGER_KEYS else tuple(key)
    return key
