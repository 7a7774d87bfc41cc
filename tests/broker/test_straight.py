"""The straight way comes to the same as the long one, whatever happens around it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.commands import Reload
from coterie.broker.facts import Bytes, Closed
from coterie.broker.orders import Note, Order
from coterie.broker.settings import LimitsSection
from coterie.broker.writes import DELIVERIES
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.properties import Properties
from tests.broker.bytecodes import message
from tests.broker.driving import Driven, setup

NAMES = ("a", "b", "c")
TOPICS = ("t/1", "t/2", "other")
FILTERS = ("t/1", "t/+", "#", "$share/g/t/1")


class Pair:
    """Two brokers that hear the same; the second is offered everything by the straight way first."""

    def __init__(self, **sections: Any) -> None:
        self.both = Driven(setup(**sections)), Driven(setup(**sections))
        self.lines: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        self.passed = 0
        self.noted: tuple[list[bytes], list[bytes]] = [], []
        for driven, noted in zip(self.both, self.noted, strict=True):
            driven.on_order = lambda order, noted=noted: _note(order, noted)

    def connect(self, name: str, version: int, is_lasting: bool, **connect: Any) -> None:
        self.leave(name)
        for driven in self.both:
            self.lines[name] = driven.open()
        self.versions[name] = version
        if is_lasting and version == p.MQTT_5:
            connect["properties"] = Properties(session_expiry_s=100)
        self.hear(name, encode_packet(p.Connect(name, version, not is_lasting, 60, **connect), version))

    def leave(self, name: str) -> None:
        line = self.lines.pop(name, None)
        if line is not None:
            for driven in self.both:
                driven.take(Closed(line))

    def say(self, name: str, *packets: p.Packet) -> None:
        if name in self.lines:
            self.hear(name, b"".join(encode_packet(one, self.versions[name]) for one in packets))

    def hear(self, name: str, data: bytes) -> None:
        long, short = self.both
        line = self.lines[name]
        long.take(Bytes(line, data))
        if short.passes(line, data):
            self.passed += 1
        else:
            short.take(Bytes(line, data))
        for driven in self.both:
            driven.wait(0.001)

    def check(self) -> None:
        long, short = self.both
        for driven in self.both:
            driven.wait(1.0)
        assert short.written == long.written
        assert short.closed == long.closed
        assert [len(rows) for rows in short.shelf.tables.values()] == [len(rows) for rows in long.shelf.tables.values()]
        assert short.broker.counts == long.broker.counts
        assert short.broker.counts.fan_out.counts == long.broker.counts.fan_out.counts
        assert self.noted[1] == self.noted[0]


def _note(order: Order, noted: list[bytes]) -> None:
    if isinstance(order, Note):
        noted += order.lines


name, topic = st.sampled_from(NAMES), st.sampled_from(TOPICS)
action = st.one_of(
    st.tuples(st.just("publish"), name, topic, st.sampled_from((0, 0, 1, 1, 1, 2)), st.integers(0, 2)),
    st.tuples(st.just("publish"), name, topic, st.sampled_from((0, 1)), st.integers(0, 2)),
    st.tuples(st.just("subscribe"), name, st.sampled_from(FILTERS), st.integers(0, 2)),
    st.tuples(st.just("unsubscribe"), name, st.sampled_from(FILTERS)),
    st.tuples(st.just("connect"), name, st.sampled_from((p.MQTT_3, p.MQTT_5)), st.booleans(), st.integers(0, 3)),
    st.tuples(st.just("leave"), name),
    st.tuples(st.just("acknowledge"), name, st.booleans()),
    st.tuples(st.just("half"), name, topic),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(action, max_size=60))
def test_the_straight_way_comes_to_the_same(actions: list[tuple[Any, ...]]) -> None:
    pair = Pair()
    for one in NAMES:
        pair.connect(one, p.MQTT_3, False)
    for packet_id, (kind, who, *rest) in enumerate(actions, 1):
        match kind:
            case "publish":
                to, qos, size = rest
                payload = f"{packet_id:06}".encode() * (1 + 30 * size)
                pair.say(who, p.Publish(to, payload, qos, packet_id=packet_id if qos else 0))
            case "subscribe":
                pair.say(who, p.Subscribe(packet_id, (p.Subscription(rest[0], rest[1]),)))
            case "unsubscribe":
                pair.say(who, p.Unsubscribe(packet_id, (rest[0],)))
            case "connect":
                limit = {"properties": Properties(receive_maximum=rest[2])} if rest[2] and not rest[1] else {}
                pair.connect(who, rest[0], rest[1], **(limit if rest[0] == p.MQTT_5 else {}))
            case "leave":
                pair.leave(who)
            case "acknowledge" if who in pair.lines:
                for sent in _unanswered(pair, who):
                    pair.say(who, p.PubAck(sent))
                    if rest[0]:
                        break
            case "half" if who in pair.lines:
                data = encode_packet(p.Publish(rest[0], b"x" * 40), pair.versions[who])
                pair.hear(who, data[:10])
                pair.hear(who, data[10:])
    pair.check()


def _unanswered(pair: Pair, who: str) -> list[int]:
    session = pair.both[0].broker.sessions.of.get(who)
    found = () if session is None else session.state().deliveries
    return [one.packet_id for one in found if one.qos == 1 and one.packet_id]


def test_most_of_what_comes_alone_goes_the_straight_way() -> None:
    pair = Pair()
    for one in NAMES:
        pair.connect(one, p.MQTT_5, False)
    pair.say("b", p.Subscribe(1, (p.Subscription("t/1", 1),)))
    pair.say("a", p.Publish("t/1", b"first of its topic"))
    for number in range(1, 9):
        pair.say("a", p.Publish("t/1", b"x" * number, number % 2, packet_id=number))
    for number in range(1, 5):
        pair.say("b", p.PubAck(number))
    assert pair.passed == 12
    pair.check()


def test_a_limit_on_publishing_closes_the_straight_way() -> None:
    pair = Pair()
    pair.connect("a", p.MQTT_3, False)
    pair.connect("b", p.MQTT_3, False)
    pair.say("b", p.Subscribe(1, (p.Subscription("t/1", 0),)))
    for _ in range(3):
        pair.say("a", p.Publish("t/1", b"x"))
    assert pair.passed == 2
    for driven in pair.both:
        made = driven.broker.setup
        driven.command(Reload(made.access, LimitsSection(publishes_per_s_client=1.0), made.options, 100))
    for _ in range(3):
        pair.say("a", p.Publish("t/1", b"x"))
    assert pair.passed == 2
    pair.check()


def test_what_has_to_be_kept_goes_the_long_way() -> None:
    pair = Pair()
    pair.connect("a", p.MQTT_3, False)
    pair.connect("b", p.MQTT_3, True)
    pair.say("b", p.Subscribe(1, (p.Subscription("t/1", 1),)))
    for number in range(1, 4):
        pair.say("a", p.Publish("t/1", b"x", 1, packet_id=number))
    assert pair.passed == 0
    pair.check()
    assert len(pair.both[1].shelf.tables[DELIVERIES]) == 3


def test_it_is_the_shorter_way():
    for qos in (0, 1):
        for long, straight in zip(message(qos, False), message(qos, True), strict=True):
            assert straight < long or straight == long == 0
