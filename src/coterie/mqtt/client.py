"""The client's side of MQTT without I/O: enough to publish, subscribe, resume a session and follow a redirect.

Calls write to `output`, which the driver joins, sends and clears; `receive` returns what happened. After a lost
connection call `start` again: unacknowledged messages are sent anew if the server still has the session. When
`Refused` or `Disconnected` carries servers to go to (MQTT 5, "use another server" and "server moved"), the driver
decides whether to follow; nothing here limits how often. Messages are acknowledged as they come, or, for a client that
has to do something with them first, when it says so (`acknowledge`).
"""

from __future__ import annotations

from collections import deque

import msgspec

from coterie.errors import LocalProtocolError
from coterie.mqtt.encode import PINGREQ_FRAME, encode_acknowledgement, encode_packet
from coterie.mqtt.packets import (
    MQTT_5,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    Subscription,
    UnsubAck,
    Unsubscribe,
)
from coterie.mqtt.properties import NO_PROPERTIES, Properties
from coterie.mqtt.publish import PublishRun, scan_publishes
from coterie.mqtt.reasons import MqttError, Reason
from coterie.mqtt.stream import Decoder
from coterie.mqtt.topics import TopicNames, check_filter, check_topic_name


class Connected(msgspec.Struct, frozen=True):
    session_present: bool
    client_id: str
    properties: Properties


class Refused(msgspec.Struct, frozen=True):
    reason: int
    servers: tuple[tuple[str, int | None], ...] = ()


class Disconnected(msgspec.Struct, frozen=True):
    reason: int
    servers: tuple[tuple[str, int | None], ...] = ()
    detail: str = ""


class PublishDone(msgspec.Struct, frozen=True):
    """A message of ours at QoS 1 or 2 is done; `reason` from 0x80 on means the server refused it."""

    packet_id: int
    reason: int = 0


class SubscribeDone(msgspec.Struct, frozen=True):
    packet_id: int
    reasons: tuple[int, ...]


class UnsubscribeDone(msgspec.Struct, frozen=True):
    packet_id: int
    reasons: tuple[int, ...]


Event = Connected | Refused | Disconnected | PublishDone | SubscribeDone | UnsubscribeDone | Publish


def servers_of(reference: str | None) -> tuple[tuple[str, int | None], ...]:
    """A server reference (section 4.11) as (host, port) pairs; IPv6 hosts stand in brackets, a bad port is None."""
    servers = []
    for entry in (reference or "").split():
        host, colon, port = entry.rpartition(":")
        if not colon or entry.endswith("]"):
            host, port = entry, ""
        number = int(port) if port.isascii() and port.isdigit() else -1
        servers.append((host.strip("[]"), number if 0 < number < 65_536 else None))
    return tuple(servers)


FOLLOWS_REDIRECT = "coterie-follows-server-reference"


def redirect_accepted(properties: Properties = NO_PROPERTIES) -> Properties:
    """CONNECT properties with the announcement that this client follows a server reference."""
    marks = (*properties.user_properties, (FOLLOWS_REDIRECT, "1"))
    return msgspec.structs.replace(properties, user_properties=marks)


def follows_redirect(connect: Connect) -> bool:
    """Whether a CONNECT says that its client goes where a server reference sends it."""
    return connect.version >= MQTT_5 and (FOLLOWS_REDIRECT, "1") in connect.properties.user_properties


