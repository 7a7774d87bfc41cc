"""Processes of one machine: who may leave out log and plan, what crosses as a run, and what is kept of it when not."""

from __future__ import annotations

import pytest

from coterie.broker.crossing import ROOM_BYTES
from coterie.broker.facts import PeerChoked, PeerDrained, PeerGone
from coterie.broker.orders import Tell, Write
from coterie.broker.writes import LOG, MESSAGES
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_3, MQTT_5, PubAck, Publish, SubAck, Subscribe, Subscription
from coterie.mqtt.properties import Properties
from tests.broker.driving import Driven
from tests.broker.groups import Group


@pytest.fixture
def pair() -> Group:
    return Group(copies=1, is_machine=True)


def reader(group: Group, node: int, topic: str = "t", qos: int = 1, **connect: object) -> int:
    driven = group.nodes[node]
    line = driven.client(f"reader-{node}-{topic}", **connect)
    group.pass_on()
    driven.say(line, Subscribe(1, (Subscription(topic, qos),)))
    group.pass_on()
    assert any(isinstance(one, SubAck) for one in driven.hear(line))
    return line


def writer(group: Group, node: int = 0) -> int:
    line = group.nodes[node].client("writer")
    group.pass_on()
    group.nodes[node].hear(line)
    return line


def log_of(driven: Driven) -> int:
    return len(driven.shelf.tables.get(LOG, {})) + len(driven.shelf.tables.get(MESSAGES, {}))


def payloads(driven: Driven, line: int) -> list[bytes]:
    return [one.payload for one in driven.hear(line) if isinstance(one, Publish)]


def test_what_nobody_elsewhere_wants_is_not_kept_and_goes_straight(pair: Group) -> None:
    here, there = pair.nodes
    line, one = writer(pair), reader(pair, 0)
    here.say(line, Publish("t", b"1", 1, packet_id=1))
    assert [type(one) for one in here.hear(line)] == [PubAck]  # without anybody else
    assert payloads(here, one) == [b"1"]
    assert log_of(here) == 0
    assert here.passes(line, encode_packet(Publish("t", b"2", 1, packet_id=2), MQTT_5))
    reader(pair, 1)
    assert not here.passes(line, encode_packet(Publish("t", b"3", 1, packet_id=3), MQTT_5))
    assert log_of(there) == 0


def test_what_a_sibling_wants_leaves_before_it_is_acknowledged(pair: Group) -> None:
    here, there = pair.nodes
    line, one = writer(pair), reader(pair, 1)
    here.orders.clear()
    here.say(line, Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 1, packet_id=2))
    assert [type(one) for one in here.orders] == [Tell, Write]
    assert [type(one) for one in here.hear(line)] == [PubAck, PubAck]
    pair.pass_on()
    assert payloads(there, one) == [b"1", b"2"]
    assert log_of(here) == log_of(there) == 0


def test_much_is_acknowledged_when_the_sibling_says_that_it_is_there(pair: Group) -> None:
    here, there = pair.nodes
    line, one = writer(pair), reader(pair, 1)
    here.say(line, Publish("t", bytes(ROOM_BYTES - 1000), 1, packet_id=1))
    assert [type(one) for one in here.hear(line)] == [PubAck]
    here.say(line, Publish("t", bytes(2000), 1, packet_id=2))
    assert here.hear(line) == []
    pair.pass_on()
    assert [type(one) for one in here.hear(line)] == [PubAck]
    assert len(payloads(there, one)) == 2
    here.say(line, Publish("t", bytes(2000), 1, packet_id=3))
    assert [type(one) for one in here.hear(line)] == [PubAck]


def test_while_a_sibling_does_not_read_nothing_is_acknowledged(pair: Group) -> None:
    here, _ = pair.nodes
    line, _ = writer(pair), reader(pair, 1)
    here.take(PeerChoked(1))
    here.say(line, Publish("t", b"1", 1, packet_id=1))
    assert here.hear(line) == []
    here.take(PeerDrained(1))
    pair.pass_on()
    assert [type(one) for one in here.hear(line)] == [PubAck]


