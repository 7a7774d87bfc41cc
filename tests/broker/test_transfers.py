"""A publisher's socket goes to the process where its topic is wanted; until it is there nothing of it was promised."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.broker.facts import Closed, GotSocket, PeerGone
from coterie.broker.orders import Order, PassSocket, Pause, Resume
from coterie.broker.transfers import ANSWER_S, SPARE, published_topic
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.packets import MQTT_3, MQTT_5, Disconnect, PingReq, PubAck, Publish, Subscribe, Subscription, Will
from coterie.mqtt.properties import Properties
from tests.broker.driving import Driven
from tests.broker.groups import Group

FIRST = Publish("t", b"1", 1, packet_id=1)


@pytest.fixture
def pair() -> Group:
    group = Group(copies=1, is_machine=True)
    reader(group, 1)
    return group


def reader(group: Group, node: int, topic: str = "t") -> int:
    line = group.nodes[node].client(f"reader-{node}-{topic}")
    group.nodes[node].say(line, Subscribe(1, (Subscription(topic, 1),)))
    group.pass_on()
    group.nodes[node].hear(line)
    return line


def writer(group: Group, **connect: object) -> int:
    line = group.nodes[0].client("writer", is_movable=True, **connect)
    group.pass_on()
    group.nodes[0].hear(line)
    return line


def passed(driven: Driven) -> list[PassSocket]:
    return [one for one in driven.orders if isinstance(one, PassSocket)]


def land(group: Group) -> int:
    """Node 1 gets the socket that node 0 gave away; its line there."""
    (order,) = passed(group.nodes[0])
    line = group.nodes[1].new_line()
    group.nodes[1].take(GotSocket(line, "127.0.0.1", 0, order.number))
    return line


def acknowledged(driven: Driven, line: int) -> list[int]:
    return [one.packet_id for one in driven.hear(line) if isinstance(one, PubAck)]


def payloads(driven: Driven, line: int) -> list[bytes]:
    return [one.payload for one in driven.hear(line) if isinstance(one, Publish)]


@pytest.mark.parametrize("is_told_first", [True, False])
def test_it_goes_where_its_topic_is_wanted_with_all_it_sent(pair: Group, is_told_first: bool) -> None:
    here, there = pair.nodes
    line = writer(pair, will=Will("t", b"will"))
    here.say(line, FIRST)
    assert here.hear(line) == []  # nothing is promised before it is known whose it is
    here.say(line, Publish("t", b"2", 1, packet_id=2))
    while is_told_first or not passed(here):
        if not pair.pass_one():
            break
    there_line = land(pair)
    pair.pass_on()
    assert acknowledged(there, there_line) == [1, 2]
    assert payloads(there, 1) == [b"1", b"2"]
    assert (list(here.broker.sessions.of), list(here.broker.clients.lines)) == ([], [])
    there.say(there_line, Publish("t", b"3", 1, packet_id=3))
    assert acknowledged(there, there_line) == [3]
    there.cut(there_line)
    assert payloads(there, 1) == [b"3", b"will"]  # its will has come with it


def test_one_without_a_name_keeps_the_one_it_was_given(pair: Group) -> None:
    here, there = pair.nodes
    line = here.client("", is_movable=True)
    (name,) = here.broker.sessions.of
    here.hear(line)
    here.say(line, FIRST)
    pair.pass_on()
    assert acknowledged(there, land(pair)) == [1]
    assert name in there.broker.sessions.of


@pytest.mark.parametrize("version", [3, MQTT_3])
def test_older_clients_too(pair: Group, version: int) -> None:
    here, there = pair.nodes
    line = writer(pair, version=version)
    here.say(line, FIRST)
    pair.pass_on()
    there_line = land(pair)
    assert there.written[there_line] == b"\x40\x02\x00\x01"


def stays(pair: Group, line: int, *packets: Publish | Subscribe | PingReq) -> bool:
    here = pair.nodes[0]
    here.orders.clear()
    here.say(line, *packets)
    return acknowledged(here, line) == [1] and not any(isinstance(one, Pause) for one in here.orders)


def test_who_has_something_here_or_is_wanted_elsewhere_too_stays(pair: Group) -> None:
    assert stays(pair, writer(pair, properties=Properties(session_expiry_s=10)), FIRST)  # its session outlives it
    line = pair.nodes[0].client("fixed")
    pair.nodes[0].hear(line)
    assert stays(pair, line, FIRST)  # behind TLS, say
    assert stays(pair, writer(pair), Publish("other", b"1", 1, packet_id=1))  # nobody wants it
    assert stays(pair, writer(pair), Subscribe(9, (Subscription("x"),)), FIRST)  # it has a subscription here
    reader(pair, 0)
    assert stays(pair, writer(pair), FIRST)  # it is wanted here too


def test_two_siblings_want_it() -> None:
    group = Group(3, copies=1, is_machine=True)
    reader(group, 1)
    reader(group, 2)
    assert stays(group, writer(group), FIRST)


def test_only_its_first_word_counts_and_a_ping_is_none(pair: Group) -> None:
    here = pair.nodes[0]
    line = writer(pair)
    here.say(line, Publish("other", b"0", 0))
    assert stays(pair, line, FIRST)
    line = writer(pair)
    here.say(line, PingReq())
    here.say(line, FIRST)
    pair.pass_on()
    assert passed(here)


def lost(pair: Group) -> None:
    pair.nodes[0].take(PeerGone(1, "broken"))


def silent(pair: Group) -> None:
    pair.nodes[0].wait(ANSWER_S + 0.1)


def wanted_here(pair: Group) -> None:
    """By the time the answer comes."""
    here = pair.nodes[0]
    line = here.client("late")
    here.say(line, Subscribe(1, (Subscription("t", 1),)))
    pair.cut = set()
    pair.pass_on()


@pytest.mark.parametrize("event", [lost, silent, wanted_here])
def test_it_stays_if_it_is_not_to_be(pair: Group, event: Callable[[Group], None]) -> None:
    here = pair.nodes[0]
    line = writer(pair)
    pair.cut = {1}
    here.say(line, FIRST)
    here.say(line, Publish("t", b"2", 1, packet_id=2))
    assert acknowledged(here, line) == []
    event(pair)
    assert acknowledged(here, line) == [1, 2]
    assert not passed(here)
    paused: list[Order] = [one for one in here.orders if isinstance(one, Pause | Resume) and one.line == line]
    assert paused == [Pause(line), Resume(line)]


def test_a_sibling_with_more_than_its_share_takes_nobody(pair: Group) -> None:
    here, there = pair.nodes
    for number in range(SPARE):
        there.client(f"c{number}")
    line = writer(pair)
    for number in range(4):
        here.client(f"d{number}")
    here.say(line, FIRST)
    pair.pass_on()
    assert passed(here)  # 9 and 5
    for number in range(4 * SPARE):
        there.client(f"e{number}")
    line = writer(pair)
    here.say(line, FIRST)
    pair.pass_on()
    assert len(passed(here)) == 1
    assert acknowledged(here, line) == [1]


def test_who_has_gone_meanwhile_goes_nowhere(pair: Group) -> None:
    here, there = pair.nodes
    line = writer(pair)
    here.say(line, FIRST)
    here.take(Closed(line))
    pair.pass_on()
    assert not passed(here)
    line = writer(pair)
    here.say(line, FIRST)
    pair.pass_on()
    there_line = land(pair)
    there.say(there_line, Disconnect())
    assert list(there.broker.sessions.of) == ["reader-1-t"]


def test_a_socket_of_which_nothing_is_told_is_closed_with_the_link(pair: Group) -> None:
    there = pair.nodes[1]
    line = there.new_line()
    there.take(GotSocket(line, "127.0.0.1", 0, 7))
    there.say(line, FIRST)
    assert there.hear(line) == []
    there.take(PeerGone(0, "broken"))
    assert there.closed == {line: False}


@pytest.mark.parametrize(
    ("data", "topic"),
    [
        (encode_packet(Publish("a/b", bytes(300)), MQTT_3), "a/b"),
        (encode_packet(Publish("a/b", bytes(3)), MQTT_5), "a/b"),
        (encode_packet(Publish("a/b", bytes(30_000)), MQTT_3)[:9], "a/b"),
        (encode_packet(Publish("a/b", bytes(30_000)), MQTT_3)[:8], ""),
        (encode_packet(Publish("", b"", properties=Properties(topic_alias=1))), ""),
        (encode_packet(PingReq()), ""),
        (b"0\x80\x80\x80\x80\x80", ""),
        (b"0\x05\x00\x02\xff\xff1", ""),
    ],
)
def test_the_topic_of_the_first_packet(data: bytes, topic: str) -> None:
    assert published_topic(data) == topic
