"""A load generator that does not measure itself: raw sockets, packets encoded beforehand, answers worked out by numpy.

Every message of a run has the same size, so deliveries are counted by bytes and the acknowledgements of a whole chunk
are cut out of it at once. A closed loop keeps at most `window` deliveries on their way, so that no broker has a reason
to drop anything; what still is missing at the end is reported.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from dataclasses import dataclass

import numpy as np

from coterie.errors import ConfigError, RunError
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_3, Connect, Publish, Subscribe, Subscription
from coterie.mqtt.topics import filter_matches, has_wildcard

CHUNK = 1 << 18
BATCH = 100
STALL_S = 10.0
PAYLOAD_BYTES_MAX = 1 << 20
GONE = "the broker closed the connection in the middle of the run; its log says why"


@dataclass(frozen=True)
class Shape:
    """Who talks to how many: every publisher's messages go to every subscriber, or to `reach` of them."""

    publishers: int = 1
    subscribers: int = 1
    qos: int = 0
    payload_bytes: int = 64
    topic: str = "bench/load/x"
    filter: str = "bench/load/x"
    window: int = 20_000
    reach: int = 0

    @property
    def fan(self) -> int:
        """Deliveries of a message."""
        return self.reach or self.subscribers

    def __post_init__(self) -> None:
        if self.qos not in (0, 1):
            raise ConfigError("qos", self.qos, "0 or 1")
        if self.publishers < 1 or self.subscribers < 0:
            raise ConfigError("publishers", self.publishers, "at least one publisher and no negative number of readers")
        if not self.topic or has_wildcard(self.topic):
            raise ConfigError("--topic", self.topic, "a topic name without wildcards")
        if not 0 <= self.payload_bytes <= PAYLOAD_BYTES_MAX:
            raise ConfigError("--size", self.payload_bytes, f"0 to {PAYLOAD_BYTES_MAX} bytes")
        if not filter_matches(self.filter, self.topic):
            raise ConfigError("--filter", self.filter, f"a filter that matches {self.topic}")


@dataclass(frozen=True)
class Result:
    published: int
    delivered: int
    wall_s: float
    missing: int

    @property
    def per_s(self) -> float:
        return self.delivered / self.wall_s


class Talker:
    """A publisher: `batch` more packets whenever its window allows."""

    def __init__(self, host: str, port: int, name: str, shape: Shape) -> None:
        self.socket = dial(host, port, name)
        self.sent = self.acknowledged_bytes = 0
        self._pending = memoryview(b"")
        self._qos = shape.qos
        payload = bytes(shape.payload_bytes)
        # Identifiers 1..BATCH are free again when the batch is acknowledged: one block serves for ever.
        self._block = b"".join(
            encode_packet(Publish(shape.topic, payload, shape.qos, packet_id=number + 1 if shape.qos else 0), MQTT_3)
            for number in range(BATCH)
        )

    @property
    def is_ready(self) -> bool:
        return not self._pending and (not self._qos or self.acknowledged_bytes == 4 * self.sent)

    @property
    def is_stuck(self) -> bool:
        return bool(self._pending)

    def begin(self) -> None:
        self._pending = memoryview(self._block)
        self.sent += BATCH
        self.push()

    def push(self) -> None:
        self._pending = unsent(self.socket, self._pending)

    def pull(self) -> None:
        """PUBACKs are four bytes each; nothing else comes."""
        self.acknowledged_bytes += len(received(self.socket))


class Listener:
    """A subscriber: counts messages by bytes and answers them."""

    def __init__(self, host: str, port: int, name: str, shape: Shape) -> None:
        self.socket = dial(host, port, name)
        self.socket.sendall(encode_packet(Subscribe(1, (Subscription(shape.filter, shape.qos),)), MQTT_3))
        read_exactly(self.socket, 5)
        packet = Publish(shape.topic, bytes(shape.payload_bytes), shape.qos, packet_id=1 if shape.qos else 0)
        self.size = len(encode_packet(packet, MQTT_3))
        self.received = 0
        self._id_at = self.size - shape.payload_bytes - 2
        self._qos = shape.qos
        self._rest = b""
        self._answers = b""

    def pull(self) -> int:
        """Take what is there; returns the messages."""
        data = self._rest + received(self.socket)
        count = len(data) // self.size
        whole = count * self.size
        self._rest = data[whole:]
        self.received += count
        if self._qos and count:
            packets = np.frombuffer(data, np.uint8, whole).reshape(count, self.size)
            answers = np.empty((count, 4), np.uint8)
            answers[:, 0], answers[:, 1] = 0x40, 2
            answers[:, 2:] = packets[:, self._id_at : self._id_at + 2]
            self._answers += answers.tobytes()
        return count

    def push(self) -> None:
        self._answers = bytes(unsent(self.socket, memoryview(self._answers)))


