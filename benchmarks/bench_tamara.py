"""Tamara's bulk form against the same code interpreted, and the planner against K-means and against sorting its input.

Run `python benchmarks/bench_tamara.py` (`--full`: the planner on 1,000,000 users x 100,000 topics; `--json` for a
machine). Times are CPU times; the ratio is what counts, they depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from time import process_time

import numpy as np

from coterie.model import Relation
from coterie.systems.tamara.bulk import TopicClusters
from coterie.systems.tamara.kmeans import kmeans_clusters
from coterie.systems.tamara.planner import lower_bound, plain_cost, plan_clusters
from coterie.workloads.tamara import Clustered, arrivals, generate

INTERPRETED_USERS = 60


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


def rows(is_full: bool) -> list[dict[str, float | str]]:
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
    return [*table, planner_row(1_000_000, 100_000)] if is_full else table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--interpreted", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.interpreted:
        sys.stdout.write(str(operations_per_s(INTERPRETED_USERS)))
        return
    table = rows(chosen.full)
    if chosen.json:
        sys.stdout.write(json.dumps(table) + "\n")
        return
    for row in table:
        more = ", ".join(f"{key} {value:.1f}" for key, value in row.items() if key.endswith("percent"))
        sys.stdout.write(f"{row['what']}: {row['seconds']:.2f} s, ratio {row['ratio']:.1f} {more}\n")


if __name__ == "__main__":
    main()
