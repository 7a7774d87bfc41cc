"""A fleet of many users on Spark: time by step and memory of the driver, which should not grow with the users.

python benchmarks/bench_crowds.py --users 1e6 4e6
Users want 20 topics each: of one of many tastes, with a fifth by chance; every user's subscription has a time, and
there is one publication per user. Executors are processes of their own, so that the driver's memory is the driver's:
its Python process, and its JVM, which has the same small heap whatever there is to do (`driver_live_mb` is what a
collection after each step leaves of it, at most).
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
NAMES = ("mesh", "star", "scribe", "coterie")


def generate(folder: Path, users: int, topics: int) -> None:
    """One file for every so many users, so that making the data needs no memory either."""
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


class Watch:
    """Peaks of the driver (this process and its JVM) and of everything together; processor seconds, step by step."""

    def __init__(self) -> None:
        self.driver = self.java = self.all = self.live = 0
        self.cpu: dict[int, float] = {}
        self.step, self.before = "session", 0.0
        self.steps: dict[str, dict[str, float]] = {}
        self.spark: Any = None

    def told(self, step: str, fraction: float) -> None:
        """Progress: a step that ends takes what was used since the last one ended."""
        if fraction == 1.0:
            self.look()
            used = sum(self.cpu.values())
            self.steps.setdefault(step, {})["cpu"] = round(used - self.before, 1)
            self.before = used
            self.live = max(self.live, _live_bytes(self.spark))
        self.step = step

    def look(self) -> None:
        table: dict[int, tuple[int, int, str]] = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
                pages = int(Path(f"/proc/{entry}/statm").read_text().split()[1])
            except OSError:
                continue
            name, _, rest = stat.partition("(")[2].rpartition(")")
            fields = rest.split()
            table[int(entry)] = (int(fields[1]), pages * PAGE, name)
            if int(entry) in self.cpu or int(fields[1]) in self.cpu or int(entry) == os.getpid():
                self.cpu[int(entry)] = (int(fields[11]) + int(fields[12])) / TICK
        mine = {os.getpid()}
        while more := {pid for pid, (parent, _, _) in table.items() if parent in mine} - mine:
            mine |= more
        for pid in mine:
            self.cpu.setdefault(pid, 0.0)
        first = sorted(pid for pid in mine if table.get(pid, (0, 0, ""))[2] == "java")
        driver, java = table[os.getpid()][1], table[first[0]][1] if first else 0
        self.driver, self.java = max(self.driver, driver), max(self.java, java)
        peaks = self.steps.setdefault(self.step, {})
        peaks["driver_mb"] = max(peaks.get("driver_mb", 0), driver // 1_000_000)
        self.all = max(self.all, sum(table[pid][1] for pid in mine if pid in table))


def _live_bytes(spark: Any) -> int:
    """What a collection leaves of the driver's heap."""
    spark.sparkContext._jvm.java.lang.System.gc()
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    return int(beans.getMemoryMXBean().getHeapMemoryUsage().getUsed())


def run(folder: Path, users: int, topics: int, brokers: int, master: str) -> dict[str, object]:
    data = folder / f"data-{users}-{topics}"
    if not data.exists():
        generate(data, users, topics)
    out = folder / f"out-{users}"
    shutil.rmtree(out, ignore_errors=True)
    watch = Watch()
    conf = {"spark.driver.memory": "512m", "spark.executor.memory": "1500m"} if "cluster" in master else {}
    began = time.monotonic()
    with polled(watch.look, 0.5):
        spark = watch.spark = open_session(master, work_dir=out / "spark", conf=conf)
        sources = (
            Source((str(data / "subscriptions"),), "subscriptions", topics="plain"),
            Source((str(data / "publications"),), "publications", topics="plain"),
        )
        windows = WindowChoices(brokers=brokers)
        request = Request("crowd", sources=sources, windows=windows, is_crowd=True)
        candidates = [Candidate(SYSTEMS[name], SYSTEMS[name].parameters()) for name in NAMES]
        placer = Candidate(SYSTEMS["coterie"], SYSTEMS["coterie"].parameters())
        outcome = run_job(spark, request, candidates, out, watch.told, placer)
        spark.stop()
    found = {one.name: one.later.dissemination.copies if one.later else one.problem for one in outcome.priced}
    for name, seconds in outcome.seconds.items():
        watch.steps[name] = {"seconds": round(seconds, 1), **watch.steps.get(name, {})}
    shutil.rmtree(out / "work", ignore_errors=True)
    return {
        "users": users,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(sum(watch.cpu.values()), 1),
        "steps": watch.steps,
        "driver_mb": watch.driver // 1_000_000,
        "driver_java_mb": watch.java // 1_000_000,
        "driver_live_mb": watch.live // 1_000_000,
        "all_mb": watch.all // 1_000_000,
        "copies_per_s": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=float, nargs="+", default=[100_000])
    parser.add_argument("--topics", type=float, default=100_000)
    parser.add_argument("--brokers", type=int, default=64)
    parser.add_argument("--spark", default="local-cluster[2,1,1500]")
    parser.add_argument("--folder", type=Path, help="keep data and results here (default: a temporary folder)")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="coterie-crowds-"))
    sizes = (int(chosen.topics), chosen.brokers, chosen.spark)
    if chosen.one:
        print(json.dumps(run(folder, int(chosen.users[0]), *sizes)))
        return
    try:
        for users in chosen.users:  # a process for each, so that peaks are its own
            command = [sys.executable, __file__, "--one", "--users", str(users), "--topics", str(chosen.topics)]
            command += ["--brokers", str(chosen.brokers), "--spark", chosen.spark, "--folder", str(folder)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
            print(done.stdout.strip().splitlines()[-1], flush=True)
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
