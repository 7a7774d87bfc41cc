"""A broker and its clients in memory: packets in, packets out, time by hand, and lines that can be cut anywhere."""

from __future__ import annotations

from typing import Any

from coterie.mqtt import packets as p
from coterie.mqtt.client import Client, Event
from coterie.mqtt.connection import Connection, Ended, Fact
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.fanout import fan_out_run
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.properties import Properties
from coterie.mqtt.publish import PublishRun, message_of
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Policy, Sessions
from coterie.mqtt.stream import Decoder


class Serving(Sessions):
    """Sessions served as a node without peers would, at once and without a store."""

    def serve(self, connection: Connection, data: bytes, now_s: float) -> Ended | None:
        """Take a chunk and carry out everything in it; returns how the connection ended, if it did."""
        facts = connection.receive(data, now_s)
        for fact in facts:
            if isinstance(fact, p.Publish | PublishRun):
                self.publish(connection, fact, now_s)
                continue
            ended = self.carry_out(connection, fact, now_s)
            self.publish_wills(now_s)
            if ended is not None:
                return ended
        # A CONNECT stops the decoding until it is answered; what came behind it is still waiting.
        if facts and type(facts[-1]) is p.Connect:
            return self.serve(connection, b"", now_s)
        return None

    def ruling(self, packet: p.Connect) -> Ruling:
        """By the policy, where a test's has something to say."""
        said: Ruling = getattr(self.policy, "connect", lambda packet: Ruling())(packet)
        return said

    def carry_out(self, connection: Connection, fact: Fact, now_s: float) -> Ended | None:
        match fact:
            case p.Connect():
                return self.connect(connection, fact, self.ruling(fact), now_s)
            case p.Subscribe():
                self.confirm(connection, fact, self.subscribe(connection, fact), now_s)
            case p.Unsubscribe():
                self.unsubscribe(connection, fact)
            case Ended():
                self.ended(connection, fact, now_s)
                return fact
        return None

    def publish(self, connection: Connection, fact: p.Publish | PublishRun, now_s: float) -> None:
        session = connection.session
        assert session is not None
        reason = self.policy.publish(session, fact.topic)
        if isinstance(fact, PublishRun):
            if reason is Reason.SUCCESS:
                fan_out_run(fact, self.index.matches(fact.topic), session, self.dirty, now_s)
            return
        if reason is Reason.SUCCESS:
            self.deliver(message_of(fact, now_s, session.client_id), now_s, session)
        connection.acknowledge(fact, reason)

    def publish_wills(self, now_s: float) -> None:
        while self.wills:
            self.deliver(self.wills.pop(0), now_s)

    def flush(self) -> list[Session]:
        """The sessions with output to write, each once."""
        dirty, self.dirty = self.dirty, []
        return dirty

    def take_closing(self) -> list[tuple[Connection, Ended]]:
        closing, self.closing = self.closing, []
        return closing


class Peer:
    """A client that says exactly what the test tells it to, and keeps what it hears."""

    def __init__(self, network: Network, version: int) -> None:
        self.network = network
        self.version = version
        self.connection: Connection = network.broker.open(network.now_s)
        self.received: list[Any] = []
        self.ended: Ended | None = None
        self._decoder = Decoder(version)

    def send(self, *packets: p.Packet) -> None:
        self.send_raw(b"".join(encode_packet(packet, self.version) for packet in packets))

    def send_raw(self, raw: bytes) -> None:
        self.ended = self.network.broker.serve(self.connection, raw, self.network.now_s) or self.ended
        self.network.collect()

    def hear(self) -> None:
        """Decode what the server has written to this connection."""
        self._decoder.feed(b"".join(self.connection.output))
        self.connection.output.clear()
        while (packet := self._decoder.next_packet()) is not None:
            self.received.append(packet)

    def take(self, kind: type[Any] | None = None) -> list[Any]:
        """What was received since the last look, of one kind or of all."""
        found, self.received = self.received, []
        return [packet for packet in found if kind is None or isinstance(packet, kind)]

    def payloads(self) -> list[bytes]:
        return [packet.payload for packet in self.take(p.Publish)]

    def cut(self) -> None:
        """The network fails: whatever is still to be written is lost."""
        self.connection.output.clear()
        self.network.broker.lost(self.connection, self.network.now_s)
        self.network.broker.publish_wills(self.network.now_s)
        self.network.collect()

    @property
    def session(self) -> Session:
        assert self.connection.session is not None
        return self.connection.session


class Network:
    def __init__(self, options: ServerOptions | None = None, policy: Policy | None = None) -> None:
        self.now_s = 1000.0
        self.broker = Serving(options, policy)
        self.peers: list[Peer] = []

    def peer(self, client_id: str = "", *, version: int = p.MQTT_5, **connect: Any) -> Peer:
        """A client whose CONNECT has been answered; keyword arguments of Connect, properties as a dictionary."""
        peer = Peer(self, version)
        self.peers.append(peer)
        connect["properties"] = Properties(**connect.get("properties", {}))
        peer.send(p.Connect(client_id, version, **connect))
        return peer

    def subscriber(self, client_id: str, *filters: str, qos: int = 0, **connect: Any) -> Peer:
        peer = self.peer(client_id, **connect)
        peer.send(p.Subscribe(1, tuple(p.Subscription(one, qos) for one in filters)))
        peer.take()
        return peer

    def collect(self) -> None:
        for connection, ended in self.broker.take_closing():
            for peer in self.peers:
                if peer.connection is connection:
                    peer.ended = ended
        self.broker.flush()
        for peer in self.peers:
            peer.hear()

    def wait(self, duration_s: float) -> None:
        """Let time pass, stopping at every deadline as a driver would."""
        end_s = self.now_s + duration_s
        while (deadline_s := self.broker.deadline_s) is not None and deadline_s <= end_s:
            self.now_s = max(self.now_s, deadline_s)
            self.broker.on_time(self.now_s)
            self.broker.publish_wills(self.now_s)
        self.now_s = end_s
        self.collect()


class Line:
    """A real Client on a line to the broker; `turn` moves some bytes each way, `cut` loses the rest."""

    def __init__(self, broker: Serving, client: Client) -> None:
        self.broker = broker
        self.client = client
        self.events: list[Event] = []
        self.connection: Connection | None = None
        self._to_server = b""
        self._to_client = b""

    def connect(self, now_s: float, resume: bool) -> None:
        self.cut(now_s)
        self.connection = self.broker.open(now_s)
        self._to_server = self._to_client = b""
        self.client.start(now_s, resume=resume)

    def turn(self, now_s: float, up_bytes: int = 1 << 30, down_bytes: int = 1 << 30) -> bool:
        """Whether anything moved."""
        if self.connection is None:
            return False
        self._to_server += b"".join(self.client.output)
        self.client.output.clear()
        up, self._to_server = self._to_server[:up_bytes], self._to_server[up_bytes:]
        if up:
            self.broker.serve(self.connection, up, now_s)
        self._to_client += b"".join(self.connection.output)
        self.connection.output.clear()
        down, self._to_client = self._to_client[:down_bytes], self._to_client[down_bytes:]
        if down:
            self.events += self.client.receive(down, now_s)
        return bool(up or down)

    def cut(self, now_s: float) -> None:
        if self.connection is not None:
            self.connection.output.clear()
            self.broker.lost(self.connection, now_s)
        self.connection = None
        self.client.is_connected = False


def settle(*lines: Line) -> None:
    """Move bytes until nothing moves any more."""
    is_moving = True
    while is_moving:
        is_moving = False
        for line in lines:
            is_moving |= line.turn(0.0)
