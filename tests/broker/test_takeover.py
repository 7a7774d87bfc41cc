"""A lasting session at whichever node its client comes to: from a node that is there, and from one that is not."""

from __future__ import annotations

import msgspec
import pytest

from coterie.broker.arrivals import ComingSession, Had, guest_of
from coterie.broker.carried import TIME_BITS, encode_carried
from coterie.broker.facts import DialFailed, PeerGone, PeerSaid, PeerUp
from coterie.broker.frames import FoundSession, FrameReader, GivenSession, SeekSession
from coterie.broker.orders import Dial
from coterie.broker.quests import Quest
from coterie.broker.writes import SESSIONS
from coterie.mqtt.packets import MQTT_3, MQTT_5, ConnAck, Packet, Publish, Subscribe, Subscription
from coterie.mqtt.properties import Properties
from coterie.mqtt.publish import Message
from coterie.mqtt.reasons import Reason
from tests.broker.driving import Driven
from tests.broker.groups import Group


def lasting(pair: Group, node: int) -> tuple[int, ConnAck | None, list[Packet]]:
    """Its line, what it was answered, and what came behind that."""
    driven = pair.nodes[node]
    line = driven.client("a", version=MQTT_3, clean_start=False)
    pair.pass_on()
    heard = driven.hear(line)
    answer = heard[0] if heard else None
    assert answer is None or isinstance(answer, ConnAck)
    return line, answer, heard[1:]


def payloads(packets: list[Packet]) -> list[bytes]:
    return [one.payload for one in packets if isinstance(one, Publish)]


def publish(pair: Group, driven: Driven, *words: bytes) -> None:
    line = driven.client("p")
    pair.pass_on()
    for number, word in enumerate(words, 1):
        driven.say(line, Publish("t", word, 1, packet_id=number))
        pair.pass_on()
    driven.cut(line)


def subscribed(pair: Group | None = None) -> Group:
    pair = pair or Group()
    line, answer, _ = lasting(pair, 0)
    assert answer is not None
    assert not answer.session_present
    pair.nodes[0].say(line, Subscribe(1, (Subscription("t", 1),)))
    pair.pass_on()
    pair.nodes[0].cut(line)
    return pair


def test_it_is_present_at_the_other_node_with_its_queue_in_order() -> None:
    pair = subscribed()
    publish(pair, pair.nodes[0], b"1", b"2")
    publish(pair, pair.nodes[1], b"3")
    line, answer, behind = lasting(pair, 1)
    assert answer is not None
    assert answer.session_present
    assert payloads(behind) == [b"1", b"2", b"3"]
    publish(pair, pair.nodes[0], b"4")
    assert payloads(pair.nodes[1].hear(line)) == [b"4"]
    assert list(pair.nodes[1].shelf.tables[SESSIONS]) == ["a"]
    assert "a" not in pair.nodes[0].broker.sessions.of


def test_a_node_that_is_away_is_spoken_for_by_its_keeper() -> None:
    pair = subscribed()
    publish(pair, pair.nodes[0], b"1", b"2")
    pair.cut = {0}
    pair.nodes[1].take(PeerGone(0, "gone"))
    line, answer, _ = lasting(pair, 1)
    assert answer is None
    for _ in range(200):
        pair.nodes[1].wait(0.1)
    heard = pair.nodes[1].hear(line)
    assert isinstance(heard[0], ConnAck)
    assert heard[0].session_present
    assert payloads(heard) == [b"1", b"2"]


@pytest.mark.parametrize("there", [0, 1])
def test_with_more_nodes_silent_than_copies_allow_nobody_says_that_there_is_no_session(there: int) -> None:
    group = Group(3)
    line = group.nodes[there].client("a", version=MQTT_3, clean_start=False)
    group.pass_on()
    group.nodes[there].say(line, Subscribe(1, (Subscription("t", 1),)))
    group.pass_on()
    group.nodes[there].cut(line)
    group.cut = {0, 1}
    line = group.nodes[2].client("a", version=MQTT_3, clean_start=False)
    group.wait(8.0)
    (answer,) = group.nodes[2].hear(line)
    assert isinstance(answer, ConnAck)
    assert (answer.session_present, answer.reason) == (False, Reason.SERVER_UNAVAILABLE)


