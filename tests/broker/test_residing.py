"""Two nodes that were apart and each have a session of one client: it stays where its client came last."""

from __future__ import annotations

import pytest

from coterie.broker.facts import PeerGone
from coterie.broker.frames import MovedSessions
from coterie.broker.wards import PATIENT_S
from coterie.mqtt.packets import MQTT_3
from tests.broker.groups import Group

S = 1_000_000


def kept_since(ago_s: float) -> Group:
    """Node 0 has it, in its first epoch; its client came so long ago."""
    group = Group()
    group.nodes[0].client("a", version=MQTT_3, clean_start=False)
    group.pass_on()
    group.wait(ago_s)
    return group


def epoch_after(group: Group, epoch: int, came_us: int) -> int:
    """Of node 0's, after the other has said that it has it, and again when it was asked; 0: forgotten."""
    for _ in range(2):
        group.nodes[0].broker.takeover.hear(1, MovedSessions((("a", epoch, None),), (came_us,)))
        group.nodes[0].take()
        group.pass_on()
    session = group.nodes[0].broker.sessions.of.get("a")
    return 0 if session is None else session.epoch


@pytest.mark.parametrize(
    ("epoch", "came_us", "left"),
    [
        (2, 9 * S, 3),  # its client came here after it had been there
        (2, -1, 3),  # it never came there: somebody looked for it in vain
        (2, S, 0),  # it went on there
        (1, 9 * S, 2),  # nobody knew of the other: one of the two must rise
        (1, S, 0),  # and that is not this one: it has the lower number, and decides
    ],
)
def test_it_stays_where_its_client_came_last(epoch: int, came_us: int, left: int) -> None:
    assert epoch_after(kept_since(5.0), epoch, came_us) == left


def test_a_word_that_may_have_been_held_up_is_asked_for_again() -> None:
    """A cut holds words up: that its client came there 4.5 s ago was said a second ago, so it came here later."""
    group = kept_since(5.0)
    node, session = group.nodes[0], group.nodes[0].broker.sessions.of["a"]

    def hear(came_us: int) -> None:
        node.broker.takeover.hear(1, MovedSessions((("a", 2, None),), (came_us,)))
        node.take()

    hear(4_500_000)
    assert (node.broker.sessions.of, session.epoch) == ({"a": session}, 1)
    node.wait(0.5)
    hear(5_200_000)  # and this one perhaps as long as the question is old
    assert (node.broker.sessions.of, session.epoch) == ({"a": session}, 3)
    node.broker.takeover.hear(1, MovedSessions((("a", 4, None),), (5_200_000,)))  # that node is sure: one gives way
    assert not node.broker.sessions.of


def test_without_a_word_of_when_the_higher_epoch_counts() -> None:
    group = kept_since(5.0)
    session = group.nodes[0].broker.sessions.of["a"]
    session.came_s = None  # as after a restart
    assert epoch_after(group, 2, -1) == 0


def test_what_was_given_is_not_kept_after_all() -> None:
    group = kept_since(5.0)
    group.nodes[0].broker.takeover._giving.leaving["a"] = 1
    assert epoch_after(group, 2, -1) == 0


def test_of_two_that_know_nothing_one_keeps_it() -> None:
    group = kept_since(0.1)
    session = group.nodes[0].broker.sessions.of["a"]
    session.came_s = None
    assert epoch_after(group, 1, -1) == 2


def test_neither_forgets_it_though_each_believes_that_the_other_is_later() -> None:
    group = kept_since(5.0)
    group.nodes[1].broker.sessions._new_session("a", None).expiry_s = 1000
    for node in (1, 0, 0):
        group.nodes[node].broker.takeover.hear(1 - node, MovedSessions((("a", 1, None),), (0,)))
    assert [list(node.broker.sessions.of) for node in group.nodes] == [[], ["a"]]


def test_who_has_the_higher_number_leaves_it_to_the_other_and_tells_it() -> None:
    group = kept_since(0.1)
    session = group.nodes[1].broker.sessions._new_session("a", None)
    session.expiry_s = 1000
    group.nodes[1].broker.takeover.hear(0, MovedSessions((("a", 1, None),), (0,)))
    assert session.client_id in group.nodes[1].broker.sessions.of
    group.nodes[1].take()
    group.pass_on()
    group.wait(0.5)
    assert [list(node.broker.sessions.of) for node in group.nodes] == [["a"], []]
    assert group.nodes[0].broker.sessions.of["a"].epoch == 2


def test_who_learns_of_another_while_it_looks_tells_it() -> None:
    """Both began one when they could not ask: one of the two forgets, at the latest when somebody asks for it."""
    group = kept_since(1.0)
    group.nodes[1].broker.sessions._new_session("a", None).expiry_s = 1000
    group.nodes[0].broker.takeover.seek("a", None, lambda outcome: None)
    group.nodes[0].take()
    group.pass_on()
    group.wait(0.5)
    epochs = [node.broker.sessions.of["a"].epoch for node in group.nodes if "a" in node.broker.sessions.of]
    assert epochs == [2]


def test_a_node_that_leaves_keeps_what_it_gave_until_it_is_kept_elsewhere() -> None:
    """Else it is nowhere but where it went, and gone with that; a client does not come to who leaves."""
    group = Group(3)
    group.nodes[0].client("a", version=MQTT_3, clean_start=False)
    group.pass_on()
    there = group.nodes[1].broker
    assert there.keeping is not None
    there.keeping.set_order([2])
    group.cut = {2}
    group.nodes[1].take(PeerGone(2, "gone"))
    group.wait(7.0)
    there.takeover._residing.set_leaving([0])
    session = there.sessions._new_session("a", None)
    session.expiry_s, session.epoch = 1000, 2
    session.came_s = there.turn.now_s + 1.0
    there.takeover._residing.tell(lambda: [0], [session], is_new=False)
    group.wait(PATIENT_S - 1.0)
    assert there.keeping.is_short
    assert list(group.nodes[0].broker.sessions.of) == ["a"]
    group.wait(2.0)  # nobody comes
    assert not group.nodes[0].broker.sessions.of
