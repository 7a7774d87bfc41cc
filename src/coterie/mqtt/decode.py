"""Packet bodies to records, strictly: what the specification forbids raises MqttError with its reason code."""

from __future__ import annotations

from collections.abc import Callable

from coterie.mqtt import packets as p
from coterie.mqtt.properties import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    NO_PROPERTIES,
    PINGREQ,
    PINGRESP,
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
    read_properties,
)
from coterie.mqtt.reasons import (
    REASON_OF_CONNACK_3,
    REASONS_OF_PACKET,
    MqttError,
    Reason,
    UnsupportedVersion,
)
from coterie.mqtt.topics import check_filter, check_topic_name
from coterie.mqtt.wire import Reader

_FLAGS_OF_PACKET = {PUBREL: 2, SUBSCRIBE: 2, UNSUBSCRIBE: 2}


def decode_packet(first: int, body: bytes, version: int) -> p.Packet:
    """One packet from its first byte and the bytes after the remaining length; a CONNECT ignores `version`."""
    packet = first >> 4
    flags = first & 15
    if packet == PUBLISH:
        return _publish(flags, Reader(body), version)
    if flags != _FLAGS_OF_PACKET.get(packet, 0):
        raise MqttError(f"reserved flags {flags} in packet type {packet}")
    decoder = _DECODERS.get(packet)
    if decoder is None or (packet == AUTH and version < p.MQTT_5):
        raise MqttError(f"packet type {packet} does not exist in this version", Reason.PROTOCOL_ERROR)
    reader = Reader(body)
    decoded = decoder(reader, version)
    reader.finish()
    return decoded


def _properties(reader: Reader, packet: int, version: int) -> Properties:
    return read_properties(reader, packet) if version >= p.MQTT_5 else NO_PROPERTIES


def _reason(value: int, packet: int) -> int:
    if value not in REASONS_OF_PACKET[packet]:
        raise MqttError(f"reason 0x{value:02x} is not one of packet type {packet}", Reason.PROTOCOL_ERROR)
    return value


def _qos(value: int) -> int:
    if value == 3:
        raise MqttError("quality of service 3 does not exist")
    return value


def _check_message(properties: Properties, payload: bytes) -> None:
    if properties is NO_PROPERTIES:
        return
    if properties.response_topic is not None:
        try:
            check_topic_name(properties.response_topic)
        except MqttError as error:
            raise MqttError(f"response topic: {error.reason}", Reason.PROTOCOL_ERROR) from None
    if properties.payload_format == 1:
        try:
            payload.decode("utf-8")
        except UnicodeDecodeError:
            raise MqttError("a payload declared as UTF-8 is not", Reason.PAYLOAD_FORMAT_INVALID) from None


def _connect(reader: Reader, _: int) -> p.Connect:
    name = reader.binary()
    if name not in (b"MQTT", b"MQIsdp"):
        raise MqttError("the protocol name is not MQTT", Reason.UNSUPPORTED_PROTOCOL_VERSION)
    version = reader.u8()
    if version not in ((p.MQTT_3, p.MQTT_5) if name == b"MQTT" else (p.MQTT_31,)):
        # The rest has a layout that is not known here: skip it, the answer does not depend on it.
        raise UnsupportedVersion(version)
    flags = reader.u8()
    if flags & 1:
        raise MqttError("the reserved flag of CONNECT is set")
    keep_alive_s = reader.u16()
    properties = _properties(reader, CONNECT, version)
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise MqttError("authentication data without a method", Reason.PROTOCOL_ERROR)
    client_id = reader.text()
    will = _will(reader, flags, version)
    has_username, has_password = flags & 0x80, flags & 0x40
    if has_password and not has_username and version < p.MQTT_5:
        raise MqttError("a password without a user name needs MQTT 5")
    return p.Connect(
        client_id=client_id,
        version=version,
        clean_start=bool(flags & 2),
        keep_alive_s=keep_alive_s,
        username=reader.text() if has_username else None,
        password=reader.binary() if has_password else None,
        will=will,
        properties=properties,
    )


def _will(reader: Reader, flags: int, version: int) -> p.Will | None:
    qos = _qos(flags >> 3 & 3)
    retain = bool(flags & 0x20)
    if not flags & 4:
        if qos or retain:
            raise MqttError("will flags without a will")
        return None
    properties = _properties(reader, WILL, version)
    topic = check_topic_name(reader.text())
    payload = reader.binary()
    _check_message(properties, payload)
    return p.Will(topic, payload, qos, retain, properties)


def _connack(reader: Reader, version: int) -> p.ConnAck:
    flags = reader.u8()
    if flags > 1:
        raise MqttError("reserved flags in CONNACK")
    code = reader.u8()
    if version < p.MQTT_5:
        if code not in REASON_OF_CONNACK_3:
            raise MqttError(f"return code {code} in CONNACK", Reason.PROTOCOL_ERROR)
        code = REASON_OF_CONNACK_3[code]
    reason = _reason(code, CONNACK)
    if flags and reason:
        raise MqttError("a refused CONNECT cannot have a session present", Reason.PROTOCOL_ERROR)
    return p.ConnAck(bool(flags), reason, _properties(reader, CONNACK, version))


