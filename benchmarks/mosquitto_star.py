"""A workload on a star of mosquittos with bridges, counted on the bridges themselves.

Every spoke dials the hub through a small relay that follows the MQTT packets: how many PUBLISH of how many bytes, and
how many bytes of everything else. `crossing` is as in the system `star`: "all" bridges `topic # both`; "wanted" has an
access list at the hub besides, so that a spoke reads only what its clients want.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from coterie.live.client import MqttClient, connect_packet

HUB = 0
BRIDGES = 1000  # how far above the client ports the relays listen
PUBLISH = 3  # the packet's type


def server() -> str | None:
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


class Packets:
    """Counts the packets of one direction of a connection: by type, how many and how many bytes."""

    def __init__(self) -> None:
        self.count: Counter[int] = Counter()
        self.bytes: Counter[int] = Counter()
        self._rest = b""

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        at = 0
        while (size := self._size(data, at)) is not None and at + size <= len(data):
            kind = data[at] >> 4
            self.count[kind] += 1
            self.bytes[kind] += size
            at += size
        self._rest = data[at:]

    @staticmethod
    def _size(data: bytes, at: int) -> int | None:
        """Of the whole packet that begins here; None while its head is not complete."""
        length = 0
        for index in range(4):
            if at + 1 + index >= len(data):
                return None
            length |= (data[at + 1 + index] & 0x7F) << (7 * index)
            if data[at + 1 + index] < 0x80:
                return 2 + index + length
        raise ValueError("no MQTT packet has such a length")


class Relay:
    """Listens for one spoke and passes everything on to the hub and back."""

    def __init__(self, listen: int, target: int) -> None:
        self._listen, self._target = listen, target
        self.directions: list[Packets] = []
        self._pumps: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._listen)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        for source, sink in ((reader, other_writer), (other_reader, writer)):
            packets = Packets()
            self.directions.append(packets)
            task = asyncio.create_task(self._pump(source, sink, packets))
            self._pumps.add(task)

    @staticmethod
    async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, packets: Packets) -> None:
        try:
            while data := await source.read(1 << 16):
                packets.feed(data)
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()

    async def stop(self) -> None:
        self._server.close()
        for task in self._pumps:
            task.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)


class Star:
    """A hub and its spokes. Use as an async context manager."""

    def __init__(self, program: str, load: Any, base: int, crossing: str) -> None:
        self._program, self._load, self._base, self._crossing = program, load, base, crossing
        self._folder = tempfile.TemporaryDirectory()
        Path(self._folder.name).chmod(0o755)  # started as root, mosquitto reads access lists as somebody else
        self._processes: list[subprocess.Popen[bytes]] = []
        self._relays = [Relay(base + BRIDGES + node, base + HUB) for node in range(load.nodes) if node != HUB]

    async def __aenter__(self) -> Star:
        try:
            for relay in self._relays:
                await relay.start()
            for node in range(self._load.nodes):
                self._start(node)
            await self._until(self._is_bridged)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()
        for relay in self._relays:
            await relay.stop()
        self._folder.cleanup()

    def _start(self, node: int) -> None:
        lines = [f"listener {self._base + node} 127.0.0.1", "allow_anonymous true", "max_queued_messages 0"]
        if node != HUB:
            lines += [
                *(f"connection s{node}", f"address 127.0.0.1:{self._base + BRIDGES + node}", "topic # both 0"),
                *(f"remote_username s{node}", "notifications false", "restart_timeout 1", "keepalive_interval 60"),
            ]
        elif self._crossing == "wanted":
            access = Path(self._folder.name) / "access"
            access.write_text("\n".join(self._access()) + "\n")
            lines.append(f"acl_file {access}")
        path = Path(self._folder.name) / f"{node}.conf"
        path.write_text("\n".join(lines) + "\n")
        self._processes.append(subprocess.Popen([self._program, "-c", str(path)], stderr=subprocess.DEVNULL))

    def _access(self) -> list[str]:
        """Clients may do anything; a spoke may say anything and read what is wanted there."""
        lines = ["topic readwrite #"]
        for node in range(self._load.nodes):
            if node != HUB:
                lines += [
                    f"user s{node}",
                    "topic write #",
                    *(f"topic read {one}" for one in self._load.wanted_at(node)),
                ]
        return lines

    async def _until(self, condition: Any, limit_s: float = 60.0) -> None:
        deadline_s = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline_s:
                raise SystemExit("the mosquittos did not come up")
            await asyncio.sleep(0.05)

    def _is_bridged(self) -> bool:
        """Everybody listens, and every bridge had its SUBACK."""
        for node in range(self._load.nodes):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._base + node)):
                    return False
        return all(any(one.count[9] for one in relay.directions) for relay in self._relays)

    @property
    def directions(self) -> list[Packets]:
        return [one for relay in self._relays for one in relay.directions]

    def copies(self) -> int:
        return sum(one.count[PUBLISH] for one in self.directions)

    def copy_bytes(self) -> int:
        return sum(one.bytes[PUBLISH] for one in self.directions)

    def other_bytes(self) -> int:
        return sum(one.bytes.total() for one in self.directions) - self.copy_bytes()


async def _drive(program: str, load: Any, base: int, crossing: str) -> dict[str, Any]:
    got = [Counter[bytes]() for _ in load.home]

    def sink(counter: Counter[bytes]) -> Any:
        return lambda message: counter.update([message.payload[:6]])

    async with Star(program, load, base, crossing) as star:
        clients = [
            MqttClient("127.0.0.1", base + home, connect_packet(f"c{number}", keep_alive_s=0), sink(got[number]))
            for number, home in enumerate(load.home)
        ]
        for client, topics in zip(clients, load.interest, strict=True):
            await client.start()
            await client.subscribe(*topics)
        owed, start_s = load.owed(), time.perf_counter()
        before, before_bytes = star.copies(), star.copy_bytes()
        for number, (author, topic, payload) in enumerate(load.published()):
            clients[author].send(topic, payload)
            if number % 50 == 0:
                await clients[author].drain()
                await asyncio.sleep(0.01)
        while sum(one.total() for one in got) < owed and time.perf_counter() - start_s < 60:
            await asyncio.sleep(0.05)
        seen = -1
        while star.copies() > seen:  # copies that nobody waits for come last
            seen = star.copies()
            await asyncio.sleep(0.3)
        row = {
            "delivered": sum(len(one) for one in got),
            "twice": sum(count - 1 for one in got for count in one.values()),
            "owed": owed,
            "copies": star.copies() - before,
            "event_bytes": star.copy_bytes() - before_bytes,
            "other_bytes": star.other_bytes(),
            "links": load.nodes - 1,
            "publish_s": time.perf_counter() - start_s,
        }
        for client in clients:
            await client.stop()
    return row


def measure(program: str, load: Any, base: int, crossing: str = "all") -> dict[str, Any]:
    """`load` is a fleet_load.FleetLoad."""
    return asyncio.run(_drive(program, load, base, crossing))
