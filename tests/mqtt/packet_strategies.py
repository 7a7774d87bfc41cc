"""Random valid packets of both versions, and their counterparts in the independent codec of the mqtt5 package."""

from __future__ import annotations

from typing import Any

import mqtt5
from hypothesis import strategies as st

from coterie.mqtt import packets as p
from coterie.mqtt import properties as prop
from coterie.mqtt.reasons import CONNACK_3_OF_REASON, REASONS_OF_PACKET

# A few characters of every UTF-8 length, and the awkward ones: control, private use, non-character, MQTT's own.
texts = st.text("aZ é߿€\ue000\uffff\U0001d11e\x01\x7f/+#$", max_size=12)
levels = st.text("aZ é€\U0001d11e$", max_size=4)
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
blobs = st.binary(max_size=40)
u16 = st.integers(0, 65_535)
u32 = st.integers(0, 0xFFFF_FFFF)
packet_ids = st.integers(1, 65_535)
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
flags = st.integers(0, 1)


@st.composite
def filters(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.one_of(levels, st.just("+")), min_size=1, max_size=4))
    if draw(st.booleans()):
        parts.append("#")
    text = "/".join(parts)
    if not text or text.startswith("$share/"):
        text = "+"
    return f"$share/group/{text}" if draw(st.integers(0, 4)) == 0 else text


_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "payload_format": st.just(0),
    "message_expiry_s": u32,
    "content_type": texts,
    "response_topic": topics,
    "correlation_data": blobs,
    "session_expiry_s": u32,
    "assigned_client_id": texts,
    "server_keep_alive_s": u16,
    "authentication_method": texts,
    "request_problem_information": flags,
    "will_delay_s": u32,
    "request_response_information": flags,
    "response_information": texts,
    "server_reference": texts,
    "reason_string": texts,
    "receive_maximum": st.integers(1, 65_535),
    "topic_alias_maximum": u16,
    "topic_alias": packet_ids,
    "maximum_qos": flags,
    "retain_available": flags,
    "maximum_packet_size": st.integers(1, 0xFFFF_FFFF),
    "wildcard_subscription_available": flags,
    "subscription_identifiers_available": flags,
    "shared_subscription_available": flags,
}


@st.composite
def properties(draw: st.DrawFn, packet: int, version: int) -> prop.Properties:
    if version < p.MQTT_5:
        return prop.NO_PROPERTIES
    allowed = [name for name in _FIELDS if packet in prop._BY_NAME[name].packets]
    chosen: dict[str, Any] = {name: draw(_FIELDS[name]) for name in allowed if draw(st.booleans())}
    if "authentication_method" in chosen and draw(st.booleans()):
        chosen["authentication_data"] = draw(blobs)
    identifiers = st.integers(1, 268_435_455)
    if packet == prop.PUBLISH:
        chosen["subscription_identifiers"] = tuple(draw(st.lists(identifiers, max_size=3)))
    if packet == prop.SUBSCRIBE and draw(st.booleans()):
        chosen["subscription_identifiers"] = (draw(identifiers),)
    return prop.Properties(user_properties=draw(pairs), **chosen)


def _reasons(packet: int, version: int) -> st.SearchStrategy[int]:
    if version < p.MQTT_5:
        allowed = {prop.CONNACK: sorted(CONNACK_3_OF_REASON), prop.SUBACK: [0, 1, 2, 0x80]}.get(packet, [0])
        return st.sampled_from([int(code) for code in allowed])
    return st.sampled_from(sorted(REASONS_OF_PACKET[packet]))


@st.composite
def _connect(draw: st.DrawFn, version: int) -> p.Connect:
    will = None
    if draw(st.booleans()):
        will_properties = draw(properties(prop.WILL, version))
        will = p.Will(draw(topics), draw(blobs), draw(st.integers(0, 2)), draw(st.booleans()), will_properties)
    username = draw(st.none() | texts)
    password = draw(st.none() | blobs) if username is not None or version >= p.MQTT_5 else None
    return p.Connect(
        draw(texts), version, draw(st.booleans()), draw(u16), username, password, will,
        draw(properties(prop.CONNECT, version)),
    )  # fmt: skip