def test_it_brings_nothing_older_than_its_subscriptions() -> None:
    pair = Group(system="mesh")  # where the other node hears nothing of what it does not want
    publish(pair, pair.nodes[1], b"before", b"before")
    pair.wait(1.0)
    subscribed(pair)
    publish(pair, pair.nodes[0], b"after")
    assert payloads(lasting(pair, 1)[2]) == [b"after"]


def test_a_client_that_wants_no_lasting_session_from_now_on_finds_the_one_it_had() -> None:
    pair = subscribed()
    publish(pair, pair.nodes[0], b"1")
    line = pair.nodes[1].client("a", clean_start=False)
    pair.pass_on()
    answer, *behind = pair.nodes[1].hear(line)
    assert isinstance(answer, ConnAck)
    assert answer.session_present
    assert payloads(behind) == [b"1"]
    pair.nodes[1].cut(line)
    assert "a" not in pair.nodes[1].broker.sessions.of


def test_a_clean_start_ends_it_everywhere() -> None:
    pair = subscribed()
    line = pair.nodes[1].client("a", version=MQTT_3)
    pair.pass_on()
    answer = pair.nodes[1].hear(line)[0]
    assert isinstance(answer, ConnAck)
    assert not answer.session_present
    assert "a" not in pair.nodes[0].broker.sessions.of


@pytest.mark.parametrize(("kind", "is_asked_again"), [("none", False), ("seeking", True), ("copy", True)])
def test_that_nobody_has_it_is_believed_if_the_answers_can_be_of_one_moment(kind: str, is_asked_again: bool) -> None:
    """Node 0 says that it has it not; node 1 seeks it too, or still has a copy of node 0's: it may be on its way."""
    group = Group(3)
    asking = group.nodes[2]
    line = asking.client("a", version=MQTT_3, clean_start=False)
    for peer, said in ((0, FoundSession("a", "none", 0, 0)), (1, FoundSession("a", kind, 0, 0))):
        asking.broker.takeover.on_found(peer, said)
    assert asking.broker.takeover.is_seeking("a") is is_asked_again
    asking.take()
    group.pass_on()  # asked again, nobody has it: that is believed
    assert isinstance(asking.hear(line)[0], ConnAck)


def test_a_session_from_a_copy_goes_on_with_identifiers_of_its_own() -> None:
    """What its node sent alone is not known: the client may still hold those that it gave."""
    pair = subscribed()
    pair.cut = {0}
    pair.nodes[1].take(PeerGone(0, "gone"))
    line = lasting(pair, 1)[0]
    for _ in range(200):
        pair.nodes[1].wait(0.1)
    pair.nodes[1].hear(line)
    writer = pair.nodes[1].client("p")
    pair.nodes[1].say(writer, Publish("t", b"x", 0), Publish("t", b"y", 1, packet_id=1))
    for _ in range(200):
        pair.nodes[1].wait(0.1)
    sent = [one.packet_id for one in pair.nodes[1].hear(line) if isinstance(one, Publish) and one.qos]
    assert sent
    assert min(sent) > 2048


