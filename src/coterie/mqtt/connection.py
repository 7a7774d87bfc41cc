"""One client's network connection, server side, without the network: bytes in, facts and bytes out.

`receive` returns what the client asked for as packet records: Connect, Publish, Subscribe, Unsubscribe, and PublishRun
for QoS 0 messages in a row, which want no answer; pings, acknowledgements and releases are dealt with inside. Each fact
is answered when the server is ready, which may be later:

    Connect      accept(session, ...) or refuse(reason, server_reference=...); until then nothing more is decoded
    Publish      acknowledge(publish, reason) once the message is safe; in the order of arrival (section 4.6)
    Subscribe    suback(packet_id, reasons) once the interest has spread as far as it must
    Unsubscribe  unsuback(packet_id, reasons)
    Ended        nothing: `output` may hold last words, then close (half-close and read on for a moment if `linger`)

Bytes to send gather in `output`, a list that the driver joins, writes and clears once per turn of its loop. Time comes
in with every call; `deadline_s` says when `on_time` wants to be called at the latest.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any

import msgspec

from coterie.mqtt.encode import PINGRESP_FRAME, encode_acknowledgement, encode_packet
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import (
    MQTT_3,
    MQTT_5,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)
from coterie.mqtt.properties import DISCONNECT, NO_PROPERTIES, Properties
from coterie.mqtt.publish import PublishRun, SharedPublish, scan_publishes
from coterie.mqtt.reasons import REASONS_OF_PACKET, MqttError, Reason, UnsupportedVersion
from coterie.mqtt.session import Session
from coterie.mqtt.stream import Decoder
from coterie.mqtt.topics import TopicNames

_puback = struct.Struct(">HH").pack  # a short one: two bytes that are always the same, and the packet identifier


class Stage(Enum):
    NEW = "waiting for CONNECT"
    DECIDING = "waiting for accept or refuse"
    OPEN = "open"
    CLOSED = "closed"


OPEN = Stage.OPEN  # asked for with every packet, and a name in an enumeration is slow to find


class Ended(msgspec.Struct, frozen=True):
    """The connection is over. `with_will`: it did not end by a normal DISCONNECT, so the will is due."""

    reason: int
    detail: str
    with_will: bool = True
    linger: bool = False  # a last packet is in `output` that the client should get to read


Fact = Connect | Publish | PublishRun | Subscribe | Unsubscribe | Ended


class Connection:
    """See the module. `peer` only names the client in error messages."""

    def __init__(self, options: ServerOptions, names: TopicNames, now_s: float, peer: str = "") -> None:
        self.options = options
        self.peer = peer
        self.line = 0  # which of the driver's it is
        self.routes: dict[str, Any] = {}  # by topic, whoever publishes for it
        self.lanes: dict[int, Any] = {}  # by length, for the straight way
        self.waits = False  # since the last turn something was written that may depend on what must be kept first
        self.held_batch = 0  # what was written last waits for this batch
        self.held_serial = 0  # and for this to be kept elsewhere
        self.stage = Stage.NEW
        self.session: Session | None = None
        self.output: list[bytes] = []
        self.version = 0
        self.window_max = 65_535  # how many QoS 1 and 2 messages the client takes at once
        self.keep_alive_s = 0
        self.is_congested = False
        self.is_plain = True  # no aliases and no packet size limit: shared frames fit
        self._names = names
        self._decoder = Decoder(0, options.packet_bytes_max)
        self.is_between = True  # nothing is left of earlier chunks
        self._head = b""  # how the last chunk began if it was one common PUBLISH, up to where the next may differ
        self._size, self._topic = 0, ""  # and the length of it
        self._opened_s = self._last_received_s = now_s
        self._packet_bytes_max = 0
        self.quota = 65_535  # QoS 1 messages the client may still send before we acknowledge
        self._receiving: dict[int, None] = {}  # QoS 2 identifiers open on this connection
        self._aliases_in: dict[int, str] = {}
        self._aliases_out: dict[str, int] = {}
        self._alias_out_max = 0

    # -- bytes in ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_s: float) -> list[Fact]:
        """Take a chunk; return what it asks for, in order. An error ends the connection and is the last fact."""
        self._last_received_s = now_s
        if self._head and data.startswith(self._head) and len(data) == self._size and self.stage is OPEN:
            at = len(self._head)
            if data[0] == 0x30:
                return [PublishRun(self._topic, data, 1, self._size - at, self.version)]
            packet_id, is_5 = data[at] << 8 | data[at + 1], self.version >= MQTT_5
            if packet_id and self.quota > 0 and not (is_5 and data[at + 2]):
                self.quota -= 1
                return [Publish(self._topic, data[at + 2 + is_5 :], 1, False, False, packet_id)]
        facts: list[Fact] = []
        if self.is_between and self.stage is OPEN and data:
            pos = self._scan(data, 0, facts, now_s)
            if pos == len(data):  # nothing but what comes by the thousand
                if facts:
                    self._remember(data, facts)
                return facts
            data = data[pos:]
        elif self.stage is Stage.CLOSED:
            return facts
        self._receive_rest(data, facts, now_s)
        return facts

    def _remember(self, data: bytes, facts: list[Fact]) -> None:
        """Clients that publish one message at a time mostly send the next one in the same shape.

        It is alike up to the payload at QoS 0, up to the packet identifier at QoS 1.
        """
        self._head = b""
        if len(facts) == 1:
            fact = facts[0]
            if type(fact) is PublishRun and fact.count == 1:
                self._head, self._size, self._topic = data[: len(data) - fact.payload_bytes], len(data), fact.topic
            elif type(fact) is Publish:
                lead = len(data) - len(fact.payload) - (3 if self.version >= MQTT_5 else 2)
                self._head, self._size, self._topic = data[:lead], len(data), fact.topic

    def _receive_rest(self, data: bytes, facts: list[Fact], now_s: float) -> None:
        """What needs the codec, and whatever stands behind it."""
        self._head = b""
        decoder = self._decoder
        decoder.feed(data)
        try:
            while self.stage is Stage.OPEN or self.stage is Stage.NEW:
                packet = decoder.next_packet()
                if packet is None:
                    break
                self._on_packet(packet, facts, now_s)
                if self.stage is Stage.OPEN and decoder.pos < len(decoder.data):
                    decoder.pos = self._scan(decoder.data, decoder.pos, facts, now_s)
            if self.stage is Stage.DECIDING and decoder.buffered_bytes > self.options.unread_bytes_max:
                raise MqttError("too much sent before CONNACK", Reason.QUOTA_EXCEEDED)
        except MqttError as error:
            facts.append(self._fail(error))
        self.is_between = decoder.buffered_bytes == 0

    def _scan(self, data: bytes, pos: int, facts: list[Fact], now_s: float) -> int:
        """The two packets that come by the thousand, without the codec; returns where something else begins."""
        if data[pos] == 0x40:
            assert self.session is not None
            return self.session.on_acknowledged_run(data, pos, now_s)
        found: list[Any] = facts  # list is invariant, but appending a Publish to a list of facts is sound
        pos, self.quota = scan_publishes(
            data, pos, self.version, self._names, found, self._decoder.packet_bytes_max, self.quota
        )
        return pos

    def _on_packet(self, packet: Packet, facts: list[Fact], now_s: float) -> None:
        if self.stage is Stage.NEW:
            assert isinstance(packet, Connect)  # the decoder lets nothing else pass first
            self.version = packet.version
            self._packet_bytes_max = packet.properties.maximum_packet_size or 0
            self.stage = Stage.DECIDING
            facts.append(packet)
            return
        assert self.session is not None
        match packet:
            case Publish():
                self._on_publish(packet, facts)
            case PubAck() | PubRec() | PubComp():
                self.session.on_acknowledged(packet, now_s)
            case PubRel():
                self._on_release(packet)
            case PingReq():
                self.output.append(PINGRESP_FRAME)
            case Subscribe() | Unsubscribe():
                facts.append(packet)
            case Disconnect():
                facts.append(self._on_disconnect(packet))
            case _:
                raise MqttError(f"a client must not send {type(packet).__name__} here", Reason.PROTOCOL_ERROR)

    def _on_publish(self, packet: Publish, facts: list[Fact]) -> None:
        if packet.properties.subscription_identifiers:
            raise MqttError("a client must not send subscription identifiers in PUBLISH", Reason.PROTOCOL_ERROR)
        alias = packet.properties.topic_alias
        if alias is not None:
            packet = self._resolve_alias(packet, alias)
        else:
            self._names.add(packet.topic.encode())
        if packet.qos == 1:
            if self.quota <= 0:
                raise self._too_many()
            self.quota -= 1
        elif packet.qos == 2 and not self._take_exactly_once(packet.packet_id):
            return
        facts.append(packet)

    def _take_exactly_once(self, packet_id: int) -> bool:
        """Whether a QoS 2 message is new; one that was accepted before is only answered again."""
        assert self.session is not None
        if packet_id not in self._receiving:
            if self.quota <= 0:
                raise self._too_many()
            self.quota -= 1
            self._receiving[packet_id] = None
        if self.session.on_incoming(packet_id):
            return True
        if self.session.incoming[packet_id]:
            self.write_acknowledgement(0x50, packet_id)
        return False

    def _too_many(self) -> MqttError:
        return MqttError(
            f"more than {self.options.receive_maximum} messages without acknowledgement",
            Reason.RECEIVE_MAXIMUM_EXCEEDED,
        )

    def _resolve_alias(self, packet: Publish, alias: int) -> Publish:
        if alias > self.options.topic_alias_maximum:
            raise MqttError(
                f"topic alias {alias} is above {self.options.topic_alias_maximum}", Reason.TOPIC_ALIAS_INVALID
            )
        properties = packet.properties
        is_only_alias = properties == Properties(topic_alias=alias)
        properties = NO_PROPERTIES if is_only_alias else msgspec.structs.replace(properties, topic_alias=None)
        topic = packet.topic
        if topic:
            topic = self._aliases_in[alias] = self._names.add(topic.encode())
        elif alias in self._aliases_in:
            topic = self._aliases_in[alias]
        else:
            raise MqttError(f"topic alias {alias} was never given a topic", Reason.PROTOCOL_ERROR)
        return msgspec.structs.replace(packet, topic=topic, properties=properties)

    def _on_release(self, packet: PubRel) -> None:
        assert self.session is not None
        found = self.session.on_released(packet.packet_id)
        if self._receiving.pop(packet.packet_id, 0) is None:
            self.quota += 1
        self.write_acknowledgement(0x70, packet.packet_id, 0 if found else Reason.PACKET_ID_NOT_FOUND)

    def _on_disconnect(self, packet: Disconnect) -> Ended:
        assert self.session is not None
        expiry_s = packet.properties.session_expiry_s
        if expiry_s is not None:
            if expiry_s and not self.session.expiry_s:
                raise MqttError("DISCONNECT cannot revive a session that ends with it", Reason.PROTOCOL_ERROR)
            self.session.expiry_s = min(expiry_s, self.options.session_expiry_s_max)
        self.stage = Stage.CLOSED
        return Ended(packet.reason, "the client disconnected", with_will=packet.reason != Reason.SUCCESS)

    # -- answers ----------------------------------------------------------------------------------------------------

    def accept(
        self, session: Session, connect: Connect, now_s: float, *, session_present: bool, assigned_id: str = ""
    ) -> None:
        """Answer CONNECT with success and take the session; resends go out behind the CONNACK."""
        assert self.stage is Stage.DECIDING
        options, wanted = self.options, connect.properties
        self.stage = Stage.OPEN
        self.session = session
        if self.version >= MQTT_5:
            self.keep_alive_s = self._shorter_keep_alive_s(connect) or connect.keep_alive_s
            self.window_max = min(wanted.receive_maximum or 65_535, options.inflight_count_max)
            self._alias_out_max = min(wanted.topic_alias_maximum or 0, options.topic_alias_out_maximum)
            self.quota = options.receive_maximum
        else:
            self.keep_alive_s = connect.keep_alive_s
            self.window_max = options.inflight_count_max
        self.is_plain = not self._packet_bytes_max and not self._alias_out_max
        properties = self._announcement(connect, session.expiry_s, assigned_id)
        self._write(ConnAck(session_present, 0, properties))
        session.attach(self, now_s)

    def _shorter_keep_alive_s(self, connect: Connect) -> int:
        """Ours, where the client's is too long; 0: it is not."""
        longest_s = self.options.keep_alive_s_max
        return 0 if not longest_s or 0 < connect.keep_alive_s <= longest_s else longest_s

    def _announcement(self, connect: Connect, expiry_s: int, assigned_id: str) -> Properties:
        options, wanted = self.options, connect.properties
        return Properties(
            session_expiry_s=expiry_s if expiry_s != (wanted.session_expiry_s or 0) else None,
            receive_maximum=options.receive_maximum,
            maximum_packet_size=options.packet_bytes_max,
            assigned_client_id=assigned_id or None,
            topic_alias_maximum=options.topic_alias_maximum,
            server_keep_alive_s=self._shorter_keep_alive_s(connect) or None,
            response_information=options.response_information or None if wanted.request_response_information else None,
        )

    def has_room(self, connect: Connect, expiry_s: int, assigned_id: str) -> bool:
        """Whether a CONNACK of ours is within what the client takes (MQTT-3.1.2-24)."""
        told = ConnAck(False, 0, self._announcement(connect, expiry_s, assigned_id))
        return not 0 < self._packet_bytes_max < len(encode_packet(told, self.version))

    def refuse(self, reason: Reason, *, server_reference: str = "", detail: str = "") -> Ended:
        """Answer CONNECT with a failure and end; USE_ANOTHER_SERVER and SERVER_MOVED carry a server reference."""
        assert self.stage is Stage.DECIDING
        properties = Properties(server_reference=server_reference or None, reason_string=detail or None)
        self._write(ConnAck(False, reason, properties))
        self.stage = Stage.CLOSED
        return Ended(reason, detail or "refused", with_will=False, linger=True)

    def acknowledge(self, publish: Publish, reason: int = 0) -> None:
        """Take responsibility for a received message (or refuse it); nothing to do at QoS 0."""
        if publish.qos == 1:
            self.quota += 1
            if reason or self.stage is not OPEN:
                self.write_acknowledgement(0x40, publish.packet_id, reason)
            else:
                self.waits = True
                self.output.append(_puback(0x4002, publish.packet_id))
            return
        session = self.session
        if publish.qos == 0 or session is None or publish.packet_id not in session.incoming:
            return
        # The client may have come back on another connection meanwhile and wait for its answer there.
        answering = session.connection or self
        if reason >= 0x80 and answering.version >= MQTT_5:
            session.on_released(publish.packet_id)
            if answering._receiving.pop(publish.packet_id, 0) is None:
                answering.quota += 1
        else:
            session.incoming[publish.packet_id] = True
        answering.write_acknowledgement(0x50, publish.packet_id, reason)

    def suback(self, packet_id: int, reasons: tuple[int, ...]) -> None:
        self._write(SubAck(packet_id, reasons))

    def unsuback(self, packet_id: int, reasons: tuple[int, ...]) -> None:
        self._write(UnsubAck(packet_id, reasons))

    def disconnect(
        self, reason: Reason, *, server_reference: str = "", detail: str = "", with_will: bool = True
    ) -> Ended:
        """End the connection from this side; MQTT 5 clients are told why (and where to go), others see a close."""
        if self.stage is Stage.OPEN and self.version >= MQTT_5:
            self.waits = True
            properties = Properties(server_reference=server_reference or None, reason_string=detail or None)
            packet = encode_packet(Disconnect(reason, properties), self.version)
            is_too_large = 0 < self._packet_bytes_max < len(packet)
            self.output.append(encode_packet(Disconnect(reason), self.version) if is_too_large else packet)
        self.stage = Stage.CLOSED
        return Ended(reason, detail or reason.name.lower(), with_will, linger=bool(self.output))

    def _fail(self, error: MqttError) -> Ended:
        error.peer = error.peer or self.peer
        if self.stage is Stage.NEW and isinstance(error, UnsupportedVersion):
            self.version = MQTT_5 if error.level > MQTT_5 else MQTT_3
            self.stage = Stage.DECIDING
        if self.stage is Stage.DECIDING:
            return self.refuse(error.code, detail=error.reason)
        # What only CONNACK can say is wrong with a second CONNECT, which should not be there at all.
        is_sayable = error.code in REASONS_OF_PACKET[DISCONNECT]
        return self.disconnect(error.code if is_sayable else Reason.PROTOCOL_ERROR, detail=error.reason)

    # -- bytes out --------------------------------------------------------------------------------------------------

    def write_publish(
        self,
        shared: SharedPublish,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        now_s: float,
        packet_id: int = 0,
        dup: bool = False,
    ) -> bool:
        """Append a PUBLISH; False if it is larger than the client accepts."""
        version = self.version
        if self.is_plain and not dup and (not identifiers or version < MQTT_5):
            if qos:
                head, tail = shared.split(version, qos, retain, now_s)
                self.output.append(b"".join((head, packet_id.to_bytes(2, "big"), tail)))
            else:
                self.output.append(shared.frame(version, retain, now_s))
            return True
        alias, is_known = self._alias(shared.message.topic) if self._alias_out_max else (0, False)
        packet = shared.tailored(
            version,
            qos,
            retain,
            dup=dup,
            packet_id=packet_id,
            alias=alias,
            with_topic=not is_known,
            identifiers=identifiers,
            now_s=now_s,
        )
        if self._packet_bytes_max and len(packet) > self._packet_bytes_max:
            return False
        if alias and not is_known:
            self._aliases_out[shared.message.topic] = alias
        self.output.append(packet)
        return True

    def _alias(self, topic: str) -> tuple[int, bool]:
        """(alias, whether the client knows it); 0 when all aliases are taken: first come, first served."""
        alias = self._aliases_out.get(topic)
        if alias is not None:
            return alias, True
        taken = len(self._aliases_out)
        return (taken + 1, False) if taken < self._alias_out_max else (0, False)

    def write_acknowledgement(self, first: int, packet_id: int, reason: int = 0) -> None:
        if self.stage is OPEN:
            self.waits = True
            self.output.append(encode_acknowledgement(first, packet_id, reason, self.version))

    def _write(self, packet: Packet) -> None:
        if self.stage is Stage.CLOSED:
            return
        data = encode_packet(packet, self.version)
        if not 0 < self._packet_bytes_max < len(data):  # else nothing is said, as if it had been (MQTT-3.1.2-25)
            self.waits = True
            self.output.append(data)

    # -- time and pressure ------------------------------------------------------------------------------------------

    def set_congested(self, is_congested: bool, now_s: float) -> None:
        """The driver's write buffer is full (or drained again): QoS 0 is shed and the rest waits in the session."""
        self.is_congested = is_congested
        if self.session is not None and self.session.connection is self:
            self.session.update_plain_version()
            self.session.pump(now_s)

    def excuse(self, now_s: float) -> None:
        """It was not listened to until now, so its silence means nothing."""
        self._last_received_s = now_s

    @property
    def deadline_s(self) -> float | None:
        if self.stage is Stage.OPEN:
            return self._last_received_s + 1.5 * self.keep_alive_s if self.keep_alive_s else None
        # Who has said CONNECT waits for us, however long we take.
        return self._opened_s + self.options.connect_timeout_s if self.stage is Stage.NEW else None

    def on_time(self, now_s: float) -> Ended | None:
        """Ends the connection if the client has been silent for too long."""
        deadline_s = self.deadline_s
        if deadline_s is None or now_s < deadline_s:
            return None
        if self.stage is Stage.OPEN:
            return self.disconnect(Reason.KEEP_ALIVE_TIMEOUT, detail="no packet within the keep alive time")
        self.stage = Stage.CLOSED
        return Ended(Reason.KEEP_ALIVE_TIMEOUT, "no CONNECT in time", with_will=False)
