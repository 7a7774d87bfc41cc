"""The order of a big ring by likeness on Spark: how long, and how many relays it saves.

`python benchmarks/bench_likeness.py [nodes] [topics] [--here]`; by default 1,000,000 nodes, 100,000 topics. Baselines
in the same run: the strawman's order by name and, up to 200,000 nodes, Magnet's own (Algorithm 1 in one kernel). Relays
are those of the greedy paths to everybody who wants one of 300 random topics. With `--here` the order is computed
without Spark as well; both must be the same.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from coterie.kernels.rings.likeness import Likes, likeness_order
from coterie.model import Relation, Workload
from coterie.pipeline.ordering import order_network
from coterie.pipeline.session import open_session
from coterie.substrate.identifiers import node_positions, topic_keys
from coterie.substrate.oscar import OscarShape, oscar_ring
from coterie.substrate.trees import path_union
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.stages import CONTROL_SEED, control_ring, join_order, spread_evenly
from coterie.workloads import make_workload

SAMPLED_TOPICS = 300
MAGNET_NODES_MAX = 200_000  # minutes above
SEED = 1


def timed(label: str, run: Callable[[], np.ndarray], baseline_s: float | None = None) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    found = run()
    took_s = time.perf_counter() - start
    ratio = "" if baseline_s is None else f"   {took_s / baseline_s:5.2f} x Magnet's order"
    print(f"{label:40s} {took_s:8.1f} s{ratio}", flush=True)
    return found, took_s


def relays(workload: Workload, positions: np.ndarray) -> tuple[int, int]:
    """(uninterested nodes, all nodes) on the trees of some topics."""
    chosen = np.sort(np.random.default_rng(SEED).choice(workload.topic_count, SAMPLED_TOPICS, replace=False))
    members = Relation.from_rows([workload.interests.transposed.row(topic) for topic in chosen], workload.node_count)
    ring = oscar_ring(positions, SEED, OscarShape())
    homes = control_ring(workload.node_count, 4).owners(topic_keys(workload.topic_count)[chosen])
    trees = path_union(ring, homes, members, is_upward=False)
    topic = np.repeat(np.arange(len(chosen)), trees.edge_counts)
    key = topic.astype(np.int64) * workload.node_count + trees.node
    wanted = members.rows.astype(np.int64) * workload.node_count + members.columns
    return int((~np.isin(key, wanted)).sum()), len(key)


def main(nodes: int, topics: int, is_checked: bool) -> None:
    settings = {"nodes": nodes, "topics": topics, "modes": topics // 200, "modes_per_peer": 2, "subscriptions": 20}
    workload = make_workload("multimodal", settings, SEED)
    weights = np.ones(topics)
    print(f"--- {nodes} nodes, {topics} topics, {workload.interests.pair_count} subscriptions", flush=True)
    orders: dict[str, np.ndarray] = {}
    magnet_s = None
    if nodes <= MAGNET_NODES_MAX:
        orders["Magnet's order"], magnet_s = timed(
            "Magnet's order", lambda: join_order(workload, workload.interests, MagnetParameters(), SEED)
        )
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session("local[*]", work_dir=Path(folder))
        scratch = Path(folder) / "order"
        orders["by likeness"], _ = timed(
            "by likeness, on Spark",
            lambda: order_network(spark, workload.interests, weights, scratch, SEED),
            magnet_s,
        )
        spark.stop()
    if is_checked:
        likes = Likes.of(workload.interests.indptr, workload.interests.columns, weights)
        here, _ = timed("by likeness, one process", lambda: likeness_order(likes, SEED), magnet_s)
        assert here.tolist() == orders["by likeness"].tolist()
    by_name, all_nodes = relays(workload, node_positions(nodes, CONTROL_SEED))
    print(f"relays by name: {by_name} of {all_nodes} nodes on {SAMPLED_TOPICS} trees")
    for label, order in orders.items():
        found, _ = relays(workload, spread_evenly(order))
        print(f"relays, {label}: {found}, {100 * (1 - found / by_name):.1f} % saved", flush=True)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main(*([*sizes, 1_000_000, 100_000][:2] if len(sizes) != 1 else (sizes[0], sizes[0] // 10)), "--here" in sys.argv)