def test_an_answer_to_a_question_that_was_given_up_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client came again meanwhile, and is asked for again."""
    pair = subscribed()
    publish(pair, pair.nodes[0], b"1", b"2")
    takeover = pair.nodes[1].broker.takeover
    take = takeover.on_given

    def take_both(peer: int, said: GivenSession) -> None:
        take(peer, msgspec.structs.replace(said, number=said.number - 1, is_gone=True))
        take(peer, said)

    monkeypatch.setattr(takeover, "on_given", take_both)
    _, answer, behind = lasting(pair, 1)
    assert answer is not None
    assert answer.session_present
    assert payloads(behind) == [b"1", b"2"]


def test_who_may_lack_something_says_so_when_it_gives_a_session() -> None:
    """And logs are compared before its client goes on, where others want the same already."""
    pair = subscribed()
    behind = pair.nodes[0].broker.recovery
    assert behind.lacking_us == 0
    behind.disturb(behind.now_us - 2_000_000)
    assert behind.lacking_us >= 2_000_000
    pair.wait(2.0)  # everybody has told, also those who have nothing to tell
    assert behind.lacking_us == 0


def begun_while_away() -> tuple[Group, Driven]:
    """A session at node 0, which could not ask node 1."""
    group = Group(3)
    group.cut, here = {1}, group.nodes[0]
    here.take(PeerGone(1, "gone"))
    line = here.client("b", version=MQTT_3, clean_start=False)
    group.wait(5.0)
    assert [one.reason for one in here.hear(line) if isinstance(one, ConnAck)] == [Reason.SUCCESS]
    return group, here


def test_a_session_begun_while_somebody_was_silent_is_told_to_it_like_one_that_moved() -> None:
    _, here = begun_while_away()
    assert here.broker.sessions.of["b"].epoch == 2
    group = Group(3)
    group.nodes[0].client("c", version=MQTT_3, clean_start=False)
    group.pass_on()
    assert group.nodes[0].broker.sessions.of["c"].epoch == 1


@pytest.mark.parametrize("is_dialled_in_vain", [False, True])
def test_that_nobody_has_it_is_not_said_before_who_is_silent_was_dialled_in_vain(is_dialled_in_vain: bool) -> None:
    """It may just have become possible to reach it."""
    group = Group(3)
    group.cut, here = {0}, group.nodes[2]
    here.take(PeerGone(0, "gone"))
    here.client("a", version=MQTT_3, clean_start=False)
    group.wait(1.5)  # all have been asked again by now
    if is_dialled_in_vain:
        here.take(DialFailed(0, "refused"))
    group.wait(1.0)
    assert here.broker.takeover.is_seeking("a") is not is_dialled_in_vain


def test_all_are_asked_anew_when_one_of_them_has_left_and_may_have_given_it_away() -> None:
    """And who could not be reached is dialled at once, however often that was tried in vain."""
    group = Group(3)
    group.cut, here = {0, 1}, group.nodes[2]
    here.take(PeerGone(0, "gone"))
    for _ in range(6):
        here.take(DialFailed(0, "refused"))
    here.client("a", version=MQTT_3, clean_start=False)
    here.broker.takeover.on_found(1, FoundSession("a", "none", 0, 1))
    asked: list[int] = []
    here.on_order = lambda order: asked.append(order.peer) if isinstance(order, Dial) else None
    here.broker.links.part(1)
    here.broker.takeover.set_members([])
    here.take(PeerUp(0))
    assert asked == [0]
    here.broker.takeover.on_found(0, FoundSession("a", "owner", 2, 0))
    assert here.broker.takeover._quests["a"].peer == 0


def test_a_session_does_not_rise_above_the_copy_of_itself() -> None:
    """Whoever still has an older one is told of it when its epoch is kept: that must not rise at every question."""
    group = subscribed(Group(3))
    takeover, session = group.nodes[0].broker.takeover, group.nodes[0].broker.sessions.of["a"]
    group.cut = {1, 2}
    for _ in range(2):
        takeover.seek("a", None, lambda outcome: None, of=1)
        takeover.on_found(1, FoundSession("a", "owner", 1, 1))
        takeover.on_found(2, FoundSession("a", "copy", session.epoch, 0))
        assert session.epoch == 2  # above the other one


def test_an_answer_that_comes_too_late_is_heard_all_the_same() -> None:
    _, here = begun_while_away()
    session = here.broker.sessions.of["b"]
    for said, epoch in (
        (FoundSession("b", "none", 7, 1), 2),
        (FoundSession("b", "owner", 7, 1, True), 2),
        (FoundSession("b", "owner", 7, 1), 8),
    ):
        here.broker.takeover.on_found(1, said)
        assert session.epoch == epoch
    here.broker.takeover._giving.leaving["b"] = 1
    here.broker.takeover.on_found(1, FoundSession("b", "owner", 9, 1))
    assert session.epoch == 8


def test_what_came_with_this_turn_is_in_a_session_out_of_a_copy() -> None:
    """Its rows are in memory, its bodies not on the shelf yet."""
    pair = subscribed()
    pair.cut = {1}
    publish(pair, pair.nodes[0], b"1", b"2")
    pair.cut = set()
    broker = pair.nodes[1].broker
    frames = [one for source, node, chunks in pair.said if (source, node) == (0, 1) for one in chunks]
    broker.step(PeerSaid(0, FrameReader().feed(b"".join(frames))), pair.nodes[1].now_s)
    state = broker.copies.session(broker.copies.of[0], "a")
    assert state is not None
    assert [one.message.payload for one in state.deliveries] == [b"1", b"2"]


def test_who_looks_for_a_session_without_a_client_gives_way_to_one_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    group = subscribed(Group(3))
    assert group.nodes[0].broker.keeping is not None
    keeper = next(iter(group.nodes[0].broker.keeping.keepers))
    group.cut = {0, 1, 2}
    group.nodes[keeper].take(PeerGone(0, "gone"))
    group.nodes[keeper].client("a", version=MQTT_3, clean_start=False)
    broker, said = group.nodes[keeper].broker, list[object]()
    monkeypatch.setattr(broker.talk, "tell", lambda peer, what: said.append(what))
    for has_client, kind in ((False, "seeking"), (True, "copy")):
        assert broker.takeover.is_seeking("a")
        broker.takeover.hear(3 - keeper, SeekSession("a", None, has_client))
        answer = said.pop()
        assert isinstance(answer, FoundSession)
        assert (answer.kind, answer.of) == (kind, 0)
    assert not broker.takeover.is_seeking("a")


def test_what_a_session_lacks_is_looked_for_in_the_log_that_is_kept_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others here had it, its own node did not, and its origin is silent, though its link is believed in."""
    group = Group(3)
    assert group.nodes[0].broker.keeping is not None
    keeper = next(iter(group.nodes[0].broker.keeping.keepers))
    here, there = group.nodes[keeper], group.nodes[3 - keeper]
    for driven, name in ((here, "b"), (there, "a")):
        line = driven.client(name, version=MQTT_3, clean_start=False)
        group.pass_on()
        driven.say(line, Subscribe(1, (Subscription("t", 1),)))
        group.pass_on()
    there.cut(line)
    with monkeypatch.context() as patched:
        patched.setattr(there.broker.planes, "tagged", lambda tag: None)
        publish(group, group.nodes[0], b"1")
    line = here.client("a", version=MQTT_3, clean_start=False)
    group.pass_on()
    group.cut = {0}
    group.wait(4.0)
    answer, *behind = here.hear(line)
    assert isinstance(answer, ConnAck)
    assert answer.session_present
    assert payloads(behind) == [b"1"]


