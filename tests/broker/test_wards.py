"""What is kept for a node that is away: on as many disks as it should be, whoever sees to it."""

from __future__ import annotations

import pytest

from coterie.broker.copies import STRETCH_ROWS, HeldCopies
from coterie.broker.facts import PeerGone
from coterie.broker.frames import AskKept, AskSession, HeldFor, HoldFor, KeepAll, KeepLog, encode_control
from coterie.broker.wards import AWAY_S
from coterie.broker.writes import COPIED_BODIES, COPIED_LOG, INCOMING, LOG, SESSIONS
from coterie.errors import RemoteProtocolError
from coterie.mqtt.packets import Publish, Subscribe, Subscription
from coterie.mqtt.properties import Properties
from tests.broker.groups import Group

LASTING = {"clean_start": False, "properties": Properties(session_expiry_s=1000)}


def without(group: Group, node: int) -> list[int]:
    """That one is away; those that are left, who keeps for it first."""
    keeper = next(iter(group.nodes[node].broker.keeping.keepers))  # type: ignore[union-attr]
    group.cut = {node}
    left = [one for one in range(len(group.nodes)) if one != node]
    for one in left:
        group.nodes[one].take(PeerGone(node, "broken"))
    return sorted(left, key=lambda one: one != keeper)


def copies(group: Group, node: int) -> HeldCopies:
    return group.nodes[node].broker.copies


def loaded(count: int = 3) -> Group:
    group = Group(3)
    line = group.nodes[0].client("s", **LASTING)
    group.pass_on()
    for number in range(count):
        group.nodes[0].say(line, Publish("t", b"%d" % number, 1, packet_id=number + 1))
        group.pass_on()
    group.wait(0.2)
    return group


def test_who_keeps_for_a_node_that_stays_away_has_another_keep_it_too() -> None:
    group = loaded(STRETCH_ROWS + 40)
    keeper, other = without(group, 0)
    group.wait(AWAY_S / 2)
    assert 0 not in copies(group, other).of
    group.wait(AWAY_S)
    first, second = (group.nodes[one].shelf.tables for one in (keeper, other))
    assert list(first[COPIED_LOG]) == list(group.nodes[0].shelf.tables[LOG])
    for table in (COPIED_LOG, COPIED_BODIES):
        assert dict(first[table]) == dict(second[table])
    one, two = copies(group, keeper).of[0], copies(group, other).of[0]
    assert (one.held, one.rows[SESSIONS]) == (two.held, two.rows[SESSIONS])
    assert abs(one.state.here_us - two.state.here_us) < 1_000_000  # it is as old there as here


def test_a_session_is_taken_from_a_copy_when_two_have_it() -> None:
    group = loaded()
    keeper, other = without(group, 0)
    line = group.nodes[other].client("s", **LASTING)
    group.wait(3.0)
    assert copies(group, other).of[0].held == copies(group, keeper).of[0].held
    group.wait(6.0)
    assert "s" in group.nodes[other].broker.sessions.of
    assert group.nodes[other].hear(line)


def test_who_helped_forgets_when_the_node_is_back() -> None:
    group = loaded()
    keeper, other = without(group, 0)
    group.wait(2 * AWAY_S)
    assert 0 in copies(group, other).of
    told = group.nodes[0].broker.lists.of[0]
    group.nodes[keeper].broker.lists.hear(0, told)
    group.nodes[other].broker.lists.hear(0, told)
    assert 0 in copies(group, keeper).of
    assert 0 not in copies(group, other).of


def test_a_copy_only_grows() -> None:
    group = loaded()
    keeper, other = without(group, 0)
    held = copies(group, keeper).of[0].held
    life, serial, _, last = held
    older = KeepAll(life, serial - 1, 0, b"\x90", last, True, True)
    group.nodes[keeper].broker.copies.on_hold(other, HoldFor(0, 0, encode_control(older)))
    foreign = KeepLog(1, 5, ((7 << 51 | 5, b"t", b"x"),))
    group.nodes[keeper].broker.copies.on_hold(other, HoldFor(0, 0, encode_control(foreign)))
    assert copies(group, keeper).of[0].held == held
    group.nodes[keeper].take()
    assert list(group.nodes[keeper].shelf.tables[COPIED_LOG]) == list(group.nodes[0].shelf.tables[LOG])
    group.nodes[keeper].broker.wards.on_held(other, HeldFor(9, 1, 1, 1, 0))  # nobody asked
    with pytest.raises(RemoteProtocolError):
        group.nodes[keeper].broker.copies.on_hold(other, HoldFor(0, 0, b"nonsense"))
    group.nodes[keeper].broker.copies.on_hold(other, HoldFor(0, 0, encode_control(AskKept(1))))
    assert copies(group, keeper).of[0].held == held


