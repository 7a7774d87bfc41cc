"""What a node costs per delivery, with mosquitto beside it in the same run: deliveries per broker-CPU-second.

Run `python benchmarks/bench_broker.py` (add `--json` for a machine, `--scale 5` for longer runs). Both brokers get the
same bytes from the same load generator, one after the other; the node runs with accounting, permissions and journal
on. The ratio is what counts. Without mosquitto on this machine its columns stay empty.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.runtime.load import Shape, cpu_s, run_load

SHAPES = [
    ("QoS 0, 1:1", Shape(1, 1, 0), 400_000),
    ("QoS 0, 1:100", Shape(1, 100, 0, window=200_000), 100_000),
    ("QoS 0, 100:1", Shape(100, 1, 0), 200_000),
    ("QoS 0, 1:1 wildcard", Shape(1, 1, 0, filter="bench/+/#"), 400_000),
    ("QoS 1, 1:1", Shape(1, 1, 1), 60_000),
    ("QoS 1, 1:100", Shape(1, 100, 1, window=50_000), 5_000),
    ("QoS 1, 100:1", Shape(100, 1, 1), 60_000),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_open(port: int) -> None:
    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"nobody listens on port {port}")


@contextmanager
def mosquitto() -> Iterator[tuple[int, int] | None]:
    found = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if found is None:
        yield None
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mosquitto.conf"
        path.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"
            "set_tcp_nodelay true\n"
        )
        process = subprocess.Popen([found, "-c", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_open(port)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait()


@contextmanager
def node() -> Iterator[tuple[int, int]]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "node.toml"
        path.write_text(
            f"[mqtt]\nport = {port}\n[mqtt.limits]\nqueue_count_max = 1000000\ninflight_count_max = 65535\n"
        )
        command = [sys.executable, "-m", "coterie.cli.node", "--config", str(path)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_open(port)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait()


def measure(broker: tuple[int, int], shape: Shape, messages: int, repeat: int) -> float:
    """The best of several runs: deliveries per CPU second of the broker process."""
    port, pid = broker
    best = 0.0
    for _ in range(repeat):
        before_s = cpu_s(pid)
        result = run_load("127.0.0.1", [port], shape, messages)
        spent_s = cpu_s(pid) - before_s
        if result.missing:
            raise SystemExit(f"{result.missing} of {result.published} messages did not arrive: {shape}")
        best = max(best, result.delivered / max(spent_s, 0.01))
    return best


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments.add_argument("--scale", type=float, default=1.0, help="times as many messages")
    arguments.add_argument("--repeat", type=int, default=2)
    chosen = arguments.parse_args()
    rows = []
    with node() as ours, mosquitto() as theirs:
        for name, shape, messages in SHAPES:
            count = max(100, int(messages * chosen.scale))
            mine = measure(ours, shape, count, chosen.repeat)
            other = measure(theirs, shape, max(100, count // 4), chosen.repeat) if theirs is not None else None
            rows.append({"what": name, "coterie": mine, "mosquitto": other, "ratio": other and mine / other})
            if not chosen.json:
                beside = f"{other:12,.0f} {mine / other:6.1f}" if other else f"{'-':>12} {'-':>6}"
                if len(rows) == 1:
                    print(f"{'deliveries per broker-CPU-second':34} {'coterie':>12} {'mosquitto':>12} {'ratio':>6}")
                print(f"{name:34} {mine:12,.0f} {beside}", flush=True)
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
