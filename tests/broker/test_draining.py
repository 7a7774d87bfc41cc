"""A node that leaves in good order: who is asked to take what it has, and what it waits for."""

from __future__ import annotations

import pytest

from coterie.broker.commands import Drain
from coterie.broker.draining import ASK_OTHERS_S
from coterie.broker.facts import PeerGone, PeerUp
from coterie.broker.frames import CONTROL, FrameReader, decode_control
from coterie.broker.members import ListChange
from coterie.broker.membership import LAST_WORDS_S
from coterie.broker.orders import LeaveNetwork, Order, Tell
from coterie.broker.said import TakeSessions
from coterie.broker.wards import PATIENT_S
from coterie.mqtt.packets import MQTT_3
from tests.broker.driving import Driven
from tests.broker.groups import Group
from tests.broker.test_takeover import lasting


def leaving() -> tuple[Group, list[int]]:
    """Node 0 leaves, with a session that nobody can take: what is told to others is held. Who is asked to."""
    group, asked = Group(3), []
    line, _, _ = lasting(group, 0)
    group.nodes[0].cut(line)
    group.nodes[0].command(Drain())
    group.wait(0.2)
    group.cut = {1, 2}
    readers = {peer: FrameReader() for peer in (1, 2)}

    def note(order: Order) -> None:
        if isinstance(order, Tell):
            for kind, body in readers[order.peer].feed(b"".join(order.chunks)):
                if kind == CONTROL and isinstance(decode_control(body), TakeSessions):
                    asked.append(order.peer)

    group.nodes[0].on_order = note
    return group, asked


def test_one_node_is_asked_until_it_has_had_time() -> None:
    group, asked = leaving()
    group.nodes[0].wait(ASK_OTHERS_S - 1)
    assert len(asked) > 3
    assert len(set(asked)) == 1
    group.nodes[0].wait(2 * ASK_OTHERS_S)
    assert set(asked) == {1, 2}


def test_a_session_that_comes_late_is_handed_over_too() -> None:
    group = Group(3)
    group.nodes[0].command(Drain())
    group.pass_on()
    node = group.nodes[0].broker
    node.draining.phase = "log"
    node.sessions._new_session("late", None).expiry_s = 1000
    group.wait(5.0)
    assert "late" not in node.sessions.of
    assert node.draining.handed_over == 1
    assert node.membership.members.was_removed(0)


def test_what_is_kept_for_others_stays_for_a_while_until_they_have_somebody_else() -> None:
    group = Group(3)
    group.wait(0.5)
    (keeper,) = group.nodes[0].broker.lists.keepers(0)
    here = group.nodes[keeper].broker
    here.wards.set_members(dict.fromkeys(range(3), ""), is_leaving=True)

    def is_whole_after(duration_s: float) -> bool:
        group.wait(duration_s)
        assert here.keeping is not None
        here.keeping.ask_all()
        group.nodes[keeper].take()
        group.pass_on()
        return here.wards.is_whole

    assert not is_whole_after(1.5)
    assert not is_whole_after(PATIENT_S / 2)
    assert is_whole_after(PATIENT_S / 2)  # it has nobody else


def removed() -> tuple[Group, list[str]]:
    """Node 0 of two has had itself removed, and the other one, without whom nothing can be chosen, has not heard it."""
    group, left = Group(2), []
    here, told = group.nodes[0], group.nodes[0].on_order

    def note(order: Order) -> None:
        if isinstance(order, LeaveNetwork):
            left.append(order.reason)
        else:
            told(order)

    here.on_order = note
    here.command(Drain())
    while not here.broker.membership.members.was_removed(0):
        if not group.pass_one():
            here.wait(0.1)
    assert not group.nodes[1].broker.membership.members.was_removed(0)
    return group, left


def test_who_has_left_ends_when_the_others_know() -> None:
    group, left = removed()
    assert not left
    group.pass_on()
    assert group.nodes[1].broker.membership.members.was_removed(0)
    assert left


def test_who_has_left_tells_it_again_where_the_word_was_lost() -> None:
    group, left = removed()
    here, there = group.nodes
    group.said.clear()
    group.cut = {0, 1}
    here.take(PeerGone(1, "broken"))
    there.take(PeerGone(0, "broken"))
    here.wait(LAST_WORDS_S / 2)
    assert not left
    group.said.clear()
    group.cut = set()
    here.take(PeerUp(1))
    there.take(PeerUp(0))
    group.pass_on()
    assert there.broker.membership.members.was_removed(0)
    assert left


def test_who_has_left_and_reaches_nobody_ends_all_the_same() -> None:
    group, left = removed()
    group.cut = {0, 1}
    group.nodes[0].take(PeerGone(1, "broken"))
    group.nodes[0].wait(LAST_WORDS_S + 1)
    assert left


def test_who_was_started_again_after_it_had_left_tells_it_too() -> None:
    group, _ = removed()
    group.said.clear()
    here, there = group.nodes
    again = group.nodes[0] = Driven(here.broker.setup, here.shelf, life=2)
    told: list[Order] = []
    again.on_order = lambda order: (told.append(order), here.on_order(order))[0]
    line = again.client("late")
    there.take(PeerGone(0, "broken"), PeerUp(0))
    again.take(PeerUp(1))
    assert not any(isinstance(order, LeaveNetwork) for order in told)
    group.pass_on()
    assert there.broker.membership.members.was_removed(0)
    assert any(isinstance(order, LeaveNetwork) for order in told)
    assert line in again.closed


def test_who_leaves_waits_for_a_session_that_may_be_about_to_come() -> None:
    """Somebody waits for it here; it would go with this node."""
    group = Group(3)
    node = group.nodes[0].broker
    group.nodes[0].command(Drain())
    group.pass_on()
    node.draining.phase = "log"
    outcomes: list[str] = []
    node.takeover.seek("late", None, outcomes.append)
    node.draining.look()
    assert node.draining.phase == "sessions"
    group.wait(8.0)
    assert outcomes == ["here"]
    assert node.membership.members.was_removed(0)


def test_nothing_comes_to_who_has_left_and_nobody_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(3)
    here = group.nodes[0]
    line = here.client("r", version=MQTT_3, clean_start=True)
    group.pass_on()
    outcomes: list[str] = []
    monkeypatch.setattr(here.broker.takeover, "on_found", lambda *_: None)
    here.broker.takeover.seek("late", None, outcomes.append)
    here.broker.membership.want(ListChange("leave", (0,)))
    here.broker.membership.want(ListChange("remove", (0,)))
    group.wait(3.0)
    assert here.broker.membership.members.was_removed(0)
    assert outcomes == ["away"]
    assert line in here.closed
