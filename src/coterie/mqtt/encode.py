"""Records to bytes; asking for something MQTT cannot say raises LocalProtocolError."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from coterie.errors import LocalProtocolError
from coterie.mqtt import packets as p
from coterie.mqtt.properties import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    NO_PROPERTIES,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    WILL,
    Properties,
    encode_properties,
)
from coterie.mqtt.reasons import CONNACK_3_OF_REASON, Reason
from coterie.mqtt.wire import encode_binary, encode_packet_id, encode_text, encode_varint

_pack_short = struct.Struct(">BBH").pack
PINGREQ_FRAME = b"\xc0\x00"
PINGRESP_FRAME = b"\xd0\x00"


def encode_packet(packet: p.Packet, version: int = p.MQTT_5) -> bytes:
    """The bytes of one packet; a CONNECT carries its own version."""
    return _ENCODERS[type(packet)](packet, version)


def frame(first: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes((first,)) + encode_varint(len(body)) + body


def _properties(properties: Properties, packet: int, version: int) -> bytes:
    # 3.1.1 has no properties: what a record holds beyond it is dropped, so one record serves both versions.
    return encode_properties(properties, packet) if version >= p.MQTT_5 else b""


def _connect(packet: p.Connect, _: int) -> bytes:
    version = packet.version
    flags = packet.clean_start << 1
    tail = [encode_text(packet.client_id)]
    if packet.will is not None:
        will = packet.will
        flags |= 4 | will.qos << 3 | will.retain << 5
        tail += [_properties(will.properties, WILL, version), encode_text(will.topic), encode_binary(will.payload)]
    if packet.username is not None:
        flags |= 0x80
        tail.append(encode_text(packet.username))
    if packet.password is not None:
        if packet.username is None and version < p.MQTT_5:
            raise LocalProtocolError("a password without a user name needs MQTT 5")
        flags |= 0x40
        tail.append(encode_binary(packet.password))
    name = b"\0\6MQIsdp" if version == p.MQTT_31 else b"\0\4MQTT"
    head = name + bytes((version, flags)) + packet.keep_alive_s.to_bytes(2, "big")
    return frame(CONNECT << 4, head, _properties(packet.properties, CONNECT, version), *tail)


def _connack(packet: p.ConnAck, version: int) -> bytes:
    code = packet.reason
    if version < p.MQTT_5:
        code = CONNACK_3_OF_REASON.get(Reason(code), 3)
    head = bytes((packet.session_present and version > p.MQTT_31, code))  # reserved in 3.1
    return frame(CONNACK << 4, head, _properties(packet.properties, CONNACK, version))


def _publish(packet: p.Publish, version: int) -> bytes:
    if packet.qos not in (0, 1, 2):
        raise LocalProtocolError(f"quality of service {packet.qos} does not exist")
    if not packet.topic and (packet.properties.topic_alias is None or version < p.MQTT_5):
        raise LocalProtocolError("a PUBLISH needs a topic name or an alias")
    return frame(
        PUBLISH << 4 | packet.dup << 3 | packet.qos << 1 | packet.retain,
        encode_text(packet.topic),
        encode_packet_id(packet.packet_id) if packet.qos else b"",
        _properties(packet.properties, PUBLISH, version),
        packet.payload,
    )


def encode_acknowledgement(first: int, packet_id: int, reason: int = 0, version: int = p.MQTT_5) -> bytes:
    """PUBACK (0x40), PUBREC (0x50), PUBREL (0x62) or PUBCOMP (0x70) without properties, the form that is sent most."""
    if reason and version >= p.MQTT_5:
        return bytes((first, 3, packet_id >> 8, packet_id & 255, reason))
    return _pack_short(first, 2, packet_id)


def _acknowledgement(packet_type: int, flags: int) -> Callable[[Any, int], bytes]:
    def encode(packet: p.Acknowledgement, version: int) -> bytes:
        first = packet_type << 4 | flags
        head = encode_packet_id(packet.packet_id)
        if version < p.MQTT_5 or packet.properties == NO_PROPERTIES:
            return encode_acknowledgement(first, packet.packet_id, packet.reason, version)
        return frame(first, head, bytes((packet.reason,)), encode_properties(packet.properties, packet_type))

    return encode


def _subscribe(packet: p.Subscribe, version: int) -> bytes:
    parts = [encode_packet_id(packet.packet_id), _properties(packet.properties, SUBSCRIBE, version)]
    for one in packet.subscriptions:
        options = one.qos
        if version >= p.MQTT_5:
            options |= one.no_local << 2 | one.retain_as_published << 3 | one.retain_handling << 4
        parts += [encode_text(one.filter), bytes((options,))]
    return frame(SUBSCRIBE << 4 | 2, *parts)


def _suback(packet: p.SubAck, version: int) -> bytes:
    reasons = bytes(packet.reasons)
    if version < p.MQTT_5:
        reasons = bytes(min(reason, 0x80) for reason in reasons)
    properties = _properties(packet.properties, SUBACK, version)
    return frame(SUBACK << 4, encode_packet_id(packet.packet_id), properties, reasons)


def _unsubscribe(packet: p.Unsubscribe, version: int) -> bytes:
    properties = _properties(packet.properties, UNSUBSCRIBE, version)
    filters = [encode_text(one) for one in packet.filters]
    return frame(UNSUBSCRIBE << 4 | 2, encode_packet_id(packet.packet_id), properties, *filters)


def _unsuback(packet: p.UnsubAck, version: int) -> bytes:
    if version < p.MQTT_5:
        return frame(UNSUBACK << 4, encode_packet_id(packet.packet_id))
    properties = encode_properties(packet.properties, UNSUBACK)
    return frame(UNSUBACK << 4, encode_packet_id(packet.packet_id), properties, bytes(packet.reasons))


def _disconnect(packet: p.Disconnect, version: int) -> bytes:
    if version < p.MQTT_5:
        return frame(DISCONNECT << 4)
    if packet.properties == NO_PROPERTIES:
        return frame(DISCONNECT << 4, bytes((packet.reason,)) if packet.reason else b"")
    return frame(DISCONNECT << 4, bytes((packet.reason,)), encode_properties(packet.properties, DISCONNECT))


def _auth(packet: p.Auth, version: int) -> bytes:
    if version < p.MQTT_5:
        raise LocalProtocolError("AUTH needs MQTT 5")
    # Section 3.15.2 lets only an empty AUTH omit the property length; writing it always is understood by everyone.
    return frame(AUTH << 4, bytes((packet.reason,)), encode_properties(packet.properties, AUTH))


_ENCODERS: dict[type, Callable[[Any, int], bytes]] = {
    p.Connect: _connect,
    p.ConnAck: _connack,
    p.Publish: _publish,
    p.PubAck: _acknowledgement(PUBACK, 0),
    p.PubRec: _acknowledgement(PUBREC, 0),
    p.PubRel: _acknowledgement(PUBREL, 2),
    p.PubComp: _acknowledgement(PUBCOMP, 0),
    p.Subscribe: _subscribe,
    p.SubAck: _suback,
    p.Unsubscribe: _unsubscribe,
    p.UnsubAck: _unsuback,
    p.PingReq: lambda packet, version: PINGREQ_FRAME,
    p.PingResp: lambda packet, version: PINGRESP_FRAME,
    p.Disconnect: _disconnect,
    p.Auth: _auth,
}
