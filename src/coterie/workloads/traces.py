"""Real traces: where they lie, and the tables in them."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

import coterie
from coterie.errors import ConfigError, InputError
from coterie.model import Relation, Workload
from coterie.model.latency import Latency

FOLDER_VARIABLE = "COTERIE_TRACES"


def traces_folder() -> Path | None:
    """COTERIE_TRACES, else ../shared/data beside the project's folder; None where there is no such folder."""
    named = os.environ.get(FOLDER_VARIABLE)
    project = Path(coterie.__file__).resolve().parents[2]
    folder = Path(named) if named else project.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def trace_file(name: str) -> Path:
    folder = traces_folder()
    if folder is None:
        raise InputError(name, f"there is no folder of traces; set {FOLDER_VARIABLE} to one that holds this file")
    if not (folder / name).is_file():
        raise InputError(str(folder / name), f"is not there; set {FOLDER_VARIABLE} to a folder that holds it")
    return folder / name


def trace_table(name: str, columns: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Columns of a CSV trace: numbers as numbers, text as dictionary codes (int64, in order of first appearance)."""
    table = _arrow_table(name, columns)
    return {name: _plain(table.column(name)) for name in columns}


def trace_text(name: str, column: str) -> list[str]:
    """One column of text as it is, for joining traces by name."""
    return list(_arrow_table(name, (column,)).column(column).to_pylist())


def _arrow_table(name: str, columns: Sequence[str]) -> pa.Table:
    path = trace_file(name)
    options = pa.csv.ConvertOptions(include_columns=list(columns), strings_can_be_null=False)
    try:
        return pa.csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, EOFError) as error:
        raise InputError(str(path), f"is not the CSV it should be ({error})") from error


def _plain(column: pa.ChunkedArray) -> NDArray[np.generic]:
    if pa.types.is_string(column.type):
        codes = column.combine_chunks().dictionary_encode().indices
        return np.asarray(codes.to_numpy(zero_copy_only=False)).astype(np.int64)
    return np.asarray(column.to_numpy())


def word_counts(name: str) -> tuple[Relation, NDArray[np.int64]]:
    """(document -> words, times of each pair) from lines `count word:times word:times ...`."""
    path = trace_file(name)
    count = 0
    documents: list[int] = []
    words: list[int] = []
    times: list[int] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                _, *fields = line.split()
                pairs = [field.partition(":") for field in fields]
                documents.extend([count] * len(pairs))
                words.extend(int(pair[0]) for pair in pairs)
                times.extend(int(pair[2]) for pair in pairs)
                count += 1
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(str(path), f"is not lines of word:times ({error})") from error
    if not words:
        raise InputError(str(path), "has no words")
    width = max(words) + 1
    key = np.array(documents, np.int64) * width + np.array(words, np.int64)
    order = np.argsort(key, kind="stable")
    return Relation.from_pairs(documents, words, count, width), np.array(times, np.int64)[order]


def latency_ms(part: str = "median_ms") -> NDArray[np.float64]:
    """Measured round-trip times between 490 hosts: symmetric where only one direction was measured, the diagonal 0."""
    path = trace_file("latency_planetlab490.npz")
    try:
        with np.load(path) as archive:
            matrix = archive[part].astype(np.float64)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(str(path), f"has no table {part!r} ({error})") from error
    matrix = np.where(np.isfinite(matrix) & (matrix > 0), matrix, np.nan)
    matrix = np.where(np.isnan(matrix), matrix.T, matrix)
    matrix = np.where(np.isnan(matrix), np.nanmedian(matrix), matrix)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def latency_of(words: str, workload: Workload) -> Latency:
    """MILLISECONDS from any node to any other, "planetlab" as measured there, or "distance:MS_PER_UNIT"."""
    kind, _, value = words.partition(":")
    try:
        if kind == "planetlab":
            return Latency.matrix(latency_ms() / 2)  # the trace holds round trips
        if kind == "distance":
            if workload.coordinates is None:
                raise ConfigError(
                    "--latency", words, f"milliseconds, because workload {workload.name} has no coordinates"
                )
            return Latency.distance(workload.coordinates, float(value or 0.1))
        return Latency.constant(float(kind))
    except ValueError:
        raise ConfigError("--latency", words, "milliseconds, 'planetlab' or 'distance:MS_PER_UNIT'") from None