@st.composite
def _connack(draw: st.DrawFn, version: int) -> p.ConnAck:
    reason = draw(_reasons(prop.CONNACK, version))
    is_present = draw(st.booleans()) if reason == 0 else False
    return p.ConnAck(is_present, reason, draw(properties(prop.CONNACK, version)))


@st.composite
def publishes(draw: st.DrawFn, version: int) -> p.Publish:
    qos = draw(st.integers(0, 2))
    found = draw(properties(prop.PUBLISH, version))
    topic = draw(topics)
    dup = draw(st.booleans()) if qos else False
    packet_id = draw(packet_ids) if qos else 0
    return p.Publish(topic, draw(blobs), qos, draw(st.booleans()), dup, packet_id, found)


@st.composite
def _subscribe(draw: st.DrawFn, version: int) -> p.Subscribe:
    found = draw(properties(prop.SUBSCRIBE, version))
    identifier = found.subscription_identifiers[0] if found.subscription_identifiers else 0
    subscriptions = []
    for _ in range(draw(st.integers(1, 3))):
        topic_filter = draw(filters())
        qos = draw(st.integers(0, 2))
        if version < p.MQTT_5:
            subscriptions.append(p.Subscription(topic_filter, qos))
            continue
        no_local = draw(st.booleans()) and not topic_filter.startswith("$share/")
        as_published, handling = draw(st.booleans()), draw(st.integers(0, 2))
        subscriptions.append(p.Subscription(topic_filter, qos, no_local, as_published, handling, identifier))
    return p.Subscribe(draw(packet_ids), tuple(subscriptions), found)


def _acknowledgement(kind: Any, packet: int, version: int) -> st.SearchStrategy[Any]:
    return st.builds(kind, packet_ids, _reasons(packet, version), properties(packet, version))


def packets(version: int) -> st.SearchStrategy[p.Packet]:
    many = st.lists(_reasons(prop.SUBACK, version), min_size=1, max_size=3).map(tuple)
    if version >= p.MQTT_5:
        gone = st.lists(_reasons(prop.UNSUBACK, version), min_size=1, max_size=3).map(tuple)
    else:
        gone = st.just(())
    every = [
        _connect(version),
        _connack(version),
        publishes(version),
        _acknowledgement(p.PubAck, prop.PUBACK, version),
        _acknowledgement(p.PubRec, prop.PUBREC, version),
        _acknowledgement(p.PubRel, prop.PUBREL, version),
        _acknowledgement(p.PubComp, prop.PUBCOMP, version),
        _subscribe(version),
        st.builds(p.SubAck, packet_ids, many, properties(prop.SUBACK, version)),
        st.builds(
            p.Unsubscribe, packet_ids, st.lists(filters(), min_size=1, max_size=3).map(tuple),
            properties(prop.UNSUBSCRIBE, version),
        ),
        st.builds(p.UnsubAck, packet_ids, gone, properties(prop.UNSUBACK, version)),
        st.just(p.PingReq()),
        st.just(p.PingResp()),
        st.builds(p.Disconnect, _reasons(prop.DISCONNECT, version) if version >= p.MQTT_5 else st.just(0),
                  properties(prop.DISCONNECT, version)),
    ]  # fmt: skip
    if version >= p.MQTT_5:
        every.append(st.builds(p.Auth, _reasons(prop.AUTH, version), properties(prop.AUTH, version)))
    return st.one_of(every)


# -- the same packet as the other codec writes it down -------------------------------------------------------------