def _publish(flags: int, reader: Reader, version: int) -> p.Publish:
    qos = _qos(flags >> 1 & 3)
    dup = bool(flags & 8)
    if dup and not qos:
        raise MqttError("the DUP flag is set on a QoS 0 message")
    topic = reader.text()
    packet_id = reader.packet_id() if qos else 0
    properties = _properties(reader, PUBLISH, version)
    if topic or properties.topic_alias is None:
        check_topic_name(topic)
    payload = reader.rest()
    _check_message(properties, payload)
    return p.Publish(topic, payload, qos, bool(flags & 1), dup, packet_id, properties)


def _acknowledgement(
    packet: int, make: Callable[[int, int, Properties], p.Acknowledgement]
) -> Callable[[Reader, int], p.Acknowledgement]:
    def decode(reader: Reader, version: int) -> p.Acknowledgement:
        packet_id = reader.packet_id()
        if version < p.MQTT_5 or reader.pos == reader.end:
            return make(packet_id, 0, NO_PROPERTIES)
        reason = _reason(reader.u8(), packet)
        return make(packet_id, reason, read_properties(reader, packet) if reader.pos < reader.end else NO_PROPERTIES)

    return decode


def _subscribe(reader: Reader, version: int) -> p.Subscribe:
    packet_id = reader.packet_id()
    properties = _properties(reader, SUBSCRIBE, version)
    identifier = properties.subscription_identifiers[0] if properties.subscription_identifiers else 0
    subscriptions = []
    while reader.pos < reader.end:
        subscriptions.append(_subscription(reader, version, identifier))
    if not subscriptions:
        raise MqttError("SUBSCRIBE without a topic filter", Reason.PROTOCOL_ERROR)
    return p.Subscribe(packet_id, tuple(subscriptions), properties)


def _subscription(reader: Reader, version: int, identifier: int) -> p.Subscription:
    topic_filter = check_filter(reader.text())
    options = reader.u8()
    if options > (0x3F if version >= p.MQTT_5 else 3):
        raise MqttError("reserved bits in the subscription options")
    handling = options >> 4 & 3
    if handling == 3:
        raise MqttError("retain handling 3 does not exist", Reason.PROTOCOL_ERROR)
    no_local = bool(options & 4)
    if no_local and topic_filter.startswith("$share/"):
        raise MqttError("no-local is not allowed on a shared subscription", Reason.PROTOCOL_ERROR)
    return p.Subscription(topic_filter, _qos(options & 3), no_local, bool(options & 8), handling, identifier)


def _suback(reader: Reader, version: int) -> p.SubAck:
    packet_id = reader.packet_id()
    properties = _properties(reader, SUBACK, version)
    reasons = tuple(_reason(code, SUBACK) for code in reader.rest())
    if not reasons:
        raise MqttError("SUBACK without a reason", Reason.PROTOCOL_ERROR)
    return p.SubAck(packet_id, reasons, properties)


def _unsubscribe(reader: Reader, version: int) -> p.Unsubscribe:
    packet_id = reader.packet_id()
    properties = _properties(reader, UNSUBSCRIBE, version)
    filters = []
    while reader.pos < reader.end:
        filters.append(check_filter(reader.text()))
    if not filters:
        raise MqttError("UNSUBSCRIBE without a topic filter", Reason.PROTOCOL_ERROR)
    return p.Unsubscribe(packet_id, tuple(filters), properties)


def _unsuback(reader: Reader, version: int) -> p.UnsubAck:
    packet_id = reader.packet_id()
    if version < p.MQTT_5:
        return p.UnsubAck(packet_id)
    properties = read_properties(reader, UNSUBACK)
    reasons = tuple(_reason(code, UNSUBACK) for code in reader.rest())
    if not reasons:
        raise MqttError("UNSUBACK without a reason", Reason.PROTOCOL_ERROR)
    return p.UnsubAck(packet_id, reasons, properties)


def _disconnect(reader: Reader, version: int) -> p.Disconnect:
    if version < p.MQTT_5 or reader.pos == reader.end:
        return p.Disconnect()
    reason = _reason(reader.u8(), DISCONNECT)
    return p.Disconnect(reason, read_properties(reader, DISCONNECT) if reader.pos < reader.end else NO_PROPERTIES)


def _auth(reader: Reader, _: int) -> p.Auth:
    if reader.pos == reader.end:
        return p.Auth()
    reason = _reason(reader.u8(), AUTH)
    return p.Auth(reason, read_properties(reader, AUTH))


_DECODERS: dict[int, Callable[[Reader, int], p.Packet]] = {
    CONNECT: _connect,
    CONNACK: _connack,
    PUBACK: _acknowledgement(PUBACK, p.PubAck),
    PUBREC: _acknowledgement(PUBREC, p.PubRec),
    PUBREL: _acknowledgement(PUBREL, p.PubRel),
    PUBCOMP: _acknowledgement(PUBCOMP, p.PubComp),
    SUBSCRIBE: _subscribe,
    SUBACK: _suback,
    UNSUBSCRIBE: _unsubscribe,
    UNSUBACK: _unsuback,
    PINGREQ: lambda reader, version: p.PingReq(),
    PINGRESP: lambda reader, version: p.PingResp(),
    DISCONNECT: _disconnect,
    AUTH: _auth,
}
