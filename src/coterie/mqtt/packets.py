"""The fifteen MQTT control packets as plain records, the same for 3.1.1 and 5."""

from __future__ import annotations

import msgspec

from coterie.mqtt.properties import NO_PROPERTIES, Properties

MQTT_31 = 3  # the protocol levels on the wire
MQTT_3 = 4  # 3.1.1
MQTT_5 = 5


class Will(msgspec.Struct, frozen=True, gc=False):
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(msgspec.Struct, frozen=True, gc=False):
    client_id: str = ""
    version: int = MQTT_5
    clean_start: bool = True  # 3.1.1 calls it clean session
    keep_alive_s: int = 0
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NO_PROPERTIES


class ConnAck(msgspec.Struct, frozen=True, gc=False):
    """`reason` is always the MQTT 5 code; the codec translates for 3.1.1."""

    session_present: bool = False
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Publish(msgspec.Struct, frozen=True, gc=False):
    """A PUBLISH."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class PubAck(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class PubRec(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class PubRel(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class PubComp(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Subscription(msgspec.Struct, frozen=True, gc=False):
    """One filter with its options; `identifier` is 0 where the client gave none (it travels once per SUBSCRIBE)."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES


class SubAck(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class UnsubAck(msgspec.Struct, frozen=True, gc=False):
    """3.1.1 has no reasons here: they are dropped when written and empty when read."""

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NO_PROPERTIES


class PingReq(msgspec.Struct, frozen=True, gc=False):
    pass


class PingResp(msgspec.Struct, frozen=True, gc=False):
    pass


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Auth(msgspec.Struct, frozen=True, gc=False):
    reason: int = 0
    properties: Properties = NO_PROPERTIES


Acknowledgement = PubAck | PubRec | PubRel | PubComp
Packet = (
    Connect
    | ConnAck
    | Publish
    | Acknowledgement
    | Subscribe
    | SubAck
    | Unsubscribe
    | UnsubAck
    | PingReq
    | PingResp
    | Disconnect
    | Auth
)
