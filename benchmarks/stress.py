"""Hostile and excessive input on a node, one kind after the other, while two ordinary clients are served.

Run `python benchmarks/stress.py` (--scale 0.01 for a quick look). Two nodes of flooding are processes; node 0 gets
100,000 malformed inputs on its MQTT and peer ports, clients that send a byte now and then, one that never reads,
10,000 connections, and a million distinct topics. During each a publisher at node 1 sends to a subscriber at node 0 at
QoS 1; printed are how many of those arrived, how long the slowest took, and the memory of node 0 after it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from brokers import free_base
from coterie.api.places import LINK_OFFSET
from coterie.api.running import NodeProcesses, arranged
from coterie.broker.frames import CONTROL, HELLO, LINK_VERSION, MESSAGE, PROOF, Hello, encode_hello, frame
from coterie.live.client import MqttClient, connect_packet
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet

CONNECT = encode_packet(p.Connect("c"), p.MQTT_5)
MQTT = [
    CONNECT,
    encode_packet(p.Connect("c", p.MQTT_3), p.MQTT_3),
    encode_packet(p.Publish("a/b", b"x" * 50, 1, packet_id=3), p.MQTT_5),
    encode_packet(p.Subscribe(1, (p.Subscription("a/#", 1),)), p.MQTT_5),
]
PEER = [
    frame(HELLO, encode_hello(Hello(LINK_VERSION, "coterie", "flooding", 1, b"n" * 16))),
    frame(PROOF, b"p" * 32),
    frame(MESSAGE, b"\0\x01\x93"),
    frame(CONTROL, b"\x01\x90"),
]
NOW = struct.pack("ii", 1, 0)  # close at once, without the long goodbye of TCP


def memory_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1000


def mutated(draw: Random, good: list[bytes]) -> bytes:
    data = bytearray(b"".join(draw.choices(good, k=draw.randint(1, 4))))
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(data)) if data else 0
        kind = draw.randrange(3)
        if kind == 0 and data:
            data[at] = draw.randrange(256)
        elif kind == 1:
            data[at:at] = draw.randbytes(draw.randint(1, 8))
        else:
            del data[at : at + draw.randint(1, 8)]
    return bytes(data)


def spill(port: int, data: bytes) -> None:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
        one.sendall(data)


class Bystander:
    """The ordinary clients: a message every 50 ms from node 1 to node 0."""

    def __init__(self, base: int) -> None:
        self._arrived: dict[bytes, float] = {}
        self._sent: dict[bytes, float] = {}
        self._is_over = False
        self._reader = MqttClient("127.0.0.1", base, connect_packet("reader"), self._take, give_up_s=60)
        self._writer = MqttClient("127.0.0.1", base + 1, connect_packet("writer"), give_up_s=60)

    def _take(self, message: p.Publish) -> None:
        self._arrived[message.payload] = time.perf_counter()

    async def start(self) -> None:
        await self._reader.start()
        await self._writer.start()
        await self._reader.subscribe("calm", qos=1)
        self._task = asyncio.create_task(self._publish())

    async def _publish(self) -> None:
        number = 0
        while not self._is_over:
            payload = b"%d" % number
            self._sent[payload] = time.perf_counter()
            await self._writer.publish("calm", payload, qos=1)
            number += 1
            await asyncio.sleep(0.05)

    async def stop(self) -> tuple[int, int, float]:
        """(sent, arrived, the slowest in seconds)."""
        self._is_over = True
        await self._task
        deadline_s = time.perf_counter() + 30
        while len(self._arrived) < len(self._sent) and time.perf_counter() < deadline_s:
            await asyncio.sleep(0.02)
        await self._reader.stop()
        await self._writer.stop()
        slowest_s = max((self._arrived[one] - self._sent[one] for one in self._arrived), default=0.0)
        return len(self._sent), len(self._arrived), slowest_s


class Attacks:
    def __init__(self, base: int, scale: float) -> None:
        self._port, self._links, self._scale = base, base + LINK_OFFSET, scale
        self._draw = Random(5)

    def _count(self, full: int) -> int:
        return max(1, int(full * self._scale))

    async def malformed(self) -> str:
        count = self._count(50_000)

        def run() -> None:
            for _ in range(count):
                spill(self._port, CONNECT + mutated(self._draw, MQTT))
                spill(self._links, mutated(self._draw, PEER))

        await asyncio.to_thread(run)
        return f"{2 * count:,} inputs"

    async def slow(self) -> str:
        count, ended = self._count(500), 0
        pairs = [await asyncio.open_connection("127.0.0.1", self._port) for _ in range(count)]
        data = CONNECT + bytes(40)
        for step in range(20):
            for reader, writer in pairs:
                if not reader.at_eof() and not writer.is_closing():
                    writer.write(data[step : step + 1])
            await asyncio.sleep(1.0)
        ended = sum(reader.at_eof() or writer.is_closing() for reader, writer in pairs)
        for _, writer in pairs:
            writer.transport.abort()
        return f"{ended} of {count} ended by the node"

    async def never_reads(self) -> str:
        reader, stuck = await asyncio.open_connection("127.0.0.1", self._port)
        stuck.write(CONNECT + encode_packet(p.Subscribe(1, (p.Subscription("big/#", 1),)), p.MQTT_5))
        await reader.read(1)
        stuck.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.5)
        writer = MqttClient("127.0.0.1", self._port, connect_packet("big"))
        await writer.start()
        count = self._count(20_000)
        for number in range(count):
            await writer.publish("big/x", bytes(10_000), qos=number % 2)
        await writer.stop()
        stuck.transport.abort()
        return f"{count / 100:,.0f} MB for it"

    async def connections(self) -> str:
        count = self._count(10_000)
        pairs = []
        for number in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(encode_packet(p.Connect(f"many{number}"), p.MQTT_5))
            pairs.append((reader, writer))
        accepted = sum([(await reader.readexactly(4))[3] == 0 for reader, _ in pairs])
        self.peak_mb = memory_mb(self.pid)
        for _, writer in pairs:
            writer.transport.abort()
        return f"{accepted:,} of {count:,} accepted, {self.peak_mb:,.0f} MB with them"

    async def topics(self) -> str:
        count = self._count(1_000_000)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(encode_packet(p.Connect("topics", keep_alive_s=0), p.MQTT_5))
        await reader.read(4)
        for first in range(0, count, 500):
            batch = (p.Publish(f"many/{one}/x", b"y" * 20, 0) for one in range(first, min(first + 500, count)))
            writer.write(b"".join(encode_packet(one, p.MQTT_5) for one in batch))
            await writer.drain()
        writer.write(encode_packet(p.PingReq(), p.MQTT_5))
        while not (await reader.read(4096)).endswith(b"\xd0\x00"):
            pass
        writer.transport.abort()
        return f"{count:,} topics"

    pid = 0
    peak_mb = 0.0


async def one(base: int, name: str, attack: Callable[[], Awaitable[str]], pid: int) -> list[str]:
    bystander = Bystander(base)
    await bystander.start()
    start_s = time.perf_counter()
    said = await attack()
    took_s = time.perf_counter() - start_s
    sent, arrived, slowest_s = await bystander.stop()
    await asyncio.sleep(1.0)
    return [
        name,
        said,
        f"{took_s:.0f} s",
        f"{arrived:,} of {sent:,}",
        f"{slowest_s * 1000:,.0f} ms",
        f"{memory_mb(pid):,.0f} MB",
    ]


async def run(fleet: NodeProcesses, base: int, scale: float, only: str) -> None:
    pid = next(pid for pid, node in fleet.pids.items() if node == 0)
    attacks = Attacks(base, scale)
    attacks.pid = pid
    widths = (22, 44, 7, 18, 10, 8)
    rows = [
        ["", "", "took", "others' messages", "slowest", "memory"],
        ["before", "", "", "", "", f"{memory_mb(pid):,.0f} MB"],
    ]
    for row in rows:
        print(" ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)), flush=True)
    for name, attack in (
        ("malformed inputs", attacks.malformed),
        ("slow connects", attacks.slow),
        ("never reads", attacks.never_reads),
        ("connections", attacks.connections),
        ("distinct topics", attacks.topics),
    ):
        if not name.startswith(only):
            continue
        row = await one(base, name, attack, pid)
        print(" ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)), flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--scale", type=float, default=1.0)
    arguments.add_argument("--only", default="", help="the first word of the one to run")
    chosen = arguments.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    base = free_base(2)
    with tempfile.TemporaryDirectory() as folder:
        fleet = arranged(None, 2, "flooding", {}, base, Path(folder), "127.0.0.1", 0)
        try:
            fleet.start()
            fleet.wait_healthy(60.0)
            asyncio.run(run(fleet, base, chosen.scale, chosen.only))
        finally:
            fleet.stop()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
