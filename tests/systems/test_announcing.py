"""How nodes learn what the others want, and how they find out that they know it wrong."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from coterie.model.plan import Neighbour, Slice
from coterie.protocol.events import Effect, PeerLost, Received, Send, SetTimer, Started, Subscribed, TimerFired
from coterie.protocol.wire import FRAME_BYTES_MAX, SystemMessage
from coterie.systems.announcing import (
    ANNOUNCING_MESSAGES,
    Announcement,
    AskInterest,
    Presence,
    TellInterest,
    TopicSet,
)
from coterie.systems.mesh import SYSTEM, MeshNode, MeshParameters


def started(address: int, peers: int) -> MeshNode:
    node = MeshNode(address, MeshParameters(), Random(1))
    others = tuple(Neighbour(peer) for peer in range(peers) if peer != address)
    node.step(Started(Slice(version=0, system="mesh", node=address, neighbours=others)), 0.0)
    return node


def sent(effects: list[Effect]) -> list[tuple[int, SystemMessage]]:
    return [(to, effect.message) for effect in effects if isinstance(effect, Send) for to in effect.to]


def pass_on(source: MeshNode, target: MeshNode, effects: list[Effect]) -> list[Effect]:
    """What the target answers to all that the source sent it."""
    told = [message for to, message in sent(effects) if to == target.address]
    return [effect for message in told for effect in target.step(Received(source.address, message), 1.0)]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans())))
def test_a_digest_depends_on_what_is_wanted_and_on_nothing_else(changes: list[tuple[int, bool]]) -> None:
    changed, plain = TopicSet(), TopicSet()
    for topic, is_wanted in changes:
        before = dict(changed.topics)
        assert changed.put(topic, is_wanted) == (changed.topics != before)
    for topic in sorted(changed.topics, key=str):
        plain.put(topic, True)
    assert changed.digest == plain.digest
    assert (changed.digest == 0) == (not changed.topics)


def test_a_lost_word_is_found_by_the_next_heartbeat() -> None:
    one, other = started(0, 2), started(1, 2)
    one.step(Subscribed("a"), 0.0)  # the announcement is lost
    assert other.wanted_by == {}
    asks = pass_on(one, other, one.step(TimerFired("alive"), 60.0))
    assert sent(asks) == [(0, AskInterest())]
    pass_on(one, other, pass_on(other, one, asks))
    assert other.wanted_by == {"a": {0: None}}
    assert sent(pass_on(one, other, one.step(TimerFired("alive"), 120.0))) == []


def test_who_starts_again_learns_what_the_others_want_and_they_that_it_wants_nothing() -> None:
    one, other = started(0, 2), started(1, 2)
    pass_on(one, other, one.step(Subscribed("a"), 0.0))
    pass_on(other, one, other.step(Subscribed("b"), 0.0))
    again = MeshNode(0, MeshParameters(), Random(1))
    hello = again.step(Started(Slice(version=0, system="mesh", node=0, neighbours=(Neighbour(1),))), 100.0)
    answer = pass_on(again, other, hello)
    assert sent(answer) == [(0, AskInterest()), (0, Presence(other.own.digest))]
    asked = pass_on(other, again, answer)
    answer = pass_on(again, other, asked)
    assert other.wanted_by == {}
    pass_on(other, again, answer)
    assert again.wanted_by == {"b": {1: None}}


def test_who_cannot_be_reached_is_greeted_until_it_answers() -> None:
    node = started(0, 3)
    timers = [effect for effect in node.step(PeerLost(2), 1.0) if isinstance(effect, SetTimer)]
    assert [timer.timer for timer in timers] == ["again"]
    assert node.step(PeerLost(2), 2.0) == []
    assert sent(node.step(TimerFired("again"), 6.0)) == [(2, Presence(0, True))]
    node.step(Received(2, Presence(0)), 7.0)
    assert node.step(TimerFired("again"), 11.0) == []


def test_what_a_peer_wants_survives_its_absence_but_not_a_plan_without_it() -> None:
    node = started(0, 3)
    for peer in (1, 2):
        node.step(Received(peer, Announcement("a", True)), 1.0)
    node.step(PeerLost(2), 2.0)
    assert node.wanted_by == {"a": {1: None, 2: None}}
    node.step(Started(Slice(version=1, system="mesh", node=0, neighbours=(Neighbour(1),))), 3.0)
    assert node.wanted_by == {"a": {1: None}}
    node.step(Received(2, Announcement("a", True)), 4.0)
    assert node.wanted_by == {"a": {1: None}}


def test_an_interest_of_any_size_fits_into_frames() -> None:
    one, other = started(0, 2), started(1, 2)
    topics = [f"{number}/" + "x" * 20_000 for number in range(400)]
    for topic in topics:
        one.step(Subscribed(topic), 0.0)
    parts = sent(one.step(Received(1, AskInterest()), 1.0))
    assert len(parts) > 1
    assert max(len(SYSTEM.codec().encode(part)) for _, part in parts) < FRAME_BYTES_MAX
    other.step(Received(0, Announcement("stale", True)), 1.0)
    for _, part in parts:
        assert isinstance(part, TellInterest)
        other.step(Received(0, part), 2.0)
    assert list(other.wanted_by) == topics
    assert other.told[0].digest == one.own.digest


def test_all_that_is_announced_is_declared() -> None:
    assert set(ANNOUNCING_MESSAGES) <= set(SYSTEM.messages)