def unsent(connection: socket.socket, data: memoryview) -> memoryview:
    """Send what the socket takes now; returns the rest."""
    try:
        while data:
            data = data[connection.send(data) :]
    except BlockingIOError:
        pass
    except ConnectionError:
        raise RunError(GONE) from None
    return data


def dial(host: str, port: int, name: str) -> socket.socket:
    """A connected MQTT 3.1.1 client on a socket that does not block afterwards."""
    try:
        connection = socket.create_connection((host, port), timeout=10)
    except OSError as error:
        raise RunError(f"{host}:{port} cannot be reached: {error.strerror or error}") from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(encode_packet(Connect(name, MQTT_3, True, 0), MQTT_3))
    answer = read_exactly(connection, 4)
    if answer[3]:
        raise RunError(f"{host}:{port} refused the connection with code {answer[3]}")
    return connection


def received(connection: socket.socket) -> bytes:
    """What is there; RunError if the broker has gone."""
    try:
        data = connection.recv(CHUNK)
    except ConnectionError:
        data = b""
    if not data:
        raise RunError(GONE)
    return data


def read_exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            piece = connection.recv(count - len(data))
        except TimeoutError:
            place = "{}:{}".format(*connection.getpeername()[:2])
            raise RunError(f"{place} says nothing; is this the MQTT port?") from None
        if not piece:
            raise RunError("the broker closed the connection")
        data += piece
    return data


def run_load(host: str, ports: list[int], shape: Shape, messages: int) -> Result:
    """Publish about this many messages through the first port and receive them on all of them in turn."""
    tag = f"load{os.getpid()}"
    listeners = [Listener(host, ports[n % len(ports)], f"{tag}s{n}", shape) for n in range(shape.subscribers)]
    talkers = [Talker(host, ports[n % len(ports)], f"{tag}p{n}", shape) for n in range(shape.publishers)]
    clients: list[Listener | Talker] = [*listeners, *talkers]
    with selectors.DefaultSelector() as selector:
        for one in clients:
            one.socket.setblocking(False)
            selector.register(one.socket, selectors.EVENT_READ, one)
        start_s = time.perf_counter()
        try:
            delivered = _drive(selector, talkers, listeners, shape, messages)
        finally:
            for one in clients:
                one.socket.close()
        wall_s = time.perf_counter() - start_s
    published = sum(talker.sent for talker in talkers)
    return Result(published, delivered, wall_s, published * max(1, shape.fan) - delivered)


def _drive(
    selector: selectors.BaseSelector, talkers: list[Talker], listeners: list[Listener], shape: Shape, messages: int
) -> int:
    """The loop: who may, talks; what arrives, is counted; until all is there or nothing moves any more.

    In step (a window of 1) all who talk begin together; else there is room for one at a time, and they take turns.
    """
    fan, is_in_step = shape.fan, shape.window == 1
    published = delivered = 0
    moved_s = time.perf_counter()
    while True:
        before = published
        for talker in talkers:
            on_their_way = (before if is_in_step else published) * fan - delivered if fan else 0
            if published < messages and on_their_way < shape.window and talker.is_ready:
                talker.begin()
                published += BATCH
        talkers.append(talkers.pop(0))
        is_done = published >= messages and delivered >= published * fan
        if is_done and all(talker.is_ready for talker in talkers):
            return delivered if fan else published
        events = selector.select(0.05)
        for key, _ in events:
            one = key.data
            if isinstance(one, Listener):
                delivered += one.pull()
            else:
                one.pull()
        for listener in listeners:
            listener.push()
        for talker in talkers:
            if talker.is_stuck:
                talker.push()
        now_s = time.perf_counter()
        if events:
            moved_s = now_s
        elif now_s - moved_s > STALL_S:
            return delivered


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, all threads, user and system."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        raise ConfigError("--pid", pid, "a process that runs on this machine") from None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
