"""The hot path: PUBLISH parsed inline, and one message encoded once for many receivers.

How a node uses it, per chunk read from a socket: `Connection.receive` runs `scan_publishes` over the chunk, which takes
the common PUBLISH (QoS 0 or 1, not retained, no properties, topic seen before) in a few slices and leaves everything
else to the full codec; the node asks `SubscriptionIndex.matches` for the receivers and hands both to `fanout.fan_out`
(plain QoS 0 messages of one topic in a row, a `PublishRun`, to `fanout.fan_out_run`), which appends ready bytes to each
receiver's `output` list; at the end of the loop turn the node writes each list once.
"""

from __future__ import annotations

from math import ceil

import msgspec

from coterie.mqtt.packets import MQTT_5, Publish
from coterie.mqtt.properties import NO_PROPERTIES, PUBLISH, Properties, encode_property, encode_property_list
from coterie.mqtt.topics import TopicNames
from coterie.mqtt.wire import encode_text, encode_varint

HEADS_MAX = 64


class PublishRun(msgspec.Struct, frozen=True, gc=False):
    """QoS 0 packets of one topic in a row, as they arrived: not retained, without properties.

    Every receiver of the same protocol version that needs neither an alias nor subscription identifiers gets these very
    bytes, so that nothing is done for each message.
    """

    topic: str
    frames: bytes
    count: int
    payload_bytes: int  # of the first
    version: int

    def publishes(self) -> list[Publish]:
        """One by one, for those who need them so."""
        found, frames, pos = [], self.frames, 0
        lead = 2 + len(self.topic.encode()) + (self.version >= MQTT_5)  # what stands before the payload
        for _ in range(self.count):
            length, body = frames[pos + 1], pos + 2
            if length > 127:
                length += (frames[body] << 7) - 128
                body += 1
            pos = body + length
            found.append(Publish(self.topic, frames[body + lead : pos]))
        return found


def scan_publishes(
    data: bytes, pos: int, version: int, names: TopicNames, out: list[Publish | PublishRun],
    packet_bytes_max: int = 1 << 28, quota: int = 65_535,
) -> tuple[int, int]:  # fmt: skip
    """Append the common PUBLISH packets from `pos` on; return where they end and what is left of `quota`.

    Stops without an error at anything else: another packet, a property, a new topic name, a packet cut off or too
    large, QoS 1 with no quota left. The caller goes on with the full codec there. One long function, because a call
    costs as much as the parse.
    """
    known, append, size, has_properties = names.names.get, out.append, len(data), version >= MQTT_5
    run_topic, run_begin, run_count, run_payload = "", 0, 0, 0
    while pos + 4 < size:
        first = data[pos]
        if first != 0x30 and first != 0x32:
            break
        length = data[pos + 1]
        body = pos + 2
        if length > 127:
            high = data[body]
            if high > 127 or high == 0:
                break
            length += (high << 7) - 128
            body += 1
        end = body + length
        if end > size or end - pos > packet_bytes_max:
            break
        start = body + 2 + (data[body] << 8 | data[body + 1])
        topic = known(data[body + 2 : start])
        if topic is None:
            break
        packet_id = 0
        if first == 0x32:
            if start + 2 > end or quota <= 0:
                break
            packet_id = data[start] << 8 | data[start + 1]
            if packet_id == 0:
                break
            start += 2
        if has_properties:
            if start >= end or data[start]:
                break
            start += 1
        if start > end:
            break
        if run_count and (packet_id or topic is not run_topic):
            append(PublishRun(run_topic, data[run_begin:pos], run_count, run_payload, version))
            run_count = 0
        if packet_id:
            quota -= 1
            append(Publish(topic, data[start:end], 1, False, False, packet_id))
            pos = end
            continue
        if not run_count:
            run_topic, run_begin, run_payload = topic, pos, end - start
        head, step = data[pos:start], end - pos
        run_count += 1
        pos = end
        while pos + step <= size and data.startswith(head, pos):  # mostly the next one looks the same
            run_count += 1
            pos += step
    if run_count:
        append(PublishRun(run_topic, data[run_begin:pos], run_count, run_payload, version))
    return pos, quota


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An application message on its way: what of a PUBLISH is meant for the receivers, whoever they are."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES  # never an alias or subscription identifiers: those belong to a connection
    expires_at_s: float | None = None
    publisher: str = ""  # client id, for no-local
    id: int = 0  # of the publication, where a network gives it one
    before: int = 0  # of the one before it of its origin on its topic, likewise


