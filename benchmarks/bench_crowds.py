"""A fleet of many users on Spark: time by step and memory of the driver, which should not grow with the users.

python benchmarks/bench_crowds.py --users 1e6 4e6
Users want 20 topics each: of one of many tastes, with a fifth by chance; every user's subscription has a time, and
there is one publication per user. Executors are processes of their own, so that the driver's memory is the driver's:
its Python process (`driver_mb`) and its JVM (`java_mb`), which has the same small heap whatever there is to do
(`live_mb` is what a collection leaves of it). `all_mb` counts pages that processes share once for each of them.
`shuffled_mb` is what executors wrote for each other through Spark (what tasks leave in files is not in it), and
`spilled_mb` what they put on disk because memory was short: `--memory 512m` gives executors little.

python benchmarks/bench_crowds.py --users 1e7 --folder kept --minutes 8
Rows and finished steps are kept in the folder; the same command goes on, and sizes that have a row are not run again.
Each size prints its row as soon as it has one: seconds, peaks, and processor time over time of steps of 10 s and more.
At the end: how the driver's memory and the time for each user grow from one size to the next, and of three sizes or
more, how the largest lies beside a straight line through the others. `rows.jsonl` has everything.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.job import Candidate, Request, run_job
from coterie.pipeline.mapping import Source
from coterie.pipeline.polling import polled
from coterie.pipeline.session import open_session
from coterie.pipeline.windows import WindowChoices
from coterie.systems import SYSTEMS

START_S = 1_750_000_000
TICK, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
FILE_USERS = 100_000
TASTES, WANTED, NOISE = 2000, 20, 0.2
ROWS, PEAKS = "rows.jsonl", ("driver", "java", "live", "all")
LONG_S = 10.0
NAMES = ("mesh", "star", "scribe", "coterie")


def generate(folder: Path, users: int, topics: int) -> None:
    """One file for every so many users, so that making the data needs no memory either."""
    if (folder / "whole").exists():
        return
    draw = np.random.default_rng(7)
    popular = np.cumsum(1.0 / np.arange(1, topics + 1) ** 0.8)
    names = pa.array([f"topic/{number:06d}" for number in range(topics)])

    def some(count: int) -> np.ndarray:
        return np.searchsorted(popular, draw.random(count) * popular[-1])

    tastes = some(TASTES * 40).reshape(TASTES, 40)
    for kind in ("subscriptions", "publications"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, users, FILE_USERS)):
        count = min(FILE_USERS, users - first)
        who = pa.array([f"user-{first + index:09d}" for index in range(count)])
        taste = draw.integers(0, TASTES, count)
        wanted = tastes[taste[:, None], draw.integers(0, 40, (count, WANTED))]
        by_chance = draw.random((count, WANTED)) < NOISE
        wanted[by_chance] = some(int(by_chance.sum()))
        since = (START_S + draw.integers(0, 30 * 86400, count * WANTED)) * 1_000_000
        table = {
            "subscriber": who.take(pa.array(np.repeat(np.arange(count), WANTED))),
            "topic": names.take(pa.array(wanted.ravel())),
            "since": pa.array(since, pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(table), folder / "subscriptions" / f"{number:05d}.parquet")
        when = (START_S + draw.integers(0, 30 * 86400, count)) * 1_000_000
        said = {
            "publisher": who,
            "topic": names.take(pa.array(some(count))),
            "time": pa.array(when, pa.timestamp("us", "UTC")),
            "bytes": pa.array(draw.integers(50, 500, count)),
        }
        pq.write_table(pa.table(said), folder / "publications" / f"{number:05d}.parquet")
    (folder / "whole").touch()


def data_of(folder: Path, users: int, topics: int) -> Path:
    return folder / f"data-{users}-{topics}"


class Enough(Exception):
    """The time for one go is over; what is done is kept."""


class Watch:
    """By step: seconds, processor seconds of all processes, and peaks (the driver's Python and JVM, everything).

    Kept in a file as soon as a step ends, like the step itself, so that a long run may be made in several goes.
    """

    def __init__(self, path: Path, until_s: float) -> None:
        self.path, self.until_s = path, until_s
        self.steps: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
        self.cpu: dict[int, float] = {}
        self.step, self.before, self.began, self.peaks = "session", 0.0, time.monotonic(), dict[str, int]()
        self.moved = (0, 0)
        self.spark: Any = None

    def told(self, step: str, fraction: float) -> None:
        """Progress of a run. A step that an earlier go has made keeps what that one wrote."""
        if step != self.step:  # a step that goes on may tell 0 several times
            self.step, self.began, self.peaks, self.before = step, time.monotonic(), {}, self._used()
            self.moved = _moved_bytes(self.spark)
        if fraction < 1.0 or step in self.steps:
            return
        seconds, cpu = time.monotonic() - self.began, self._used() - self.before
        live = _live_bytes(self.spark)
        told = {"seconds": seconds, "cpu": cpu, "cpu_over_wall": cpu / seconds}
        moved = [now - before for now, before in zip(_moved_bytes(self.spark), self.moved, strict=True)]
        sizes = self.peaks | {"live": live} | dict(zip(("shuffled", "spilled"), moved, strict=True))
        self.steps[step] = {
            **{name: round(value, 2) for name, value in told.items()},
            **{f"{name}_mb": value // 1_000_000 for name, value in sizes.items()},
        }
        self.path.write_text(json.dumps(self.steps))
        if time.monotonic() > self.until_s:
            raise Enough

    def _used(self) -> float:
        self.look()
        return sum(self.cpu.values())

    def look(self) -> None:
        table: dict[int, tuple[int, int, float, str]] = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            name, _, rest = stat.partition("(")[2].rpartition(")")
            fields = rest.split()
            used = (int(fields[11]) + int(fields[12])) / TICK
            table[int(entry)] = (int(fields[1]), int(fields[21]) * PAGE, used, name)
        mine = {os.getpid()}
        while more := {pid for pid, one in table.items() if one[0] in mine} - mine:
            mine |= more
        self.cpu |= {pid: table[pid][2] for pid in mine}
        first = min((pid for pid in mine if table[pid][3] == "java"), default=os.getpid())
        found = {
            "driver": table[os.getpid()][1],
            "java": table[first][1],
            "all": sum(table[pid][1] for pid in mine),
        }
        self.peaks = {name: max(value, self.peaks.get(name, 0)) for name, value in found.items()}


def _live_bytes(spark: Any) -> int:
    """What a collection leaves of the driver's heap."""
    spark.sparkContext._jvm.java.lang.System.gc()
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    return int(beans.getMemoryMXBean().getHeapMemoryUsage().getUsed())


def _moved_bytes(spark: Any) -> tuple[int, int]:
    """What went through shuffles so far, and what was spilled to disk."""
    context = spark.sparkContext
    store, jvm = context._jsc.sc().statusStore(), context._jvm.java.util.ArrayList
    stages = store.stageList(jvm(), False, False, context._gateway.new_array(context._gateway.jvm.double, 0), jvm())
    found = [stages.apply(index) for index in range(stages.size())]
    return sum(int(one.shuffleWriteBytes()) for one in found), sum(int(one.diskBytesSpilled()) for one in found)


def run(
    folder: Path, users: int, topics: int, brokers: int, master: str, memory: str, until_s: float
) -> dict[str, object]:
    data, out = data_of(folder, users, topics), folder / f"out-{users}-{topics}-{brokers}"
    out.mkdir(exist_ok=True)
    watch = Watch(out / "steps.json", until_s)
    conf = {"spark.driver.memory": "512m", "spark.executor.memory": memory} if "cluster" in master else {}
    with polled(watch.look, 0.5):
        spark = watch.spark = open_session(master, work_dir=out / "spark", conf=conf)
        watch.told("session", 1.0)
        sources = (
            Source((str(data / "subscriptions"),), "subscriptions", topics="plain"),
            Source((str(data / "publications"),), "publications", topics="plain"),
        )
        windows = WindowChoices(brokers=brokers)
        request = Request("crowd", sources=sources, windows=windows, is_crowd=True)
        candidates = [Candidate(SYSTEMS[name], SYSTEMS[name].parameters()) for name in NAMES]
        placer = Candidate(SYSTEMS["coterie"], SYSTEMS["coterie"].parameters())
        try:
            outcome = run_job(spark, request, candidates, out, watch.told, placer)
        finally:
            spark.stop()
    found = {one.name: one.later.dissemination.copies if one.later else one.problem for one in outcome.priced}
    shutil.rmtree(out, ignore_errors=True)
    steps = watch.steps
    peaks = {f"{name}_mb": max(int(step[f"{name}_mb"]) for step in steps.values()) for name in PEAKS}
    sums = {name: round(sum(step[name] for step in steps.values()), 1) for name in ("seconds", "cpu")}
    return {"users": users, **sums, **peaks, "steps": steps, "copies_per_s": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=float, nargs="+", default=[100_000])
    parser.add_argument("--topics", type=float, default=100_000)
    parser.add_argument("--brokers", type=int, default=64)
    parser.add_argument("--spark", default="local-cluster[2,1,1500]")
    parser.add_argument("--memory", default="1500m", help="of each executor, in a local cluster")
    parser.add_argument(
        "--folder", type=Path, help="keep data, finished steps and rows here (default: a temporary one)"
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no further step after so many; run again")
    parser.add_argument("--one", choices=("generate", "run"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="coterie-crowds-"))
    folder.mkdir(exist_ok=True)
    sizes = (int(chosen.topics), chosen.brokers, chosen.spark, chosen.memory)
    until_s = time.monotonic() + 60 * chosen.minutes
    if chosen.one == "generate":
        generate(data_of(folder, int(chosen.users[0]), sizes[0]), int(chosen.users[0]), sizes[0])
        return
    if chosen.one:
        try:
            row = run(folder, int(chosen.users[0]), *sizes, until_s)
        except Enough:
            sys.exit(f"{chosen.minutes:g} minutes are over: the same command goes on with the next step")
        with open(folder / ROWS, "a") as rows:
            rows.write(json.dumps(row) + "\n")
        return
    try:
        for users in map(int, chosen.users):
            command = [sys.executable, __file__, *sys.argv[1:], "--folder", str(folder), "--users", str(users)]
            for one in ("generate", "run") if users not in _rows(folder) else ():
                subprocess.run([*command, "--one", one], check=True)  # a process for each, so that peaks are its own
            print(_shown(_rows(folder)[users]), flush=True)
        print(_growth([_rows(folder)[int(users)] for users in chosen.users]), flush=True)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _shown(row: dict[str, Any]) -> str:
    long = {name: step for name, step in row["steps"].items() if step["seconds"] >= LONG_S}
    steps = ", ".join(f"{name} {step['seconds']:.0f} s ({step['cpu_over_wall']:.2f})" for name, step in long.items())
    peaks = ", ".join(f"{name} {row[f'{name}_mb']:,} MB" for name in PEAKS)
    return f"{row['users']:,} users: {row['seconds']:.0f} s, {row['cpu']:.0f} CPU s; {peaks}; {steps}"


def _growth(rows: list[dict[str, Any]]) -> str:
    """From each size to the next, and whether the largest costs what a straight line through the others foretells.

    A line has a constant part: what brokers and topics cost, however many users there are.
    """
    rows = sorted(rows, key=lambda row: row["users"])
    told = []
    for less, more in pairwise(rows):
        memory = (more["driver_mb"] + more["java_mb"]) / (less["driver_mb"] + less["java_mb"])
        each = [more[name] / less[name] / (more["users"] / less["users"]) for name in ("seconds", "cpu")]
        grown = f"driver x {memory:.2f}, time per user x {each[0]:.2f}, CPU per user x {each[1]:.2f}"
        told.append(f"{less['users']:,} to {more['users']:,}: {grown}")
    if len(rows) > 2:
        told.append(_beside_a_line(rows))
    return "\n".join(told)


def _beside_a_line(rows: list[dict[str, Any]]) -> str:
    users = [row["users"] for row in rows]
    told = []
    for name in ("seconds", "cpu"):
        slope, constant = np.polyfit(users[:-1], [row[name] for row in rows[:-1]], 1)
        foretold = constant + slope * users[-1]
        told.append(
            f"{name}: {constant:.0f} + {slope * 1e6:.1f} for each million, so {foretold:.0f} for {users[-1]:,}; "
            f"measured {rows[-1][name]:.0f} (x {rows[-1][name] / foretold:.2f})"
        )
    return "\n".join(told)


def _rows(folder: Path) -> dict[int, dict[str, Any]]:
    path = folder / ROWS
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {row["users"]: row for row in rows}


if __name__ == "__main__":
    main()
