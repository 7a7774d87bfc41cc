"""Runs many independent measurements side by side and keeps each result the moment it is there.

A measurement is known by its key; its result is one small JSON file, written beside its place and renamed. A sweep
that was interrupted runs only what is missing. What a measurement cost is kept with it. Where they run is the caller's
choice: processes of this machine, or tasks of a Spark cluster; the results are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from coterie.errors import CoterieError, RunError
from coterie.pipeline.polling import polled
from coterie.pipeline.tasks import run_tasks
from coterie.writing import write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Values = Mapping[str, float]
Progress = Callable[[str, float], None]
TASKS_AT_ONCE = 4096  # a wave; each begins with fresh processes
TASKS_TOGETHER = 5  # in one process, one after the other
POLL_S = 0.5
THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"


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


Wave = Callable[[Sequence[Measurement], Path], list[str]]  # runs and keeps them all, and tells what went wrong


def in_spark(spark: SparkSession) -> Wave:
    """Each measurement a task of the cluster; its machines share the folder."""

    def run(wave: Sequence[Measurement], folder: Path) -> list[str]:
        target = str(folder)
        told = run_tasks(spark, wave, lambda one: pa.table({"problem": [measured(one, target)]}), "problem string")
        return [problem for problem in told["problem"].to_pylist() if problem]

    return run


def in_processes(count: int | None = None) -> Wave:
    """Each measurement in one of `count` processes (one for each core); a single one right here. No Spark, no Java."""
    workers = count or os.cpu_count() or 1

    def run(wave: Sequence[Measurement], folder: Path) -> list[str]:
        target = str(folder)
        if len(wave) == 1 or workers == 1:
            return [problem for one in wave if (problem := measured(one, target))]
        fresh = get_context("spawn")  # forked threads of numba or Arrow would hang
        with _single_threaded(), ProcessPoolExecutor(min(workers, len(wave)), mp_context=fresh) as pool:
            told = pool.map(_measured_all, _neighbours(wave), repeat(target))
            return [problem for problems in told for problem in problems]

    return run


def _neighbours(wave: Sequence[Measurement]) -> Iterator[Sequence[Measurement]]:
    """A few at a time, of one owner and seed: they often share an instance, which a process makes once."""
    for _, group in groupby(wave, key=lambda one: (one.owner, one.seed)):
        alike = list(group)
        yield from (alike[at : at + TASKS_TOGETHER] for at in range(0, len(alike), TASKS_TOGETHER))


def _measured_all(some: Sequence[Measurement], folder: str) -> list[str]:
    return [problem for one in some if (problem := measured(one, folder))]


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Processes that start in here do their linear algebra in one thread: there is one of them for each core."""
    before = os.environ.get(THREADS_VARIABLE)
    os.environ.setdefault(THREADS_VARIABLE, "1")
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS_VARIABLE]


def sweep(
    run_wave: Wave,
    measurements: Sequence[Measurement],
    folder: Path,
    progress: Progress = lambda stage, share: None,
) -> dict[str, dict[str, Any]]:
    """Results by key: `values`, `seconds`; RunError lists measurements that failed, after all others are kept."""
    folder = folder.resolve()  # whoever runs them works in another folder
    folder.mkdir(parents=True, exist_ok=True)
    # Nothing was measured where a trace was not there; it may be by now.
    results = {one.key: found for one in measurements if (found := _load(folder, one.key)) and found["values"]}
    missing = [one for one in measurements if one.key not in results]
    failed: list[str] = []
    for first in range(0, len(missing), TASKS_AT_ONCE):
        wave = missing[first : first + TASKS_AT_ONCE]
        tell = _teller(progress, folder, [one.key for one in wave], len(results), len(measurements))
        tell()
        with polled(tell, POLL_S):
            failed += run_wave(wave, folder)
        results |= {one.key: found for one in wave if (found := _load(folder, one.key)) is not None}
    progress("done", 1.0)
    if failed:
        raise RunError(f"{len(failed)} of {len(measurements)} runs failed; the first: {failed[0]}")
    return results


def _teller(progress: Progress, folder: Path, wave: Sequence[str], before: int, total: int) -> Callable[[], None]:
    """Tells progress from the results that appear: a wave of long runs would otherwise look stuck."""

    def tell() -> None:
        there = set(os.listdir(folder))  # one call: asking for each of thousands would take a share of a core
        ready = before + sum(f"{key}.json" in there for key in wave)
        progress(f"{ready} of {total} runs", ready / total)

    return tell


def measured(one: Measurement, folder: str) -> str:
    """Run one and keep its result; what went wrong, or nothing."""
    began = time.process_time()
    try:
        values = {name: float(value) for name, value in one.run(one.point, one.seed).items()}
        _keep(Path(folder), one.key, {"values": values, "seconds": time.process_time() - began})
    except CoterieError as error:
        return f"{one.owner} {dict(one.point)} seed {one.seed}: {error}"
    except Exception as error:  # a defect of one experiment must not take the others with it
        return f"{one.owner} {dict(one.point)} seed {one.seed}: {type(error).__name__}: {error}"
    return ""


def _keep(folder: Path, key: str, result: dict[str, Any]) -> None:
    write_whole(folder / f"{key}.json", json.dumps(result, sort_keys=True))


def _load(folder: Path, key: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((folder / f"{key}.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found
