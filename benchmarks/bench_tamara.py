"""Tamara's bulk form against the same code interpreted, and the planner against K-means and against sorting its input.

Run `python benchmarks/bench_tamara.py` (`--full`: also the planner on 1,000,000 users x 100,000 topics, from log rows
to clusters through Spark, in a session of one core; `--json` for a machine). Times are CPU times, through Spark they
are times on the clock; the ratio is what counts, they depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic, process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.model import Relation
from coterie.pipeline.ingest import ingest
from coterie.pipeline.interests import encode_interests, load_interests
from coterie.pipeline.mapping import Source
from coterie.pipeline.session import open_session
from coterie.pipeline.tasks import run_tasks
from coterie.systems.tamara.bulk import TopicClusters
from coterie.systems.tamara.kmeans import kmeans_clusters
from coterie.systems.tamara.planner import lower_bound, plain_cost, plan_clusters
from coterie.workloads.tamara import Clustered, arrivals, generate

INTERPRETED_USERS = 60
PLAN_COLUMNS = "overall double, clusters long, cpu_s double, peak_bytes long"


def operations_per_s(user_count: int) -> float:
    timeline = arrivals(Clustered(nodes=user_count), 1)
    clusters = TopicClusters(user_count, timeline.start.rates, seed=1)
    start_s = process_time()
    clusters.follow(timeline)
    return timeline.change_count / (process_time() - start_s)


def interpreted_operations_per_s() -> float:
    """The same kernels without compilation, in a process of their own."""
    run = subprocess.run(
        [sys.executable, __file__, "--interpreted"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


def large_interests(user_count: int, topic_count: int, seed: int) -> tuple[Relation, np.ndarray]:
    """Users with two favourite groups of 12 topics and four topics anywhere."""
    draw = np.random.default_rng(seed)
    favourite = draw.integers(0, topic_count // 12, (user_count, 2))
    rows = np.repeat(np.arange(user_count), 24)
    columns = (favourite[:, :, None] * 12 + np.arange(12)).reshape(-1)
    kept = draw.random(len(rows)) < 0.89
    elsewhere = draw.integers(0, topic_count, 4 * user_count)
    return Relation.from_pairs(
        np.concatenate([rows[kept], np.repeat(np.arange(user_count), 4)]),
        np.concatenate([columns[kept], elsewhere]),
        user_count,
        topic_count,
    ), draw.uniform(0.002, 0.3, topic_count)


def planner_row(user_count: int, topic_count: int) -> dict[str, float | str]:
    interests, rate = large_interests(user_count, topic_count, 1)
    key = np.random.default_rng(0).permutation(interests.pair_count)
    start_s = process_time()
    np.sort(key)
    sort_s = process_time() - start_s
    start_s = process_time()
    plan = plan_clusters(interests, rate)
    plan_s = process_time() - start_s
    plain = plain_cost(interests, rate)
    return {
        "what": f"planner, {user_count:,} users x {topic_count:,} topics, against sorting its pairs",
        "seconds": plan_s,
        "ratio": plan_s / sort_s,
        "overall_percent": 100 * (plan.overall / plain - 1),
        "bound_percent": 100 * (lower_bound(interests, rate) / plain - 1),
        "clusters": plan.topics.row_count,
    }


def pipeline_row(user_count: int, topic_count: int) -> dict[str, float | str]:
    """Rows of a log are ingested, numbered and planned by Spark tasks; the ratio is planning against all before it."""
    folder = Path(tempfile.mkdtemp(prefix="coterie-bench-"))
    try:
        rate = write_log(folder / "log", user_count, topic_count)
        spark = open_session("local[1]", work_dir=folder / "spark")
        start_s = monotonic()
        source = Source((str(folder / "log"),), columns={"subscriber": "user", "since": "ts"})
        ingest(spark, [source], folder)
        interests, _ = encode_interests(spark, folder / "subscriptions", folder / "ids")
        read_s = monotonic() - start_s
        assert (interests.row_count, interests.column_count) == (user_count, topic_count)
        start_s = monotonic()
        found = run_tasks(spark, [str(folder / "ids")], plan_task(rate), PLAN_COLUMNS).to_pylist()[0]
        plan_s = monotonic() - start_s
        spark.stop()
        plain = plain_cost(interests, rate)
        return {
            "what": f"{interests.pair_count:,} log rows to clusters by Spark: planning against ingesting and numbering",
            "seconds": read_s + plan_s,
            "plan_seconds": plan_s,
            "plan_cpu_seconds": found["cpu_s"],
            "peak_gigabytes": found["peak_bytes"] / 1e9,
            "ratio": plan_s / read_s,
            "overall_percent": 100 * (found["overall"] / plain - 1),
            "bound_percent": 100 * (lower_bound(interests, rate) / plain - 1),
            "clusters": found["clusters"],
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_log(folder: Path, user_count: int, topic_count: int) -> np.ndarray:
    """The interests as a log of subscriptions with names, in eight files; returns the rates of the topics."""
    interests, rate = large_interests(user_count, topic_count, 1)
    users = pa.array([f"user-{number:07d}" for number in range(user_count)])
    topics = pa.array([f"topic/{number:06d}" for number in range(topic_count)])
    folder.mkdir(parents=True)
    for part, pairs in enumerate(np.array_split(np.random.default_rng(2).permutation(interests.pair_count), 8)):
        times = pa.array(np.full(len(pairs), 1_700_000_000_000_000), pa.timestamp("us", "UTC"))
        names = users.take(pa.array(interests.rows[pairs])), topics.take(pa.array(interests.columns[pairs]))
        pq.write_table(pa.table({"user": names[0], "topic": names[1], "ts": times}), folder / f"{part}.parquet")
    return rate


def plan_task(rate: np.ndarray) -> Callable[[str], pa.Table]:
    def work(folder: str) -> pa.Table:
        interests = load_interests(Path(folder))
        start_s = process_time()
        plan = plan_clusters(interests, rate)
        cpu_s = process_time() - start_s
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return pa.table(
            {
                "overall": [plan.overall],
                "clusters": pa.array([plan.topics.row_count], pa.int64()),
                "cpu_s": [cpu_s],
                "peak_bytes": pa.array([peak], pa.int64()),
            }
        )

    return work


def rows(large: tuple[int, int] | None) -> list[dict[str, float | str]]:
    operations_per_s(INTERPRETED_USERS)  # compile
    compiled = operations_per_s(3000)
    slow = interpreted_operations_per_s()
    workload = generate(Clustered(), 1)
    plan_clusters(workload.interests, workload.rates)  # compile
    start_s = process_time()
    plan_clusters(workload.interests, workload.rates)
    plan_s = process_time() - start_s
    start_s = process_time()
    kmeans_clusters(workload.interests, 10, 1)
    kmeans_s = process_time() - start_s
    table: list[dict[str, float | str]] = [
        {
            "what": "bulk form, 80,000 operations: compiled against interpreted",
            "seconds": 80_000 / compiled,
            "ratio": compiled / slow,
        },
        {
            "what": "planner against scipy's K-means (12 starts), 3,000 users x 120 topics",
            "seconds": plan_s,
            "ratio": plan_s / kmeans_s,
        },
        planner_row(20_000, 6_000),
    ]
    return table if large is None else [*table, pipeline_row(*large)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--users", type=int, default=1_000_000, help="of the run through Spark")
    parser.add_argument("--topics", type=int, default=100_000, help="of the run through Spark")
    parser.add_argument("--interpreted", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.interpreted:
        sys.stdout.write(str(operations_per_s(INTERPRETED_USERS)))
        return
    table = rows((chosen.users, chosen.topics) if chosen.full else None)
    if chosen.json:
        sys.stdout.write(json.dumps(table) + "\n")
        return
    for row in table:
        more = ", ".join(
            f"{key} {value:.1f}" for key, value in row.items() if key.endswith(("percent", "bytes", "_seconds"))
        )
        sys.stdout.write(f"{row['what']}: {row['seconds']:.2f} s, ratio {row['ratio']:.1f} {more}\n")


if __name__ == "__main__":
    main()