def test_a_word_that_was_held_up_is_as_old_as_it_is() -> None:
    """The moment it was said, by this node's clock: less time has passed at its origin than here."""
    group = loaded()
    held = copies(group, next(iter(group.nodes[0].broker.keeping.keepers)))  # type: ignore[union-attr]
    copy = held.of[0]
    before = copy.state
    held._turn.now_s += 9.0
    held._set(copy, now_us=before.now_us + 2_000_000)
    assert abs(copy.state.here_us - before.here_us - 2_000_000) < 10_000
    held._set(copy, now_us=before.now_us - 3_000_000)  # said again, behind everything that was given later
    assert abs(copy.state.here_us - before.here_us + 3_000_000) < 10_000
    assert abs(copy.now_us(held._turn.now_us) - before.now_us - 9_000_000) < 10_000  # and its clock is what it was
    held._turn.now_s += 1.0
    held._set(copy, now_us=before.now_us - 120_000_000)  # it was set back: nothing is known but when it was heard
    assert copy.state.here_us == held._turn.now_us


def test_a_log_from_before_a_gap_is_told_but_not_as_the_last_word() -> None:
    """Given everything but the log anew, by one who has not got that either: what is here of it is told."""
    group = loaded()
    keeper, other = without(group, 0)
    node = group.nodes[keeper]
    life, serial, _, last = copies(group, keeper).of[0].held
    newer = KeepAll(life, serial + 1, 0, b"\x90", last + 9_000_000, True, True)
    node.broker.copies.on_hold(other, HoldFor(0, 0, encode_control(newer)))
    node.take()
    copy = copies(group, keeper).of[0]
    assert not copy.has_log
    *before, end = node.broker.recovery._orphan_digests(copy, 1)
    assert [len(times) for part in before for _, times in part.events] == [3]
    assert not any(part.is_last for part in before)
    assert end.is_last
    assert not end.events


def test_a_session_that_was_taken_leaves_the_others_what_they_wait_for() -> None:
    group = Group(3)
    for name in ("a", "b"):
        line = group.nodes[0].client(name, **LASTING)
        group.pass_on()
        group.nodes[0].say(line, Subscribe(1, (Subscription("t", 1),)))
        group.pass_on()
        group.nodes[0].cut(line)
    line = group.nodes[1].client("c")
    group.nodes[1].say(line, Publish("t", b"for both", 1, packet_id=1))
    group.wait(0.5)
    keeper, _ = without(group, 0)
    held = copies(group, keeper)
    held.settle(held.of[0], "a")
    group.nodes[keeper].wait(0.1)
    left = held.session(held.of[0], "b")
    assert left is not None
    assert [one.message.payload for one in left.deliveries] == [b"for both"]


def test_identifiers_are_not_believed_before_the_messages_are_there() -> None:
    group = loaded()
    (keeper, _) = without(group, 0)
    held = copies(group, keeper)
    copy = held.of[0]
    held._put(copy, INCOMING, ("s", 7), b"")
    had = held.session(copy, "s")
    assert had is not None
    assert had.incoming == (7,)
    held._set(copy, log_first=copy.state.log_last + 1, given_last=copy.state.log_last)
    for come in (0, 5):  # what came with batches meanwhile is not the end that it was to be given
        held._set(copy, log_last=copy.state.log_last + come)
        without_log = held.session(copy, "s")
        assert without_log is not None
        assert without_log.incoming == ()


def test_a_session_that_one_disk_has_is_not_given_before_another_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    group = loaded()
    keeper, other = without(group, 0)
    broker, said = group.nodes[keeper].broker, list[str]()
    monkeypatch.setattr(broker.talk, "tell", lambda peer, what: said.append(type(what).__name__))
    broker.takeover.hear(other, AskSession("s", 0))
    assert said == ["HoldFor"]
    broker.wards.back(0)
    assert said[1:] == ["GivenSession"]
