"""The workload of bench_network on a full mesh of NATS servers, where nats-server is installed."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

ROUTES, WEB = 1000, 2000  # how far above the client ports


def server() -> str | None:
    return shutil.which("nats-server") or shutil.which("/usr/sbin/nats-server")


class Client:
    """As much of the NATS protocol as the workload needs."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.got: Counter[bytes] = Counter()

    async def start(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        await self._reader.readline()
        self._writer.write(b'CONNECT {"verbose":false,"echo":true}\r\n')
        self._pong = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while line := await self._reader.readline():
            if line.startswith(b"MSG"):
                size = int(line.split()[-1])
                self.got[(await self._reader.readexactly(size + 2))[:6]] += 1
            elif line.startswith(b"PONG"):
                self._pong.set()
            elif line.startswith(b"PING"):
                self._writer.write(b"PONG\r\n")

    async def subscribe(self, topics: list[str]) -> None:
        for number, topic in enumerate(topics):
            self._writer.write(f"SUB {topic} {number}\r\n".encode())
        await self.flush()

    async def flush(self) -> None:
        self._pong.clear()
        self._writer.write(b"PING\r\n")
        await self._pong.wait()

    def publish(self, topic: str, payload: bytes) -> None:
        self._writer.write(f"PUB {topic} {len(payload)}\r\n".encode() + payload + b"\r\n")

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()


def route_bytes(base: int, nodes: int) -> int:
    """Bytes sent so far on all connections between servers, as the kernel counted them."""
    text = subprocess.run(["ss", "-tinHO"], capture_output=True, text=True, check=True).stdout
    total = 0
    for line in text.splitlines():
        ports = [int(one) for one in re.findall(r"127\.0\.0\.1:(\d+)", line)[:2]]
        if any(base + ROUTES <= port < base + ROUTES + nodes for port in ports):
            sent = re.search(r"bytes_sent:(\d+)", line)
            total += int(sent.group(1)) if sent else 0
    return total


async def settled_bytes(base: int, nodes: int) -> int:
    """The bytes once nothing more is said: on a busy machine subscriptions take their time."""
    seen, deadline_s = -1, time.monotonic() + 60
    while time.monotonic() < deadline_s:
        found = await asyncio.to_thread(route_bytes, base, nodes)
        if found - seen < 2_000:  # but for keep-alives
            return found
        seen = found
        await asyncio.sleep(2.0)
    return seen


def routes(base: int, nodes: int) -> list[dict[str, Any]]:
    found = []
    for node in range(nodes):
        with urllib.request.urlopen(f"http://127.0.0.1:{base + WEB + node}/routez", timeout=30) as answer:
            found += json.load(answer)["routes"] or []
    return found


def measure(nodes: int, load: Any, base: int, clients: int) -> dict[str, Any]:
    program = server()
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        try:
            for node in range(nodes):
                path = Path(folder) / f"{node}.conf"
                path.write_text(
                    f'listen: "127.0.0.1:{base + node}"\nhttp: "127.0.0.1:{base + WEB + node}"\nserver_name: n{node}\n'
                    f'cluster {{ name: mesh, listen: "127.0.0.1:{base + ROUTES + node}", '
                    f'routes: ["nats://127.0.0.1:{base + ROUTES}"] }}\n'
                )
                processes.append(subprocess.Popen([program, "-c", str(path)], stderr=subprocess.DEVNULL))
            _wait_meshed(base, nodes)
            return asyncio.run(_drive(nodes, load, base, clients))
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def _wait_meshed(base: int, nodes: int) -> None:
    deadline_s = time.monotonic() + 90
    while time.monotonic() < deadline_s:
        try:
            if len(routes(base, nodes)) == nodes * (nodes - 1):
                return
        except OSError:
            pass
        time.sleep(0.3)
    raise SystemExit("the NATS servers did not find each other")


async def _drive(nodes: int, load: Any, base: int, count: int) -> dict[str, Any]:
    clients = [Client(base + load.home[number]) for number in range(count)]
    for client in clients:
        await client.start()
    start_bytes = await asyncio.to_thread(route_bytes, base, nodes)
    start_s = time.perf_counter()
    for client, topics in zip(clients, load.interest, strict=True):
        await client.subscribe(topics)
    subscribed_s = time.perf_counter() - start_s
    before_bytes = await settled_bytes(base, nodes)
    before = sum(one["out_msgs"] for one in await asyncio.to_thread(routes, base, nodes))
    owed = load.bounds()[0]
    start_s = time.perf_counter()
    for number, (author, topic) in enumerate(load.messages):
        clients[author].publish(topic, b"%06d" % number + bytes(58))
        if number % 50 == 0:
            await clients[author].flush()
    while sum(one.got.total() for one in clients) < owed and time.perf_counter() - start_s < 60:
        await asyncio.sleep(0.05)
    published_s = time.perf_counter() - start_s
    after = await asyncio.to_thread(routes, base, nodes)
    after_bytes = await asyncio.to_thread(route_bytes, base, nodes)
    for client in clients:
        await client.stop()
    return {
        "delivered": sum(len(one.got) for one in clients),
        "twice": sum(n - 1 for one in clients for n in one.got.values()),
        "owed": owed,
        "copies": sum(one["out_msgs"] for one in after) - before,
        "event_bytes": after_bytes - before_bytes,
        "links": len(after) // 2,
        "subscribe_control": (0, before_bytes - start_bytes),
        "subscribe_s": subscribed_s,
        "publish_s": published_s,
    }
