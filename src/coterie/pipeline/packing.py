"""Packs rows for the shuffle: many rows travel as one block of columns, so Spark moves few blocks and no single rows.

A row on its own pays for its serialisation and its place in the shuffle; in a block thousands share that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.kernels.interests import texthash
from coterie.pipeline.schemas import TableSchema, table_schema

PACKED = "part int, block binary"
BLOCK_ROWS = 1_000_000  # gathered before they are cut into parts
Buffer = TypeVar("Buffer", bound=NDArray[Any])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def carried_schema(schema: TableSchema) -> pa.Schema:
    """What travels: the canonical columns, where the row came from, and what is wrong with it (null: nothing)."""
    return pa.schema([*schema.arrow, ("origin", pa.int64()), ("fault", pa.string())])


def packed(tables: Iterable[pa.Table], table: str, parts: int) -> Iterator[pa.RecordBatch]:
    """Blocks for every part; rows that belong together (by `cut_by`, else by all columns) go to the same part."""
    waiting: list[pa.Table] = []
    rows = 0
    for piece in tables:
        waiting.append(piece)
        rows += len(piece)
        if rows >= BLOCK_ROWS:
            yield from _blocks(pa.concat_tables(waiting), table, parts)
            waiting, rows = [], 0
    if rows:
        yield from _blocks(pa.concat_tables(waiting), table, parts)


def unpacked(batches: Iterable[pa.RecordBatch], table: str) -> pa.Table:
    """The rows of all blocks that came to one part."""
    carried = carried_schema(table_schema(table))
    blocks = [block.as_buffer() for batch in batches for block in batch.column(1)]
    return pa.concat_tables([carried.empty_table(), *(pa.ipc.open_stream(block).read_all() for block in blocks)])


def _blocks(rows: pa.Table, table: str, parts: int) -> Iterator[pa.RecordBatch]:
    for number, block in enumerate(cut(rows, table, parts)):
        if len(block):
            yield pa.record_batch({"part": pa.array([number], pa.int32()), "block": pa.array([_written(block)])})


def cut(rows: pa.Table, table: str, parts: int) -> Iterator[pa.Table]:
    """The rows of every part in turn, some of which may have none."""
    schema = table_schema(table)
    rows = rows.cast(carried_schema(schema)).combine_chunks()
    if parts == 1:
        yield rows
        return
    part = _part_of(rows, schema, parts)
    rows = rows.take(pa.array(np.argsort(part, kind="stable")))
    bounds = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=parts))])
    for start, end in pairwise(bounds.tolist()):
        yield rows.slice(start, end - start)


def _part_of(rows: pa.Table, schema: TableSchema, parts: int) -> NDArray[np.int16]:
    hashes = np.zeros(len(rows), np.uint64)
    for name in [schema.cut_by] if schema.cut_by else schema.names:
        _fold(rows[name].combine_chunks(), hashes)
    # A bad row has no key; its origin spreads it, so that a flood of them cannot sink one task.
    spread = rows["origin"].to_numpy().view(np.uint64)
    keyed = np.asarray(pc.is_null(rows["fault"]))
    return (np.where(keyed, hashes, spread) % np.uint64(parts)).astype(np.int16)


def _fold(values: pa.Array, hashes: NDArray[np.uint64]) -> None:
    if pa.types.is_list(values.type):
        values = pc.binary_join(values, "\x1f")
    if not pa.types.is_string(values.type):
        whole = pc.fill_null(values, np.nan) if pa.types.is_floating(values.type) else _as_integers(values)
        texthash.hash_numbers(np.array(whole).view(np.uint64), hashes)
        return
    values = pc.fill_null(values, "")
    offsets, data = text_buffers(values)
    texthash.hash_texts(offsets, data, hashes)


def text_buffers(values: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """(offsets, bytes) of a string array, without copying; one byte of padding where there is no text at all."""
    _, offsets, data = values.buffers()
    starts = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    # Kernels are compiled for writable arrays; Arrow's memory is read-only, and a view may say otherwise as long as
    # nobody writes.
    return _writable(starts), _writable(raw)


def _writable(array: Buffer) -> Buffer:
    if array.flags.writeable:
        return array
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return cast(Buffer, np.asarray(_View(interface, array)))


class _View:
    """Keeps the memory's owner alive while numpy looks at it."""

    def __init__(self, interface: dict[str, object], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def _as_integers(values: pa.Array) -> pa.Array:
    return pc.fill_null(values.cast(pa.int64()), np.iinfo(np.int64).min)


def _written(block: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema, options=_OPTIONS) as stream:
        stream.write_table(block)
    return cast(bytes, sink.getvalue().to_pybytes())
