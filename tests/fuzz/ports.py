"""Bad inputs on the ports of a running node, a connection each: nothing breaks, nothing leaks, others are served.

Two nodes run as processes of their own, linked to each other. All inputs go to the first: MQTT, WebSocket, links and
admin. Behind every batch a client of the other node is asked to pass a message through both. Limits are small, so that
what inputs may rightly leave behind (sessions, retained messages) is bounded early and anything else would show.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from coterie.live.client import MqttClient, connect_packet
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from tests.fuzz.mutate import kept, mutated
from tests.fuzz.targets import FRAMES, HANDSHAKE, RECORDS, REQUESTS, framed
from tests.interop.fleet import TOKEN, Processes, free_ports, until, write_configs
from tests.interop.fleet import run as run_async

BATCH = 250
GROWTH_MB_MAX = 64.0
LIMITS = {"session_count_max": 500, "retained_topics_max": 500, "retained_bytes_max": 1 << 22, "queue_count_max": 100,
          "queue_bytes_max": 1 << 20, "stored_bytes_max": 1 << 24, "subscription_total_max": 5000,
          "packet_bytes_max": 4096}  # fmt: skip
SHARES = {"mqtt": 10, "websocket": 4, "links": 3, "admin": 3}


FIRST = [encode_packet(p.Connect(name, version), version) for name, version in (("x", 4), ("y", 5), ("", 5))]
REQUEST = [one.replace(b"Bearer secret", b"Bearer " + TOKEN.encode()) for one in REQUESTS]
RECORD = [*RECORDS, *kept("codec"), *kept("connection")]
MAKE: dict[str, Callable[[Random], bytes]] = {
    "mqtt": lambda random: random.choice([b"", *FIRST]) + mutated(random, RECORD),
    "websocket": lambda random: random.choice(
        [mutated(random, [HANDSHAKE]), HANDSHAKE + mutated(random, [framed(one) for one in RECORD]),
         HANDSHAKE + framed(random.choice(FIRST) + mutated(random, RECORD))]
    ),
    "links": lambda random: mutated(random, FRAMES),
    "admin": lambda random: mutated(random, REQUEST),
}  # fmt: skip


class Watch:
    """What one node's process holds."""

    def __init__(self, pid: int) -> None:
        self._home = Path(f"/proc/{pid}")

    def memory_mb(self) -> float:
        return int((self._home / "statm").read_text().split()[1]) * resource.getpagesize() / 1e6

    def files(self) -> int:
        return len(os.listdir(self._home / "fd"))

    def cpu_s(self) -> float:
        fields = (self._home / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def throw(port: int, data: bytes) -> socket.socket:
    """A connection with these bytes on their way; whoever closes it leaves nothing behind in the kernel."""
    line = socket.create_connection(("127.0.0.1", port), 30)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(ConnectionError):  # it may be refused before its end
        line.sendall(data)
    return line


class Attack:
    def __init__(self, processes: Processes, ports: dict[str, int], seed: int) -> None:
        self.processes, self.ports = processes, ports
        self.random = Random(f"ports{seed}")
        self.watch = Watch(processes.running[0])
        self.sent = dict.fromkeys(SHARES, 0)
        self.round_trips: list[float] = []

    def batch(self, size: int) -> list[socket.socket]:
        names = self.random.choices(list(SHARES), list(SHARES.values()), k=size)
        for name in names:
            self.sent[name] += 1
        return [throw(self.ports[name], MAKE[name](self.random)) for name in names]

    async def run(self, count: int) -> tuple[float, int]:
        """Memory and open files of the node once a tenth was sent; afterwards they should be the same."""
        got: list[Any] = []
        there, here = (self._client(node, got) for node in (1, 0))
        await there.start()
        await here.start()
        await here.subscribe("calm", qos=1)
        held: tuple[float, int] | None = None
        left = count
        while left > 0:
            lines = self.batch(min(BATCH, left))
            left -= len(lines)
            start_s, seen = time.monotonic(), len(got)
            await there.publish("calm", b"x", qos=1)
            await until(lambda seen=seen: len(got) > seen, 60.0)  # type: ignore[misc]
            self.round_trips.append(time.monotonic() - start_s)
            for line in lines:
                line.close()
            if held is None and left <= 0.9 * count:
                await asyncio.sleep(1.0)
                held = self.watch.memory_mb(), self.watch.files()
        await asyncio.sleep(1.0)
        await here.stop()
        await there.stop()
        return held or (self.watch.memory_mb(), self.watch.files())

    def _client(self, node: int, got: list[Any]) -> MqttClient:
        port = self.processes.configs[node].mqtt.port
        return MqttClient("127.0.0.1", port, connect_packet(f"calm-{node}"), got.append)


def verdict(attack: Attack, before: tuple[float, int], count: int, spent_s: float, log: str) -> list[str]:
    """Prints; what is wrong."""
    watch, health = attack.watch, attack.processes.health(0)
    grown_mb, files = watch.memory_mb() - before[0], watch.files()
    trips = sorted(attack.round_trips)
    say = sys.stdout.write
    say(f"{count:,} inputs on the ports of a node in {spent_s:,.0f} s: "
        + ", ".join(f"{name} {sent:,}" for name, sent in attack.sent.items()) + "\n")  # fmt: skip
    say(f"CPU of the node {watch.cpu_s():,.0f} s, memory {watch.memory_mb():.0f} MB ({grown_mb:+.1f} MB since a tenth "
        f"was sent), open files {files} (then {before[1]})\n")  # fmt: skip
    say(f"a message through both nodes behind each batch of {BATCH}: median {1e3 * trips[len(trips) // 2]:.0f} ms, "
        f"longest {1e3 * trips[-1]:.0f} ms\n")  # fmt: skip
    wrong = []
    if grown_mb > GROWTH_MB_MAX:
        wrong.append("memory grew")
    if files > before[1] + 5:
        wrong.append("connections stayed open")
    if not health.get("ready"):
        wrong.append(f"the node is not ready: {health}")
    if "Traceback" in log or "Error" in log:
        wrong.append("the node's log tells of an error:\n" + log[-3000:])
    say("nothing broke\n" if not wrong else "BROKEN: " + "; ".join(wrong) + "\n")
    return wrong


def run(count: int, seed: int = 0) -> int:
    """Exit code."""
    with tempfile.TemporaryDirectory() as folder:
        (websocket,) = free_ports(1)
        paths = write_configs(
            Path(folder), "flooding", 2, journal={"enabled": False},
            mqtt={"limits": LIMITS, "websocket_port": websocket, "connections_max": 4000},
        )  # fmt: skip
        second = paths[1].read_text().replace(f"websocket_port = {websocket}", "websocket_port = 0")
        paths[1].write_text(second)
        processes = Processes(paths)
        wrong: list[str] = []

        async def main() -> None:
            for node in (0, 1):
                processes.start(node)
            await processes.healthy([0, 1])
            config = processes.configs[0]
            ports = {"mqtt": config.mqtt.port, "websocket": websocket, "links": config.links.port,
                     "admin": config.admin.port}  # fmt: skip
            attack = Attack(processes, ports, seed)
            start_s = time.monotonic()
            before = await attack.run(count)
            log = (paths[0].parent / "log").read_text()
            wrong.extend(verdict(attack, before, count, time.monotonic() - start_s, log))

        try:
            run_async(main, None)
        finally:
            processes.stop()
    return int(bool(wrong))
