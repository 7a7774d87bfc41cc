"""Nobody is told that it is subscribed before the network knows, whoever asked first."""

from __future__ import annotations

from coterie.broker.facts import PeerSaid, PeerUp
from coterie.broker.frames import DONE, TRACKED_CONTROL, TRACKED_MESSAGE, FrameReader, frame, numbered
from coterie.broker.orders import Order, Tell
from coterie.broker.settings import NetworkSection, PeerEntry
from coterie.broker.spreading import SpreadingFilters
from coterie.mqtt.packets import SubAck, Subscribe, Subscription
from tests.broker.driving import Driven, setup

PEERS = [PeerEntry(id=node, host="h", port=node + 1) for node in (0, 1)]


def test_who_waits_for_another_is_done_with_it_and_not_before() -> None:
    spreading = SpreadingFilters()
    done: list[str] = []
    first = spreading.begin(["a", "b"], lambda: done.append("first"))
    second = spreading.begin(["b", "c", "c"], lambda: done.append("second"))
    second()
    third = spreading.begin(["c"], lambda: done.append("third"))
    third()  # nothing is under way there any more
    assert done == ["third"]
    first()
    assert done == ["third", "first", "second"]
    spreading.begin(["a", "b", "c"], lambda: done.append("fourth"))()
    assert done[-1] == "fourth"


def test_the_second_suback_waits_for_the_word_of_the_first() -> None:
    node = Driven(setup(network=NetworkSection(peers=PEERS)))
    told: list[bytes] = []

    def note(order: Order) -> None:
        if isinstance(order, Tell):
            told.extend(order.chunks)

    node.on_order = note
    node.take(PeerUp(1))
    lines = [node.client(name) for name in ("x", "y")]
    for line in lines:
        node.hear(line)
    told.clear()
    for line in lines:
        node.say(line, Subscribe(1, (Subscription("t/+", 0),)))
    assert [node.hear(line) for line in lines] == [[], []]
    frames = FrameReader().feed(b"".join(told))
    numbers = [numbered(body)[0] for kind, body in frames if kind in (TRACKED_CONTROL, TRACKED_MESSAGE)]
    assert numbers
    answers = FrameReader().feed(b"".join(frame(DONE, b"", number) for number in numbers))
    node.take(PeerSaid(1, answers))
    for line in lines:
        assert [type(one) for one in node.hear(line)] == [SubAck]