def test_what_is_not_confirmed_when_the_link_breaks_is_kept_and_found(pair: Group) -> None:
    here, there = pair.nodes
    line, one = writer(pair), reader(pair, 1)
    pair.cut = {1}
    here.is_slow = True
    here.say(line, Publish("t", bytes(ROOM_BYTES), 1, packet_id=1))
    here.take(PeerGone(1, "broken"))
    assert here.hear(line) == []  # it is on its way to the disk
    here.is_slow = False
    while here.waiting:
        here.persist()
    assert [type(one) for one in here.hear(line)] == [PubAck]
    assert log_of(here) == 2
    assert payloads(there, one) == []


def test_in_doubt_it_is_kept_and_sent_to_all(pair: Group) -> None:
    here, there = pair.nodes
    line = writer(pair)
    one = there.client("late")
    there.hear(one)
    pair.cut = {0}
    there.say(one, Subscribe(1, (Subscription("t", 1),)))  # its number is raised, and nobody has been told
    pair.cut = {1}
    here.say(line, Publish("t", b"1", 1, packet_id=1))
    assert [type(one) for one in here.hear(line)] == [PubAck]
    assert log_of(here) == 2
    pair.cut = set()
    pair.pass_on()
    assert payloads(there, one) == [b"1"]


def test_what_a_session_wants_that_lasts_is_kept(pair: Group) -> None:
    here, _ = pair.nodes
    line = writer(pair)
    reader(pair, 1, properties=Properties(session_expiry_s=100))
    here.say(line, Publish("t", b"1", 1, packet_id=1))
    assert log_of(here) == 2


@pytest.mark.parametrize("node", [0, 1])
def test_a_session_that_lasts_voids_what_was_found_before(pair: Group, node: int) -> None:
    here, _ = pair.nodes
    line, _ = writer(pair), reader(pair, 1)
    here.say(line, Publish("t", b"1", 1, packet_id=1))
    pair.pass_on()
    assert log_of(here) == 0
    reader(pair, node, "+", properties=Properties(session_expiry_s=100))
    here.say(line, Publish("t", b"2", 1, packet_id=2))
    assert log_of(here) == 2


def test_messages_at_qos_0_cross_as_they_came(pair: Group) -> None:
    here, there = pair.nodes
    old = reader(pair, 1, qos=0, version=MQTT_3)
    new = reader(pair, 1, "+", qos=0, version=MQTT_5)
    line = here.client("old", version=MQTT_3)
    pair.pass_on()
    here.say(line, *(Publish("t", b"%d" % number) for number in range(5)))
    here.say(line, *(Publish("t", b"%d" % number) for number in range(5, 50)))
    pair.pass_on()
    assert payloads(there, old) == payloads(there, new) == [b"%d" % number for number in range(50)]
    assert there.broker.counts.events_in == 50


def test_a_sibling_that_is_away_is_no_reason_to_keep_what_it_never_wanted(pair: Group) -> None:
    here, _ = pair.nodes
    line, _ = writer(pair), reader(pair, 1, "other")
    here.take(PeerGone(1, "broken"))
    here.say(line, Publish("t", b"1", 1, packet_id=1))
    assert log_of(here) == 0
    here.say(line, Publish("other", b"2", 1, packet_id=2))
    assert log_of(here) == 2


def test_shared_subscriptions_take_turns_over_processes(pair: Group) -> None:
    here, there = pair.nodes
    line = writer(pair)
    one, two = reader(pair, 0, "$share/g/t"), reader(pair, 1, "$share/g/t")
    for number in range(40):
        here.now_s += 0.001
        here.say(line, Publish("t", b"%d" % number, number % 2, packet_id=1 if number % 2 else 0))
        pair.pass_on()
    got = [payloads(here, one), payloads(there, two)]
    assert sorted([*got[0], *got[1]], key=int) == [b"%d" % number for number in range(40)]
    assert all(got)
