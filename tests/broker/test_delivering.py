"""What comes from other nodes: at QoS 0 once and never out of order, and retained messages by their stamps."""

from __future__ import annotations

import pytest

from coterie.broker.carried import TIME_BITS, TIME_MASK, decode_carried, encode_carried
from coterie.broker.facts import PeerSaid, PeerUp
from coterie.broker.frames import CONTROL, Detoured, encode_control
from coterie.broker.lastwords import logged_name, named_in_log
from coterie.broker.settings import NetworkSection, PeerEntry
from coterie.broker.writes import LOG, MESSAGES
from coterie.mqtt.packets import Publish, Subscribe, Subscription
from coterie.mqtt.publish import Message
from tests.broker.driving import START_S, Driven, setup

PEERS = [PeerEntry(id=node, host="h", port=node + 1) for node in (0, 1)]
OTHER = 1 << TIME_BITS


@pytest.fixture
def node() -> Driven:
    driven = Driven(setup(network=NetworkSection(peers=PEERS)))
    driven.take(PeerUp(1))
    return driven


def come(driven: Driven, identifier: int, message: Message, stamp: int = 0) -> None:
    body = encode_carried(identifier, message, 1, stamp)
    driven.take(PeerSaid(1, [(CONTROL, encode_control(Detoured(body)))]))


def got(driven: Driven, line: int) -> list[bytes]:
    return [one.payload for one in driven.hear(line) if isinstance(one, Publish)]


def now_us(driven: Driven) -> int:
    return driven.broker.turn.now_us


def test_at_qos_0_what_comes_behind_a_newer_one_is_dropped_and_counted(node: Driven) -> None:
    line = node.client("c")
    node.say(line, Subscribe(1, (Subscription("t"), Subscription("u"))))
    node.wait(6.0)
    moment = now_us(node)
    for later, topic in ((10, "t"), (5, "u"), (8, "t"), (12, "t")):
        come(node, OTHER | moment + later, Message(topic, b"%d" % later))
    assert got(node, line) == [b"10", b"5", b"12"]
    assert node.broker.counts.late_dropped == 1


def test_a_detoured_copy_that_nobody_wants_any_more_is_not_taken(node: Driven) -> None:
    come(node, OTHER | now_us(node), Message("t", b"x", 1))
    assert node.broker.counts.events_in == 0
    assert node.broker.marks.get(1, "t") == 0


def test_a_clock_that_is_behind_raises_the_stamp_of_a_retained_message_and_not_its_identifier(node: Driven) -> None:
    ahead_us = now_us(node) + 3_600_000_000
    come(node, OTHER | ahead_us, Message("t", b"theirs", 1, retain=True))
    node.say(node.client("c"), Publish("t", b"ours", 1, retain=True, packet_id=1))
    assert [one.payload for one in node.broker.sessions.retained] == [b"ours"]
    ((identifier, name),) = node.shelf.tables[LOG].items()
    assert identifier & TIME_MASK < ahead_us
    assert named_in_log(name.decode(), identifier) == ("t", ahead_us + 1)
    assert decode_carried(node.shelf.tables[MESSAGES][identifier]).word == ahead_us + 1
    assert not node.broker.delivering.misses(
        logged_name("t", OTHER | ahead_us), OTHER | 5, 0
    )  # by stamps, not by names
    assert node.broker.delivering.misses(logged_name("t", OTHER | ahead_us + 2), OTHER | 5, 0)
    come(node, OTHER | 7, Message("t", b"newer", 1, retain=True), OTHER | ahead_us + 2)
    assert [one.payload for one in node.broker.sessions.retained] == [b"newer"]


@pytest.mark.parametrize("name", ["t", "$coterie/stamped/x/t", "a/$coterie/retained/t"])
def test_other_topics_mean_themselves_in_the_log(name: str) -> None:
    assert named_in_log(name, 7) == (name, 0)


def test_who_comes_back_may_still_be_sent_copies_by_detours_of_its_last_life(node: Driven) -> None:
    node.wait(3.0)  # so that it is known that this was not the first life
    again = Driven(setup(network=NetworkSection(peers=PEERS)), node.shelf, life=2)
    again.now_s = START_S + 1000.0
    assert not again.broker.detours.is_guarding
    again.take(PeerUp(1))
    assert again.broker.detours.is_guarding
