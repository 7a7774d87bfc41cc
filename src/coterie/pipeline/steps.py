"""Runs named steps that each write one folder, and never runs one again whose inputs and parameters did not change.

How it works: a step's fingerprint covers its name, version, parameters, source files and the fingerprints of the steps
it reads. Its output is written beside its place and renamed into it together with a manifest, so a folder named by a
fingerprint is always whole. A run that was killed leaves only an unfinished folder, which the next run sweeps away.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError, RunError
from coterie.pipeline.polling import polled
from coterie.pipeline.tasks import disk_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
POLL_S = 0.2
WHOLE_HASH_BYTES = 64 << 20  # bigger files are known by size, time and both ends
Facts = dict[str, Any]
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Step:
    """One named piece of work: `run(out, inputs)` writes into `out` and returns facts worth keeping."""

    name: str
    run: Callable[[Path, Mapping[str, Path]], Facts | None]
    inputs: tuple[str, ...] = ()  # names of earlier steps
    params: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Path, ...] = ()  # files from outside
    version: int = 1  # raise it when the code changes what comes out


@dataclass(frozen=True)
class FinishedStep:
    """A finished step: where its output is, what it said, and whether it was kept from an earlier run."""

    name: str
    path: Path
    fingerprint: str
    facts: Facts
    seconds: float
    kept: bool


def run_steps(
    steps: Sequence[Step], root: Path, *, progress: Progress | None = None, spark: SparkSession | None = None
) -> dict[str, FinishedStep]:
    """Run the steps in order and return what each left; `progress(name, fraction)` is called as tasks finish.

    Only one process at a time may work in `root`: a second one gets a ConfigError.
    """
    _check_order(steps)
    root = root.resolve()  # executors work in other folders
    root.mkdir(parents=True, exist_ok=True)
    done: dict[str, FinishedStep] = {}
    with _locked(root):
        for step in steps:
            _tell(progress, step.name, 0.0)
            with _watched(step.name, progress, spark), disk_failures(f"step {step.name} in {root}"):
                done[step.name] = _run_or_keep(step, root / step.name, done)
            _tell(progress, step.name, 1.0)
            log.info("step=%s kept=%s seconds=%.2f", step.name, done[step.name].kept, done[step.name].seconds)
    return done


def is_all_kept(steps: Sequence[Step], root: Path) -> bool:
    """Whether nothing would have to run: what these steps make is there from an earlier run."""
    known: dict[str, FinishedStep] = {}
    for step in steps:
        fingerprint = _fingerprint(step, known)
        place = root / step.name / fingerprint
        if read_manifest(place) is None:
            return False
        known[step.name] = FinishedStep(step.name, place, fingerprint, {}, 0.0, kept=True)
    return True


def fingerprint_of_file(path: Path) -> str:
    """Content for files of ordinary size; size, modification time and both ends for huge ones."""
    status = path.stat()
    digest = hashlib.blake2b(str(status.st_size).encode(), digest_size=16)
    with open(path, "rb") as file:
        if status.st_size <= WHOLE_HASH_BYTES:
            digest.update(file.read())
        else:
            digest.update(str(status.st_mtime_ns).encode() + file.read(1 << 20))
            file.seek(-(1 << 20), os.SEEK_END)
            digest.update(file.read())
    return digest.hexdigest()


def read_manifest(folder: Path) -> Facts | None:
    """The manifest of a finished step, or None if the folder is not one or a listed file is gone."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        whole = all((folder / name).stat().st_size == size for name, size in manifest["files"].items())
    except (OSError, ValueError, KeyError):
        return None
    return manifest if whole else None


