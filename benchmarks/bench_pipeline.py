"""The batch pipeline at scale, step by step, with DuckDB doing the same relational jobs in the same run.

    python benchmarks/bench_pipeline.py                      # 1 million subscribers, 100,000 topics, 20 million rows
    python benchmarks/bench_pipeline.py --rows 1e6 --subscribers 5e4 --topics 5e3

    python benchmarks/bench_pipeline.py --rows 60e6 --subscribers 3e6 --folder kept

Prints seconds, CPU seconds of all processes, input rows per second and the peak of resident memory per step, and for
the jobs that DuckDB also does the ratio of our time to DuckDB's (below 1: we are faster), and of the sums. With a
folder what is done is kept: our half is one go, DuckDB's goes on with the step it had not finished.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.features import events_by_window, ewma_rates
from coterie.pipeline.ingest import ingest
from coterie.pipeline.interests import encode_interests, names_in
from coterie.pipeline.mapping import Source
from coterie.pipeline.session import open_session
from coterie.pipeline.similarity import co_subscriptions, interest_neighbours

DAY_S = 86_400
START_S = 1_700_000_000
FILES = 8
LONG_S = 10.0
LAST_OF_OURS = "interest neighbours"
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Lap:
    name: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    load: float = 0.0


class Stopwatch:
    """Times steps and samples the memory of this process and everything below it."""

    def __init__(self, kept: Path) -> None:
        """Laps of an earlier go are those in `kept`."""
        self.kept = kept
        told = json.loads(kept.read_text()) if kept.exists() else []
        self.laps: dict[str, Lap] = {one["name"]: Lap(**one) for one in told}
        self.peak_bytes = 0
        self.cpu: dict[int, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(0.2)

    def _look(self) -> float:
        """CPU seconds of all processes so far; those that are gone (Spark ends idle workers) used what they had."""
        used, resident = usage_of_tree()
        self.cpu = self.cpu | used
        self.peak_bytes = max(self.peak_bytes, resident)
        return sum(self.cpu.values())

    def lap(self, name: str, work: Callable[[], object]) -> object:
        self.peak_bytes = 0
        cpu, began = self._look(), time.monotonic()
        result = work()
        seconds = time.monotonic() - began
        load = os.getloadavg()[0]
        lap = Lap(name, seconds, self._look() - cpu, self.peak_bytes, load)
        self.laps[name] = lap
        self.kept.write_text(json.dumps([asdict(one) for one in self.laps.values()]))
        busy = f"{lap.cpu_seconds / seconds:6.2f} CPU" if seconds >= LONG_S else " " * 10
        figures = f"{seconds:8.1f} s{lap.cpu_seconds:8.1f} cpu-s{busy}{lap.peak_bytes / 1e9:7.2f} GB   load {load:.1f}"
        print(f"{name:44s}{figures}", flush=True)
        return result

    def lap_once(self, name: str, work: Callable[[], object]) -> None:
        """Work that lasts, and need not be done again."""
        if name not in self.laps:
            self.lap(name, work)


def usage_of_tree() -> tuple[dict[int, float], int]:
    """CPU seconds by process, and resident bytes, of this process and its living descendants."""
    children: dict[int, list[int]] = {}
    used: dict[int, tuple[float, int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
        used[int(name)] = (sum(int(ticks) for ticks in fields[11:13]) / TICK, int(fields[21]) * PAGE)
    waiting, found = [os.getpid()], set[int]()
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        found.add(pid)
    return {pid: used[pid][0] for pid in found}, sum(used[pid][1] for pid in found)


def generate(folder: Path, rows: int, subscribers: int, topics: int, zipf: float) -> None:
    """Subscriptions with lognormal interests and Zipf popularity, and a quarter as many publications."""
    draw = np.random.default_rng(7)
    eager = np.cumsum(draw.lognormal(0, 1, subscribers))
    popular = np.cumsum(np.arange(1, topics + 1) ** -zipf)
    order = draw.permutation(topics)
    users = pa.array([f"user-{number:07d}" for number in range(subscribers)])
    names = pa.array([f"topic/{number:06d}" for number in range(topics)])

    def times(count: int) -> pa.Array:
        return pa.array((START_S + draw.integers(0, 30 * DAY_S, count)) * 1_000_000, pa.timestamp("us", "UTC"))

    def some_topics(count: int) -> pa.Array:
        return names.take(pa.array(order[np.searchsorted(popular, draw.random(count) * popular[-1])]))

    for part in range(FILES):
        count = rows // FILES
        user = users.take(pa.array(np.searchsorted(eager, draw.random(count) * eager[-1])))
        table = pa.table({"user": user, "topic": some_topics(count), "ts": times(count)})
        (folder / "subscriptions").mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"subscriptions/{part}.parquet")
        count //= 4
        ones = pa.array(np.ones(count, np.int64))
        table = pa.table({"topic": some_topics(count), "time": times(count), "count": ones, "bytes": ones})
        (folder / "publications").mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"publications/{part}.parquet")


def run_ours(watch: Stopwatch, data: Path, out: Path, master: str, count_min: int) -> None:
    spark = watch.lap("session", lambda: open_session(master, work_dir=out / "spark"))
    watch.lap("first Python worker", lambda: spark.range(2).mapInArrow(lambda rows: rows, "id long").count())
    source = Source((str(data / "subscriptions"),), columns={"subscriber": "user", "since": "ts"})
    account = watch.lap("canonical table", lambda: ingest(spark, [source], out))
    relation, _ = watch.lap(
        "ids, interests, topic sizes", lambda: encode_interests(spark, out / "subscriptions", out / "ids")
    )
    publications = spark.read.parquet(str(data / "publications"))
    events = watch.lap("events by window", lambda: events_by_window(publications, DAY_S, START_S).toArrow())
    watch.lap("EWMA rates", lambda: ewma_rates(events, names_in(out / "ids"), 0, 29))
    pairs = watch.lap("co-subscription", lambda: co_subscriptions(spark, relation, out / "pairs", count_min))
    similar = watch.lap(LAST_OF_OURS, lambda: interest_neighbours(spark, relation, out / "similar"))
    print(f"    {account.rows_in:,} rows in = {account.kept:,} kept + {account.quarantined:,} quarantined")
    print(f"    {relation.row_count:,} subscribers, {relation.pair_count:,} pairs")
    print(f"    {pairs:,} topic pairs shared by {count_min}+, {similar:,} similar subscriber pairs")
    spark.stop()


def run_duckdb(watch: Stopwatch, data: Path, out: Path, threads: int, count_min: int, pairs: bool) -> None:
    base = duckdb.connect(str(out / "duck.db"))
    base.execute(f"set threads={threads}; set temp_directory='{out}/duck-spill'; set memory_limit='10GB'")
    rows = f"read_parquet('{data}/subscriptions/*.parquet')"
    canonical = (
        f"create or replace table canonical as select distinct user, topic, ts from {rows} order by user, topic, ts"
    )
    watch.lap_once("DuckDB: canonical table", lambda: base.execute(canonical))

    def encode() -> None:
        for short, name in (("t", "topic"), ("u", "user")):
            base.execute(
                f"create or replace table {short} as select {name}, row_number() over (order by {name}) - 1 id "
                f"from (select distinct {name} from canonical)"
            )
        base.execute(
            "create or replace table interest as select distinct u.id::int u, t.id::int t from canonical c "
            "join u on u.user = c.user join t on t.topic = c.topic"
        )
        base.execute("create or replace table lists as select u, list(t order by t) topics from interest group by u")
        base.execute("create or replace table sizes as select t, count(*) size from interest group by t")

    watch.lap_once("DuckDB: ids, interests, topic sizes", encode)
    windows = (
        f"create or replace table events as select topic, (epoch(time)::bigint - {START_S}) // {DAY_S} w, sum(count) n "
        f"from read_parquet('{data}/publications/*.parquet') group by all"
    )
    watch.lap_once("DuckDB: events by window", lambda: base.execute(windows))
    if pairs:
        joined = (
            "create or replace table pairs as with kept as (select i.u, i.t from interest i join sizes s using (t) "
            f"where s.size >= {count_min}) select a.t a, b.t b, count(*) n from kept a join kept b "
            f"on a.u = b.u and a.t < b.t group by all having n >= {count_min}"
        )
        watch.lap_once("DuckDB: co-subscription", lambda: base.execute(joined))
        print(f"    {base.execute('select count(*) from pairs').fetchone()[0]:,} topic pairs")
    base.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=20e6)
    parser.add_argument("--subscribers", type=float, default=1e6)
    parser.add_argument("--topics", type=float, default=1e5)
    parser.add_argument("--zipf", type=float, default=1.0)
    parser.add_argument(
        "--count-min", type=int, default=20, help="topic pairs with fewer common subscribers are dropped"
    )
    parser.add_argument("--spark", default="local[2]")
    parser.add_argument("--no-pairs", action="store_true", help="spare DuckDB the self-join (several GB)")
    parser.add_argument("--folder", type=Path, help="keep data and results here (default: a temporary folder)")
    chosen = parser.parse_args()
    home = chosen.folder or Path(tempfile.mkdtemp(prefix="coterie-bench-"))
    rows = int(chosen.rows)
    sizes = (rows, int(chosen.subscribers), int(chosen.topics), chosen.zipf)
    folder = home / "-".join(f"{size:g}" for size in sizes)
    folder.mkdir(parents=True, exist_ok=True)
    watch = Stopwatch(folder / "laps.json")
    data = folder / "data"
    watch.lap_once("generate", lambda: generate(data, *sizes))
    (folder / "duck").mkdir(exist_ok=True)
    try:
        if LAST_OF_OURS not in watch.laps:
            shutil.rmtree(folder / "ours", ignore_errors=True)
            (folder / "ours").mkdir()
            run_ours(watch, data, folder / "ours", chosen.spark, chosen.count_min)
            shutil.rmtree(folder / "ours", ignore_errors=True)
        run_duckdb(watch, data, folder / "duck", 2, chosen.count_min, not chosen.no_pairs)
    finally:
        if chosen.folder is None:
            shutil.rmtree(home, ignore_errors=True)
    report(watch, rows)


def report(watch: Stopwatch, rows: int) -> None:
    ours = [lap for lap in watch.laps.values() if not lap.name.startswith("DuckDB") and lap.name != "generate"]
    print(f"\n{'step':34s}{'rows/s':>12s}{'ours s':>9s}{'DuckDB s':>10s}{'ratio':>8s}{'cpu ratio':>11s}")
    for lap in ours:
        peer = watch.laps.get(f"DuckDB: {lap.name}")
        rate = f"{rows / lap.seconds:12,.0f}"
        against = "" if peer is None else f"{peer.seconds:10.1f}{lap.seconds / peer.seconds:8.2f}"
        against += "" if peer is None else f"{lap.cpu_seconds / max(peer.cpu_seconds, 0.01):11.2f}"
        print(f"{lap.name:34s}{rate}{lap.seconds:9.1f}{against}")
    both = [(lap, watch.laps[f"DuckDB: {lap.name}"]) for lap in ours if f"DuckDB: {lap.name}" in watch.laps]
    sums = [sum(lap.seconds for lap in side) for side in zip(*both, strict=True)]
    cpu = [sum(lap.cpu_seconds for lap in side) for side in zip(*both, strict=True)]
    if both:
        print(f"{'what both do':46s}{sums[0]:9.1f}{sums[1]:10.1f}{sums[0] / sums[1]:8.2f}{cpu[0] / cpu[1]:11.2f}")
        print(f"{'  CPU s':46s}{cpu[0]:9.1f}{cpu[1]:10.1f}")
    total, peak = sum(lap.seconds for lap in ours), max(lap.peak_bytes for lap in ours)
    print(f"{'all of ours':34s}{rows / total:12,.0f}{total:9.1f}     peak {peak / 1e9:.1f} GB in all processes")


if __name__ == "__main__":
    main()
