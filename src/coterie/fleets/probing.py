"""Whether brokers answer and whether what is published comes out again, also at the other end of a bridge."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from coterie.errors import CoterieError, RunError
from coterie.fleets.fleet import BrokerFleet, FleetBroker, ProbeSection, host_port
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_3, ConnAck, Connect, Packet, Publish, SubAck, Subscribe, Subscription
from coterie.mqtt.reasons import MqttError
from coterie.mqtt.stream import Decoder
from coterie.pipeline.logpatterns import OBSERVER

ANSWER_S = 3.0
AGAIN_S = 0.3  # between two tries

Kind = TypeVar("Kind", ConnAck, SubAck)
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Way:
    """A topic that passes from one broker to another when all is well."""

    start: str
    end: str
    topic: str


class ProbeClient:
    """A blocking MQTT 3.1.1 client for one look; use it as a context manager."""

    def __init__(self, broker: FleetBroker, probe: ProbeSection, role: str, limit_s: float = ANSWER_S) -> None:
        self.address, self._limit_s = f"{broker.name} ({broker.address})", limit_s
        self._decoder = Decoder(version=MQTT_3)
        try:
            self._line = socket.create_connection(host_port(broker.address), timeout=limit_s)
        except OSError as error:
            raise RunError(f"{self.address} does not answer: {error.strerror or error}") from None
        try:
            self._send(
                Connect(
                    client_id=f"{OBSERVER}-probe-{role}-{os.getpid()}",
                    version=MQTT_3,
                    username=probe.user or None,
                    password=probe.password.encode() or None,
                )
            )
            answer = self._wait(ConnAck)
            if answer.reason:
                raise RunError(
                    f"{self.address} does not let the probe in (reason {answer.reason}); see [probe] in the fleet file"
                )
        except CoterieError:
            self._line.close()
            raise

    def __enter__(self) -> ProbeClient:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()

    def subscribe(self, topic: str) -> None:
        self._send(Subscribe(1, (Subscription(topic),)))
        self._wait(SubAck)

    def publish(self, topic: str, payload: bytes) -> None:
        self._send(Publish(topic, payload))

    def has_arrived(self, payload: bytes, within_s: float) -> bool:
        deadline_s = time.monotonic() + within_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                packet = self._read(left_s)
            except RunError:
                return False
            if isinstance(packet, Publish) and packet.payload == payload:
                return True
        return False

    def _send(self, packet: Packet) -> None:
        try:
            self._line.sendall(encode_packet(packet, MQTT_3))
        except OSError as error:
            raise RunError(f"{self.address} ended the connection: {error.strerror or error}") from None

    def _wait(self, kind: type[Kind]) -> Kind:
        deadline_s = time.monotonic() + self._limit_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            packet = self._read(left_s)
            if isinstance(packet, kind):
                return packet
        raise RunError(f"{self.address} does not answer within {self._limit_s:g} s")

    def _read(self, left_s: float) -> Packet:
        deadline_s = time.monotonic() + left_s
        while (packet := self._decoder.next_packet()) is None:
            self._line.settimeout(max(deadline_s - time.monotonic(), 0.001))
            try:
                data = self._line.recv(4096)
            except OSError as error:
                raise RunError(f"{self.address} does not answer: {error.strerror or error}") from None
            if not data:
                raise RunError(f"{self.address} ended the connection")
            try:
                self._decoder.feed(data)
            except MqttError as error:
                raise RunError(f"{self.address} does not speak MQTT: {error}") from None
        return packet


def look_mqtt(fleet: BrokerFleet, broker: FleetBroker) -> None:
    """RunError unless the broker takes a client and delivers what it publishes to itself."""
    with ProbeClient(broker, fleet.probe, "self") as client:
        topic = f"{fleet.probe.topic}/self/{broker.name}"
        client.subscribe(topic)
        client.publish(topic, b"self")
        if not client.has_arrived(b"self", ANSWER_S):
            raise RunError(f"{client.address} takes messages and does not deliver them")


def look_nats(fleet: BrokerFleet, broker: FleetBroker) -> None:
    """RunError unless the server greets."""
    try:
        with socket.create_connection(host_port(broker.address), timeout=ANSWER_S) as line:
            line.settimeout(ANSWER_S)
            greeting = line.recv(64)
    except OSError as error:
        raise RunError(f"{broker.name} ({broker.address}) does not answer: {error.strerror or error}") from None
    if not greeting.startswith(b"INFO "):
        raise RunError(f"{broker.name} ({broker.address}) is no NATS server")


def look_across(fleet: BrokerFleet, ways: Sequence[Way]) -> None:
    """RunError unless what is published at the one end of every way comes out at the other."""

    def look(way: Way) -> None:
        with (
            ProbeClient(fleet.named(way.start), fleet.probe, f"{way.start}-to-{way.end}") as here,
            ProbeClient(fleet.named(way.end), fleet.probe, f"{way.end}-from-{way.start}") as there,
        ):
            there.subscribe(way.topic)
            here.publish(way.topic, b"across")
            if not there.has_arrived(b"across", ANSWER_S):
                raise RunError(f"{way.end} does not get what {way.start} should pass to it")

    _all(ways, look)


def look_at_all(fleet: BrokerFleet, speaks: str) -> None:
    """RunError that names every broker which does not do its job."""
    look = look_nats if speaks == "nats" else look_mqtt
    _all(fleet.broker, lambda broker: look(fleet, broker))


def until_well(look: Callable[[], None], patience_s: float) -> None:
    """Look again until all is well; the last problem if it never is."""
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            look()
        except RunError:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(AGAIN_S)
        else:
            return


def _all(things: Sequence[Thing], look: Callable[[Thing], None]) -> None:
    def problem(thing: Thing) -> str:
        try:
            look(thing)
        except RunError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(min(8, len(things) or 1)) as pool:
        problems = [text for text in pool.map(problem, things) if text]
    if problems:
        raise RunError("; ".join(problems))
