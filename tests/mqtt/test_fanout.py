"""The fast ways of delivery against a model that takes messages and receivers one by one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.properties import Properties
from coterie.mqtt.topics import filter_matches
from tests.mqtt.conversation import Network, Peer

FILTERS = ["a", "b", "a/#", "+", "#", "a/+", "+/x", "a/x"]
TOPICS = ["a", "b", "a/x", "$a"]


def subscriptions(draw: Random, version: int) -> dict[str, p.Subscription]:
    found = {}
    for topic_filter in draw.sample(FILTERS, draw.randrange(4)):
        if version == p.MQTT_3:
            found[topic_filter] = p.Subscription(topic_filter, draw.randrange(3))
            continue
        identifier = draw.choice((0, 0, draw.randrange(1, 300)))
        options = draw.random() < 0.3, draw.random() < 0.3
        found[topic_filter] = p.Subscription(topic_filter, draw.randrange(3), *options, 2, identifier)
    return found


def connect(network: Network, draw: Random, number: int) -> tuple[Peer, dict[str, p.Subscription]]:
    version = draw.choice((p.MQTT_3, p.MQTT_5, p.MQTT_5))
    limits = {}
    if version == p.MQTT_5 and draw.random() < 0.5:
        limits = draw.choice(({"topic_alias_maximum": 2}, {"maximum_packet_size": 1000}))
    peer = network.peer(f"c{number}", version=version, properties=limits)
    wanted = subscriptions(draw, version)
    for subscription in wanted.values():
        identifiers = (subscription.identifier,) if subscription.identifier else ()
        peer.send(p.Subscribe(1, (subscription,), Properties(subscription_identifiers=identifiers)))
    peer.take()
    return peer, wanted


def expected(wanted: dict[str, p.Subscription], publish: p.Publish, is_own: bool) -> tuple[object, ...] | None:
    fitting = [one for name, one in wanted.items() if filter_matches(name, publish.topic)]
    fitting = [one for one in fitting if not (is_own and one.no_local)]
    if not fitting:
        return None
    identifiers = tuple(sorted({one.identifier for one in fitting if one.identifier}))
    qos = min(publish.qos, max(one.qos for one in fitting))
    is_retained = publish.retain and any(one.retain_as_published for one in fitting)
    return publish.topic, publish.payload, qos, is_retained, identifiers


def heard(peer: Peer) -> list[tuple[object, ...]]:
    aliases: dict[int, str] = {}
    found: list[tuple[object, ...]] = []
    for packet in peer.take(p.Publish):
        alias = packet.properties.topic_alias
        topic = packet.topic or aliases[alias]
        if alias is not None:
            aliases[alias] = topic
        identifiers = packet.properties.subscription_identifiers
        found.append((topic, packet.payload, packet.qos, packet.retain, identifiers))
    return found


@given(st.integers(0, 1 << 32))
@settings(max_examples=150)
def test_everyone_hears_what_the_model_says_in_order(seed: int) -> None:
    draw = Random(seed)
    network = Network(ServerOptions(topic_alias_out_maximum=2))
    clients = [connect(network, draw, number) for number in range(draw.randrange(1, 6))]
    owed: list[list[tuple[object, ...]]] = [[] for _ in clients]
    packet_id = 0
    for _ in range(6):
        sender, _ = clients[origin := draw.randrange(len(clients))]
        chunk = b""
        for _ in range(draw.randrange(1, 8)):
            packet_id += 1
            qos, topic = draw.choice((0, 0, 0, 1)), draw.choice(TOPICS)
            is_retained = draw.random() < 0.1
            packet = p.Publish(topic, b"%d" % packet_id, qos, is_retained, packet_id=packet_id if qos else 0)
            chunk += encode_packet(packet, sender.version) + draw.choice((b"", b"", b"\xc0\x00"))
            for number, (_, wanted) in enumerate(clients):
                delivery = expected(wanted, packet, number == origin)
                if delivery is not None:
                    owed[number].append(delivery)
        cut = draw.randrange(len(chunk))
        sender.send_raw(chunk[:cut])
        sender.send_raw(chunk[cut:])
    assert [heard(peer) for peer, _ in clients] == owed


@pytest.mark.parametrize("count", [1, 5])
def test_a_run_is_written_as_it_came(count: int) -> None:
    network = Network()
    plain = network.subscriber("plain", "x")
    publisher = network.peer("p")
    publisher.send(p.Publish("x", b"first"))
    plain.take()
    raw = b"".join(encode_packet(p.Publish("x", b"%d" % number)) for number in range(count))
    network.broker.serve(publisher.connection, raw, 0.0)
    assert plain.connection.output == [raw]
    assert network.broker.flush() == [plain.session]
