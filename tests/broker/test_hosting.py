"""A host and its leaves, by what they tell each other."""

from __future__ import annotations

from coterie.broker.carried import encode_carried
from coterie.broker.frames import CONTROL, ControlMessage, Detoured, FrameReader, decode_control
from coterie.broker.orders import Order, Tell
from coterie.broker.said import HangOn, Hosted, LeafDrops, LeafWants
from coterie.mqtt.publish import Message
from tests.broker.groups import Group


def hosting() -> tuple[Group, list[ControlMessage]]:
    """Node 0 is the host of node 1; what it tells that one from now on."""
    group, said, reader = Group(), [], FrameReader()
    group.nodes[0].broker.hosting.hear(1, HangOn())
    group.nodes[0].take()

    def note(order: Order) -> None:
        if isinstance(order, Tell):
            said.extend(decode_control(body) for kind, body in reader.feed(b"".join(order.chunks)) if kind == CONTROL)

    group.nodes[0].on_order = note
    return group, said


def around(number: int) -> Detoured:
    return Detoured(encode_carried(number, Message("t", b"x", 1, id=number), 1))


def test_what_came_around_the_plan_is_passed_on_once() -> None:
    """Two that are each other's leaves, while plans change, would pass it to and fro for ever."""
    group, said = hosting()
    for number in (1 << 52 | 5, 1 << 52 | 5, 1 << 52 | 6):
        group.nodes[0].broker.hosting.detoured(around(number))
        group.nodes[0].take()
    assert [one for one in said if isinstance(one, Detoured)] == [around(1 << 52 | 5), around(1 << 52 | 6)]


def test_a_leaf_that_a_plan_names_by_now_is_none_any_more() -> None:
    group, _ = hosting()
    hosting_here = group.nodes[0].broker.hosting
    hosting_here.hear(1, LeafWants(("t",)))
    hosting_here.hear(1, LeafDrops(("t",)))
    assert hosting_here.leaves == [1]
    hosting_here.hear(1, LeafDrops(()))
    assert hosting_here.leaves == []


def test_who_is_taken_in_too_late_says_so() -> None:
    group, said = hosting()
    group.nodes[0].broker.hosting.lost(1)
    group.nodes[0].broker.hosting.hear(1, Hosted(True))
    group.nodes[0].take()
    assert LeafDrops(()) in said
