"""Delivery at QoS 1 and 2: windows, queues, resends, aliases, expiry, and exactly once through broken connections."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.mqtt import packets as p
from coterie.mqtt.client import Client
from coterie.mqtt.connection import Connection, Ended, Stage
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.options import NEVER_S, ServerOptions
from coterie.mqtt.properties import Properties
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.reasons import Reason
from coterie.mqtt.session import Delivery, Session
from coterie.mqtt.topics import TopicNames
from tests.mqtt.conversation import Line, Network, Peer, Serving, settle

FOREVER: dict[str, Any] = {"session_expiry_s": NEVER_S}


def publish(network: Network, *payloads: bytes, topic: str = "x", qos: int = 1, **properties: Any) -> None:
    for payload in payloads:
        found = Properties(**properties)
        expiry_s = found.message_expiry_s
        expires_at_s = None if expiry_s is None else network.now_s + expiry_s
        network.broker.deliver(Message(topic, payload, qos, False, found, expires_at_s), network.now_s)
    network.collect()


# -- windows and queues --------------------------------------------------------------------------------------------


def test_the_clients_receive_maximum_is_kept_and_order_with_it() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=2, properties={"receive_maximum": 2})
    publish(network, b"1", qos=1)
    publish(network, b"2", b"3", qos=2)
    publish(network, b"4", qos=1)
    first, second = peer.take()
    assert (first.payload, second.payload) == (b"1", b"2")
    peer.send(p.PubRec(second.packet_id))
    assert peer.take() == [p.PubRel(second.packet_id)]  # PUBREC alone does not open the window
    peer.send(p.PubAck(first.packet_id))
    assert peer.payloads() == [b"3"]
    peer.send(p.PubComp(second.packet_id))
    assert peer.payloads() == [b"4"]


def test_qos_0_does_not_wait_for_the_window() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=1, properties={"receive_maximum": 1})
    publish(network, b"1", b"2", qos=1)
    publish(network, b"now", qos=0)
    assert peer.payloads() == [b"1", b"now"]


def test_a_refused_message_at_qos_2_frees_its_place() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=2, properties={"receive_maximum": 1})
    publish(network, b"1", b"2", qos=2)
    peer.send(p.PubRec(peer.take()[0].packet_id, Reason.QUOTA_EXCEEDED))
    assert peer.payloads() == [b"2"]


@pytest.mark.parametrize(("shed", "kept"), [("newest", [b"1", b"2", b"3"]), ("oldest", [b"1", b"4", b"5"])])
def test_a_full_queue_sheds_and_counts(shed: Any, kept: list[bytes]) -> None:
    network = Network(ServerOptions(queue_count_max=2, shed=shed))
    peer = network.subscriber("s", "x", qos=1, properties={"receive_maximum": 1})
    publish(network, b"1", b"2", b"3", b"4", b"5")
    heard = []
    while found := peer.take(p.Publish):
        heard += [packet.payload for packet in found]
        peer.send(p.PubAck(found[-1].packet_id))
    assert heard == kept
    assert peer.session.shed_count == 2


def test_a_queue_is_bounded_in_bytes() -> None:
    network = Network(ServerOptions(queue_bytes_max=100, shed="newest"))
    peer = network.subscriber("s", "x", qos=1, properties=FOREVER)
    peer.cut()
    publish(network, b"a" * 60, b"b" * 60, b"c" * 30)
    session = network.broker.of["s"]
    assert (session.queue_count, session.shed_count) == (2, 1)


def test_a_client_that_does_not_read_costs_only_itself() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=1)
    other = network.subscriber("t", "x")
    peer.connection.set_congested(True, network.now_s)
    publish(network, b"0", qos=0)
    publish(network, b"1", qos=1)
    assert other.payloads() == [b"0", b"1"]
    assert peer.take() == []
    assert (peer.session.shed_count, peer.session.queue_count) == (1, 1)
    peer.connection.set_congested(False, network.now_s)
    network.collect()
    assert peer.payloads() == [b"1"]
    publish(network, b"2", qos=0)
    assert peer.payloads() == [b"2"]


def test_packets_larger_than_the_client_takes_are_dropped() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=2, properties={"maximum_packet_size": 50})
    for qos in (0, 1, 2):
        publish(network, b"a" * 60, b"b" * 20, qos=qos)
    assert peer.payloads() == [b"b" * 20] * 3
    assert peer.session.shed_count == 3
    assert peer.session.inflight_count == 2


def test_a_release_is_answered_only_after_a_message_was_received() -> None:
    for version in (p.MQTT_3, p.MQTT_5):
        network = Network()
        peer = network.subscriber("s", "x", qos=2, version=version)
        publish(network, b"1", qos=2)
        (got,) = peer.take(p.Publish)
        peer.send(p.PubComp(got.packet_id))
        assert peer.ended is not None
        assert peer.ended.reason is Reason.PROTOCOL_ERROR


def test_packet_identifiers_wrap_and_skip_what_is_in_use() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=1)
    publish(network, b"first")
    (held,) = peer.take()
    assert held.packet_id == 1
    peer.session.last_packet_id = 65_534
    publish(network, b"a", b"b")
    assert [packet.packet_id for packet in peer.take()] == [65_535, 2]


# -- the other direction -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [1, 2])
def test_more_than_the_servers_receive_maximum_ends_the_connection(qos: int) -> None:
    """Answers are withheld here, as a node does until a message is safe."""
    options = ServerOptions(receive_maximum=3)
    connection, facts = opened(options)
    for packet_id in range(1, 5):
        raw = encode_packet(p.Publish("x", b"", qos, packet_id=packet_id))
        facts += connection.receive(raw, 0.0)
    assert [type(fact) for fact in facts] == [p.Publish] * 3 + [Ended]
    assert isinstance(facts[-1], Ended)
    assert facts[-1].reason == Reason.RECEIVE_MAXIMUM_EXCEEDED
    assert connection.output[-1][:3] == b"\xe0" + bytes((len(connection.output[-1]) - 2, 0x93))


@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledging_opens_the_window_again(qos: int) -> None:
    options = ServerOptions(receive_maximum=2)
    connection, _ = opened(options)
    for packet_id in range(1, 20):
        facts = connection.receive(encode_packet(p.Publish("x", b"", qos, packet_id=packet_id)), 0.0)
        assert isinstance(facts[0], p.Publish)
        connection.acknowledge(facts[0])
        if qos == 2:
            assert connection.receive(encode_packet(p.PubRel(packet_id)), 0.0) == []


def opened(options: ServerOptions) -> tuple[Connection, list[Any]]:
    connection = Connection(options, TopicNames(), 0.0)
    connect = p.Connect("a")
    facts = connection.receive(encode_packet(connect), 0.0)
    assert facts == [connect]
    connection.accept(Session("a", options), connect, 0.0, session_present=False)
    return connection, []


def test_nothing_is_decoded_and_little_is_kept_while_connect_is_being_decided() -> None:
    options = ServerOptions(unread_bytes_max=100)
    connection = Connection(options, TopicNames(), 0.0)
    connection.receive(encode_packet(p.Connect("a")), 0.0)
    assert connection.receive(b"\xc0\x00" * 50, 0.0) == []
    (ended,) = connection.receive(b"\xc0\x00", 0.0)
    assert isinstance(ended, Ended)
    assert connection.stage is Stage.CLOSED


def test_a_duplicate_at_qos_2_is_answered_but_not_published_again() -> None:
    network = Network()
    watcher = network.subscriber("w", "x", qos=2)
    sender = network.peer("p", properties=FOREVER)
    sender.send(p.Publish("x", b"once", 2, packet_id=5))
    sender.cut()
    sender = network.peer("p", clean_start=False, properties=FOREVER)
    sender.take()
    sender.send(p.Publish("x", b"once", 2, dup=True, packet_id=5))
    assert sender.take() == [p.PubRec(5)]
    sender.send(p.PubRel(5))
    sender.send(p.PubRel(5))
    assert sender.take() == [p.PubComp(5), p.PubComp(5, Reason.PACKET_ID_NOT_FOUND)]
    sender.send(p.Publish("x", b"new", 2, packet_id=5))
    assert watcher.payloads() == [b"once", b"new"]


def test_an_answer_that_comes_late_reaches_the_new_connection() -> None:
    """The client reconnects while its QoS 2 message is still being made safe."""
    options = ServerOptions()
    session = Session("a", options)
    connections = []
    for _ in range(2):
        connection = Connection(options, TopicNames(), 0.0)
        connect = p.Connect("a", clean_start=False)
        connection.receive(encode_packet(connect), 0.0)
        connection.accept(session, connect, 0.0, session_present=bool(connections))
        connections.append(connection)
    old, new = connections
    session.attach(old, 0.0)
    (message,) = old.receive(encode_packet(p.Publish("x", b"", 2, packet_id=5)), 0.0)
    assert isinstance(message, p.Publish)
    old.disconnect(Reason.SESSION_TAKEN_OVER)
    session.attach(new, 0.0)
    new.output.clear()
    assert new.receive(encode_packet(p.Publish("x", b"", 2, dup=True, packet_id=5)), 0.0) == []
    assert new.output == []
    old.acknowledge(message)
    assert new.output == [b"\x50\x02\x00\x05"]


# -- resuming ------------------------------------------------------------------------------------------------------


def test_unacknowledged_messages_are_sent_again_in_order() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=2, properties=FOREVER)
    publish(network, b"1", b"2", b"3", qos=2)
    publish(network, b"4", qos=1)
    packets = peer.take()
    peer.send(p.PubRec(packets[1].packet_id))
    peer.cut()
    publish(network, b"5")
    again = network.peer("s", clean_start=False, properties={**FOREVER, "receive_maximum": 3})
    _, *rest = again.take()
    assert rest == [
        msgspec.structs.replace(packets[0], dup=True),
        p.PubRel(packets[1].packet_id),
        msgspec.structs.replace(packets[2], dup=True),
    ]
    again.send(p.PubComp(packets[1].packet_id))
    assert again.take() == [msgspec.structs.replace(packets[3], dup=True)]
    again.send(p.PubRec(packets[0].packet_id), p.PubComp(packets[0].packet_id))
    found = again.take(p.Publish)
    assert [(packet.payload, packet.dup) for packet in found] == [(b"5", False)]


def test_an_unknown_identifier_is_answered_and_forgotten() -> None:
    peer = Network().subscriber("s", "x")
    peer.send(p.PubRec(9), p.PubAck(9), p.PubComp(9))
    assert peer.take() == [p.PubRel(9, Reason.PACKET_ID_NOT_FOUND)]


def test_an_answer_of_the_wrong_kind_is_an_error() -> None:
    network = Network()
    for answer in (p.PubRec, p.PubComp):
        peer = network.subscriber(answer.__name__, "x", qos=1)
        publish(network, b"1")
        peer.send(answer(peer.take()[0].packet_id))
        assert [packet.reason for packet in peer.take(p.Disconnect)] == [Reason.PROTOCOL_ERROR]


def test_messages_expire_in_the_queue_but_not_once_sent() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=1, properties={**FOREVER, "receive_maximum": 1})
    publish(network, b"sent", message_expiry_s=5)
    publish(network, b"short", message_expiry_s=5)
    publish(network, b"long", message_expiry_s=50)
    peer.take()
    peer.cut()
    network.wait(20)
    again = network.peer("s", clean_start=False, properties={**FOREVER, "receive_maximum": 9})
    first, second = again.take(p.Publish)
    assert (first.payload, first.dup, first.properties.message_expiry_s) == (b"sent", True, 0)
    assert (second.payload, second.properties.message_expiry_s) == (b"long", 30)
    assert again.session.expired_count == 1


# -- aliases -------------------------------------------------------------------------------------------------------


def test_aliases_towards_the_client() -> None:
    network = Network(ServerOptions(topic_alias_out_maximum=2))
    peer = network.subscriber("s", "#", qos=1, properties={**FOREVER, "topic_alias_maximum": 9})
    for topic in ("a", "b", "a", "c", "b"):
        publish(network, b"m", topic=topic, qos=1)
    found = [(packet.topic, packet.properties.topic_alias) for packet in peer.take()]
    assert found == [("a", 1), ("b", 2), ("", 1), ("c", None), ("", 2)]
    peer.cut()
    again = network.peer("s", clean_start=False, properties={**FOREVER, "topic_alias_maximum": 1})
    found = [(packet.topic, packet.properties.topic_alias) for packet in again.take(p.Publish)]
    assert found == [("a", 1), ("b", None), ("", 1), ("c", None), ("b", None)]


def test_aliases_of_the_client() -> None:
    network = Network(ServerOptions(topic_alias_maximum=3))
    watcher = network.subscriber("w", "#")
    peer = network.peer("p")
    peer.take()
    alias = Properties(topic_alias=3)
    peer.send(p.Publish("a", b"1", properties=alias), p.Publish("", b"2", properties=alias))
    peer.send(p.Publish("b", b"3", properties=alias), p.Publish("", b"4", properties=alias))
    found = watcher.take()
    assert [(packet.topic, packet.payload) for packet in found] == [("a", b"1"), ("a", b"2"), ("b", b"3"), ("b", b"4")]
    assert all(packet.properties == Properties() for packet in found)
    for topic, number, code in (("a", 4, Reason.TOPIC_ALIAS_INVALID), ("", 1, Reason.PROTOCOL_ERROR)):
        other = network.peer("q")
        other.take()
        other.send(p.Publish(topic, b"", properties=Properties(topic_alias=number)))
        assert [packet.reason for packet in other.take()] == [code]


# -- durability ----------------------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 32))
@settings(max_examples=60)
def test_the_journal_tells_a_store_all_it_needs(seed: int) -> None:
    """A store that applies the journal holds what `export` says, after any conversation."""
    draw = Random(seed)
    network = Network(ServerOptions(queue_count_max=5, shed=draw.choice(("newest", "oldest"))))
    peer = network.subscriber("s", "x", qos=2, properties=FOREVER)
    session = peer.session
    session.journal = []
    for step in range(30):
        action = draw.randrange(5)
        if action == 0:
            publish(network, b"%d" % step, qos=draw.randrange(1, 3))
        elif action == 1 and session.is_online:
            for packet in peer.take():
                answer(peer, packet)
        elif action == 2:
            peer.cut()
        elif action == 3 and not session.is_online:
            peer = network.peer("s", clean_start=False, properties={**FOREVER, "receive_maximum": 2})
        elif session.is_online:
            peer.send(p.Publish("y", b"", 2, packet_id=1 + step % 3))
            peer.send(p.PubRel(1 + step % 2))
    held: dict[int, Delivery] = {}
    incoming: dict[int, None] = {}
    for kind, value in session.journal:
        if kind in ("delivery", "progress"):
            held[value.sequence] = value
        elif kind == "done":
            held.pop(value, None)
        elif kind == "incoming":
            incoming[value] = None
        elif kind == "released":
            del incoming[value]
    exported = session.export()
    assert sorted(one["sequence"] for one in exported["deliveries"]) == sorted(held)
    assert sorted(exported["incoming"]) == sorted(incoming)


def answer(peer: Peer, packet: p.Packet) -> None:
    if isinstance(packet, p.Publish) and packet.qos:
        peer.send(p.PubAck(packet.packet_id) if packet.qos == 1 else p.PubRec(packet.packet_id))
    elif isinstance(packet, p.PubRel):
        peer.send(p.PubComp(packet.packet_id))


@pytest.mark.parametrize("version", [p.MQTT_3, p.MQTT_5])
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=60)
def test_exactly_once_and_in_order_through_broken_lines_and_restarts(version: int, seed: int) -> None:
    """Lines break between any two bytes; now and then the broker restarts from what a store would hold."""
    draw = Random(seed)
    options = ServerOptions(receive_maximum=draw.choice((1, 3, 100)), inflight_count_max=draw.choice((1, 2, 50)))
    broker = Serving(options)
    properties = Properties(session_expiry_s=NEVER_S) if version == p.MQTT_5 else Properties()
    connects = [p.Connect(name, version, False, properties=properties) for name in ("p", "s")]
    lines = [Line(broker, Client(connect)) for connect in connects]
    for line in lines:
        line.connect(0.0, resume=True)
        settle(*lines)
    lines[1].client.subscribe(p.Subscription("x/+", 2))
    settle(*lines)
    count = 25
    for number in range(count):
        lines[0].client.publish(f"x/{number % 3}", b"%d" % number, qos=2)
        for _ in range(draw.randrange(3)):
            draw.choice(lines).turn(0.0, draw.randrange(40), draw.randrange(40))
        if draw.random() < 0.3:
            draw.choice(lines).connect(0.0, resume=True)
        if draw.random() < 0.1:
            broker = restarted(broker, options)
            for line in lines:
                line.broker, line.connection = broker, None
                line.connect(0.0, resume=True)
    for line in lines:
        line.connect(0.0, resume=True)
    settle(*lines)
    heard = [event.payload for event in lines[1].events if isinstance(event, p.Publish)]
    assert heard == [b"%d" % number for number in range(count)]
    assert lines[0].client.unfinished_count == 0
    assert broker.of["s"].inflight_count == broker.of["s"].queue_count == 0
    assert broker.of["p"].incoming == {}


def restarted(broker: Serving, options: ServerOptions) -> Serving:
    fresh = Serving(options)
    for session in broker.of.values():
        fresh.restore(Session.restore(session.export(), options), 0.0)
    return fresh


def test_a_session_keeps_its_own_copy_of_nothing() -> None:
    """One message for many receivers is one object, however many queues it waits in."""
    options = ServerOptions()
    sessions = [Session(f"s{number}", options) for number in range(3)]
    shared = SharedPublish(Message("x", b"payload", 1))
    for session in sessions:
        session.expiry_s = NEVER_S
        assert session.deliver(shared, 1, False, (), 0.0)
    assert len({id(session._queue[0].message) for session in sessions}) == 1
