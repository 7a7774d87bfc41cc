"""What keepers hold, and what waits for them: brokers joined by hand."""

from __future__ import annotations

import pytest

from coterie.broker.carried import decode_carried
from coterie.broker.copies import pack_rows, unpack_rows
from coterie.broker.facts import PeerGone, PeerUp
from coterie.broker.frames import Kept
from coterie.broker.keeperlists import rendezvous
from coterie.broker.keeping import Keeping
from coterie.broker.views import health
from coterie.broker.writes import (
    COPIED_BODIES,
    COPIED_LOG,
    COPIES,
    DELIVERIES,
    LOG,
    MARKS,
    MESSAGES,
    SESSIONS,
    SUBSCRIPTIONS,
    Between,
)
from coterie.mqtt.packets import MQTT_3, MQTT_5, ConnAck, PubAck, Publish, PubRec, SubAck, Subscribe, Subscription
from coterie.mqtt.properties import Properties
from tests.broker.driving import Driven
from tests.broker.groups import Group


def acknowledged(node: Driven, line: int) -> list[int]:
    return [packet.packet_id for packet in node.hear(line) if isinstance(packet, PubAck)]


def test_an_acknowledgement_leaves_when_the_keeper_has_the_message() -> None:
    pair = Group()
    here, there = pair.nodes
    line = here.client("a")
    pair.pass_on()
    here.hear(line)
    here.say(line, Publish("t", b"x", 1, packet_id=7))
    assert here.shelf.tables[LOG]
    assert not acknowledged(here, line)
    pair.pass_on()
    assert acknowledged(here, line) == [7]
    assert list(there.shelf.tables[COPIED_LOG]) == list(here.shelf.tables[LOG])
    assert list(there.shelf.tables[COPIED_BODIES].values()) == list(here.shelf.tables[MESSAGES].values())


def test_an_acknowledgement_waits_for_every_copy_that_was_asked_for() -> None:
    group = Group(3, copies=3)
    here = group.nodes[0]
    line = here.client("a")
    group.pass_on()
    here.hear(line)
    group.cut = {2}
    here.say(line, Publish("t", b"x", 1, packet_id=7))
    group.pass_on()
    assert group.nodes[1].shelf.tables[COPIED_LOG]
    assert not acknowledged(here, line)
    group.cut = set()
    group.pass_on()
    assert acknowledged(here, line) == [7]


def test_what_a_lasting_session_must_get_once_leaves_when_the_keeper_knows_by_which_identifier() -> None:
    group = Group()
    here, there = group.nodes
    reader, writer = here.client("r", version=MQTT_3, clean_start=False), here.client("w")
    group.pass_on()
    here.say(reader, Subscribe(1, (Subscription("t", 2),)))
    group.pass_on()
    here.hear(reader)
    group.cut = {1}
    here.say(writer, Publish("t", b"x", 2, packet_id=7))
    group.pass_on()
    assert not here.hear(reader)
    group.cut = set()
    group.pass_on()
    (got,) = here.hear(reader)
    assert isinstance(got, Publish)
    assert [key[:2] for key in there.shelf.tables[COPIES] if key[1] == DELIVERIES] == [(0, DELIVERIES)]


def test_sessions_and_retained_messages_are_kept_as_messages_are() -> None:
    """CONNACK, SUBACK and the answer to a retained message wait for the copy; the keeper has all of it then."""
    group = Group()
    here, there = group.nodes
    reader, writer = here.client("r", version=MQTT_3, clean_start=False), here.client("w")
    group.pass_on()
    assert here.hear(reader)
    here.hear(writer)
    group.cut = {1}
    late = here.client("late", version=MQTT_5, clean_start=True, properties=Properties(session_expiry_s=100))
    here.say(reader, Subscribe(1, (Subscription("t", 1),)))
    here.say(writer, Publish("r", b"x", 1, retain=True, packet_id=7))
    group.pass_on()
    assert [here.hear(line) for line in (late, reader, writer)] == [[], [], []]
    group.cut = set()
    group.pass_on()
    kept = {key[1:3] for key in there.shelf.tables[COPIES] if key[0] == 0}
    assert {(SESSIONS, "r"), (SESSIONS, "late"), (SUBSCRIPTIONS, "r")} <= kept
    assert list(there.shelf.tables[COPIED_LOG]) == list(here.shelf.tables[LOG])  # what is retained is in the log
    assert [one.retain for one in map(decode_carried, there.shelf.tables[COPIED_BODIES].values())] == [True]
    assert [type(here.hear(line)[0]) for line in (late, reader, writer)] == [ConnAck, SubAck, PubAck]


