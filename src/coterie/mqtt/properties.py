"""The properties of MQTT 5: one typed record for all of them, its strict decoder and its encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from coterie.errors import LocalProtocolError
from coterie.mqtt.reasons import MqttError, Reason
from coterie.mqtt.wire import VARINT_MAX, Reader, encode_binary, encode_text, encode_varint


class Properties(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """All properties of any packet; absent ones are None (or empty, for the two that may repeat)."""

    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_s: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: int | None = None
    will_delay_s: int | None = None
    request_response_information: int | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: int | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: int | None = None
    subscription_identifiers_available: int | None = None
    shared_subscription_available: int | None = None


NO_PROPERTIES = Properties()

# Packet types by number; a will has properties of its own and borrows the number no packet has.
WILL, CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)
_EVERY = frozenset(range(16)) - {PINGREQ, PINGRESP}
_REASONED = frozenset({CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, DISCONNECT, AUTH})


class _Kind(NamedTuple):
    """How a value travels, and which values there are."""

    read: Callable[[Reader], Any]
    write: Callable[[Any], bytes]
    low: int = 0
    high: int | None = None  # None: not a number


def _number(read: Callable[[Reader], int], size: int, low: int, high: int) -> _Kind:
    return _Kind(read, lambda value: int(value).to_bytes(size, "big"), low, high)


def _read_pair(reader: Reader) -> tuple[str, str]:
    return reader.text(), reader.text()


_FLAG = _number(Reader.u8, 1, 0, 1)
_U16 = _number(Reader.u16, 2, 0, 0xFFFF)
_U16_POSITIVE = _number(Reader.u16, 2, 1, 0xFFFF)
_U32 = _number(Reader.u32, 4, 0, 0xFFFF_FFFF)
_U32_POSITIVE = _number(Reader.u32, 4, 1, 0xFFFF_FFFF)
_VARINT_POSITIVE = _Kind(Reader.varint, encode_varint, 1, VARINT_MAX)
_TEXT = _Kind(Reader.text, encode_text)
_BINARY = _Kind(Reader.binary, encode_binary)
_PAIR = _Kind(_read_pair, lambda pair: encode_text(pair[0]) + encode_text(pair[1]))


class _Spec(NamedTuple):
    identifier: int
    name: str
    kind: _Kind
    packets: frozenset[int]


def _spec(identifier: int, name: str, kind: _Kind, *packets: int) -> _Spec:
    return _Spec(identifier, name, kind, frozenset(packets))


_SPECS = (
    _spec(0x01, "payload_format", _FLAG, PUBLISH, WILL),
    _spec(0x02, "message_expiry_s", _U32, PUBLISH, WILL),
    _spec(0x03, "content_type", _TEXT, PUBLISH, WILL),
    _spec(0x08, "response_topic", _TEXT, PUBLISH, WILL),
    _spec(0x09, "correlation_data", _BINARY, PUBLISH, WILL),
    _spec(0x0B, "subscription_identifiers", _VARINT_POSITIVE, PUBLISH, SUBSCRIBE),
    _spec(0x11, "session_expiry_s", _U32, CONNECT, CONNACK, DISCONNECT),
    _spec(0x12, "assigned_client_id", _TEXT, CONNACK),
    _spec(0x13, "server_keep_alive_s", _U16, CONNACK),
    _spec(0x15, "authentication_method", _TEXT, CONNECT, CONNACK, AUTH),
    _spec(0x16, "authentication_data", _BINARY, CONNECT, CONNACK, AUTH),
    _spec(0x17, "request_problem_information", _FLAG, CONNECT),
    _spec(0x18, "will_delay_s", _U32, WILL),
    _spec(0x19, "request_response_information", _FLAG, CONNECT),
    _spec(0x1A, "response_information", _TEXT, CONNACK),
    _spec(0x1C, "server_reference", _TEXT, CONNACK, DISCONNECT),
    _Spec(0x1F, "reason_string", _TEXT, _REASONED),
    _spec(0x21, "receive_maximum", _U16_POSITIVE, CONNECT, CONNACK),
    _spec(0x22, "topic_alias_maximum", _U16, CONNECT, CONNACK),
    _spec(0x23, "topic_alias", _U16_POSITIVE, PUBLISH),
    _spec(0x24, "maximum_qos", _FLAG, CONNACK),
    _spec(0x25, "retain_available", _FLAG, CONNACK),
    _Spec(0x26, "user_properties", _PAIR, _EVERY),
    _spec(0x27, "maximum_packet_size", _U32_POSITIVE, CONNECT, CONNACK),
    _spec(0x28, "wildcard_subscription_available", _FLAG, CONNACK),
    _spec(0x29, "subscription_identifiers_available", _FLAG, CONNACK),
    _spec(0x2A, "shared_subscription_available", _FLAG, CONNACK),
)
_BY_IDENTIFIER = {spec.identifier: spec for spec in _SPECS}
_BY_NAME = {spec.name: spec for spec in _SPECS}
_MANY = ("user_properties", "subscription_identifiers")


def read_properties(reader: Reader, packet: int) -> Properties:
    """Decode a property block of the given packet type; unknown, misplaced and repeated ones are errors."""
    size = reader.varint()
    if size == 0:
        return NO_PROPERTIES
    end = reader.pos + size
    if end > reader.end:
        raise MqttError("the properties are longer than their packet")
    block = Reader(reader.data, reader.pos, end)
    reader.pos = end
    found: dict[str, Any] = {}
    many: dict[str, list[Any]] = {}
    while block.pos < end:
        _read_property(block, packet, found, many)
    for name, values in many.items():
        found[name] = tuple(values)
    return Properties(**found)


def _read_property(block: Reader, packet: int, found: dict[str, Any], many: dict[str, list[Any]]) -> None:
    identifier = block.varint()
    spec = _BY_IDENTIFIER.get(identifier)
    if spec is None or packet not in spec.packets:
        raise MqttError(f"property 0x{identifier:02x} is not allowed in this packet")
    value = spec.kind.read(block)
    if spec.kind.high is not None and not spec.kind.low <= value <= spec.kind.high:
        code = Reason.TOPIC_ALIAS_INVALID if identifier == 0x23 else Reason.PROTOCOL_ERROR
        raise MqttError(f"property {spec.name} must not be {value}", code)
    repeatable = identifier == 0x26 or (identifier == 0x0B and packet == PUBLISH)
    if spec.name in _MANY:
        values = many.setdefault(spec.name, [])
        if values and not repeatable:
            raise MqttError(f"property {spec.name} is repeated", Reason.PROTOCOL_ERROR)
        values.append(value)
        return
    if spec.name in found:
        raise MqttError(f"property {spec.name} is repeated", Reason.PROTOCOL_ERROR)
    found[spec.name] = value


def encode_property(name: str, value: Any) -> bytes:
    spec = _BY_NAME[name]
    if spec.kind.high is not None and not spec.kind.low <= value <= spec.kind.high:
        raise LocalProtocolError(f"property {name} = {value} is not in {spec.kind.low}..{spec.kind.high}")
    return bytes((spec.identifier,)) + spec.kind.write(value)


def encode_property_list(properties: Properties, packet: int) -> bytes:
    """The properties without their length in front, in the order of the table (so equal records encode equally)."""
    if properties is NO_PROPERTIES or properties == NO_PROPERTIES:
        return b""
    parts: list[bytes] = []
    for spec in _SPECS:
        value = getattr(properties, spec.name)
        if value is None or value == ():
            continue
        if packet not in spec.packets:
            raise LocalProtocolError(f"property {spec.name} is not allowed in packet type {packet}")
        for one in value if spec.name in _MANY else (value,):
            parts.append(encode_property(spec.name, one))  # noqa: PERF401
    return b"".join(parts)


def encode_properties(properties: Properties, packet: int) -> bytes:
    block = encode_property_list(properties, packet)
    return encode_varint(len(block)) + block
