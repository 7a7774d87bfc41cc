"""What a node costs per delivery, with mosquitto beside it in the same run: deliveries per broker-CPU-second.

Run `python benchmarks/bench_broker.py` (add `--json` for a machine, `--scale 5` for longer runs). Both brokers get the
same bytes from the same load generator, one after the other; the node runs with accounting, permissions and journal
on. The ratio is what counts. Without mosquitto on this machine its columns stay empty.

Below the saturated rows (`--only paced` or `--only full` for one of them): 5,000 messages a second one to one with a
bare uvloop forwarder beside both, one message at a time to 100 subscribers, and 50 lasting sessions with `#` whose
clients are away. Paced rows are medians of alternating rounds, for the machine is never quite the same twice.
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
from statistics import median
from typing import Any

from coterie.live.load import Shape, cpu_s, run_load
from paced_load import forwarder, one_at_a_time, paced, stored_bytes, to_offline

SHAPES = [
    ("QoS 0, 1:1", Shape(1, 1, 0), 400_000),
    ("QoS 0, 1:100", Shape(1, 100, 0, window=200_000), 100_000),
    ("QoS 0, 100:1", Shape(100, 1, 0), 200_000),
    ("QoS 0, 1:1 wildcard", Shape(1, 1, 0, filter="bench/+/#"), 400_000),
    ("QoS 1, 1:1", Shape(1, 1, 1), 60_000),
    ("QoS 1, 1:100", Shape(1, 100, 1, window=50_000), 5_000),
    ("QoS 1, 100:1", Shape(100, 1, 1), 60_000),
]

AT_RATES = [("5,000/s QoS 0, 1:1", 0, 5000.0), ("5,000/s QoS 1, 1:1", 1, 5000.0), ("one at a time, 1:100", 0, 0.0)]
TALK = sys.stderr if "--json" in sys.argv else sys.stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_open(port: int) -> None:
    for _ in range(2400):
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
def node(folder: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    path = folder / "node.toml"
    path.write_text(f"[mqtt]\nport = {port}\n[mqtt.limits]\nqueue_count_max = 1000000\ninflight_count_max = 65535\n")
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


def saturated(ours: tuple[int, int], theirs: tuple[int, int] | None, scale: float, repeat: int) -> list[dict[str, Any]]:
    print(f"{'deliveries per broker-CPU-second':34} {'coterie':>12} {'mosquitto':>12} {'ratio':>6}", file=TALK)
    rows = []
    for name, shape, messages in SHAPES:
        count = max(100, int(messages * scale))
        mine = measure(ours, shape, count, repeat)
        other = measure(theirs, shape, max(100, count // 4), repeat) if theirs is not None else None
        rows.append({"what": name, "coterie": mine, "mosquitto": other, "ratio": other and mine / other})
        beside = f"{other:12,.0f} {mine / other:6.1f}" if other else f"{'-':>12} {'-':>6}"
        print(f"{name:34} {mine:12,.0f} {beside}", file=TALK, flush=True)
    return rows


def rounds_of(
    brokers: dict[str, tuple[int, int]], qos: int, rate: float, seconds: float, rounds: int
) -> dict[str, Any]:
    """Every broker in turn, several times: medians of microseconds per delivery, and of the delays."""
    found: dict[str, list[Any]] = {name: [] for name in brokers}
    for _ in range(rounds):
        for name, broker in brokers.items():
            if rate:
                result = paced(broker, qos, rate, seconds, is_bare=name == "forwarder")
            else:
                result = one_at_a_time(broker, 100, int(seconds * 250))
            if result.missing:
                raise SystemExit(f"{result.missing} of {result.delivered + result.missing} did not arrive: {name}")
            found[name].append(result)
    return {
        name: {
            "us": median(1e6 / one.per_cpu_s for one in results),
            "per_cpu_s": median(one.per_cpu_s for one in results),
            "delay_ms": median(one.delay_ms for one in results),
            "delay_ms_99": median(one.delay_ms_99 for one in results),
            "rate": median(one.rate for one in results),
        }
        for name, results in found.items()
    }


def at_rates(ours: tuple[int, int], theirs: tuple[int, int] | None, scale: float, rounds: int) -> list[dict[str, Any]]:
    """The paced rows."""
    both = {"coterie": ours} | ({} if theirs is None else {"mosquitto": theirs})
    rows = []
    with forwarder(free_port()) as bare:
        wait_open(bare[0])
        for name, qos, rate in AT_RATES:
            brokers = both | ({"forwarder": bare} if rate and not qos else {})
            row = rounds_of(brokers, qos, rate, 4 * scale, rounds)
            rows.append({"what": name, **row})
            for who, one in row.items():
                ratio = row.get("mosquitto", one)["us"] / one["us"]
                print(
                    f"{name:22} {who:10} {one['us']:7.1f} us a delivery {one['per_cpu_s']:9,.0f} per CPU s  "
                    f"x {ratio:.2f} of mosquitto  {one['rate']:6,.0f}/s  delay {one['delay_ms']:.2f} ms, "
                    f"99 %: {one['delay_ms_99']:.2f}",
                    file=TALK,
                    flush=True,
                )  # fmt: skip
    return rows


def away(theirs: tuple[int, int] | None, folder: Path, scale: float) -> dict[str, Any]:
    """Fifty lasting sessions that want everything, their clients away: what a message costs to take and to keep."""
    sessions, messages, payload_bytes = 50, max(100, int(992 * scale)), 1000
    with node(folder) as ours:
        before = stored_bytes(folder)
        mine_s = to_offline(ours, sessions, messages, payload_bytes)
        kept = stored_bytes(folder) - before
    other_s = None if theirs is None else to_offline(theirs, sessions, messages, payload_bytes)
    row = {
        "what": f"QoS 1 to {sessions} offline sessions, {payload_bytes} bytes",
        "coterie_ms": mine_s / messages * 1e3,
        "mosquitto_ms": other_s and other_s / messages * 1e3,
        "stored_bytes": kept / messages,
    }
    beside = "-" if other_s is None else f"{row['mosquitto_ms']:.3f}"
    print(
        f"{row['what']:44} {row['coterie_ms']:.3f} ms CPU a publish (mosquitto, which keeps it in memory: {beside}), "
        f"{row['stored_bytes']:,.0f} bytes stored a message",
        file=TALK,
        flush=True,
    )
    return row


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", action="store_true", help="print the rows as JSON as well")
    arguments.add_argument("--scale", type=float, default=1.0, help="times as many messages")
    arguments.add_argument("--repeat", type=int, default=2, help="runs of a saturated row: the best counts")
    arguments.add_argument("--rounds", type=int, default=4, help="rounds of a paced row: the median counts")
    arguments.add_argument("--only", choices=("full", "paced", "away"), help="one part of it")
    chosen = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second, mosquitto() as theirs:
        with node(Path(first)) as ours:
            if chosen.only in (None, "full"):
                rows += saturated(ours, theirs, chosen.scale, chosen.repeat)
            if chosen.only in (None, "paced"):
                rows += at_rates(ours, theirs, chosen.scale, chosen.rounds)
        if chosen.only in (None, "away"):
            rows.append(away(theirs, Path(second), chosen.scale))
    if chosen.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
