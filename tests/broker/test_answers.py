"""A subscription over many retained messages is answered a part a turn, and nobody can tell by what comes."""

from __future__ import annotations

import pytest

from coterie.broker.facts import Choked, Drained
from coterie.mqtt import answers
from coterie.mqtt import packets as p
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.properties import Properties
from coterie.protocol.events import TimerFired
from tests.broker.driving import Driven, setup
from tests.broker.groups import Group

COUNT = 50
TOPICS = [f"r/{number:02}" for number in range(COUNT)]
LASTING = {"clean_start": False, "properties": Properties(session_expiry_s=999)}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PART_COUNT", 7)


@pytest.fixture
def node() -> Driven:
    node = Driven()
    line = node.client("publisher")
    for number, topic in enumerate(TOPICS):
        node.say(line, p.Publish(topic, b"old", 1, True, packet_id=number + 1))
    return node


def asks(node: Driven, qos: int = 0, **connect: object) -> int:
    line = node.client("s", **connect)
    node.hear(line)
    node.say(line, p.Subscribe(1, (p.Subscription("r/#", qos),)))
    return line


def got(node: Driven, line: int) -> list[tuple[str, bytes, bool]]:
    """What came, each acknowledged."""
    packets = [one for one in node.hear(line) if isinstance(one, p.Publish)]
    for one in packets:
        if one.qos:
            node.say(line, p.PubAck(one.packet_id))
    return [(one.topic, one.payload, one.retain) for one in packets]


def all_of(node: Driven, line: int) -> list[tuple[str, bytes, bool]]:
    found = []
    for _ in range(2 * COUNT):
        found += got(node, line)
        node.wait(0.01)
    return found


EVERY = [(topic, b"old", True) for topic in TOPICS]


@pytest.mark.parametrize("qos", [0, 1])
def test_a_part_at_a_time_until_all_is_there(node: Driven, qos: int) -> None:
    line = asks(node, qos)
    packets = node.hear(line)
    assert isinstance(packets[0], p.SubAck)
    assert len(packets) == 1 + 7
    found = [(one.topic, one.payload, one.retain) for one in packets[1:] if isinstance(one, p.Publish)]
    for packet in packets[1:]:
        if qos and isinstance(packet, p.Publish):
            node.say(line, p.PubAck(packet.packet_id))
    assert found + all_of(node, line) == EVERY
    assert not node.broker.sessions.answers.owing
    assert ("answer",) not in node.timers


def test_others_are_answered_in_between(node: Driven) -> None:
    first, second = asks(node), node.client("second")
    node.hear(first)
    node.say(second, p.Subscribe(1, (p.Subscription("r/07"),)), p.PingReq())
    assert [type(one) for one in node.hear(second)[-3:]] == [p.PingResp, p.SubAck, p.Publish]
    assert not node.hear(first)  # it had no turn meanwhile


def test_what_is_newer_comes_behind_what_was_retained_or_in_its_place(node: Driven) -> None:
    line, writer = asks(node), node.client("writer")
    node.say(
        writer, p.Publish("r/40", b"live"), p.Publish("r/41", b"new", retain=True), p.Publish("r/42", b"", 0, True)
    )
    found = all_of(node, line)
    assert [one for one in found if one[0] == "r/40"] == [("r/40", b"old", True), ("r/40", b"live", False)]
    assert [one for one in found if one[0] == "r/41"] == [("r/41", b"new", False)]
    assert [one for one in found if one[0] == "r/42"] == [("r/42", b"", False)]
    assert len(found) == COUNT + 1


def test_who_does_not_read_is_not_sent_more(node: Driven) -> None:
    line = asks(node)
    node.take(Choked(line))
    first = got(node, line)
    node.wait(5.0)
    assert got(node, line) == []
    node.take(Drained(line))
    assert first + all_of(node, line) == EVERY
    assert node.broker.sessions.of["s"].shed_count == 0


def test_no_more_is_queued_than_a_part_for_who_does_not_answer() -> None:
    node = Driven(setup(options=ServerOptions(inflight_count_max=3)))
    writer = node.client("publisher")
    for number, topic in enumerate(TOPICS):
        node.say(writer, p.Publish(topic, b"old", 1, True, packet_id=number + 1))
    line = asks(node, 1, **LASTING)
    node.wait(5.0)
    assert node.broker.sessions.of["s"].queue_count <= 7
    assert all_of(node, line) == EVERY


@pytest.mark.parametrize("is_crash", [False, True])
def test_a_lasting_session_has_the_rest_when_it_comes_back(node: Driven, is_crash: bool) -> None:
    line = asks(node, 1, **LASTING)
    found = got(node, line)
    node.take(TimerFired(("answer",)))
    found += got(node, line)
    assert 7 <= len(found) < COUNT
    node.cut(line)
    node.wait(1.0)
    writer = node.client("writer")
    node.say(writer, p.Publish("r/49", b"live", 1, packet_id=1))
    node.wait(1.0)
    node = Driven(shelf=node.shelf, life=2) if is_crash else node
    line = node.client("s", **LASTING)
    found += all_of(node, line)
    assert found.count(("r/49", b"live", False)) == 1
    kept = [one for one in found if one[2]]
    assert sorted(set(kept)) == EVERY
    # What went ahead of its turn may come once more after a crash, nothing else.
    assert [one for one in kept if kept.count(one) > 1] == ([("r/49", b"old", True)] * 2 if is_crash else [])
    assert node.broker.sessions.of["s"].owed_kept == ()
    assert found.index(("r/49", b"old", True)) < found.index(("r/49", b"live", False))


def test_what_is_not_wanted_any_more_does_not_come(node: Driven) -> None:
    line = asks(node)
    node.hear(line)
    node.say(line, p.Unsubscribe(2, ("r/#",)))
    node.wait(1.0)
    assert got(node, line) == []
    assert not node.broker.sessions.answers.owing


def retained_pair() -> Group:
    pair = Group()
    line = pair.nodes[0].client("publisher")
    for number, topic in enumerate(TOPICS):
        pair.nodes[0].say(line, p.Publish(topic, b"old", 1, True, packet_id=number + 1))
        pair.pass_on()
    return pair


def test_a_session_that_goes_to_another_node_has_the_rest_there() -> None:
    pair = retained_pair()
    there, here = pair.nodes
    line = there.client("s", **LASTING)
    pair.pass_on()
    there.say(line, p.Subscribe(1, (p.Subscription("r/#", 1),)))
    pair.pass_on()
    found = got(there, line)
    assert 7 <= len(found) < COUNT
    line = here.client("s", **LASTING)
    pair.pass_on()
    found += all_of(here, line)
    assert found == EVERY


def test_what_is_retained_comes_to_a_session_that_has_just_moved() -> None:
    """What it would have had at the other node, had it been subscribed there."""
    pair = retained_pair()
    line = pair.nodes[0].client("s", **LASTING)
    pair.pass_on()
    pair.nodes[0].cut(line)
    line = pair.nodes[1].client("s", **LASTING)
    pair.pass_on()
    pair.nodes[1].say(line, p.Subscribe(1, (p.Subscription("r/03", 1),)))
    pair.pass_on()
    assert all_of(pair.nodes[1], line) == [("r/03", b"old", True)]
