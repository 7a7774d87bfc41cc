"""Runs many independent measurements as Spark tasks and keeps each result the moment it is there.

A measurement is known by its key; its result is one small JSON file, written beside its place and renamed. A sweep
that was interrupted runs only what is missing. What a measurement cost is kept with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from coterie.errors import CoterieError, RunError
from coterie.pipeline.polling import polled
from coterie.pipeline.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Values = Mapping[str, float]
Progress = Callable[[str, float], None]
TASKS_AT_ONCE = 64  # a wave
POLL_S = 0.5


@dataclass(frozen=True)
class Measurement:
    """One task: `run(point, seed)` gives named numbers. `version` names the code, so that new code runs again."""

    owner: str
    point: Mapping[str, Any]
    seed: int
    run: Callable[[Mapping[str, Any], int], Values]
    version: str

    @property
    def key(self) -> str:
        told = json.dumps([self.owner, dict(self.point), self.seed, self.version], sort_keys=True)
        return hashlib.blake2b(told.encode(), digest_size=12).hexdigest()


def sweep(
    spark: SparkSession,
    measurements: Sequence[Measurement],
    folder: Path,
    progress: Progress = lambda stage, share: None,
) -> dict[str, dict[str, Any]]:
    """Results by key: `values`, `seconds`; RunError lists measurements that failed, after all others are kept."""
    folder = folder.resolve()  # executors work in other folders
    folder.mkdir(parents=True, exist_ok=True)
    results = {one.key: found for one in measurements if (found := _load(folder, one.key)) is not None}
    missing = [one for one in measurements if one.key not in results]
    failed: list[str] = []
    for first in range(0, len(missing), TASKS_AT_ONCE):
        wave = missing[first : first + TASKS_AT_ONCE]
        tell = _teller(progress, folder, [one.key for one in wave], len(results), len(measurements))
        tell()
        with polled(tell, POLL_S):
            told = run_tasks(spark, wave, _runner(folder), "key string, problem string")
        failed += [problem for problem in told["problem"].to_pylist() if problem]
        results |= {one.key: found for one in wave if (found := _load(folder, one.key)) is not None}
    progress("done", 1.0)
    if failed:
        raise RunError(f"{len(failed)} of {len(measurements)} runs failed; the first: {failed[0]}")
    return results


def _teller(progress: Progress, folder: Path, wave: Sequence[str], before: int, total: int) -> Callable[[], None]:
    """Tells progress from the results that appear: a wave of long runs would otherwise look stuck."""

    def tell() -> None:
        ready = before + sum((folder / f"{key}.json").exists() for key in wave)
        progress(f"{ready} of {total} runs", ready / total)

    return tell


def _runner(folder: Path) -> Callable[[Measurement], pa.Table]:
    target = str(folder)

    def work(one: Measurement) -> pa.Table:
        problem = ""
        began = time.process_time()
        try:
            values = {name: float(value) for name, value in one.run(one.point, one.seed).items()}
            _keep(Path(target), one.key, {"values": values, "seconds": time.process_time() - began})
        except CoterieError as error:
            problem = f"{one.owner} {dict(one.point)} seed {one.seed}: {error}"
        except Exception as error:  # a defect of one experiment must not take the others with it
            problem = f"{one.owner} {dict(one.point)} seed {one.seed}: {type(error).__name__}: {error}"
        return pa.table({"key": [one.key], "problem": [problem]})

    return work


def _keep(folder: Path, key: str, result: dict[str, Any]) -> None:
    beside = folder / f".{key}-{os.getpid()}"
    beside.write_text(json.dumps(result, sort_keys=True))
    beside.replace(folder / f"{key}.json")


def _load(folder: Path, key: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((folder / f"{key}.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found