def message_of(publish: Publish, now_s: float, publisher: str = "", identifier: int = 0, before: int = 0) -> Message:
    properties = publish.properties
    expires_at_s = None
    if properties is not NO_PROPERTIES:
        if properties.topic_alias is not None or properties.subscription_identifiers:
            properties = msgspec.structs.replace(properties, topic_alias=None, subscription_identifiers=())
        if properties.message_expiry_s is not None:
            expires_at_s = now_s + properties.message_expiry_s
    return Message(
        publish.topic, publish.payload, publish.qos, publish.retain, properties, expires_at_s, publisher, identifier,
        before,
    )  # fmt: skip


def split_bare(
    topic: bytes, heads: dict[int, bytes], payload: bytes, version: int, qos: int, retain: bool
) -> tuple[bytes, bytes]:  # fmt: skip
    """`SharedPublish.split` of a message without properties; `heads` remembers what does not depend on the payload."""
    tail = payload if version < MQTT_5 else b"\0" + payload
    key = len(tail) << 6 | version << 3 | qos << 1 | retain
    head = heads.get(key)
    if head is None:
        if len(heads) >= HEADS_MAX:
            heads.clear()
        head = bytes((0x30 | qos << 1 | retain,)) + encode_varint(len(topic) + 2 + len(tail)) + topic
        heads[key] = head
    return head, tail


class SharedPublish:
    """One message and its encodings, each made at most once however many receivers there are.

    `topic` is the topic with its length in front where it is at hand (a `Match` has it).
    """

    __slots__ = ("_block", "_encoded", "_topic", "message")

    def __init__(self, message: Message, topic: bytes = b"") -> None:
        self.message = message
        self._topic = topic or encode_text(message.topic)
        self._block: bytes | None = b"" if message.properties is NO_PROPERTIES else None
        # By version, QoS and retain flag: (packet, nothing) at QoS 0, (before, after the packet identifier) above.
        self._encoded: dict[int, tuple[bytes, bytes]] = {}

    def frame(self, version: int, retain: bool, now_s: float) -> bytes:
        """The QoS 0 packet without alias and identifiers; the same bytes for everyone who may get it."""
        key = version << 3 | retain
        found = self._encoded.get(key) if self.message.expires_at_s is None else None
        if found is None:
            found = self._encoded[key] = self.tailored(version, 0, retain, now_s=now_s), b""
        return found[0]

    def split(self, version: int, qos: int, retain: bool, now_s: float) -> tuple[bytes, bytes]:
        """The bytes before and after the packet identifier of a QoS 1 or 2 packet, first sending."""
        key = version << 3 | qos << 1 | retain
        found = self._encoded.get(key) if self.message.expires_at_s is None else None
        if found is None:
            tail = self.message.payload
            if version >= MQTT_5:
                block = self._property_block(0, (), now_s)
                tail = encode_varint(len(block)) + block + tail
            length = encode_varint(len(self._topic) + 2 + len(tail))
            found = self._encoded[key] = bytes((0x30 | qos << 1 | retain,)) + length + self._topic, tail
        return found

    def tailored(
        self,
        version: int,
        qos: int,
        retain: bool,
        *,
        dup: bool = False,
        packet_id: int = 0,
        alias: int = 0,
        with_topic: bool = True,
        identifiers: tuple[int, ...] = (),
        now_s: float = 0.0,
    ) -> bytes:
        """A packet for one receiver; the topic and the properties of the message are still encoded only once."""
        parts = [self._topic if with_topic else b"\0\0"]
        if qos:
            parts.append(packet_id.to_bytes(2, "big"))
        if version >= MQTT_5:
            block = self._property_block(alias, identifiers, now_s)
            parts += [encode_varint(len(block)), block]
        parts.append(self.message.payload)
        length = sum(map(len, parts))
        return b"".join((bytes((0x30 | dup << 3 | qos << 1 | retain,)), encode_varint(length), *parts))

    def _property_block(self, alias: int, identifiers: tuple[int, ...], now_s: float) -> bytes:
        message = self.message
        if self._block is None:
            properties = message.properties
            if properties.message_expiry_s is not None:
                properties = msgspec.structs.replace(properties, message_expiry_s=None)
            self._block = encode_property_list(properties, PUBLISH)
        block = self._block
        if message.expires_at_s is not None:
            # Decremented by the time it waited here (section 3.3.2.3.3); never below zero on a late resend.
            left_s = min(max(0, ceil(message.expires_at_s - now_s)), 0xFFFF_FFFF)
            block += encode_property("message_expiry_s", left_s)
        if alias:
            block += encode_property("topic_alias", alias)
        for identifier in identifiers:
            block += encode_property("subscription_identifiers", identifier)
        return block