def said_to_a_node_cut_off() -> tuple[Group, Driven, int]:
    """A message whose node has just lost its only keeper."""
    pair = Group()
    here = pair.nodes[0]
    line = here.client("a")
    pair.pass_on()
    here.hear(line)
    pair.cut = {1}
    here.take(PeerGone(1, "gone"))
    here.say(line, Publish("t", b"x", 1, packet_id=7))
    return pair, here, line


def test_with_nobody_in_reach_it_goes_on_after_a_while_and_says_so() -> None:
    pair, here, line = said_to_a_node_cut_off()
    pair.wait(3.0)
    assert not acknowledged(here, line)
    pair.wait(4.0)
    assert acknowledged(here, line) == [7]
    assert (health(here.broker)["copies"], health(here.broker)["copies_wanted"]) == (1, 2)


def test_a_keeper_that_is_back_just_before_it_would_go_on_without_is_waited_for() -> None:
    pair, here, line = said_to_a_node_cut_off()
    pair.wait(4.9)
    here.take(PeerUp(1))
    pair.wait(1.5)
    assert not acknowledged(here, line)
    pair.wait(2.0)  # it does not answer
    assert acknowledged(here, line) == [7]


def test_a_keeper_that_is_gone_again_was_in_reach_until_then() -> None:
    """It came for a moment while too few were there: what is too few for too long begins anew."""
    pair, here, line = said_to_a_node_cut_off()
    pair.wait(4.0)
    pair.cut = set()
    pair.said.clear()
    here.take(PeerUp(1))
    pair.nodes[1].take(PeerGone(0, "gone"), PeerUp(0))
    pair.pass_on()
    assert acknowledged(here, line) == [7]
    pair.cut = {1}
    here.take(PeerGone(1, "gone"))
    here.say(line, Publish("t", b"x", 1, packet_id=8))
    pair.wait(4.5)
    assert not acknowledged(here, line)
    pair.wait(1.5)
    assert acknowledged(here, line) == [8]


def test_who_answers_and_is_gone_before_it_has_anything_was_in_reach_until_then() -> None:
    group = Group(3)
    here, keeping = group.nodes[0], group.nodes[0].broker.keeping
    assert keeping is not None
    first, second = keeping._order
    line = here.client("a")
    group.pass_on()
    here.hear(line)
    group.cut = {first}
    here.take(PeerGone(first, "gone"))
    here.say(line, Publish("t", b"x", 1, packet_id=7))
    group.wait(2.2)
    assert list(keeping.keepers) == [first]
    keeping.on_kept(second, Kept(0, 0, 1, 0))
    group.cut = {first, second}
    here.take(PeerGone(second, "gone"))
    group.wait(3.6)
    assert not acknowledged(here, line)  # there were too few for 5 s, but somebody was in reach 4 s ago
    group.wait(1.2)
    assert acknowledged(here, line) == [7]


def test_who_has_nothing_yet_and_does_not_answer_gives_way_to_one_that_does() -> None:
    """A newcomer's first keeper may not be able to speak: the others are asked before that takes long."""
    group = Group(4)
    keeping = group.nodes[0].broker.keeping
    assert keeping is not None
    first, second, third = keeping._order
    keeping.keepers.clear()
    keeping.look()
    assert list(keeping.keepers) == [first]
    group.cut = {first}
    group.wait(1.2)
    assert list(keeping.keepers) == [second]
    keeping.keepers.clear()
    keeping.on_kept(second, Kept(0, 0, 1, 0))
    group.nodes[0].take(PeerGone(second, "gone"))  # it has answered just now, but is there no more
    keeping._failed = {first: None}
    keeping.look()
    assert list(keeping.keepers) == [third]


