"""What a decision of `coterie watch` takes of the driver: time and memory by the number of subscriptions.

python benchmarks/bench_decisions.py --subscriptions 1e6 1e7
Clients want 20 topics each, of 100,000, at 64 brokers. A report as Spark leaves it is taken from disk, gathered, and
made into the workload that planning tasks get and the tables that a plan keeps; planning itself is a task's. Each size
runs in a process of its own, whose peak is told, first with ten subscriptions.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.model.store import save_workload
from coterie.pipeline.clock import Clock, Closing, Span
from coterie.pipeline.forecasts import forecast
from coterie.pipeline.planning import Candidate
from coterie.pipeline.portions import Sampled
from coterie.pipeline.reconfiguration import Decision, DecisionRules
from coterie.pipeline.shards import ABOUT, TOLD_PAIRS, ShardAbout, ViewPiece
from coterie.pipeline.watch import Watch, WatchLock
from coterie.systems import SYSTEMS

WINDOW, TOPICS, NODES, WANTED = 9, 100_000, 64, 20
REPORT = pa.schema([("shard", pa.int32()), ("window", pa.int64()), ("told", pa.binary())])
NAMES = [f"node-{number:02d}" for number in range(NODES)]


def write_report(folder: Path, wanted: int) -> None:
    draw = np.random.default_rng(1)
    folder.mkdir(parents=True)
    with pq.ParquetWriter(folder / "part-0.parquet", REPORT) as file:

        def tell(window: int, told: Any) -> None:
            row = {"shard": [0], "window": [window], "told": [msgspec.msgpack.encode(told)]}
            file.write_table(pa.table(row, schema=REPORT))

        for first in range(0, wanted, TOLD_PAIRS):
            pair = np.arange(first, min(first + TOLD_PAIRS, wanted))
            client, topic = (pair // WANTED).tolist(), draw.integers(0, TOPICS, len(pair)).tolist()
            said = [
                (f"user-{c:09d}", f"topic/{t:06d}", NAMES[c % NODES], True) for c, t in zip(client, topic, strict=True)
            ]
            tell(WINDOW, ViewPiece(said, [], []))
        tell(WINDOW, ViewPiece([], [(f"topic/{number:06d}", 2.0, WINDOW) for number in range(TOPICS)], []))
        sample = [(WINDOW, Sampled(n, f"topic/{n:06d}", f"user-{n:09d}", NAMES[0], 100)) for n in range(1000)]
        tell(WINDOW, ViewPiece([], [], sample))
        clock = Clock(nodes={name: Span(0, 60_000_000) for name in NAMES}, next_window=WINDOW + 1)
        tell(ABOUT, ShardAbout(clock, Closing(WINDOW, [WINDOW], [WINDOW], [WINDOW]), wanted_count=wanted))
    (folder / "_SUCCESS").touch()


def decide(folder: Path) -> None:
    rules = DecisionRules([Candidate(SYSTEMS["mesh"], SYSTEMS["mesh"].parameters())], SYSTEMS)
    (folder / "journal").mkdir()
    one: Any = WatchLock(None, Watch(folder / "journal", folder / "out", rules, wanted_max=10**9))  # type: ignore[arg-type]
    pairs: list[int] = []

    def decided(view: Any, plan: int | None) -> Any:
        expected = forecast(view)
        assert expected is not None
        save_workload(expected.workload, folder / "forecast.npz")
        expected.write_names(folder)
        pairs.append(expected.workload.interests.pair_count)
        return Decision(window=WINDOW, end_s=0.0, is_published=False, reason="")

    one._reconfigurer.decide = decided
    began = time.process_time()
    one.take_all()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{pairs[0]:,} subscriptions: {time.process_time() - began:.1f} CPU s, {peak:,.0f} MB at most", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=float, nargs="+", default=[1e6])
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        decide(chosen.one)
        return
    for wanted in [10, *map(int, chosen.subscriptions)]:
        with tempfile.TemporaryDirectory(prefix="coterie-decisions-") as name:
            write_report(Path(name) / "out" / "reports" / f"{0:09d}", wanted)
            subprocess.run([sys.executable, __file__, "--one", name], check=True)


if __name__ == "__main__":
    main()
