"""Runs named steps that each write one folder, and never runs one again whose inputs and parameters did not change.

How it works: a step's fingerprint covers its name, version, parameters, source files (as their listing shows them:
size, time and etag, or by content if asked) and the fingerprints of the steps it reads. Its output goes into a folder
of that name, the manifest last: without one a folder is what a killed run has left, and the next run sweeps it away.
That needs no renaming, so it works in any store.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from coterie.errors import ConfigError
from coterie.locking import lock
from coterie.pipeline.legs import Legs
from coterie.pipeline.polling import polled
from coterie.pipeline.storage import FileStat, Folder, Remote, files_below, open_bytes, remove_all, write_whole
from coterie.pipeline.tasks import disk_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
POLL_S = 0.2
HASH_BYTES, HASHED_AT_ONCE = 1 << 22, 8
NAMED_MAX = 1000  # sources that a manifest names
Facts = dict[str, Any]
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Step:
    """One named piece of work: `run(out, inputs)` writes into `out` and returns facts worth keeping."""

    name: str
    run: Callable[[Any, Mapping[str, Any]], Facts | None]
    inputs: tuple[str, ...] = ()  # names of earlier steps
    params: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[Folder, FileStat | None] = field(
        default_factory=dict
    )  # files from outside, as a listing shows them
    is_hashed: bool = False  # they count by their content, however long reading them takes
    version: int = 1  # raise it when the code changes what comes out
    legs: Legs = field(default_factory=Legs, compare=False)  # `run` may say through them how far it is


@dataclass(frozen=True)
class FinishedStep:
    """A finished step: where its output is, what it said, and whether it was kept from an earlier run."""

    name: str
    path: Any
    fingerprint: str
    facts: Facts
    seconds: float
    kept: bool


def run_steps(
    steps: Sequence[Step], root: Folder, *, progress: Progress | None = None, spark: SparkSession | None = None
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
            with _watched(step, progress, spark), disk_failures(f"step {step.name} in {root}"):
                done[step.name] = _run_or_keep(step, root / step.name, done)
            _tell(progress, step.name, 1.0)
            log.info("step=%s kept=%s seconds=%.2f", step.name, done[step.name].kept, done[step.name].seconds)
    return done


def fingerprint_of_file(path: Folder, is_hashed: bool = False, status: FileStat | None = None) -> str:
    """Size and time of modification, and the etag where a listing had one; its whole content if asked."""
    if not is_hashed:
        known: Any = status or path.stat()
        return "-".join(map(str, (known.st_size, known.st_mtime_ns, getattr(known, "etag", "")))).rstrip("-")
    digest = hashlib.blake2b(digest_size=16)
    with open_bytes(path) as file:
        while block := file.read(HASH_BYTES):
            digest.update(block)
    return digest.hexdigest()


def fingerprints(files: Mapping[Folder, FileStat | None], is_hashed: bool) -> dict[str, str]:
    """What a listing has told is not asked again; contents side by side: that waits for disks more than it works."""
    if not is_hashed:
        return {str(path): fingerprint_of_file(path, status=status) for path, status in files.items()}
    with ThreadPoolExecutor(HASHED_AT_ONCE) as pool:
        return dict(zip(map(str, files), pool.map(partial(fingerprint_of_file, is_hashed=True), files), strict=True))


def read_manifest(folder: Folder) -> Facts | None:
    """The manifest of a finished step, or None if the folder is not one or a listed file is gone."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        there = {name: status.st_size for name, status in files_below(folder).items()}
        is_whole = all(there.get(name) == size for name, size in manifest["files"].items())
    except (OSError, ValueError, KeyError):
        return None
    return manifest if is_whole else None


def _run_or_keep(step: Step, home: Folder, done: Mapping[str, FinishedStep]) -> FinishedStep:
    fingerprint = _fingerprint(step, done)
    place = home / fingerprint
    manifest = read_manifest(place)
    if manifest is not None:
        _sweep(home, keep=fingerprint)
        return FinishedStep(step.name, place, fingerprint, manifest["facts"], manifest["seconds"], kept=True)
    remove_all(place)
    place.mkdir(parents=True)
    began = time.monotonic()
    facts = step.run(place, {name: done[name].path for name in step.inputs}) or {}
    seconds = time.monotonic() - began
    _write_manifest(step, place, fingerprint, facts, seconds, done)
    _sweep(home, keep=fingerprint)
    return FinishedStep(step.name, place, fingerprint, facts, seconds, kept=False)


def _write_manifest(
    step: Step, folder: Folder, fingerprint: str, facts: Facts, seconds: float, done: Mapping[str, FinishedStep]
) -> None:
    files = {name: status.st_size for name, status in files_below(folder).items()}
    manifest = {
        "step": step.name,
        "fingerprint": fingerprint,
        "version": step.version,
        "params": dict(step.params),
        "inputs": {name: done[name].fingerprint for name in step.inputs},
        "sources": [str(path) for path in islice(step.sources, NAMED_MAX)],
        "source_count": len(step.sources),
        "seconds": round(seconds, 3),
        "facts": facts,
        "files": files,
    }
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())


def _fingerprint(step: Step, done: Mapping[str, FinishedStep]) -> str:
    told = {
        "name": step.name,
        "version": step.version,
        "params": dict(step.params),
        "inputs": {name: done[name].fingerprint for name in step.inputs},
        "sources": fingerprints(step.sources, step.is_hashed),
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


def _sweep(home: Folder, keep: str) -> None:
    """Remove what a killed run left behind, and outputs of other parameters: there is something better now."""
    entries: list[Any] = list(home.iterdir())
    for entry in entries:
        if entry.name != keep:
            remove_all(entry)


@contextmanager
def _locked(root: Folder) -> Iterator[None]:
    """Stores have no locks: two runs there make the same files under the same names."""
    if isinstance(root, Remote):
        yield
        return
    with open(root / ".lock", "w") as file:
        try:
            lock(file)
        except OSError:
            raise ConfigError(
                "output folder", str(root), "a folder that no other run is using", do="wait for it, or say --out"
            ) from None
        yield


def _tell(progress: Progress | None, name: str, fraction: float) -> None:
    if progress is not None:
        progress(name, fraction)


@contextmanager
def _watched(step: Step, progress: Progress | None, spark: SparkSession | None) -> Iterator[None]:
    """Ask Spark now and then how many tasks are done; Spark Connect has no such counter, so there only legs tell."""
    if progress is None or spark is None:
        yield
        return
    highest, tracker = 0.0, None

    def look() -> None:
        nonlocal highest, tracker
        tracker = tracker or _tracker(spark)
        counts = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()] if tracker is not None else []
        total = sum(info.numTasks for info in counts if info)
        ready = sum(info.numCompletedTasks for info in counts if info) / total if total else 0.0
        if total or step.legs.number:
            highest = max(highest, min(step.legs.inside(ready), 0.99))
            progress(step.name, highest)

    with polled(look, POLL_S):
        yield


def _tracker(spark: SparkSession) -> Any:
    if not getattr(spark, "is_open", True):  # one that is opened late is not opened in order to look
        return None
    try:
        return spark.sparkContext.statusTracker()
    except Exception:  # a Connect session has no context and says so with an error of its own
        return None