_ORACLE_NAMES = {
    "payload_format": "payload_format_indicator",
    "message_expiry_s": "message_expiry_interval",
    "session_expiry_s": "session_expiry_interval",
    "assigned_client_id": "assigned_client_id",
    "server_keep_alive_s": "server_keep_alive",
    "request_problem_information": "request_problem_info",
    "will_delay_s": "will_delay_interval",
    "request_response_information": "request_response_info",
    "response_information": "response_info",
    "reason_string": "reason_str",
    "receive_maximum": "receive_max",
    "topic_alias_maximum": "topic_alias_max",
    "maximum_qos": "max_qos",
    "maximum_packet_size": "max_packet_size",
    "wildcard_subscription_available": "wildcard_subscription_available",
    "subscription_identifiers_available": "subscription_id_available",
    "shared_subscription_available": "shared_subscription_available",
    "subscription_identifiers": "subscription_ids",
}
_BOOLEANS = ("_available", "request_problem_information", "request_response_information")


def _arguments(found: prop.Properties) -> dict[str, Any]:
    arguments: dict[str, Any] = {"user_properties": list(found.user_properties)}
    for name in found.__struct_fields__:
        value = getattr(found, name)
        if value is None or name == "user_properties" or value == ():
            continue
        if name.endswith(_BOOLEANS):
            value = bool(value)
        if name == "maximum_qos":
            value = mqtt5.QoS(value)
        arguments[_ORACLE_NAMES.get(name, name)] = list(value) if isinstance(value, tuple) else value
    return arguments


def to_oracle(packet: p.Packet) -> Any:
    """The packet as a record of the mqtt5 package."""
    if isinstance(packet, p.PingReq | p.PingResp):
        return mqtt5.PingReqPacket() if isinstance(packet, p.PingReq) else mqtt5.PingRespPacket()
    arguments = _arguments(packet.properties)
    match packet:
        case p.Connect():
            will = None
            if packet.will is not None:
                one = packet.will
                will = mqtt5.Will(one.topic, payload=one.payload, qos=mqtt5.QoS(one.qos), retain=one.retain,
                                  **_arguments(one.properties))  # fmt: skip
            return mqtt5.ConnectPacket(packet.client_id, username=packet.username, password=packet.password,
                                       clean_start=packet.clean_start, will=will, keep_alive=packet.keep_alive_s,
                                       **arguments)  # fmt: skip
        case p.ConnAck():
            reason = mqtt5.ConnAckReasonCode(packet.reason)
            return mqtt5.ConnAckPacket(session_present=packet.session_present, reason_code=reason, **arguments)
        case p.Publish():
            return mqtt5.PublishPacket(packet.topic, packet.payload, qos=mqtt5.QoS(packet.qos), retain=packet.retain,
                                       duplicate=packet.dup, packet_id=packet.packet_id or None,
                                       **arguments)  # fmt: skip
        case p.PubAck() | p.PubRec() | p.PubRel() | p.PubComp():
            kind = getattr(mqtt5, type(packet).__name__ + "Packet")
            reasons = getattr(mqtt5, type(packet).__name__ + "ReasonCode")
            return kind(packet.packet_id, reason_code=reasons(packet.reason), **arguments)
        case p.Subscribe():
            identifiers = arguments.pop("subscription_ids", [None])
            wanted = [
                mqtt5.TopicFilter(one.filter, max_qos=mqtt5.QoS(one.qos), no_local=one.no_local,
                                  retain_as_published=one.retain_as_published,
                                  retain_handling=mqtt5.RetainHandling(one.retain_handling))
                for one in packet.subscriptions
            ]  # fmt: skip
            return mqtt5.SubscribePacket(packet.packet_id, wanted, subscription_id=identifiers[0], **arguments)
        case p.SubAck() | p.UnsubAck():
            kind = getattr(mqtt5, type(packet).__name__ + "Packet")
            reasons = getattr(mqtt5, type(packet).__name__ + "ReasonCode")
            return kind(packet.packet_id, [reasons(code) for code in packet.reasons], **arguments)
        case p.Unsubscribe():
            return mqtt5.UnsubscribePacket(packet.packet_id, list(packet.filters), **arguments)
        case p.Disconnect():
            return mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode(packet.reason), **arguments)
        case _:
            return mqtt5.AuthPacket(reason_code=mqtt5.AuthReasonCode(packet.reason), **arguments)
