"""Loads at the rates where real fleets live: a fixed number of messages a second, or one message at a time.

At saturation a broker that joins reads and writes looks good whatever it does for each message; here every message
costs its own wake-up. Processor time comes from the scheduler (nanoseconds, all threads), delays from a time stamp in
the payload. `forwarder` is the floor: uvloop, one read and one write per message, nothing parsed.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from brokers import BrokerAt, running
from coterie.live.load import dial, read_exactly
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_3, Connect, Disconnect, Publish, Subscribe, Subscription

TOPIC = "bench/paced/x"
PAYLOAD_BYTES = 64
PATIENCE_S = 10.0
CATCH_UP_S = 0.001
_stamp = struct.Struct("<Q")

FORWARDER = """
import asyncio, sys, uvloop
class Forwarder(asyncio.Protocol):
    first = None
    def connection_made(self, transport):
        self.transport = transport
        if Forwarder.first is None:
            Forwarder.first = transport
    def data_received(self, data):
        Forwarder.first.write(data)
    def connection_lost(self, error):
        Forwarder.first = None
async def main():
    server = await asyncio.get_running_loop().create_server(Forwarder, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
uvloop.run(main())
"""


def scheduled_s(pid: int) -> float:
    """Processor time that the scheduler gave a process, over all its threads."""
    total_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        total_ns += int((thread / "schedstat").read_text().split()[0])
    return total_ns / 1e9


@contextmanager
def forwarder(port: int) -> Iterator[BrokerAt]:
    with running([sys.executable, "-c", FORWARDER, str(port)], port) as broker:
        yield broker


@dataclass(frozen=True)
class Paced:
    delivered: int
    missing: int
    cpu_s: float
    rate: float
    delay_ms: float  # median
    delay_ms_99: float

    @property
    def per_cpu_s(self) -> float:
        return self.delivered / max(self.cpu_s, 1e-6)


class _Line:
    """One publisher and one subscriber; `is_bare` says that nobody speaks MQTT at the other end."""

    def __init__(self, port: int, qos: int, is_bare: bool, is_lasting: bool = False) -> None:
        tag = f"paced{os.getpid()}"
        self.qos, self._name = qos, f"{tag}s"
        if is_bare:
            self.reader, self.writer = (socket.create_connection(("127.0.0.1", port), 10) for _ in range(2))
        else:
            self.reader = connect(port, self._name, is_lasting)
            self.reader.sendall(encode_packet(Subscribe(1, (Subscription(TOPIC, qos),)), MQTT_3))
            read_exactly(self.reader, 5)
            self.writer = connect(port, f"{tag}p", False)
        for one in (self.reader, self.writer):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setblocking(False)
        blank = encode_packet(Publish(TOPIC, bytes(PAYLOAD_BYTES), qos, packet_id=1 if qos else 0), MQTT_3)
        self.size = len(blank)
        self._head = blank[: self.size - PAYLOAD_BYTES - (2 if qos else 0)]
        self._tail = bytes(PAYLOAD_BYTES - 8)
        self.sent = self.acknowledged = self.received = 0
        self.delays_ns: list[int] = []
        self._rest = b""

    def send(self) -> None:
        number = self.sent % 60_000 + 1
        packet_id = number.to_bytes(2, "big") if self.qos else b""
        self.writer.sendall(self._head + packet_id + _stamp.pack(time.monotonic_ns()) + self._tail)
        self.sent += 1

    def pull(self, timeout_s: float) -> None:
        for one in select.select([self.reader, self.writer], [], [], max(0.0, timeout_s))[0]:
            data = one.recv(1 << 16)
            if not data:
                raise SystemExit("the broker closed the connection in the middle of the run")
            if one is self.writer:
                self.acknowledged += len(data) // 4
            else:
                self._take(data)

    def _take(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        data = self._rest + data
        count = len(data) // self.size
        answers = []
        for number in range(count):
            end = (number + 1) * self.size
            at = end - PAYLOAD_BYTES
            self.delays_ns.append(now_ns - _stamp.unpack_from(data, at)[0])
            if self.qos:
                answers.append(b"\x40\x02" + data[at - 2 : at])
        self._rest = data[count * self.size :]
        self.received += count
        if answers:
            self.reader.sendall(b"".join(answers))

    def close(self) -> None:
        for one in (self.reader, self.writer):
            one.close()

    def forget(self, port: int) -> None:
        """A lasting session ends when its client comes once more without asking for it."""
        connect(port, self._name, False).close()


def connect(port: int, name: str, is_lasting: bool) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.sendall(encode_packet(Connect(name, MQTT_3, not is_lasting, 0), MQTT_3))
    answer = read_exactly(connection, 4)
    if answer[3]:
        raise SystemExit(f"the broker refused {name} with code {answer[3]}")
    return connection


def paced(
    broker: BrokerAt, qos: int, rate: float, seconds: float, is_bare: bool = False, is_lasting: bool = False
) -> Paced:
    """One to one at a fixed rate; what the machine held up is caught up with, as far as it is no burst."""
    port, pid = broker
    line = _Line(port, qos, is_bare, is_lasting)
    count = int(rate * seconds)
    try:
        before_s, start_s = scheduled_s(pid), time.monotonic()
        due_s = start_s
        for _ in range(count):
            while (wait_s := due_s - time.monotonic()) > 0:
                line.pull(wait_s)
            line.send()
            line.pull(0.0)
            due_s = max(due_s + 1 / rate, time.monotonic() - CATCH_UP_S)
        end_s = time.monotonic()
        while line.received < count and time.monotonic() < end_s + PATIENCE_S:
            line.pull(0.1)
        spent_s = scheduled_s(pid) - before_s
    finally:
        line.close()
        if is_lasting:
            line.forget(port)
    delays = sorted(line.delays_ns)
    median, late = (delays[len(delays) // 2], delays[len(delays) * 99 // 100]) if delays else (0, 0)
    got = line.received
    return Paced(got, count - got, spent_s, count / (end_s - start_s), median / 1e6, late / 1e6)


def one_at_a_time(broker: BrokerAt, subscribers: int, messages: int) -> Paced:
    """A message at QoS 0 to many; the next one when all have it."""
    port, pid = broker
    packet = encode_packet(Publish(TOPIC, bytes(PAYLOAD_BYTES)), MQTT_3)
    tag = f"fan{os.getpid()}"
    readers = []
    for number in range(subscribers):
        reader = dial("127.0.0.1", port, f"{tag}s{number}")
        reader.sendall(encode_packet(Subscribe(1, (Subscription(TOPIC, 0),)), MQTT_3))
        read_exactly(reader, 5)
        readers.append(reader)
    # Read in an order of its own: else whoever writes in the order of the subscribers wakes this process every time.
    Random(7).shuffle(readers)
    writer = dial("127.0.0.1", port, f"{tag}p")
    delays = []
    try:
        before_s, start_s = scheduled_s(pid), time.monotonic()
        for _ in range(messages):
            sent_s = time.monotonic()
            writer.sendall(packet)
            for reader in readers:
                read_exactly(reader, len(packet))
            delays.append(time.monotonic() - sent_s)
        spent_s, end_s = scheduled_s(pid) - before_s, time.monotonic()
    finally:
        for one in (*readers, writer):
            one.close()
    delays.sort()
    median_s, late_s = delays[messages // 2], delays[messages * 99 // 100]
    rate = messages / (end_s - start_s)
    return Paced(messages * subscribers, 0, spent_s, rate, median_s * 1e3, late_s * 1e3)


def to_offline(broker: BrokerAt, sessions: int, messages: int, payload_bytes: int) -> float:
    """Processor seconds of the broker while it takes messages at QoS 1 for lasting sessions whose clients are away."""
    port, pid = broker
    tag = f"away{os.getpid()}"
    for number in range(sessions):
        away = connect(port, f"{tag}s{number}", True)
        away.sendall(encode_packet(Subscribe(1, (Subscription("#", 1),)), MQTT_3))
        read_exactly(away, 5)
        away.sendall(encode_packet(Disconnect(), MQTT_3))
        away.close()
    writer = connect(port, f"{tag}p", False)
    before_s = scheduled_s(pid)
    for number in range(messages):
        packet = Publish(TOPIC, os.urandom(payload_bytes), 1, packet_id=number % 60_000 + 1)
        writer.sendall(encode_packet(packet, MQTT_3))
        read_exactly(writer, 4)
    spent_s = scheduled_s(pid) - before_s
    writer.close()
    for number in range(sessions):  # leave nothing behind for the next row
        connect(port, f"{tag}s{number}", False).close()
    return spent_s


def stored_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