def test_what_was_lost_on_its_way_is_owed_though_others_here_want_it_only_now(monkeypatch: pytest.MonkeyPatch) -> None:
    group = subscribed(Group(3, system="mesh"))
    with monkeypatch.context() as patched:
        patched.setattr(group.nodes[0].broker.planes, "tagged", lambda tag: None)
        publish(group, group.nodes[2], b"1")
    group.wait(0.5)
    newer = group.nodes[1].client("b")
    group.pass_on()
    group.nodes[1].say(newer, Subscribe(1, (Subscription("t", 1),)))
    group.pass_on()
    line, answer, behind = lasting(group, 1)
    assert answer is not None
    assert answer.session_present
    recovery = group.nodes[2].broker.recovery
    recovery.disturb(recovery.now_us - 3_000_000)
    group.wait(3.0)
    assert payloads([*behind, *group.nodes[1].hear(line)]) == [b"1"]


def test_what_a_session_had_is_known_for_as_long_as_it_may_come_again() -> None:
    group = subscribed(Group(3))
    publish(group, group.nodes[2], b"1")
    lasting(group, 1)
    broker = group.nodes[1].broker
    session = broker.sessions.of["a"]
    assert isinstance(session.past, Had)
    ((place, last),) = session.past.taken.items()
    broker.marks.reopen(*place, last - 1, {})
    broker.recovery.behind[place[0]] = 1  # its origin has not told all since then
    group.nodes[1].wait(130.0)
    assert isinstance(session.past, Had)
    del broker.recovery.behind[place[0]]
    group.nodes[1].wait(70.0)
    assert session.past is None


def test_what_is_looked_for_since_another_session_came_is_not_lost_sight_of_nor_given_twice() -> None:
    """Two come one after the other: what both had stays had, and what one has got meanwhile it does not get again."""
    broker = Group(3).nodes[1].broker
    lacking, marks, place = broker.takeover.lacking, broker.marks, (2, "t")
    first, second, third = (2 << TIME_BITS | number for number in (10, 20, 30))
    broker.recovery.behind[2] = 1
    marks.reopen(*place, 0, {second: first, third: second})
    arrival = ComingSession(guest_of("a", None, (Subscription("t", 1),), broker.sessions.options))
    arrival.entered_us, arrival.taken = broker.recovery.now_us, {place: second}
    lacking.settle(arrival, Quest(None, [], 0.0, lambda outcome: None, -1), [])
    assert [marks.has(*place, one) for one in (first, second, third)] == [False, True, False]
    session = arrival.guest
    session.past = arrival.had()
    lacking.note_rest(session, [Message("t", b"2", 1, id=second), Message("t", b"3", 1, id=third)])
    assert isinstance(session.past, Had)
    assert session.past.ahead == {third}