class Client:
    """See the module. `connect` is the CONNECT that every `start` sends (with clean_start off for a resumption)."""

    def __init__(self, connect: Connect, acknowledges: bool = True) -> None:
        self.connect = connect
        self.output: list[bytes] = []
        self._acknowledges = acknowledges
        self.is_connected = False
        self.keep_alive_s = connect.keep_alive_s
        self._decoder = Decoder(connect.version)
        self._names = TopicNames()
        self._aliases: dict[int, str] = {}
        self._inflight: dict[int, Publish | PubRel] = {}
        self._waiting: deque[Publish] = deque()
        self._waiting_ids: dict[int, None] = {}
        self._requests: dict[int, None] = {}  # identifiers of SUBSCRIBE and UNSUBSCRIBE without an answer
        self._incoming: dict[int, None] = {}
        self._last_packet_id = 0
        self._window_max = 65_535
        self._last_sent_s = 0.0
        self._pinged_at_s: float | None = None

    def start(self, now_s: float, *, resume: bool = False) -> None:
        """Begin a connection on a fresh byte stream; `resume` asks the server for the session we had."""
        connect = msgspec.structs.replace(self.connect, clean_start=False) if resume else self.connect
        self._decoder = Decoder(connect.version)
        self._aliases.clear()
        self._requests.clear()
        self.output.clear()
        self.is_connected = False
        self._last_sent_s, self._pinged_at_s = now_s, None
        self._write(connect)

    # -- what the user wants ----------------------------------------------------------------------------------------

    def publish(
        self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, properties: Properties = NO_PROPERTIES
    ) -> int:
        """Send a message, or keep it while the server's window is full; returns its identifier (0 at QoS 0)."""
        try:
            check_topic_name(topic)
        except MqttError as error:
            raise LocalProtocolError(error.reason) from None
        if qos == 0:
            self._write(Publish(topic, payload, 0, retain, properties=properties))
            return 0
        packet_id = self._new_packet_id()
        packet = Publish(topic, payload, qos, retain, packet_id=packet_id, properties=properties)
        if self.is_connected and len(self._inflight) < self._window_max:
            self._write(packet)
            self._inflight[packet_id] = packet
        else:
            self._waiting.append(packet)
            self._waiting_ids[packet_id] = None
        return packet_id

    def subscribe(self, *subscriptions: Subscription, identifier: int = 0) -> int:
        for one in subscriptions:
            self._check_filter(one.filter)
        packet_id = self._new_packet_id()
        self._requests[packet_id] = None
        properties = Properties(subscription_identifiers=(identifier,)) if identifier else NO_PROPERTIES
        self._write(Subscribe(packet_id, subscriptions, properties))
        return packet_id

    def unsubscribe(self, *filters: str) -> int:
        for one in filters:
            self._check_filter(one)
        packet_id = self._new_packet_id()
        self._requests[packet_id] = None
        self._write(Unsubscribe(packet_id, filters))
        return packet_id

    def acknowledge(self, packet_id: int) -> None:
        """What came at QoS 1 as this is taken care of; for a client that does not acknowledge by itself."""
        self._acknowledge(0x40, packet_id)

    def disconnect(self, reason: Reason = Reason.SUCCESS) -> None:
        self._write(Disconnect(reason))
        self.is_connected = False

    def is_received(self, packet_id: int) -> bool:
        """Whether the server has said that it has that message at QoS 2: it is not sent again."""
        return isinstance(self._inflight.get(packet_id), PubRel)

    @property
    def unfinished_count(self) -> int:
        """Messages at QoS 1 and 2 that the server has not answered for."""
        return len(self._inflight) + len(self._waiting)

    # -- what the server says ---------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_s: float) -> list[Event]:
        """Take a chunk; raises MqttError if the server breaks the protocol (then close)."""
        events: list[Event] = []
        decoder = self._decoder
        decoder.feed(data)
        while True:
            if self.is_connected and decoder.pos < len(decoder.data):
                self._scan(events)
            packet = decoder.next_packet()
            if packet is None:
                return events
            self._on_packet(packet, events, now_s)

    def _scan(self, events: list[Event]) -> None:
        decoder = self._decoder
        found: list[Publish | PublishRun] = []
        decoder.pos, _ = scan_publishes(decoder.data, decoder.pos, decoder.version, self._names, found)
        for one in found:
            if isinstance(one, Publish):
                events.append(one)
                if self._acknowledges:
                    self.output.append(encode_acknowledgement(0x40, one.packet_id))
            else:
                events += one.publishes()

    def _on_packet(self, packet: Packet, events: list[Event], now_s: float) -> None:
        match packet:
            case Publish():
                self._on_publish(packet, events)
            case PubAck() | PubRec() | PubComp():
                self._on_answer(packet, events)
            case PubRel():
                found = self._incoming.pop(packet.packet_id, 0) is None
                self._acknowledge(0x70, packet.packet_id, 0 if found else Reason.PACKET_ID_NOT_FOUND)
            case SubAck() | UnsubAck():
                self._requests.pop(packet.packet_id, None)
                kind = SubscribeDone if type(packet) is SubAck else UnsubscribeDone
                events.append(kind(packet.packet_id, packet.reasons))
            case ConnAck():
                self._on_connack(packet, events)
            case PingResp():
                self._pinged_at_s = None
            case Disconnect():
                self.is_connected = False
                properties = packet.properties
                servers = servers_of(properties.server_reference)
                events.append(Disconnected(packet.reason, servers, properties.reason_string or ""))
            case _:
                raise MqttError(f"a server must not send {type(packet).__name__}", Reason.PROTOCOL_ERROR)

    def _on_connack(self, packet: ConnAck, events: list[Event]) -> None:
        if self.is_connected:
            raise MqttError("a second CONNACK", Reason.PROTOCOL_ERROR)
        properties = packet.properties
        if packet.reason:
            events.append(Refused(packet.reason, servers_of(properties.server_reference)))
            return
        self.is_connected = True
        self._window_max = properties.receive_maximum or 65_535
        if properties.server_keep_alive_s is not None:
            self.keep_alive_s = properties.server_keep_alive_s
        client_id = properties.assigned_client_id or self.connect.client_id
        self.connect = msgspec.structs.replace(self.connect, client_id=client_id)
        events.append(Connected(packet.session_present, client_id, properties))
        self._resume(packet.session_present, events)

    def _resume(self, session_present: bool, events: list[Event]) -> None:
        """Send again what was not acknowledged; a server without the session gets the messages as new ones."""
        if not session_present:
            self._incoming.clear()
            # A message with PUBREC is the server's already, whatever became of the session.
            events.extend(PublishDone(one.packet_id) for one in self._inflight.values() if isinstance(one, PubRel))
            unsent = [one for one in self._inflight.values() if isinstance(one, Publish)]
            self._waiting.extendleft(reversed(unsent))
            self._waiting_ids.update(dict.fromkeys(one.packet_id for one in unsent))
            self._inflight.clear()
        for one in self._inflight.values():
            self._write(msgspec.structs.replace(one, dup=True) if isinstance(one, Publish) else one)
        self._pump()

    def _pump(self) -> None:
        while self._waiting and len(self._inflight) < self._window_max:
            packet = self._waiting.popleft()
            del self._waiting_ids[packet.packet_id]
            self._inflight[packet.packet_id] = packet
            self._write(packet)

    def _on_publish(self, packet: Publish, events: list[Event]) -> None:
        alias = packet.properties.topic_alias
        if alias is not None:
            if packet.topic:
                self._aliases[alias] = packet.topic
            elif alias not in self._aliases:
                raise MqttError(f"topic alias {alias} was never given a topic", Reason.PROTOCOL_ERROR)
            packet = msgspec.structs.replace(packet, topic=self._aliases[alias])
        self._names.add(packet.topic.encode())
        if packet.qos == 1 and self._acknowledges:
            self._acknowledge(0x40, packet.packet_id)
        elif packet.qos == 2:
            self._acknowledge(0x50, packet.packet_id)
            if packet.packet_id in self._incoming:
                return
            self._incoming[packet.packet_id] = None
        events.append(packet)

    def _on_answer(self, packet: PubAck | PubRec | PubComp, events: list[Event]) -> None:
        packet_id = packet.packet_id
        is_known = packet_id in self._inflight
        if type(packet) is PubRec and packet.reason < 0x80:
            if is_known:
                self._inflight[packet_id] = PubRel(packet_id)
            self._acknowledge(0x62, packet_id, 0 if is_known else Reason.PACKET_ID_NOT_FOUND)
        elif is_known:
            del self._inflight[packet_id]
            events.append(PublishDone(packet_id, packet.reason))
            self._pump()

    # -- time -------------------------------------------------------------------------------------------------------

    @property
    def deadline_s(self) -> float | None:
        if not self.is_connected or not self.keep_alive_s:
            return None
        return self._last_sent_s + self.keep_alive_s if self._pinged_at_s is None else self._pinged_at_s + 10.0

    def sent(self, now_s: float) -> None:
        """The driver wrote `output`: no ping is needed for a while."""
        self._last_sent_s = now_s

    def on_time(self, now_s: float) -> bool:
        """Ping when it is time; False means the last ping was not answered within ten seconds: reconnect."""
        deadline_s = self.deadline_s
        if deadline_s is None or now_s < deadline_s:
            return True
        if self._pinged_at_s is not None:
            return False
        self._pinged_at_s = now_s
        self.output.append(PINGREQ_FRAME)
        return True

    # -- small things -----------------------------------------------------------------------------------------------

    def _new_packet_id(self) -> int:
        used = self._waiting_ids
        if len(self._inflight) + len(used) + len(self._requests) >= 65_535:
            raise LocalProtocolError("all 65,535 packet identifiers are in use: wait for answers before sending more")
        packet_id = self._last_packet_id
        while True:
            packet_id = packet_id % 65_535 + 1
            if packet_id not in self._inflight and packet_id not in used and packet_id not in self._requests:
                self._last_packet_id = packet_id
                return packet_id

    def _check_filter(self, topic_filter: str) -> None:
        try:
            check_filter(topic_filter)
        except MqttError as error:
            raise LocalProtocolError(error.reason) from None

    def _acknowledge(self, first: int, packet_id: int, reason: int = 0) -> None:
        self.output.append(encode_acknowledgement(first, packet_id, reason, self.connect.version))

    def _write(self, packet: Packet) -> None:
        self.output.append(encode_packet(packet, self.connect.version))
