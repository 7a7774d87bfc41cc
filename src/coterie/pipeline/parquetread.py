"""Lets Spark itself read Parquet files whose columns need no more than a plain cast; this is the road for bulk."""

from __future__ import annotations

import zlib
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.pipeline.files import InputFile
from coterie.pipeline.mapping import Source
from coterie.pipeline.schemas import SPARK_TYPES, Field, table_schema
from coterie.pipeline.times import US_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Placed = tuple[int, InputFile, Source]  # number of the file, the file, what it means
ParquetNumbers = dict[int, int]  # mark of a file -> its number
PARQUET_BIT = 1 << 62  # origin of a row read by Spark: this bit, 28 bits of file mark, 34 bits of row
ROW_BITS = 34
MARK_BITS = 28


def is_native(file: InputFile, source: Source) -> bool:
    """Whether every canonical column can be had by a cast, and the required ones are there."""
    if file.format != "parquet" or not file.rows:
        return False
    arrow = pq.read_schema(file.path)
    for field in table_schema(source.table).fields:
        column = source.column(field.name)
        if column not in arrow.names:
            if field.required:
                return False
        elif not _is_plain(arrow.field(column).type, field.kind, source):
            return False
    return True


def parquet_frames(spark: SparkSession, files: list[Placed]) -> tuple[list[DataFrame], ParquetNumbers]:
    """Frames of canonical columns + origin + fault (always null), one for all files that look alike."""
    groups: dict[str, list[Placed]] = {}
    for entry in files:
        arrow = pq.read_schema(entry[1].path)
        wanted = [entry[2].column(name) for name in table_schema(entry[2].table).names]
        shape = [(name, str(arrow.field(name).type)) for name in wanted if name in arrow.names]
        groups.setdefault(f"{shape} {entry[2]}", []).append(entry)
    read = [spark.read.parquet(*(entry[1].path for entry in members)) for members in groups.values()]
    uris = [form for frame in read for uri in frame.inputFiles() for form in _forms(uri)]
    salt = _salt_without_collision(uris)
    by_path = {str(Path(entry[1].path).resolve()): entry[0] for entry in files}
    numbers = {_mark(uri, salt): by_path[str(Path(unquote(urlparse(uri).path)).resolve())] for uri in uris}
    frames = [
        _canonical(frame, members[0][2], pq.read_schema(members[0][1].path), salt)
        for frame, members in zip(read, groups.values(), strict=True)
    ]
    return frames, numbers


def parquet_place(origin: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(mark of the file, row from 0)."""
    return (origin >> ROW_BITS) & ((1 << MARK_BITS) - 1), origin & ((1 << ROW_BITS) - 1)


def _forms(uri: str) -> set[str]:
    """Spark writes the same local path with one slash here and with three there."""
    return {uri, uri.replace("file:///", "file:/", 1)}


def _mark(uri: str, salt: str) -> int:
    return zlib.crc32((salt + uri).encode()) & ((1 << MARK_BITS) - 1)


def _salt_without_collision(uris: list[str]) -> str:
    for number in count():
        if len({_mark(uri, str(number)) for uri in uris}) == len(uris):
            return str(number)
    raise AssertionError("counting does not end")


def _is_plain(kind: pa.DataType, wanted: str, source: Source) -> bool:
    signed = pa.types.is_signed_integer(kind)
    if wanted == "text":
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or signed)
    if wanted == "time":
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("us", "ms")
        return bool(zoned or (signed and source.time_unit != "iso"))
    if wanted == "number":
        return bool(signed or pa.types.is_float32(kind) or pa.types.is_float64(kind))
    if wanted == "texts":
        return bool(pa.types.is_list(kind) and pa.types.is_string(kind.value_type))
    return bool(signed)


def _canonical(frame: DataFrame, source: Source, arrow: pa.Schema, salt: str) -> DataFrame:
    from pyspark.sql import functions as sf

    columns = [_cast(field, source, arrow).alias(field.name) for field in table_schema(source.table).fields]
    mark = sf.crc32(sf.concat(sf.lit(salt), sf.col("_metadata.file_path")).cast("binary"))
    mark = mark.bitwiseAND(sf.lit((1 << MARK_BITS) - 1))
    place = sf.shiftleft(mark, ROW_BITS).bitwiseOR(sf.lit(PARQUET_BIT)).bitwiseOR(sf.col("_metadata.row_index"))
    return frame.select(*columns, place.alias("origin"), sf.lit(None).cast("string").alias("fault"))


def _cast(field: Field, source: Source, arrow: pa.Schema) -> Column:
    from pyspark.sql import functions as sf

    name = source.column(field.name)
    wanted = SPARK_TYPES[field.kind]
    if name not in arrow.names:
        return sf.lit(field.default).cast(wanted)
    column = sf.col(f"`{name}`")
    if field.kind == "time" and pa.types.is_integer(arrow.field(name).type):
        return _epoch(column.cast("bigint"), source.time_unit)
    if field.kind == "text":
        return sf.trim(column.cast("string"))
    filled = column.cast(wanted)
    return filled if field.default is None else sf.coalesce(filled, sf.lit(field.default).cast(wanted))


def _epoch(number: Column, unit: str) -> Column:
    """A whole number of the unit as a timestamp; what no timestamp can hold becomes the end of 9999, to be refused."""
    from pyspark.sql import functions as sf

    def scaled(name: str) -> Column:
        if name == "ns":
            return ((number - sf.pmod(number, sf.lit(1000))) / 1000).cast("bigint")
        factor = {"s": 1_000_000, "ms": 1000, "us": 1}[name]
        fits = number.between(-(US_MAX // factor), US_MAX // factor)
        return sf.when(fits, number * sf.lit(factor)).when(number.isNotNull(), sf.lit(US_MAX))

    if unit != "auto":
        return sf.timestamp_micros(scaled(unit))
    size = sf.abs(sf.greatest(number, sf.lit(-(2**62))))
    return sf.timestamp_micros(
        sf.when(size < 10**11, scaled("s"))
        .when(size < 10**14, scaled("ms"))
        .when(size < 10**17, scaled("us"))
        .otherwise(scaled("ns"))
    )