def test_what_was_collected_behind_something_missing_waits_for_it() -> None:
    """It came to a node that had had both; to the session it would come in the wrong order."""
    group = Group(3)
    node = group.nodes[1]
    broker = node.broker
    other = node.client("b")
    group.pass_on()
    node.say(other, Subscribe(1, (Subscription("t", 1),)))
    group.pass_on()
    place, times = (2, "t"), [broker.recovery.now_us + number for number in range(1, 4)]
    first, second, third = (2 << TIME_BITS | time for time in times)
    broker.recovery.behind[2] = 1
    broker.marks.set(*place, third)
    arrival = ComingSession(guest_of("a", None, (Subscription("t", 1),), broker.sessions.options))
    arrival.entered_us, arrival.taken, arrival.due = broker.recovery.now_us, {place: first}, {place: second}
    rest = [Message("t", b"3", 1, id=third, before=second)]
    waiting = broker.takeover.lacking.settle(arrival, Quest(None, [], 0.0, lambda outcome: None, -1), rest)
    assert list(waiting) == [third]
    broker.takeover.lacking.hold(rest)
    assert broker.marks.get(*place) == first
    assert broker.delivering.ordering.is_held("t", third)
    body = encode_carried(second, Message("t", b"2", 1, id=second, before=first), 1)
    broker.delivering.take_copy(body)
    assert broker.marks.get(*place) == third
    assert not len(broker.delivering.ordering)
    assert not payloads(node.hear(other))  # which had had both


def test_a_session_whose_time_was_up_while_its_node_was_away_is_nobodys() -> None:
    """By that node's clock, which may be hours off; while its client was connected its time did not run."""
    group = Group(3)
    node = group.nodes[0]
    node.now_s += 7200.0
    for name, expiry_s in (("a", 100), ("never", 0xFFFF_FFFF), ("there", 100)):
        line = node.client(name, version=MQTT_5, clean_start=False, properties=Properties(session_expiry_s=expiry_s))
        group.pass_on()
        if name != "there":
            node.cut(line)
        group.pass_on()
    group.wait(0.2)
    assert node.broker.keeping is not None
    broker = group.nodes[next(iter(node.broker.keeping.keepers))].broker
    broker.turn.now_s += 95.0
    for kinds in (["copy", "copy", "copy"], ["none", "copy", "copy"]):
        found = [broker.takeover._giving.found(SeekSession(name, None)) for name in ("a", "never", "there")]
        assert [one.kind for one in found] == kinds
        broker.turn.now_s += 10.0


def test_a_copy_does_not_count_where_a_later_one_has_the_session_no_more() -> None:
    """Its node replaced a keeper that was cut off, ended the session, and is away now; that keeper knows nothing."""
    group = subscribed(Group(4, copies=3))
    ended = FoundSession("a", "none", 0, 2, without=((0, 1, 9), (3, 1, 5)))
    quest = Quest(None, [2, 3], 0.0, lambda outcome: None, -1)
    at_home = FoundSession("a", "none", 0, 1)
    stale, fresh, others = (
        FoundSession("a", "copy", 1, *place) for place in ((0, False, 1, 8), (0, False, 2, 0), (3,))
    )
    assert quest.counts(stale, at_home)
    quest.answers = {2: ended}
    assert not quest.counts(stale, at_home)
    assert quest.counts(fresh, at_home)
    quest.answers = {}
    assert not quest.counts(stale, ended)
    assert not quest.counts(others, ended)
    keepers = [one.broker for one in group.nodes if 0 in one.broker.copies.of]
    assert keepers
    copy = keepers[0].copies.of[0]
    found = keepers[0].takeover._giving.found
    assert [(0, *copy.place) in found(SeekSession(name, None)).without for name in ("b", "a")] == [True, False]
