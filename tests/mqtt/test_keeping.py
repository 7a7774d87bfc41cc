"""What a session reports to its store, what it may keep, and what it must give up: each of these was a mutant once."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.rights import ANSWERS_MAX, Rights, TopicRules
from coterie.mqtt import packets as p
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.properties import Properties
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.session import RELEASED, SENT, Budget, Session
from coterie.mqtt.topics import filter_covers
from tests.mqtt.conversation import Network, Peer

LASTING: dict[str, Any] = {"session_expiry_s": 100}


def say(network: Network, payload: bytes, topic: str = "x", qos: int = 2) -> None:
    network.broker.deliver(Message(topic, payload, qos), network.now_s)
    network.collect()


def watched(window: int) -> tuple[Network, Peer, list[tuple[str, Any]]]:
    network = Network()
    peer = network.subscriber("s", "x", qos=2, properties=LASTING | {"receive_maximum": window})
    peer.session.journal = []
    return network, peer, peer.session.journal


def test_that_a_message_was_received_is_reported_before_pubrel() -> None:
    network, peer, journal = watched(5)
    say(network, b"1")
    (packet,) = peer.take(p.Publish)
    peer.send(p.PubRec(packet.packet_id))
    kind, delivery = journal[-1]
    assert (kind, delivery.state, delivery.packet_id) == ("progress", RELEASED, packet.packet_id)


def test_what_waited_is_reported_with_its_identifier_when_it_is_sent() -> None:
    network, peer, journal = watched(1)
    say(network, b"1", qos=1)
    say(network, b"2", qos=1)
    (first,) = peer.take(p.Publish)
    journal.clear()
    peer.send(p.PubAck(first.packet_id))
    (second,) = peer.take(p.Publish)
    reported = [one for kind, one in journal if kind == "delivery"]
    assert [(one.packet_id, one.state) for one in reported] == [(second.packet_id, SENT)]


def test_all_sessions_together_keep_no_more_than_their_budget() -> None:
    budget = Budget(100)
    sessions = [Session(name, ServerOptions(), budget) for name in "ab"]
    shared = SharedPublish(Message("x", bytes(60), 1))
    assert [one.deliver(shared, 1, False, (), 0.0) for one in sessions] == [True, False]
    assert (sessions[1].queue_count, sessions[1].shed_count) == (0, 1)
    sessions[0].end()
    assert sessions[1].deliver(shared, 1, False, (), 0.0)


@pytest.mark.parametrize(("delay_s", "due_s"), [(30, 30), (300, 100)])
def test_a_will_does_not_outlive_its_session(delay_s: int, due_s: int) -> None:
    network = Network()
    will = p.Will("w", b"gone", properties=Properties(will_delay_s=delay_s))
    peer = network.peer("s", will=will, properties=LASTING)
    peer.cut()
    assert network.broker.of["s"].will_due_s == network.now_s + due_s


def test_what_is_no_longer_allowed_is_neither_sent_nor_sent_again() -> None:
    network, peer, _ = watched(1)
    say(network, b"sent")
    say(network, b"waiting")
    assert peer.session.forget(lambda topic: topic != "x") == 2
    assert (peer.session.inflight_count, peer.session.queue_count) == (0, 0)


@pytest.mark.parametrize(
    ("wide", "narrow"), [("a/+", "a/#"), ("+", "#"), ("a/+/c", "a/#"), ("#", "$SYS/#"), ("+/x", "$SYS/x")]
)
def test_a_rule_does_not_cover_what_reaches_further(wide: str, narrow: str) -> None:
    assert not filter_covers(wide, narrow)


def test_kept_answers_are_bounded() -> None:
    rights = Rights(TopicRules(publish=("a/#",)))
    for number in range(2 * ANSWERS_MAX + 5):
        assert rights.may_publish(f"a/{number}")
    assert len(rights._answers) <= ANSWERS_MAX
