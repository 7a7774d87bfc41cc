"""From a mosquitto log to a journal, and to a plan: lines per second, with `grep -c` of the same file as the baseline.

    python benchmarks/bench_observe.py                  # 2 million lines
    python benchmarks/bench_observe.py --full           # 10 million lines, and a plan from the last journal
    python benchmarks/bench_observe.py --lines 200000 --engines python

The log is what eight brokers' worth of clients would write with `log_type all`: connections, subscriptions with their
blocks, publications, deliveries and acknowledgements. Prints seconds and lines per second, and how many times as long
as grep each way takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

BROKERS, CLIENTS, TOPICS, WISHES = 8, 20_000, 2_000, 4
START_S = 1_790_000_000
CHUNK = 100_000
TICK = os.sysconf("SC_CLK_TCK")


def write_logs(folder: Path, lines: int, seed: int = 1) -> int:
    """One log a broker; how many lines were written."""
    draw = np.random.default_rng(seed)
    written = 0
    for broker in range(BROKERS):
        with open(folder / f"b{broker}.log", "w", encoding="utf-8") as file:
            wanted, count = _arrivals(file.write, broker, draw)
            written += count
            written += _traffic(file.write, broker, lines // BROKERS - count, wanted, draw)
    return written


def _arrivals(write, broker: int, draw) -> tuple[dict[int, list[int]], int]:
    """Clients connect and subscribe; topic -> who wants it."""
    wanted: dict[int, list[int]] = {}
    count = 0
    for client in range(broker, CLIENTS, BROKERS):
        t = START_S + client // 200
        write(f"{t}: New connection from 10.0.0.1:{client} on port 1883.\n")
        write(f"{t}: New client connected from 10.0.0.1:{client} as device-{client:06d} (p2, c1, k60, u'dev').\n")
        write(f"{t}: No will message specified.\n{t}: Sending CONNACK to device-{client:06d} (0, 0)\n")
        write(f"{t}: Received SUBSCRIBE from device-{client:06d}\n")
        home = draw.integers(0, TOPICS)
        for topic in (home + draw.integers(0, 30, WISHES)) % TOPICS:
            wanted.setdefault(int(topic), []).append(client)
            write(f"{t}: \tsite/{topic}/value (QoS 1)\n{t}: device-{client:06d} 1 site/{topic}/value\n")
        write(f"{t}: Sending SUBACK to device-{client:06d}\n")
        count += 6 + 2 * WISHES
    return wanted, count


def _traffic(write, broker: int, lines: int, wanted: dict[int, list[int]], draw) -> int:
    """Publications with their deliveries and acknowledgements."""
    count, t = 0, START_S + 200
    while count < lines:
        clients = draw.integers(0, CLIENTS // BROKERS, CHUNK) * BROKERS + broker
        topics = np.minimum(draw.zipf(1.3, CHUNK), TOPICS) - 1
        sizes = draw.integers(10, 400, CHUNK)
        text = []
        for client, topic, size in zip(clients.tolist(), topics.tolist(), sizes.tolist(), strict=True):
            body = f"(d0, q1, r0, m{count % 65_535}, 'site/{topic}/value', ... ({size} bytes))"
            text.append(f"{t}: Received PUBLISH from device-{client:06d} {body}\n")
            text.append(f"{t}: Sending PUBACK to device-{client:06d} (m1, rc0)\n")
            others = wanted.get(topic, [])[:3]
            text += [f"{t}: Sending PUBLISH to device-{other:06d} {body}\n" for other in others]
            count += 2 + len(others)
            t += count % 50 == 0
            if count >= lines:
                break
        write("".join(text))
    return count


class Descendants:
    """CPU seconds of everything this process starts, also of what is gone by the end (to half a second)."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(0.25)

    def _look(self) -> None:
        parents: dict[int, int] = {}
        used: dict[int, float] = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(name)], used[int(name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK
        for pid, seconds in used.items():
            above = pid
            while above in parents and above != os.getpid():
                above = parents[above]
            if above == os.getpid() and pid != above:
                self._seen[pid] = seconds

    def seconds(self) -> float:
        self._look()
        return sum(self._seen.values())


def timed(name: str, lines: int, work, children: Descendants) -> float:
    began, before = time.monotonic(), children.seconds()
    work()
    seconds, cpu = time.monotonic() - began, children.seconds() - before
    rate, load = lines / seconds, os.getloadavg()[0]
    print(f"{name:34s}{seconds:9.1f} s{rate:14,.0f} lines/s{cpu:9.1f} cpu-s   load {load:.1f}", flush=True)
    return seconds


def coterie(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "coterie", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=float, default=2e6)
    parser.add_argument("--full", action="store_true", help="10 million lines, and a plan")
    parser.add_argument("--engines", default="python,spark")
    chosen = parser.parse_args()
    lines = 10_000_000 if chosen.full else int(chosen.lines)
    children = Descendants()
    with tempfile.TemporaryDirectory(prefix="bench-observe-") as name:
        folder = Path(name)
        (folder / "logs").mkdir()
        lines = write_logs(folder / "logs", lines)
        logs = [str(path) for path in sorted((folder / "logs").glob("*.log"))]
        size = sum(os.path.getsize(path) for path in logs)
        print(f"{lines:,} lines, {size / 1e6:,.0f} MB, {BROKERS} brokers, {CLIENTS:,} clients")
        grep = ["grep", "-c", "PUBLISH", *logs]
        base = timed(
            "grep -c PUBLISH (baseline)", lines, lambda: subprocess.run(grep, capture_output=True, check=True), children
        )
        for engine in chosen.engines.split(","):
            words = ["observe", *logs, "--out", str(folder / engine), "--engine", engine, "--json"]
            told: list[str] = []
            name = f"coterie observe --engine {engine}"
            seconds = timed(name, lines, lambda words=words, told=told: told.append(coterie(*words)), children)
            accounts = json.loads(told[0])["brokers"].values()
            assert sum(account["lines"] for account in accounts) == lines, "a line is missing in the account"
            assert not any(account["not_understood"] for account in accounts)
            written = json.loads(told[0])["lines_written"]
            print(f"{'':34s}{seconds / base:9.1f} times as long as grep; {written:,} lines written")
        if chosen.full:
            words = ["plan", str(folder / engine), "--out", str(folder / "out"), "--json", "-s", "mesh", "-s", "star"]
            timed("coterie plan of that journal", lines, lambda: coterie(*words), children)


if __name__ == "__main__":
    main()
