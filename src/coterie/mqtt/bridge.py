"""A bridge between this network and another MQTT broker, without I/O: two clients, each publishing what the other gets.

    near   a client of our own node; its lasting session keeps what is published while the far broker is away
    far    a client of the other broker, whose lasting session keeps what it has for us while we are away

A message at QoS 1 is acknowledged on one side when the other side has acknowledged it, so nothing acknowledged is lost
whichever of the three (near, far, bridge) fails; after a failure it may come twice, as QoS 1 allows. QoS 2 is passed on
at QoS 1: exactly once would need both brokers to share a store.

Loops are cut in three ways. No Local keeps a broker from giving us back what we gave it. A mark in the user properties
names where a message has come from, so that a second bridge of the same network does not take it back. Where the far
side speaks MQTT 3.1.1, which has neither, rules whose filters overlap there in both directions are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from coterie.errors import ConfigError, LocalProtocolError
from coterie.mqtt.client import Client, Connected, Disconnected, Event, PublishDone, Refused, SubscribeDone
from coterie.mqtt.packets import MQTT_5, Connect, Publish, Subscription
from coterie.mqtt.properties import NO_PROPERTIES, Properties
from coterie.mqtt.reasons import MqttError
from coterie.mqtt.topics import check_filter, filter_matches, filters_overlap

MARK = "coterie-bridge"
WINDOW = 256  # messages under way in one direction
EXPIRY_S = 0xFFFFFFFF  # sessions wait for as long as the brokers let them
ONLY_IF_NEW = 1  # retained messages come once, not at every return


class BridgeRule(msgspec.Struct, frozen=True):
    """Topics `local` + filter here are topics `remote` + filter there, and pass in the directions allowed."""

    filter: str
    is_in: bool
    is_out: bool
    qos: int = 1
    local: str = ""
    remote: str = ""

    def inward(self, topic: str) -> str | None:
        """The name here of a topic there, if this rule lets it in."""
        return _renamed(topic, self.remote, self.local, self.filter) if self.is_in else None

    def outward(self, topic: str) -> str | None:
        return _renamed(topic, self.local, self.remote, self.filter) if self.is_out else None


def _renamed(topic: str, old: str, new: str, topic_filter: str) -> str | None:
    if not topic.startswith(old):
        return None
    rest = topic[len(old) :]
    return new + rest if filter_matches(topic_filter, rest) else None


def check_rules(name: str, rules: Sequence[BridgeRule], version: int) -> None:
    """Raise ConfigError for rules that cannot work, or that would send messages in circles."""
    for rule in rules:
        for one in (rule.local + rule.filter, rule.remote + rule.filter):
            try:
                check_filter(one)
            except MqttError as error:
                raise ConfigError(f"bridges {name}: filter", one, f"a topic filter: {error.reason}") from None
        if "$share/" in (rule.local[:7], rule.remote[:7], rule.filter[:7]):
            raise ConfigError(f"bridges {name}: filter", rule.filter, "a filter without $share: a bridge wants all")
    if version >= MQTT_5:
        return
    taken = [rule.remote + rule.filter for rule in rules if rule.is_in]
    given = [rule.remote + rule.filter for rule in rules if rule.is_out]
    for one in taken:
        for other in given:
            if filters_overlap(one, other):
                told = f"in and out apart ({other} is sent there and would come back): MQTT 3.1.1 cannot tell a loop"
                raise ConfigError(f"bridges {name}: filter", one, told, do="set version = 5, or other prefixes")


class BridgeSide:
    """One of the two clients: its rules, what it passed on and waits for, and what it counts."""

    def __init__(self, connect: Connect, wanted: tuple[Subscription, ...]) -> None:
        self.client = Client(connect, acknowledges=False)
        self.wanted = wanted
        self.waiting: dict[int, int] = {}  # our identifier here -> the other side's, to be acknowledged there


class Bridge:
    """One stint: from the far broker's CONNACK to the loss of either side. Then the driver makes another.

    The near side starts when the far one is there, so that what cannot be passed on waits in the node's store.
    """

    def __init__(
        self, network: str, server: str, rules: Sequence[BridgeRule], near: Connect, far: Connect, passed: BridgeCounts
    ) -> None:
        self._network, self._server, self._rules, self.passed = network, server, rules, passed
        is_modern = far.version >= MQTT_5
        self.near = BridgeSide(_lasting(near), _wanted(rules, inward=False, is_modern=True))
        self.far = BridgeSide(_lasting(far), _wanted(rules, inward=True, is_modern=is_modern))
        self.is_up = False
        self.trouble = ""

    def start(self, now_s: float) -> None:
        self.far.client.start(now_s)

    def from_far(self, data: bytes, now_s: float) -> bool:
        """Bytes from the other broker; False if the stint is over (`trouble` says why)."""
        return all(self._on_far(event, now_s) for event in self.far.client.receive(data, now_s))

    def from_near(self, data: bytes, now_s: float) -> bool:
        return all(self._on_near(event) for event in self.near.client.receive(data, now_s))

    def _on_far(self, event: Event, now_s: float) -> bool:
        match event:
            case Connected():
                if self.far.wanted:
                    self.far.client.subscribe(*self.far.wanted)
                self.near.client.start(now_s)
            case Publish():
                self._pass_on(event, self.far, self.near, inward=True)
            case _:
                return self._on_other(event, self.far, self.near, f"the broker at {self._server}")
        return True

    def _on_near(self, event: Event) -> bool:
        match event:
            case Connected():
                self.is_up = True
                if self.near.wanted:
                    self.near.client.subscribe(*self.near.wanted)
            case Publish():
                self._pass_on(event, self.near, self.far, inward=False)
            case _:
                return self._on_other(event, self.near, self.far, "this node")
        return True

    def _on_other(self, event: Event, side: BridgeSide, other: BridgeSide, who: str) -> bool:
        match event:
            case PublishDone():
                if event.reason >= 0x80:
                    self.passed.refused += 1
                origin = side.waiting.pop(event.packet_id, 0)
                if origin:
                    other.client.acknowledge(origin)
            case SubscribeDone():
                denied = [one.filter for one, code in zip(side.wanted, event.reasons, strict=False) if code >= 0x80]
                if denied:
                    self.trouble = f"{who} does not let it subscribe to {', '.join(denied)}"
            case Refused():
                self.trouble = f"{who} refused the connection (reason {event.reason})"
                return False
            case Disconnected():
                self.trouble = f"{who} ended the connection (reason {event.reason}) {event.detail}".rstrip()
                return False
        return True

    def _pass_on(self, message: Publish, side: BridgeSide, other: BridgeSide, inward: bool) -> None:
        marks = [value for name, value in message.properties.user_properties if name == MARK]
        is_loop = (self._network if inward else self._server) in marks
        topic = None if is_loop else self._topic(message.topic, inward)
        if topic is None:
            if is_loop:
                self.passed.loops += 1
            if message.qos:
                side.client.acknowledge(message.packet_id)
            return
        properties = _carried(message.properties, self._server if inward else self._network)
        try:
            packet_id = other.client.publish(topic, message.payload, message.qos, message.retain, properties)
        except LocalProtocolError:
            self.passed.refused += 1  # a name that this side does not allow
            packet_id = 0
        if packet_id:
            other.waiting[packet_id] = message.packet_id
        elif message.qos:
            side.client.acknowledge(message.packet_id)
        if inward:
            self.passed.taken += 1
        else:
            self.passed.given += 1

    def _topic(self, topic: str, inward: bool) -> str | None:
        for rule in self._rules:
            name = rule.inward(topic) if inward else rule.outward(topic)
            if name is not None:
                return name
        return None


class BridgeCounts(msgspec.Struct):
    """What a bridge did since the node started."""

    taken: int = 0
    given: int = 0
    loops: int = 0
    refused: int = 0


def _lasting(connect: Connect) -> Connect:
    properties = NO_PROPERTIES
    if connect.version >= MQTT_5:
        properties = Properties(session_expiry_s=EXPIRY_S, receive_maximum=WINDOW)
    return msgspec.structs.replace(connect, clean_start=False, properties=properties)


def _wanted(rules: Sequence[BridgeRule], inward: bool, is_modern: bool) -> tuple[Subscription, ...]:
    chosen = [rule for rule in rules if (rule.is_in if inward else rule.is_out)]
    names = [(rule.remote if inward else rule.local) + rule.filter for rule in chosen]
    if not is_modern:
        return tuple(Subscription(name, rule.qos) for name, rule in zip(names, chosen, strict=True))
    return tuple(
        Subscription(name, rule.qos, no_local=True, retain_as_published=True, retain_handling=ONLY_IF_NEW)
        for name, rule in zip(names, chosen, strict=True)
    )


def _carried(properties: Properties, mark: str) -> Properties:
    """What a message keeps on its way, with the mark of where it came from."""
    return Properties(
        payload_format=properties.payload_format,
        message_expiry_s=properties.message_expiry_s,
        content_type=properties.content_type,
        response_topic=properties.response_topic,
        correlation_data=properties.correlation_data,
        user_properties=(*properties.user_properties, (MARK, mark)),
    )
