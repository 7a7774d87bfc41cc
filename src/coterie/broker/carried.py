"""A message on its way through the network, and the identifiers that make it one and the same everywhere.

An identifier holds the node that took the message (12 bits) and the microsecond (51 bits since 2025), so identifiers of
a node rise, never repeat across restarts, and say when the message was published.
"""

from __future__ import annotations

import msgspec

from coterie.errors import RemoteProtocolError
from coterie.mqtt.properties import NO_PROPERTIES, Properties
from coterie.mqtt.publish import Message
from coterie.mqtt.reasons import MqttError
from coterie.mqtt.topics import check_topic_name
from coterie.protocol.wire import MALFORMED

EPOCH_S = 1_735_689_600  # 2025-01-01 UTC
TIME_BITS = 51
TIME_MASK = (1 << TIME_BITS) - 1
RETAINED_CHANNEL = "$coterie/retained"


def microseconds(wall_s: float) -> int:
    """A moment as identifiers hold it."""
    return max(0, int((wall_s - EPOCH_S) * 1e6))


def origin_of(identifier: int) -> int:
    return identifier >> TIME_BITS


class Identifiers:
    """Gives out identifiers of this node; never two equal ones, even if the clock stands or was set back."""

    def __init__(self, node: int, last: int = 0) -> None:
        self.first = node << TIME_BITS
        self._last_us = last & TIME_MASK

    def start(self, last: int) -> None:
        """Go on behind this one."""
        self._last_us = max(self._last_us, last & TIME_MASK)

    def now_us(self, now_us: int) -> int:
        """The time as identifiers of this node have it: never before one that was given out."""
        return max(now_us, self._last_us)

    @property
    def last(self) -> int:
        """The last one that was given out."""
        return self.first | self._last_us

    def next(self, now_us: int) -> int:
        self._last_us = now_us if now_us > self._last_us else self._last_us + 1
        return self.first | self._last_us

    def take(self, now_us: int, count: int) -> int:
        """So many in a row; returns the first."""
        first = self.next(now_us)
        self._last_us += count - 1
        return first


class Carried(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The payload of an event: `id` is the publication's, the same on each of the `channels` it was published on."""

    id: int
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    publisher: str = ""
    channels: int = 1
    properties: Properties | None = None
    expires_at_s: float | None = None
    before: int = 0  # the publication of its origin before it on the same topic that is in the log; 0: there is none
    stamp: int = 0  # of a retained one, where that is not its `id`

    @property
    def word(self) -> int:
        """What a retained message is compared by."""
        return self.stamp or self.id

    def message(self) -> Message:
        properties = self.properties or NO_PROPERTIES
        return Message(
            self.topic, self.payload, self.qos, self.retain, properties, self.expires_at_s, self.publisher, self.id,
            self.before,
        )  # fmt: skip


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Carried).decode


def encode_carried(identifier: int, message: Message, channels: int, stamp: int = 0) -> bytes:
    """A `Carried`; what most messages do not have is left off at the end."""
    properties = None if message.properties is NO_PROPERTIES else message.properties
    fields = (identifier, message.topic, message.payload, message.qos, message.retain, message.publisher, channels)
    if stamp:
        return _encode((*fields, properties, message.expires_at_s, message.before, stamp))
    if properties is None and message.expires_at_s is None and not message.before:
        return _encode(fields)
    return _encode((*fields, properties, message.expires_at_s, message.before))


def decode_carried(body: bytes) -> Carried:
    try:
        carried = _decode(body)
        check_topic_name(carried.topic)
    except (*MALFORMED, MqttError) as error:
        raise RemoteProtocolError(f"malformed event: {error}") from None
    if not 0 <= carried.qos <= 2 or not 0 <= carried.id < 1 << 63:
        raise RemoteProtocolError("malformed event: no such QoS or identifier")
    return carried
