"""Keeps the stream's state on disk, one folder per micro-batch, each whole or not there; the last few are kept."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import ConfigError, InputError
from coterie.pipeline.streamstate import CHANGES, SAMPLE, LastWish, Span, StreamState

ABOUT = "about.json"
KEPT = 3  # Spark repeats at most the last batch
PLAIN = (
    "nodes",
    "watermark_us",
    "next_window",
    "plan",
    "is_started",
    "has_news",
    "line_count",
    "bad_count",
    "late_count",
)


class Checkpoints:
    """The state after every micro-batch, by its number."""

    def __init__(self, root: Path, window_s: float, alpha: float, late_s: float) -> None:
        self.root = root
        self._fresh = (window_s, alpha, late_s)
        self._held: tuple[int, StreamState] | None = None

    def latest(self) -> int | None:
        if not self.root.exists():
            return None
        return max((int(entry.name) for entry in self.root.iterdir() if entry.name.isdigit()), default=None)

    def has(self, batch: int) -> bool:
        return self._folder(batch).exists()

    def before(self, batch: int) -> StreamState:
        """The state that a micro-batch starts from. The caller changes it, and saves it or lets it go."""
        held, self._held = self._held, None
        if held is not None and held[0] == batch - 1:
            return held[1]
        return self.load(batch - 1) if batch > 0 else StreamState(*self._fresh)

    def load(self, batch: int) -> StreamState:
        folder = self._folder(batch)
        try:
            about = json.loads((folder / ABOUT).read_text())
            tables = {name: pq.read_table(folder / f"{name}.parquet") for name in TABLES}
        except (OSError, ValueError, pa.ArrowException):
            raise InputError(
                str(folder), "the state of the stream is missing or damaged; begin anew with an empty output folder"
            ) from None
        if not tables["sample"].schema.equals(SAMPLE):
            raise InputError(str(folder), "is of another version of coterie; begin anew with an empty output folder")
        for key, mine in zip(("window_s", "alpha"), self._fresh, strict=False):
            if about[key] != mine:
                raise ConfigError(key, mine, f"{about[key]:g} as this stream began with, or another output folder")
        state = StreamState(*self._fresh)
        for name in PLAIN:
            setattr(state, name, about[name])
        state.nodes = {node: span and Span(*span) for node, span in state.nodes.items()}
        rates, interests = tables.pop("rates"), tables.pop("interests")
        state.topics = rates["topic"].to_pylist()
        state.rates = rates["rate"].to_numpy().astype(np.float64)
        columns = [interests[name].to_pylist() for name in ("client", "topic", *LastWish._fields)]
        state.interests = {(row[0], row[1]): LastWish(*row[2:]) for row in zip(*columns, strict=True)}
        for name, table in tables.items():
            setattr(state, name, table)
        return state

    def save(self, batch: int, state: StreamState) -> None:
        """Make the state the one after `batch`: from here on the batch is done."""
        unfinished = self.root / f".unfinished-{batch:09d}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        tables = {
            "rates": pa.table({"topic": pa.array(state.topics, pa.string()), "rate": pa.array(state.rates)}),
            "interests": _interests(state),
            "counts": state.counts,
            "pending": state.pending,
            "sample": state.sample,
        }
        for name, table in tables.items():
            pq.write_table(table, unfinished / f"{name}.parquet", compression="zstd")
        about: dict[str, Any] = {name: getattr(state, name) for name in PLAIN}
        about |= {"window_s": state.window_s, "alpha": state.alpha}
        with open(unfinished / ABOUT, "w") as file:
            json.dump(about, file, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._folder(batch))
        self._swept(batch)
        self._held = (batch, state)

    def _swept(self, batch: int) -> None:
        for old in self.root.iterdir():
            if old.name.startswith(".") or int(old.name) <= batch - KEPT:
                shutil.rmtree(old)

    def _folder(self, batch: int) -> Path:
        return self.root / f"{batch:09d}"


TABLES = ("rates", "interests", "counts", "pending", "sample")


def _interests(state: StreamState) -> pa.Table:
    pairs = state.interests
    columns: dict[str, list[Any]] = {"client": [pair[0] for pair in pairs], "topic": [pair[1] for pair in pairs]}
    said = list(pairs.values())
    columns |= {name: [entry[index] for entry in said] for index, name in enumerate(LastWish._fields)}
    kinds = {name: CHANGES.field(name).type for name in columns}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})
