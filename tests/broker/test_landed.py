"""What a process of the same machine says comes to the same by the straight way as by the long one."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.facts import Choked, Closed, Drained
from coterie.broker.frames import CONTROL
from coterie.mqtt import packets as p
from coterie.mqtt.properties import Properties
from tests.broker.groups import Group

NAMES = ("a", "b", "c", "d")  # the first two at the first process
TOPICS = ("t/1", "t/2", "other")
FILTERS = ("t/1", "t/+", "#", "$share/g/t/1")


class Machines:
    """Two machines of two processes that hear the same; on the second what one says is offered the straight way."""

    def __init__(self) -> None:
        self.both = Group(copies=1, is_machine=True), Group(copies=1, is_machine=True)
        self.both[1].is_straight = True
        self.lines: dict[str, int] = {}

    def of(self, name: str) -> int:
        return NAMES.index(name) // 2

    def connect(self, name: str, version: int, is_lasting: bool = False) -> None:
        self.leave(name)
        properties = Properties(session_expiry_s=100) if is_lasting and version == p.MQTT_5 else Properties()
        for group in self.both:
            driven = group.nodes[self.of(name)]
            self.lines[name] = driven.client(name, version=version, clean_start=not is_lasting, properties=properties)
        self.pass_on()

    def leave(self, name: str) -> None:
        self.take(name, Closed)
        self.lines.pop(name, None)

    def take(self, name: str, kind: Any) -> None:
        if name in self.lines:
            for group in self.both:
                group.nodes[self.of(name)].take(kind(self.lines[name]))
            self.pass_on()

    def say(self, name: str, *packets: p.Packet) -> None:
        if name in self.lines:
            for group in self.both:
                group.nodes[self.of(name)].say(self.lines[name], *packets)
            self.pass_on()

    def pass_on(self) -> None:
        for group in self.both:
            group.pass_on()
            for driven in group.nodes:
                driven.wait(0.001)
            group.pass_on()

    def check(self) -> None:
        for group in self.both:
            group.wait(1.0)
        for long, short in zip(*(group.nodes for group in self.both), strict=True):
            assert short.written == long.written
            assert short.closed == long.closed
            assert short.broker.counts == long.broker.counts
            assert short.broker.counts.fan_out.counts == long.broker.counts.fan_out.counts
            assert short.broker.counts.late_us.counts == long.broker.counts.late_us.counts
            assert short.broker.neighbourhood.heard_count == long.broker.neighbourhood.heard_count


def crowd(version: int = p.MQTT_3) -> Machines:
    """Two subscribers at the second process, and a publisher at the first that has spoken before."""
    machines = Machines()
    for name in NAMES:
        machines.connect(name, version)
    for name in ("c", "d"):
        machines.say(name, p.Subscribe(1, (p.Subscription("t/1", 0),)))
    machines.say("a", p.Publish("t/1", b"first"))
    machines.both[1].landed = 0
    return machines


name, topic = st.sampled_from(NAMES), st.sampled_from(TOPICS)
action = st.one_of(
    st.tuples(st.just("publish"), name, topic, st.sampled_from((0, 0, 0, 1)), st.integers(1, 3)),
    st.tuples(st.just("publish"), name, topic, st.just(0), st.integers(1, 3)),
    st.tuples(st.just("subscribe"), name, st.sampled_from(FILTERS), st.integers(0, 2)),
    st.tuples(st.just("unsubscribe"), name, st.sampled_from(FILTERS)),
    st.tuples(st.just("connect"), name, st.sampled_from((p.MQTT_3, p.MQTT_5)), st.booleans()),
    st.tuples(st.just("leave"), name),
    st.tuples(st.just("choked"), name, st.booleans()),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(action, max_size=40))
def test_the_straight_way_comes_to_the_same(actions: list[tuple[Any, ...]]) -> None:
    machines = Machines()
    for one in NAMES:
        machines.connect(one, p.MQTT_3)
    for number, (kind, who, *rest) in enumerate(actions, 1):
        match kind:
            case "publish":
                to, qos, count = rest
                payloads = [f"{number:06}-{one}".encode() for one in range(count)]
                ids = [number * 3 + one if qos else 0 for one in range(count)]
                machines.say(
                    who,
                    *(p.Publish(to, payload, qos, packet_id=one) for payload, one in zip(payloads, ids, strict=True)),
                )
            case "subscribe":
                machines.say(who, p.Subscribe(number, (p.Subscription(rest[0], rest[1]),)))
            case "unsubscribe":
                machines.say(who, p.Unsubscribe(number, (rest[0],)))
            case "connect":
                machines.connect(who, *rest)
            case "leave":
                machines.leave(who)
            case "choked":
                machines.take(who, Choked if rest[0] else Drained)
    machines.check()


def test_a_run_for_plain_clients_goes_straight() -> None:
    for version in (p.MQTT_3, p.MQTT_5):
        machines = crowd(version)
        for number in range(5):
            machines.say("a", *(p.Publish("t/1", b"%d" % number) for _ in range(number + 1)))
        assert machines.both[1].landed == 5
        machines.check()


def test_what_is_not_so_simple_goes_the_long_way() -> None:
    machines = crowd()
    machines.say("a", p.Publish("t/1", b"kept", 1, packet_id=1))
    machines.take("c", Choked)
    machines.say("a", p.Publish("t/1", b"one of them does not read"))
    machines.take("c", Drained)
    machines.connect("d", p.MQTT_5)
    machines.say("d", p.Subscribe(2, (p.Subscription("t/1", 0),)))
    machines.say("a", p.Publish("t/1", b"one of them speaks another version"))
    machines.leave("d")
    machines.say("c", p.Subscribe(3, (p.Subscription("t/2", 0),)))
    machines.say("a", p.Publish("t/1", b"two topics"), p.Publish("t/2", b"in a turn"))
    assert machines.both[1].landed == 0
    machines.say("a", p.Publish("t/1", b"as before"))
    assert machines.both[1].landed == 1
    machines.check()


def test_what_comes_late_is_dropped_and_nobody_sees_it_twice() -> None:
    machines = crowd()
    group = machines.both[1]
    group.nodes[0].say(machines.lines["a"], p.Publish("t/1", b"once"))
    _, _, chunks = group.said[-1]
    frames = [(CONTROL, b"".join(chunks)[5:])]
    there = group.nodes[1]
    assert there.lands(0, frames)
    before = there.written.copy()
    assert there.lands(0, frames)
    assert there.written == before
    assert there.broker.counts.late_dropped == 1


def test_what_is_no_frame_of_ours_is_left_to_the_long_way() -> None:
    there = crowd().both[1].nodes[1]
    for body in (b"", b"\0", b"\x04\x93\xabSiblingRuns\0\x91\x97\0", b"\x04\x93\xabSiblingRuns\0\x91\x97\0\xa3t/1"):
        assert not there.lands(0, [(CONTROL, body)])
    assert not there.lands(7, [(CONTROL, b"")])  # nobody we know


def test_a_group_that_was_joined_meanwhile_has_its_turns() -> None:
    machines = crowd()
    group = machines.both[1]
    group.nodes[0].say(machines.lines["a"], p.Publish("t/1", b"on its way"))
    _, _, chunks = group.said[-1]
    there = group.nodes[1]
    there.say(machines.lines["c"], p.Subscribe(2, (p.Subscription("$share/g/t/1", 0),)))
    assert not there.lands(0, [(CONTROL, b"".join(chunks)[5:])])