def test_who_could_keep_and_has_no_link_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those there are links to may all be as silent as the keeper that is replaced."""
    group = Group(4)
    here, keeping = group.nodes[0], group.nodes[0].broker.keeping
    assert keeping is not None
    first, second, third = keeping._order
    group.cut = {first, third}
    here.take(PeerGone(third, "broken"))
    keeping.keepers[first].waits_s = keeping._turn.now_s - 3.0
    wanted: list[int] = []
    monkeypatch.setattr(keeping._links, "want", wanted.extend)
    keeping.look()
    assert list(keeping.keepers) == [second]
    assert wanted == [third]


def test_who_could_not_be_reached_is_tried_again_while_a_keeper_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the others failed once, and has been silent since; whoever was tried first is tried first again."""
    group = Group(4)
    here, keeping = group.nodes[0], group.nodes[0].broker.keeping
    assert keeping is not None
    first, second, third = keeping._order
    group.cut = {1, 2, 3}
    for peer in (third, second, third, second, third):
        here.take(PeerGone(peer, "broken"))
        keeping.unreachable(peer)
    keeping.keepers[first].waits_s = keeping._turn.now_s - 3.0
    wanted: list[int] = []
    monkeypatch.setattr(keeping._links, "want", wanted.extend)
    keeping.look()
    assert list(keeping.keepers) == [first]
    assert wanted == [second, third]


def test_a_slow_disk_of_its_own_makes_no_keeper_silent() -> None:
    """What they are to answer has not left yet."""
    pair = Group()
    here = pair.nodes[0]
    line = here.client("a")
    pair.pass_on()
    here.hear(line)
    here.is_slow = True
    here.say(line, Publish("t", b"x", 1, packet_id=7))
    pair.wait(15.0)
    assert health(here.broker)["copies"] == 2
    pair.cut = {1}
    while here.waiting:
        here.persist()
    assert not acknowledged(here, line)
    pair.wait(4.0)
    assert health(here.broker)["copies"] == 2
    here.is_slow = False
    pair.wait(6.0)  # and now it is
    assert health(here.broker)["copies"] == 1
    assert acknowledged(here, line) == [7]


def test_what_was_not_kept_before_a_restart_is_kept_before_it_is_said_to_be_known() -> None:
    """The client sends it again, and is told so by its identifier; until then it may be on one disk alone."""
    pair = Group()
    here, there = pair.nodes
    line = here.client("a", version=MQTT_3, clean_start=False)
    pair.pass_on()
    here.hear(line)
    pair.cut = {1}
    here.say(line, Publish("t", b"x", 2, packet_id=7))
    assert not here.hear(line)
    pair.said.clear()
    again = pair.nodes[0] = Driven(here.broker.setup, here.shelf, life=2)
    again.on_order, again.now_s = here.on_order, here.now_s
    pair.cut = set()
    there.take(PeerGone(0, "gone"), PeerUp(0))
    again.take(PeerUp(1))
    line = again.client("a", version=MQTT_3, clean_start=False)
    again.say(line, Publish("t", b"x", 2, packet_id=7, dup=True))
    heard: list[object] = []
    while not any(isinstance(one, PubRec) for one in heard):
        if not pair.pass_one():
            again.wait(0.1)
        heard += again.hear(line)
    assert [decode_carried(one).payload for one in there.shelf.tables[COPIED_BODIES].values()] == [b"x"]


def test_who_could_keep_is_asked_before_a_silent_keeper_is_late() -> None:
    """So that the next one is one that answers."""
    group = Group(4)
    keeping = group.nodes[0].broker.keeping
    assert keeping is not None
    first, second, third = keeping._order
    group.cut = {first, second}
    line = group.nodes[0].client("a")
    group.nodes[0].say(line, Publish("t", b"x", 1, packet_id=7))
    asked = set()
    for _ in range(60):
        group.wait(0.1)
        asked |= keeping.keepers.keys()
    assert asked == {first, third}


def test_rows_travel_as_they_are() -> None:
    rows = [
        (SESSIONS, "a", b"1"), (MARKS, (3, "t"), None), (LOG, 5, b"t"), (MESSAGES, Between(1, 4), None),
    ]  # fmt: skip
    assert unpack_rows(pack_rows(rows)) == rows


