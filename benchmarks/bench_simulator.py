"""How fast the simulator and the accountant are, against plain Python doing the same in the same run."""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from coterie.accounting.price import price
from coterie.model import Design, Workload
from coterie.model.latency import Latency
from coterie.sim.run import simulate
from coterie.systems import SYSTEMS
from coterie.workloads import make_workload


def cpu_s(work: Callable[[], object], repeats: int = 3) -> float:
    """The best of a few runs, in CPU seconds of this process."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def plain_flooding(node_count: int, events: int) -> int:
    """The least a flooding simulation in plain Python does: one heap entry, one object and one call per message."""

    class Node:
        def __init__(self) -> None:
            self.seen: set[int] = set()

        def receive(self, message: dict[str, int]) -> bool:
            if message["event"] in self.seen:
                return False
            self.seen.add(message["event"])
            return True

    nodes = [Node() for _ in range(node_count)]
    heap: list[tuple[float, int, int, dict[str, int]]] = []
    order = handled = 0
    for event in range(events):
        for target in range(1, node_count):
            order += 1
            heapq.heappush(heap, (event + 0.05, order, target, {"event": event, "source": 0, "topic": 0}))
    while heap:
        _, _, target, message = heapq.heappop(heap)
        nodes[target].receive(message)
        handled += 1
    return handled


def plain_price(design: Design, workload: Workload, latency: Latency) -> dict[str, float]:
    """The same columns of a rooted design with one channel a topic, edge by edge over plain lists and dicts."""
    interests = [set(workload.interests.row(row).tolist()) for row in range(workload.subscriber_count)]
    trees, entries = design.trees, design.entries
    nodes, parents, indptr = trees.node.tolist(), trees.parent.tolist(), trees.indptr.tolist()
    starts, hops_of = entries.indptr.tolist(), entries.hops.tolist()
    book: dict[str, float] = defaultdict(float)
    delays: dict[int, float] = defaultdict(float)
    publications = workload.publications
    for row, (topic, rate) in enumerate(zip(publications.topic.tolist(), publications.rate.tolist(), strict=True)):
        path = hops_of[starts[row] : starts[row + 1]]
        us = {path[-1]: sum(latency.between_us(one, other) for one, other in pairwise(path))}
        hops = {path[-1]: len(path) - 1}
        book["inbound"] += rate * (len(path) - 1)
        for edge in range(indptr[topic], indptr[topic + 1]):
            node, parent = nodes[edge], parents[edge]
            us[node] = us[parent] + latency.between_us(parent, node)
            hops[node] = hops[parent] + 1
            book["wanted" if topic in interests[node] else "relayed"] += rate
        for node, count in hops.items():
            if topic in interests[node]:
                book["delivered"] += rate
                book["hops"] += rate * count
                delays[us[node]] += rate
    return book


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []

    small = make_workload("multimodal", {"nodes": 500, "topics": 100, "subscriptions": 10, "rate": 5}, seed=7)
    flooding = SYSTEMS["flooding"]
    design = flooding.plan(small, seed=7)
    handled = simulate(flooding, flooding.parameters(), design, small, 7).input_count
    ours = handled / cpu_s(lambda: simulate(flooding, flooding.parameters(), design, small, 7))
    plain = plain_flooding(500, 500) / cpu_s(lambda: plain_flooding(500, 500))
    rows.append({"what": "simulator, flooding, 500 nodes: inputs per CPU second", "ours": ours, "plain": plain})

    scribe = SYSTEMS["scribe"]
    medium = make_workload("multimodal", {"nodes": 2000, "topics": 200, "subscriptions": 20}, seed=7)
    overlay = scribe.plan(medium, seed=7)
    count = simulate(scribe, scribe.parameters(), overlay, medium, 7).input_count
    speed = count / cpu_s(lambda: simulate(scribe, scribe.parameters(), overlay, medium, 7), repeats=1)
    rows.append({"what": "simulator, scribe, 2,000 nodes: inputs per CPU second", "ours": speed, "plain": plain})

    large = make_workload("multimodal", {"nodes": 10_000, "topics": 1000, "subscriptions": 50}, seed=7)
    trees = scribe.plan(large, seed=7)
    edges = len(trees.trees.node)
    latency = Latency.constant()
    ours = edges / cpu_s(lambda: price(trees, large, latency))
    plain = edges / cpu_s(lambda: plain_price(trees, large, latency), repeats=1)
    rows.append(
        {"what": "pricing, scribe, 10,000 nodes x 1,000 topics: edges per CPU second", "ours": ours, "plain": plain}
    )

    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        ratio = float(row["ours"]) / float(row["plain"])
        print(f"{row['what']:<68} {row['ours']:>12,.0f}   plain Python {row['plain']:>10,.0f}   x{ratio:.1f}")


if __name__ == "__main__":
    main()
