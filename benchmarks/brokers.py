"""Broker processes for the benchmarks: a node, a node of another version, mosquitto. Each is (port, process id)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

START_S, END_S = 60.0, 20.0
BrokerAt = tuple[int, int]
LIMITS = "[mqtt.limits]\nqueue_count_max = 1000000\ninflight_count_max = 65535\n"


def free_base(nodes: int) -> int:
    """Client ports, and what lies above them in a network, nats_mesh and mosquitto_star."""
    for base in range(20_000, 29_000, 53):
        try:
            for port in (base + offset + node for offset in (0, 1000, 2000) for node in range(nodes)):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise SystemExit("no free ports")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_open(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until somebody listens; a process that ended, or takes too long, is said so."""
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise SystemExit(f"{process.args} ended with code {process.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"nobody listens on port {port} after {START_S:.0f} s")


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[BrokerAt]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
    )
    try:
        wait_open(port, process)
        yield port, process.pid
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            print(f"{command[-1]} did not end within {END_S:.0f} s and was killed", file=sys.stderr)


@contextmanager
def mosquitto() -> Iterator[BrokerAt | None]:
    found = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if found is None:
        yield None
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mosquitto.conf"
        path.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n"
            "set_tcp_nodelay true\nlog_dest none\n"
        )
        with running([found, "-c", str(path)], port) as broker:
            yield broker


@contextmanager
def shared_port(folder: Path, processes: int, mqtt: str = "", rest: str = "") -> Iterator[tuple[int, int, list[int]]]:
    """A node of several processes: (its port, the first of the processes' own ports, the processes' ids)."""
    base, path = free_base(processes + 2), folder / "node.toml"
    own = base + 1
    path.write_text(
        f"[node]\nprocesses = {processes}\nprocess_port = {own}\n[links]\nport = {base + 1000}\n[admin]\n"
        f'port = {base + 2000}\n[network]\nsystem = "mesh"\n{rest}[mqtt]\nport = {base}\n{mqtt}{LIMITS}'
    )
    command = [sys.executable, "-m", "coterie", "node", "--config", str(path)]
    with running(command, base, {}) as (port, parent):
        deadline_s = time.monotonic() + START_S
        while not _is_ready(base + 2000):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"not every process is ready after {START_S:.0f} s")
            time.sleep(0.2)
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        yield port, own, [int(one) for one in children]


def _is_ready(admin: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{admin}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def node(folder: Path, mqtt: str = "", source: str = "") -> Iterator[BrokerAt]:
    """`mqtt`: more lines for that table; `source`: the source folder of another version to run instead."""
    port = free_port()
    path = folder / "node.toml"
    path.write_text(f"[mqtt]\nport = {port}\n{mqtt}{LIMITS}")
    command = [sys.executable, "-m", "coterie.cli.node", "--config", str(path)]
    with running(command, port, {"PYTHONPATH": source} if source else None) as broker:
        yield broker
