"""The client's state machine against the broker's."""

from __future__ import annotations

import pytest

from coterie.errors import LocalProtocolError
from coterie.mqtt import client as c
from coterie.mqtt import packets as p
from coterie.mqtt.client import Client
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.options import NEVER_S, ServerOptions
from coterie.mqtt.properties import Properties
from coterie.mqtt.reasons import MqttError, Reason
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.sessions import OpenPolicy
from tests.mqtt.conversation import Line, Serving, settle

VERSIONS = [p.MQTT_3, p.MQTT_5]


def online(broker: Serving, client_id: str, version: int = p.MQTT_5, **properties: int) -> Line:
    line = Line(broker, Client(p.Connect(client_id, version, properties=Properties(**properties))))
    line.connect(0.0, resume=False)
    settle(line)
    return line


@pytest.mark.parametrize("version", VERSIONS)
def test_publish_and_subscribe_at_every_qos(version: int) -> None:
    broker = Serving(ServerOptions(topic_alias_out_maximum=1))
    subscriber = online(broker, "s", version, **({"topic_alias_maximum": 5} if version == p.MQTT_5 else {}))
    publisher = online(broker, "p", version)
    packet_id = subscriber.client.subscribe(p.Subscription("x/#", 2), p.Subscription("y", 1))
    settle(subscriber)
    assert subscriber.events[-1] == c.SubscribeDone(packet_id, (2, 1))
    sent = [publisher.client.publish(f"x/{qos}", b"m%d" % qos, qos) for qos in (0, 1, 2, 0, 1, 2)]
    settle(publisher, subscriber)
    heard = [(event.topic, event.payload) for event in subscriber.events if isinstance(event, p.Publish)]
    assert heard == [(f"x/{qos}", b"m%d" % qos) for qos in (0, 1, 2, 0, 1, 2)]
    done = [event.packet_id for event in publisher.events if isinstance(event, c.PublishDone)]
    assert sorted(done) == sorted(number for number in sent if number)
    subscriber.client.unsubscribe("x/#")
    settle(subscriber)
    assert isinstance(subscriber.events[-1], c.UnsubscribeDone)
    publisher.client.disconnect()
    settle(publisher)
    assert "p" not in broker.of


def test_the_servers_window_is_respected() -> None:
    broker = Serving(ServerOptions(receive_maximum=2))
    line = online(broker, "p")
    for _ in range(7):
        line.client.publish("x", b"", 1)
    assert len(line.client.output) == 2
    settle(line)
    assert line.client.unfinished_count == 0


class Redirect(OpenPolicy):
    def connect(self, packet: p.Connect) -> Ruling:
        if c.follows_redirect(packet):
            return Ruling(Reason.USE_ANOTHER_SERVER, "one.example:1884 [::1]:1885 two.example bad:port")
        return Ruling()


def test_a_redirect_is_shown_to_those_who_follow() -> None:
    broker = Serving(policy=Redirect())
    line = Line(broker, Client(p.Connect("a", properties=c.redirect_accepted())))
    line.connect(0.0, resume=False)
    settle(line)
    servers = (("one.example", 1884), ("::1", 1885), ("two.example", None), ("bad", None))
    assert line.events == [c.Refused(Reason.USE_ANOTHER_SERVER, servers)]
    stubborn = online(broker, "b")
    assert isinstance(stubborn.events[0], c.Connected)
    assert stubborn.connection is not None
    broker.disconnect(stubborn.connection, Reason.SERVER_MOVED, 0.0, server_reference="three.example:1")
    settle(stubborn)
    assert stubborn.events[-1] == c.Disconnected(Reason.SERVER_MOVED, (("three.example", 1),))


def test_an_assigned_identifier_is_used_again() -> None:
    broker = Serving()
    line = online(broker, "", session_expiry_s=NEVER_S)
    event = line.events[0]
    assert isinstance(event, c.Connected)
    assert event.client_id
    line.connect(0.0, resume=True)
    settle(line)
    assert line.events[-1] == c.Connected(True, event.client_id, line.events[-1].properties)  # type: ignore[union-attr]


def test_a_server_that_forgot_the_session_gets_the_messages_as_new() -> None:
    line = online(Serving(), "p")
    line.client.publish("x", b"one", 1)
    line.client.publish("x", b"two", 2)
    line.broker, line.connection = Serving(), None
    line.connect(0.0, resume=True)
    settle(line)
    assert line.client.unfinished_count == 0


def test_pings_keep_the_connection_and_notice_its_end() -> None:
    line = Line(Serving(), Client(p.Connect("a", keep_alive_s=10)))
    line.connect(0.0, resume=False)
    settle(line)
    client = line.client
    assert client.on_time(9.9)
    assert client.output == []
    assert client.deadline_s == 10.0
    assert client.on_time(10.0)
    assert client.output == [b"\xc0\x00"]
    line.turn(10.0)
    client.sent(10.0)
    assert client.deadline_s == 20.0
    client.on_time(20.0)
    assert client.on_time(29.0)
    assert not client.on_time(30.0)


def test_misuse_and_nonsense() -> None:
    client = Client(p.Connect("a"))
    client.start(0.0)
    with pytest.raises(LocalProtocolError):
        client.publish("a/#", b"")
    with pytest.raises(LocalProtocolError):
        client.subscribe(p.Subscription("a#"))
    with pytest.raises(MqttError):
        client.receive(encode_packet(p.PingReq()), 0.0)
    client.receive(encode_packet(p.ConnAck()), 0.0)
    with pytest.raises(MqttError):
        client.receive(encode_packet(p.ConnAck()), 0.0)
