"""SpiderCast in bulk against the same code interpreted, against the protocol in the simulator, and with growing size.

Run `python benchmarks/bench_spidercast.py` (`--full`: also 100,000 nodes x 1,000 topics; `--json` for a machine). Times
are CPU times; the ratio is what counts, they depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import process_time

from coterie.lab.spidercast_runs import start_from_contacts
from coterie.systems.spidercast.coverage import build
from coterie.systems.spidercast.parameters import SpiderCastParameters
from coterie.systems.spidercast.system import links_of
from coterie.workloads import make_workload

INTERPRETED_NODES = 60
PROTOCOL_NODES = 300


def bulk_s(nodes: int, topics: int = 100) -> tuple[float, float]:
    """(CPU seconds, mean degree); compiled before the clock starts."""
    build(make_workload("rss", {"nodes": 40}, 1).interests, SpiderCastParameters(), 1)
    interests = make_workload("rss", {"nodes": nodes, "topics": topics}, 1).interests
    start_s = process_time()
    links = build(interests, SpiderCastParameters(), 1).links()
    return process_time() - start_s, float(links.lengths.mean())


def lean_s(nodes: int) -> float:
    """CPU seconds of our overlay with fewer links, local search included."""
    parameters = SpiderCastParameters(links="lean")
    links_of(make_workload("rss", {"nodes": 40}, 1).interests, parameters, 1)
    interests = make_workload("rss", {"nodes": nodes}, 1).interests
    start_s = process_time()
    links_of(interests, parameters, 1)
    return process_time() - start_s


def alone(*options: str, **environment: str) -> float:
    """What this program prints with these options in a process of its own."""
    program = [sys.executable, __file__, *options]
    run = subprocess.run(program, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return float(run.stdout)


def protocol_s(nodes: int) -> float:
    """The protocol in the simulator until its links are at rest, views learned by gossip included."""
    workload = make_workload("rss", {"nodes": nodes}, 1)
    parameters = SpiderCastParameters(is_planned=False, view_capacity=nodes, link_heartbeat_s=5.0, beacon_s=0.0)
    start_s = process_time()
    start_from_contacts(workload, parameters, 1).run_until(30.0)
    return process_time() - start_s


def added_mb(nodes: int, topics: int) -> float:
    """Memory that an overlay takes beyond the program itself and its compiled code."""
    build(make_workload("rss", {"nodes": 40}, 1).interests, SpiderCastParameters(), 1)
    before_mb = peak_mb()
    bulk_s(nodes, topics)
    return peak_mb() - before_mb


def peak_mb() -> float:
    """Of this process alone; what getrusage says includes the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measure(is_full: bool) -> dict[str, float]:
    compiled, _ = bulk_s(INTERPRETED_NODES)
    small, _ = bulk_s(PROTOCOL_NODES)
    thousand, _ = bulk_s(1000)
    ten_thousand, degree = bulk_s(10_000)
    rows = {
        "interpreted over compiled, 60 nodes": alone("--interpreted", NUMBA_DISABLE_JIT="1") / compiled,
        "protocol over bulk, 300 nodes": protocol_s(PROTOCOL_NODES) / small,
        "10,000 over 1,000 nodes": ten_thousand / thousand,
        "10,000 nodes, CPU s": ten_thousand,
        "10,000 nodes, degree": degree,
        "lean over bulk, 1,000 nodes": lean_s(1000) / thousand,
    }
    if is_full:
        rows["lean over bulk, 10,000 nodes"] = lean_s(10_000) / ten_thousand
        seconds, degree = bulk_s(100_000, topics=1000)
        rows["100,000 nodes x 1,000 topics over 10,000 x 100"] = seconds / ten_thousand
        rows["100,000 nodes x 1,000 topics, CPU s"] = seconds
        rows["100,000 nodes x 1,000 topics, degree"] = degree
        half, whole = (alone("--memory", str(nodes), "1000") for nodes in (50_000, 100_000))
        rows["100,000 nodes x 1,000 topics, MB"] = whole
        rows["memory, 100,000 over 50,000 nodes"] = whole / half
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--interpreted", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(added_mb(*options.memory))
        return
    if options.interpreted:
        print(bulk_s(INTERPRETED_NODES)[0])
        return
    rows = measure(options.full)
    if options.json:
        print(json.dumps(rows))
        return
    for name, number in rows.items():
        print(f"{name:50} {number:12.2f}")


if __name__ == "__main__":
    main()
