"""Conversations of clients with a broker: connecting, subscribing, wills, expiry, sharing, retained messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.options import NEVER_S, ServerOptions
from coterie.mqtt.properties import Properties
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import OpenPolicy
from tests.mqtt.conversation import Network, Peer

VERSIONS = [p.MQTT_3, p.MQTT_5]
FOREVER = {"session_expiry_s": NEVER_S}


def test_connack_announces_what_the_server_allows() -> None:
    peer = Network(ServerOptions.conformance()).peer("", keep_alive_s=120)
    (connack,) = peer.take()
    assert connack.reason == 0
    assert connack.properties.server_keep_alive_s == 60
    assert connack.properties.receive_maximum == 20
    assert connack.properties.assigned_client_id == peer.session.client_id
    assert connack.properties.topic_alias_maximum == 64


def test_a_chosen_keep_alive_within_the_limit_stands() -> None:
    (connack,) = Network(ServerOptions.conformance()).peer("a", keep_alive_s=30).take()
    assert connack.properties.server_keep_alive_s is None
    assert connack.properties.assigned_client_id is None


def test_3_1_1_needs_an_identifier_for_a_lasting_session() -> None:
    network = Network()
    peer = network.peer("", version=p.MQTT_3, clean_start=False)
    assert peer.take() == [p.ConnAck(False, Reason.CLIENT_ID_NOT_VALID)]
    assert peer.ended is not None
    assert network.peer("", version=p.MQTT_3).take() == [p.ConnAck()]


@pytest.mark.parametrize("level", [3, 6])
def test_an_unknown_version_is_told_so(level: int) -> None:
    network = Network()
    peer = Peer(network, p.MQTT_3 if level < 5 else p.MQTT_5)
    network.peers.append(peer)
    peer.send_raw(encode_packet(p.Connect("a")).replace(b"MQTT\x05", b"MQTT" + bytes((level,))))
    (connack,) = peer.take()
    assert connack.reason == Reason.UNSUPPORTED_PROTOCOL_VERSION
    assert peer.ended is not None


def test_extended_authentication_is_refused_cleanly() -> None:
    network = Network()
    (connack,) = network.peer("a", properties={"authentication_method": "GS2"}).take()
    assert connack.reason == Reason.BAD_AUTHENTICATION_METHOD
    peer = network.peer("b")
    peer.take()
    peer.send(p.Auth())
    (goodbye,) = peer.take()
    assert goodbye.reason == Reason.PROTOCOL_ERROR


@pytest.mark.parametrize("packet", [p.Connect("a"), p.ConnAck(), p.SubAck(1, (0,)), p.PingResp(), p.UnsubAck(1, (0,))])
def test_what_a_client_must_not_send(packet: p.Packet) -> None:
    peer = Network().peer("a")
    peer.take()
    peer.send(packet)
    (goodbye,) = peer.take()
    assert goodbye.reason == Reason.PROTOCOL_ERROR
    assert peer.ended is not None
    assert peer.ended.linger


def test_packets_behind_connect_are_served() -> None:
    network = Network()
    peer = Peer(network, p.MQTT_5)
    network.peers.append(peer)
    peer.send(p.Connect("a"), p.PingReq(), p.Subscribe(7, (p.Subscription("x", 1),)))
    assert [type(packet) for packet in peer.take()] == [p.ConnAck, p.PingResp, p.SubAck]


class RedirectPolicy(OpenPolicy):
    def connect(self, packet: p.Connect) -> Ruling:
        return Ruling(Reason.USE_ANOTHER_SERVER, "other:1884")


def test_a_client_is_sent_elsewhere() -> None:
    network = Network(policy=RedirectPolicy())
    (connack,) = network.peer("a").take()
    assert (connack.reason, connack.properties.server_reference) == (Reason.USE_ANOTHER_SERVER, "other:1884")
    (connack,) = network.peer("a", version=p.MQTT_3).take()
    assert connack.reason == Reason.SERVER_UNAVAILABLE
    network = Network()
    peer = network.peer("a", will=p.Will("w"))
    watcher = network.subscriber("b", "w")
    peer.take()
    network.broker.disconnect(
        peer.connection, Reason.USE_ANOTHER_SERVER, network.now_s, server_reference="other:1884", with_will=False
    )
    network.collect()
    (goodbye,) = peer.take()
    assert (goodbye.reason, goodbye.properties.server_reference) == (Reason.USE_ANOTHER_SERVER, "other:1884")
    assert watcher.take() == []


def test_silence_is_noticed_after_one_and_a_half_keep_alives() -> None:
    network = Network()
    peer = network.peer("a", keep_alive_s=10)
    network.wait(14)
    peer.send(p.PingReq())
    peer.take()
    network.wait(14.9)
    assert peer.ended is None
    network.wait(0.1)
    assert peer.ended is not None
    assert [packet.reason for packet in peer.take()] == [Reason.KEEP_ALIVE_TIMEOUT]


def test_a_client_that_only_trickles_gets_no_longer_than_the_others() -> None:
    network = Network()
    slow = Peer(network, p.MQTT_5)
    network.peers.append(slow)
    for byte in encode_packet(p.Connect("a"))[:10]:
        slow.send_raw(bytes((byte,)))
        network.wait(network.broker.options.connect_timeout_s / 10)
    assert slow.ended is not None


def test_clients_that_come_and_go_leave_nothing_behind() -> None:
    network = Network()
    lasting = {"session_expiry_s": 1_000_000}
    for number in range(500):
        peer = network.peer(f"a{number % 3}", keep_alive_s=60_000, clean_start=number % 2 == 0, properties=lasting)
        if number % 5:
            peer.cut()
        network.peers.clear()
    assert len(network.broker.of) == 3
    assert len(network.broker._timers) <= 6
    assert len(network.broker._timers._heap) < 100


def test_sessions_and_subscriptions_are_bounded() -> None:
    network = Network(ServerOptions(session_count_max=1, subscription_count_max=1))
    peer = network.subscriber("a", "x", "y")
    assert list(peer.session.subscriptions) == ["x"]
    peer.send(p.Subscribe(2, (p.Subscription("x", 1), p.Subscription("y", 1))))
    assert peer.take() == [p.SubAck(2, (1, Reason.QUOTA_EXCEEDED))]
    assert network.peer("b").take()[0].reason == Reason.QUOTA_EXCEEDED
    assert network.peer("a").take()[0].reason == Reason.SUCCESS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_is_resumed_and_a_clean_start_forgets_it(version: int) -> None:
    network = Network()
    lasting: dict[str, Any] = {"version": version, "clean_start": False}
    if version == p.MQTT_5:
        lasting["properties"] = FOREVER
    peer = network.subscriber("a", "x", qos=1, **lasting)
    peer.cut()
    network.peer("pub").send(p.Publish("x", b"missed", 1, packet_id=1))
    again = network.peer("a", **lasting)
    connack, missed = again.take()
    assert connack.session_present
    assert (missed.payload, missed.dup) == (b"missed", False)
    fresh = network.peer("a", **{**lasting, "clean_start": True})
    assert not fresh.take()[0].session_present
    assert fresh.session.subscriptions == {}
    assert network.broker.index.matches("x").receivers == ()


def test_a_second_connection_takes_the_session_over() -> None:
    network = Network()
    watcher = network.subscriber("w", "will/#")
    late = p.Will("will/late", properties=Properties(will_delay_s=5))
    first = network.peer("a", will=p.Will("will/now"), properties=FOREVER)
    first.take()
    second = network.peer("a", clean_start=False, will=late, properties=FOREVER)
    assert [packet.reason for packet in first.take()] == [Reason.SESSION_TAKEN_OVER]
    assert second.take()[0].session_present
    assert [packet.topic for packet in watcher.take()] == ["will/now"]
    third = network.peer("a", clean_start=False, properties=FOREVER)  # back before the delayed will is due
    network.wait(10)
    assert watcher.take() == []
    assert third.ended is None
    network.peer("a", clean_start=False, will=late, properties=FOREVER)
    network.peer("a", clean_start=True, properties=FOREVER)  # the session ends, and with it the delay
    assert [packet.topic for packet in watcher.take()] == ["will/late"]


@pytest.mark.parametrize(
    ("delay_s", "expiry_s", "due_s"), [(0, 0, 0.0), (0, 60, 0.0), (5, 60, 5.0), (60, 5, 5.0), (7, NEVER_S, 7.0)]
)
def test_the_will_comes_after_its_delay_or_with_the_end_of_the_session(
    delay_s: int, expiry_s: int, due_s: float
) -> None:
    """Section 3.1.3.2.2: whichever is earlier."""
    network = Network()
    watcher = network.subscriber("w", "will")
    will = p.Will("will", b"gone", 1, properties=Properties(will_delay_s=delay_s, content_type="text"))
    network.peer("a", will=will, properties={"session_expiry_s": expiry_s}).cut()
    if due_s:
        network.wait(due_s - 0.01)
        assert watcher.take() == []
    network.wait(0.01)
    (message,) = watcher.take()
    assert (message.payload, message.properties) == (b"gone", Properties(content_type="text"))
    network.wait(100)
    assert watcher.take() == []


@pytest.mark.parametrize(("reason", "count"), [(Reason.SUCCESS, 0), (Reason.DISCONNECT_WITH_WILL, 1)])
def test_disconnect_decides_about_the_will(reason: Reason, count: int) -> None:
    network = Network()
    watcher = network.subscriber("w", "will")
    peer = network.peer("a", will=p.Will("will"))
    peer.send(p.Disconnect(reason))
    assert peer.ended is not None
    assert len(watcher.take()) == count
    peer.cut()
    assert watcher.take() == []


def test_a_retained_will_is_kept() -> None:
    network = Network()
    network.peer("a", will=p.Will("status", b"offline", retain=True)).cut()
    late = network.peer("b")
    late.take()
    late.send(p.Subscribe(1, (p.Subscription("status"),)))
    assert [(packet.payload, packet.retain) for packet in late.take(p.Publish)] == [(b"offline", True)]


def test_sessions_expire_and_disconnect_can_change_when() -> None:
    network = Network(ServerOptions(session_expiry_s_max=100))
    peer = network.peer("a", properties=FOREVER)
    assert peer.take()[0].properties.session_expiry_s == 100
    peer.send(p.Subscribe(1, (p.Subscription("x"),)), p.Disconnect(0, Properties(session_expiry_s=10)))
    network.wait(9)
    assert "a" in network.broker.of
    network.wait(1)
    assert "a" not in network.broker.of
    assert not network.broker.index.has_filter("x")
    short = network.peer("b")
    short.take()
    short.send(p.Disconnect(0, Properties(session_expiry_s=10)))
    assert [packet.reason for packet in short.take()] == [Reason.PROTOCOL_ERROR]


@pytest.mark.parametrize("subscriber_version", VERSIONS)
@pytest.mark.parametrize("publisher_version", VERSIONS)
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("sent", [0, 1, 2])
def test_every_qos_meets_every_other(sent: int, granted: int, publisher_version: int, subscriber_version: int) -> None:
    network = Network()
    subscriber = network.subscriber("s", "x/+", qos=granted, version=subscriber_version)
    publisher = network.peer("p", version=publisher_version)
    publisher.take()
    for number in (1, 2):  # the second time through the inline scan
        publisher.send(p.Publish("x/y", b"hello", sent, packet_id=number if sent else 0))
        (message,) = subscriber.take()
        qos = min(sent, granted)
        assert (message.topic, message.payload, message.qos, message.retain) == ("x/y", b"hello", qos, False)
        if qos == 1:
            subscriber.send(p.PubAck(message.packet_id))
        if qos == 2:
            subscriber.send(p.PubRec(message.packet_id))
            assert subscriber.take() == [p.PubRel(message.packet_id)]
            subscriber.send(p.PubComp(message.packet_id))
        assert subscriber.session.inflight_count == 0
        if sent == 1:
            assert publisher.take() == [p.PubAck(number)]
        if sent == 2:
            assert publisher.take() == [p.PubRec(number)]
            publisher.send(p.PubRel(number))
            assert publisher.take() == [p.PubComp(number)]
    assert publisher.take() == []


def test_overlapping_subscriptions_give_one_message_with_all_identifiers_at_the_highest_qos() -> None:
    network = Network()
    peer = network.peer("s")
    for identifier, (topic_filter, qos) in enumerate([("x/+", 0), ("x/#", 2), ("x/y", 1)], start=1):
        properties = Properties(subscription_identifiers=(identifier,))
        peer.send(p.Subscribe(identifier, (p.Subscription(topic_filter, qos, identifier=identifier),), properties))
    peer.take()
    network.peer("p").send(p.Publish("x/y", b"m", 2, packet_id=9))
    (message,) = peer.take()
    assert message.qos == 2
    assert message.properties.subscription_identifiers == (1, 2, 3)


def test_no_local_and_retain_as_published() -> None:
    network = Network()
    peer = network.peer("a")
    peer.send(p.Subscribe(1, (p.Subscription("x", 0, no_local=True), p.Subscription("y", 0, retain_as_published=True))))
    other = network.subscriber("b", "#")
    peer.take()
    peer.send(p.Publish("x", b"1"), p.Publish("x", b"2"), p.Publish("y", b"3", retain=True), p.Publish("y", b"4"))
    assert [(packet.payload, packet.retain) for packet in peer.take()] == [(b"3", True), (b"4", False)]
    assert [(packet.payload, packet.retain) for packet in other.take()] == [
        (b"1", False), (b"2", False), (b"3", False), (b"4", False),
    ]  # fmt: skip


@pytest.mark.parametrize(("handling", "expected"), [(0, [1, 1]), (1, [1, 0]), (2, [0, 0])])
def test_retain_handling(handling: int, expected: list[int]) -> None:
    network = Network()
    network.peer("p").send(p.Publish("x/1", b"kept", 2, retain=True, packet_id=1))
    peer = network.peer("s")
    peer.take()
    for count in expected:
        peer.send(p.Subscribe(1, (p.Subscription("x/#", 1, retain_handling=handling),)))
        found = peer.take(p.Publish)
        assert [(packet.payload, packet.retain, packet.qos) for packet in found] == [(b"kept", True, 1)] * count


def test_retained_messages_are_replaced_removed_and_expire() -> None:
    network = Network()
    publisher = network.peer("p")
    publisher.send(p.Publish("a", b"1", retain=True), p.Publish("a", b"2", retain=True))
    publisher.send(p.Publish("b", b"3", retain=True), p.Publish("b", b"", retain=True))
    publisher.send(p.Publish("c", b"4", retain=True, properties=Properties(message_expiry_s=10)))
    network.wait(4)
    first = network.peer("s")
    first.take()
    first.send(p.Subscribe(1, (p.Subscription("#"),)))
    found = first.take(p.Publish)
    assert [(packet.topic, packet.payload) for packet in found] == [("a", b"2"), ("c", b"4")]
    assert found[1].properties.message_expiry_s == 6
    network.wait(6)
    assert [message.topic for message in network.broker.retained] == ["a"]


def test_shared_subscriptions_take_turns_and_keep_out_of_the_way_of_others() -> None:
    network = Network()
    members = [network.subscriber(f"m{number}", "$share/g/x/+", qos=1) for number in range(3)]
    plain = network.subscriber("plain", "x/#", qos=1)
    publisher = network.peer("p")
    for number in range(1, 10):
        publisher.send(p.Publish("x/y", b"%d" % number, 1, packet_id=number))
    assert [len(member.take(p.Publish)) for member in members] == [3, 3, 3]
    assert len(plain.take(p.Publish)) == 9
    members[0].cut()
    publisher.send(p.Publish("x/y", b"a"), p.Publish("x/y", b"b"))
    assert [len(member.take(p.Publish)) for member in members] == [0, 1, 1]
    late = network.peer("late")
    publisher.send(p.Publish("x/r", b"r", retain=True))
    late.take()
    late.send(p.Subscribe(1, (p.Subscription("$share/h/x/r"),)))
    assert late.take(p.Publish) == []  # section 3.8.4: no retained messages for a shared subscription


def test_dollar_topics_are_not_for_leading_wildcards() -> None:
    network = Network()
    peer = network.subscriber("s", "#", "+/x")
    network.peer("p").send(p.Publish("$SYS/x", b""), p.Publish("a/x", b""))
    assert [packet.topic for packet in peer.take()] == ["a/x"]


class StrictPolicy(OpenPolicy):
    def publish(self, session: Session, topic: str) -> Reason:
        return Reason.NOT_AUTHORIZED if topic == "secret" else Reason.SUCCESS


def test_permissions() -> None:
    network = Network(policy=StrictPolicy(("test/nosubscribe",)))
    peer = network.peer("a")
    peer.take()
    peer.send(p.Subscribe(1, (p.Subscription("test/nosubscribe", 2), p.Subscription("secret", 2))))
    assert peer.take() == [p.SubAck(1, (0x80, 2))]
    peer.send(p.Publish("secret", b"", 1, packet_id=1), p.Publish("secret", b"", 2, packet_id=2), p.Publish("secret"))
    assert peer.take() == [p.PubAck(1, Reason.NOT_AUTHORIZED), p.PubRec(2, Reason.NOT_AUTHORIZED)]
    peer.send(p.PubRel(2))
    assert peer.take() == [p.PubComp(2, Reason.PACKET_ID_NOT_FOUND)]
    old = network.peer("b", version=p.MQTT_3)
    old.take()
    old.send(p.Publish("secret", b"", 2, packet_id=2))
    old.send(p.PubRel(2))
    assert old.take() == [p.PubRec(2), p.PubComp(2)]  # 3.1.1 cannot say no


def test_unsubscribe() -> None:
    network = Network()
    peer = network.subscriber("a", "x", "$share/g/y")
    peer.send(p.Unsubscribe(3, ("x", "z", "$share/g/y")))
    assert peer.take() == [p.UnsubAck(3, (0, Reason.NO_SUBSCRIPTION_EXISTED, 0))]
    peer.send(p.Publish("x"), p.Publish("y"))
    assert peer.take() == []


def test_properties_pass_through() -> None:
    network = Network()
    peer = network.subscriber("s", "x", qos=1)
    properties = Properties(
        payload_format=1, content_type="text/plain", response_topic="answers", correlation_data=b"\0\1",
        user_properties=(("a", "1"), ("a", "2"), ("", "")),
    )  # fmt: skip
    network.peer("p").send(p.Publish("x", b"hi", 1, packet_id=1, properties=properties))
    assert [packet.properties for packet in peer.take()] == [properties]


def test_sessions_come_back_from_a_store() -> None:
    network = Network()
    peer = network.subscriber("a", "x/+", "$share/g/y", qos=2, properties=FOREVER)
    publisher = network.peer("p")
    publisher.send(*(p.Publish("x/1", b"%d" % number, 2, packet_id=number) for number in (1, 2)))
    peer.send(p.PubRec(peer.take()[0].packet_id), p.Publish("z", b"", 2, packet_id=77))
    peer.cut()
    publisher.send(p.Publish("x/1", b"3", 1, packet_id=3))
    stored = network.broker.of["a"].export()
    restarted = Network()
    restarted.broker.restore(Session.restore(stored, restarted.broker.options), restarted.now_s)
    assert restarted.broker.of["a"].export() == stored
    restarted.peer("p").send(p.Publish("x/2", b"4", 1, packet_id=4), p.Publish("y", b"5", 1, packet_id=5))
    again = restarted.peer("a", clean_start=False, properties=FOREVER)
    connack, *rest = again.take()
    assert connack.session_present
    assert rest[0] == p.PubRel(1)
    assert [(packet.payload, packet.dup) for packet in rest[1:]] == [
        (b"2", True), (b"3", False), (b"4", False), (b"5", False),
    ]  # fmt: skip
    again.send(p.Publish("z", b"", 2, dup=True, packet_id=77))
    assert again.take() == [p.PubRec(77)]


def test_a_session_that_was_online_at_the_crash_is_lost_at_the_restart() -> None:
    network = Network()
    network.peer("a", will=p.Will("will", b"gone", retain=True), properties={"session_expiry_s": 10})
    stored = network.broker.of["a"].export()
    restarted = Network()
    restarted.broker.restore(Session.restore(stored, restarted.broker.options), restarted.now_s)
    restarted.broker.publish_wills(restarted.now_s)
    assert [message.payload for message in restarted.broker.retained] == [b"gone"]
    restarted.wait(10)
    assert restarted.broker.of == {}


def test_an_answer_to_a_client_that_has_gone_does_nothing() -> None:
    network = Network()
    broker = network.broker
    connection = broker.open(network.now_s)
    (connect,) = connection.receive(encode_packet(p.Connect("a")), network.now_s)
    assert isinstance(connect, p.Connect)
    broker.lost(connection, network.now_s)
    assert broker.connect(connection, connect, Ruling(), network.now_s) is not None
    peer = network.peer("b")
    broker.disconnect(peer.connection, Reason.ADMINISTRATIVE_ACTION, network.now_s)
    late = p.Subscribe(1, (p.Subscription("x"),))
    broker.confirm(peer.connection, late, broker.subscribe(peer.connection, late), network.now_s)
    assert list(broker.index.filters()) == []
    assert broker.of == {}


def test_retained_messages_for_one_subscription_are_bounded() -> None:
    network = Network(ServerOptions(retained_count_max=3))
    publisher = network.peer("p")
    publisher.send(*(p.Publish(f"x/{number}", b"r", retain=True) for number in range(5)))
    peer = network.subscriber("s", "y")
    peer.send(p.Subscribe(1, (p.Subscription("x/+"),)))
    assert len(peer.take(p.Publish)) == 3
    assert peer.session.shed_count == 2


def test_a_goodbye_fits_the_clients_packet_size() -> None:
    peer = Network().peer("a", properties={"maximum_packet_size": 30})
    peer.take()
    peer.send(p.Auth())
    assert peer.take() == [p.Disconnect(Reason.PROTOCOL_ERROR)]


def test_who_takes_no_answer_of_ours_gets_none_and_is_let_go() -> None:
    network = Network()
    peer = Peer(network, 5)
    packet = p.Connect(client_id="a", version=5, properties=Properties(maximum_packet_size=2))
    peer.ended = network.broker.serve(peer.connection, encode_packet(packet, 5), network.now_s)
    assert peer.take() == []
    assert peer.ended is not None
    assert "a" not in network.broker.of


@given(st.lists(st.binary(max_size=60), max_size=4), st.sampled_from(VERSIONS), st.booleans())
@settings(max_examples=200)
def test_noise_ends_the_connection_and_nothing_else(chunks: list[bytes], version: int, is_connected: bool) -> None:
    network = Network()
    bystander = network.subscriber("b", "quiet")
    peer = network.peer("a", version=version) if is_connected else Peer(network, version)
    for chunk in chunks:
        peer.ended = network.broker.serve(peer.connection, chunk, network.now_s) or peer.ended
    network.peer("p").send(p.Publish("quiet", b"still here"))
    assert bystander.payloads() == [b"still here"]
