"""Keeps the stream's state on disk, one folder per micro-batch, each whole or not there; the last few are kept.

Interests are many and change little: they lie beside the folders, in a file of all and files of what has changed since,
which every batch names. Once the changes are as many as the whole, the whole is written anew.
"""

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
from coterie.pipeline.storage import write_rows
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
        self._files: list[str] = []  # what the interests of the last batch lie in
        self._changed = 0  # rows of those but the first
        self._named: dict[int, list[str]] = {}

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
            interests = [pq.read_table(self.root / INTERESTS / name) for name in about["interests"]]
        except (OSError, ValueError, KeyError, pa.ArrowException):
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
        rates = tables.pop("rates")
        state.topics = rates["topic"].to_pylist()
        state.rates = rates["rate"].to_numpy().astype(np.float64)
        for table in interests:
            _apply(table, state.interests)
        self._files = list(about["interests"])
        self._changed = sum(len(table) for table in interests[1:])
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
            "counts": state.counts,
            "pending": state.pending,
            "sample": state.sample,
        }
        for name, table in tables.items():
            pq.write_table(table, unfinished / f"{name}.parquet", compression="zstd")
        about: dict[str, Any] = {name: getattr(state, name) for name in PLAIN}
        about |= {"window_s": state.window_s, "alpha": state.alpha, "interests": self._save_interests(batch, state)}
        with open(unfinished / ABOUT, "w") as file:
            json.dump(about, file, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(self._folder(batch))
        self._named[batch] = list(about["interests"])
        self._swept(batch)
        self._held = (batch, state)

    def _save_interests(self, batch: int, state: StreamState) -> list[str]:
        """What has changed since the last save, or everything where that is not much more."""
        touched = state.touched
        is_whole = not self._files or self._changed + len(touched) > len(state.interests)
        if touched or is_whole:
            kind = "all" if is_whole else "changed"
            table = _interests(state, None if is_whole else sorted(touched))
            name = f"{kind}-{batch:09d}.parquet"
            write_rows(table, self.root / INTERESTS / name)
            self._files = [name] if is_whole else [*self._files, name]
            self._changed = 0 if is_whole else self._changed + len(touched)
        touched.clear()
        return list(self._files)

    def _swept(self, batch: int) -> None:
        for old in self.root.iterdir():
            if old.name != INTERESTS and (old.name.startswith(".") or int(old.name) <= batch - KEPT):
                shutil.rmtree(old)
        self._named = {number: names for number, names in self._named.items() if number > batch - KEPT}
        if len(self._named) < KEPT:
            return  # after a restart older batches may still name files that we have not seen
        used = {name for names in self._named.values() for name in names}
        for path in (self.root / INTERESTS).iterdir():
            if path.name not in used:
                path.unlink()

    def _folder(self, batch: int) -> Path:
        return self.root / f"{batch:09d}"


TABLES = ("rates", "counts", "pending", "sample")
INTERESTS, GONE = "interests", "is_gone"


def _interests(state: StreamState, pairs: list[tuple[str, str]] | None) -> pa.Table:
    """All wishes, or those of some pairs; a pair that is no more is marked as gone."""
    listed = list(state.interests) if pairs is None else pairs
    columns: dict[str, list[Any]] = {"client": [pair[0] for pair in listed], "topic": [pair[1] for pair in listed]}
    said = [state.interests.get(pair) for pair in listed]
    nothing = LastWish(0, "", 0, "", False)
    columns |= {name: [(one or nothing)[index] for one in said] for index, name in enumerate(LastWish._fields)}
    kinds = {name: CHANGES.field(name).type for name in columns}
    made = {name: pa.array(values, kinds[name]) for name, values in columns.items()}
    return pa.table({**made, GONE: pa.array([one is None for one in said], pa.bool_())})


def _apply(table: pa.Table, interests: dict[tuple[str, str], LastWish]) -> None:
    columns = [table[name].to_pylist() for name in ("client", "topic", GONE, *LastWish._fields)]
    for client, topic, is_gone, *said in zip(*columns, strict=True):
        if is_gone:
            interests.pop((client, topic), None)
        else:
            interests[client, topic] = LastWish(*said)