def test_keepers_are_in_other_zones_if_they_can_be() -> None:
    zones = {0: "a", 1: "a", 2: "b", 3: "b"}
    assert set(rendezvous(0, zones)[:2]) == {2, 3}
    assert rendezvous(0, zones)[2:] == [1]
    first = [rendezvous(node, dict.fromkeys(range(20), ""))[0] for node in range(20)]
    assert len(set(first)) > 8
    assert all(one != node for node, one in enumerate(first))


def test_what_waits_to_be_firm_waits_for_as_many_as_should_have_it() -> None:
    pair = Group()
    driven = pair.nodes[0]
    line = driven.client("a", properties=Properties(session_expiry_s=1000))
    keeping = driven.broker.keeping
    assert keeping is not None
    done: list[str] = []
    keeping.when_firm(lambda: done.append("before"), False)  # the keeper has not heard of this session yet
    driven.say(line, Subscribe(1, (Subscription("t", 1),)))
    assert not done
    pair.pass_on()
    assert done == ["before"]


def test_a_keeper_is_found_though_others_are_heard_and_do_not_hear() -> None:
    """Whoever does not answer is not asked again before everybody else was, whatever else it says."""
    group = Group(4)
    here, keeping = group.nodes[0], group.nodes[0].broker.keeping
    assert keeping is not None
    first = next(iter(keeping.keepers))
    line = here.client("a")
    group.pass_on()
    here.hear(line)
    deaf = [first, next(one for one in keeping._order if one != first)]
    group.cut = {0}
    here.say(line, Publish("t", b"x", 1, packet_id=7))
    asked = set()
    for _ in range(80):
        here.wait(0.1)
        asked |= keeping.keepers.keys()
        for peer in deaf:
            keeping.heard(peer)
    assert asked == {1, 2, 3}


def test_what_a_keeper_answered_before_it_was_told_off_counts_no_more() -> None:
    """It forgets its copy then; what it said of it is still on its way when it is asked again."""
    group = Group(3, copies=3)
    here = group.nodes[0].broker
    assert here.keeping is not None
    group.cut = {1}
    writer = group.nodes[0].client("w")
    for number in range(90):
        group.nodes[0].say(writer, Publish("t", b"x", 1, packet_id=number + 1))
        group.wait(0.1)
    assert here.lists.keepers(0) == (2,)
    one = here.keeping.keepers[1]
    for _ in range(3):  # one for all that it was asked before
        here.keeping.on_kept(1, Kept(here.life, here.keeping.serial, 1, 0))
        assert not one.is_current
    group.cut = set()
    group.pass_on()
    group.wait(1.0)
    assert here.lists.keepers(0) == (1, 2)
    assert sorted(group.nodes[1].shelf.tables[COPIED_LOG]) == sorted(group.nodes[0].shelf.tables[LOG])


def test_a_new_keeper_has_what_is_not_safe_before_the_rest_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """And as long as that rest is missing there, whoever kept before is not told to forget it."""
    group = Group(3)
    here, keeping = group.nodes[0], group.nodes[0].broker.keeping
    assert keeping is not None
    line = here.client("a")
    group.pass_on()
    for number in range(3):
        here.say(line, Publish("t", b"safe", 1, packet_id=number + 1))
        group.pass_on()
    (before,) = here.broker.lists.keepers(0)
    (other,) = {1, 2} - {before}
    with monkeypatch.context() as patched:
        patched.setattr(Keeping, "_fill_on", lambda *_: None)
        group.cut = {before}
        here.say(line, Publish("t", b"not safe", 1, packet_id=4))
        group.wait(4.0)
        assert 4 in acknowledged(here, line)
        copy = group.nodes[other].broker.copies.of[0]
        assert list(group.nodes[other].shelf.tables[COPIED_LOG]) == [max(here.shelf.tables[LOG])]
        assert copy.state.log_first <= max(here.shelf.tables[LOG]) == copy.state.log_last
        assert here.broker.lists.keepers(0) == (before,)
    keeping._fill_on(other, keeping.keepers[other], Kept(*copy.held))
    group.wait(1.0)
    assert sorted(group.nodes[other].shelf.tables[COPIED_LOG]) == sorted(here.shelf.tables[LOG])
    assert here.broker.lists.keepers(0) == (other,)
