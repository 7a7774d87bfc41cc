"""Workload generation: subscriptions drawn per second, against the same draw in plain Python in the same run.

python benchmarks/bench_workloads.py [--json]
"""

from __future__ import annotations

import bisect
import itertools
import json
import random
import resource
import sys
import time
from collections.abc import Callable

from coterie.workloads import make_workload

FULL = {"nodes": 1_000_000, "topics": 100_000, "subscriptions": 20}
PLAIN_NODES = 5_000


def plain_zipf(nodes: int, topics: int, subscriptions: int, exponent: float, modes: int) -> list[list[int]]:
    """What anybody would write first: a set per subscriber, filled from the cumulated weights."""
    draw = random.Random(7)
    per_mode = topics // modes
    upto = list(itertools.accumulate((rank + 1) ** -exponent for rank in range(per_mode)))
    interests = []
    for _ in range(nodes):
        first = draw.randrange(modes) * per_mode
        chosen: set[int] = set()
        while len(chosen) < subscriptions:
            chosen.add(first + bisect.bisect(upto, draw.random() * upto[-1]))
        interests.append(sorted(chosen))
    return interests


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(name: str, exponent: float, modes: int) -> dict[str, object]:
    make_workload(name, {"nodes": 1000, "topics": 1000, "subscriptions": 5}, 1)  # compiles
    ours_s = seconds(lambda: make_workload(name, FULL, 7))
    plain_s = seconds(lambda: plain_zipf(PLAIN_NODES, FULL["topics"], FULL["subscriptions"], exponent, modes))
    ours = FULL["nodes"] * FULL["subscriptions"] / ours_s
    plain = PLAIN_NODES * FULL["subscriptions"] / plain_s
    return {
        "workload": name,
        "seconds for 1,000,000 x 100,000 x 20": round(ours_s, 2),
        "subscriptions per second": round(ours),
        "plain Python per second": round(plain),
        "ratio": round(ours / plain, 1),
    }


def main() -> None:
    rows = [measure("zipf", 1.0, 1), measure("multimodal", 1.0, 10)]
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if "--json" in sys.argv[1:]:
        print(json.dumps({"rows": rows, "peak_mib": peak_mib}))
        return
    for row in rows:
        print("  ".join(f"{key}: {value}" for key, value in row.items()))
    print(f"peak memory of the process: {peak_mib} MiB")


if __name__ == "__main__":
    main()