def _run_or_keep(step: Step, home: Path, done: Mapping[str, FinishedStep]) -> FinishedStep:
    fingerprint = _fingerprint(step, done)
    place = home / fingerprint
    manifest = read_manifest(place)
    if manifest is not None:
        return FinishedStep(step.name, place, fingerprint, manifest["facts"], manifest["seconds"], kept=True)
    _sweep(home, keep=None)
    unfinished = home / f".unfinished-{os.getpid()}"
    unfinished.mkdir(parents=True)
    began = time.monotonic()
    facts = step.run(unfinished, {name: done[name].path for name in step.inputs}) or {}
    seconds = time.monotonic() - began
    _write_manifest(step, unfinished, fingerprint, facts, seconds, done)
    shutil.rmtree(place, ignore_errors=True)
    unfinished.rename(place)
    _sweep(home, keep=fingerprint)
    return FinishedStep(step.name, place, fingerprint, facts, seconds, kept=False)


def _write_manifest(
    step: Step, folder: Path, fingerprint: str, facts: Facts, seconds: float, done: Mapping[str, FinishedStep]
) -> None:
    files = {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()}
    manifest = {
        "step": step.name,
        "fingerprint": fingerprint,
        "version": step.version,
        "params": dict(step.params),
        "inputs": {name: done[name].fingerprint for name in step.inputs},
        "sources": [str(path) for path in step.sources],
        "seconds": round(seconds, 3),
        "facts": facts,
        "files": files,
    }
    with open(folder / MANIFEST, "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())


def _fingerprint(step: Step, done: Mapping[str, FinishedStep]) -> str:
    told = {
        "name": step.name,
        "version": step.version,
        "params": dict(step.params),
        "inputs": {name: done[name].fingerprint for name in step.inputs},
        "sources": {str(path): fingerprint_of_file(path) for path in step.sources},
    }
    try:
        text = json.dumps(told, sort_keys=True)
    except TypeError as error:
        raise ConfigError(
            f"parameters of step {step.name}", dict(step.params), f"plain values only ({error})"
        ) from None
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _check_order(steps: Sequence[Step]) -> None:
    known: set[str] = set()
    for step in steps:
        missing = [name for name in step.inputs if name not in known]
        if missing or step.name in known:
            why = f"needs {missing[0]}, which no earlier step makes" if missing else "named twice"
            raise ConfigError("step", step.name, why)
        known.add(step.name)


def _sweep(home: Path, keep: str | None) -> None:
    """Remove what a killed run left behind and, once there is something better, outputs of other parameters."""
    if not home.exists():
        return
    for entry in sorted(home.iterdir()):
        if entry.name.startswith(".unfinished-") or (keep is not None and entry.name != keep):
            shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with open(root / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError("output folder", str(root), "one run at a time: another process is using it") from None
        yield


def _tell(progress: Progress | None, name: str, fraction: float) -> None:
    if progress is not None:
        progress(name, fraction)


@contextmanager
def _watched(name: str, progress: Progress | None, spark: SparkSession | None) -> Iterator[None]:
    """Ask Spark now and then how many tasks are done; Spark Connect has no such counter, so there it stays at 0."""
    if progress is None or spark is None:
        yield
        return
    highest, tracker = 0.0, None

    def look() -> None:
        nonlocal highest, tracker
        tracker = tracker or _tracker(spark)
        if tracker is None:
            return
        counts = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        total = sum(info.numTasks for info in counts if info)
        if total:
            ready = sum(info.numCompletedTasks for info in counts if info) / total
            highest = max(highest, min(ready, 0.99))
            progress(name, highest)

    with polled(look, POLL_S):
        yield


def _tracker(spark: SparkSession) -> Any:
    if not getattr(spark, "is_open", True):  # one that is opened late is not opened in order to look
        return None
    try:
        return spark.sparkContext.statusTracker()
    except Exception:  # a Connect session has no context and says so with an error of its own
        return None


def fact(done: Mapping[str, FinishedStep], step: str, name: str) -> Any:
    """A fact that a finished step recorded; RunError if it did not."""
    if step not in done or name not in done[step].facts:
        raise RunError(f"step {step} recorded no {name}")
    return done[step].facts[name]
