"""Publishers wait while what they publish piles up, and are told where waiting is no use."""

from __future__ import annotations

from typing import Any

from coterie.broker import pressure
from coterie.broker.facts import PeerChoked, PeerDrained, PeerGone, PeerUp
from coterie.broker.machine import TICK_S
from coterie.broker.orders import Order, Pause, Resume
from coterie.broker.settings import DurabilitySection, LinkSection, NetworkSection, PeerEntry
from coterie.model.plan import Neighbour, Slice
from coterie.mqtt import packets as p
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.properties import Properties
from coterie.mqtt.reasons import Reason
from tests.broker.driving import Driven, setup

LASTING: dict[str, Any] = {"clean_start": False, "properties": Properties(session_expiry_s=1000)}
SMALL = ServerOptions(shed="nothing", queue_count_max=20, inflight_count_max=2)


def watched(driven: Driven) -> list[tuple[str, int]]:
    """Who is paused and resumed from now on."""
    said: list[tuple[str, int]] = []

    def note(order: Order) -> None:
        if isinstance(order, Pause | Resume):
            said.append((type(order).__name__, order.line))

    driven.on_order = note
    return said


def publish(driven: Driven, line: int, *numbers: int, payload: bytes = b"") -> None:
    driven.say(line, *(p.Publish("a", b"%d" % number + payload, 1, packet_id=number) for number in numbers))


def answers(driven: Driven, line: int) -> list[int]:
    return [one.reason for one in driven.hear(line) if isinstance(one, p.PubAck)]


def reading(driven: Driven, line: int) -> list[int]:
    """Acknowledge whatever comes until nothing does; the numbers, in order."""
    found: list[int] = []
    while got := [one for one in driven.hear(line) if isinstance(one, p.Publish)]:
        found += [int(one.payload) for one in got]
        driven.say(line, *(p.PubAck(one.packet_id) for one in got))
    return found


def test_a_slow_disk_makes_publishers_wait_and_bounds_what_is_under_way(monkeypatch: Any) -> None:
    monkeypatch.setattr(pressure, "UNSAFE_BYTES_MAX", 5_000)
    driven = Driven()
    reader, writer, other = driven.client("reader", **LASTING), driven.client("writer"), driven.client("other")
    driven.say(reader, p.Subscribe(1, (p.Subscription("a", 1),)))
    said = watched(driven)
    driven.is_slow = True
    for number in range(1, 11):
        if said:
            break  # a driver reads no more
        publish(driven, writer, number, payload=bytes(1_000))
    assert said == [("Pause", writer)]
    assert number < 10
    driven.say(other, p.PingReq())  # who does not publish is read
    assert said == [("Pause", writer)]
    assert driven.broker.counts.publishers_paused == 1
    driven.hear(writer)
    while driven.waiting:
        driven.persist()
    assert said == [("Pause", writer), ("Resume", writer)]
    assert answers(driven, writer) == [0] * (number - 1)


def test_a_client_that_does_not_keep_up_slows_its_publishers_and_loses_nothing() -> None:
    driven = Driven(setup(options=SMALL))
    reader, writer, third = driven.client("reader"), driven.client("writer", version=p.MQTT_3), driven.client("third")
    driven.say(reader, p.Subscribe(1, (p.Subscription("a", 1),)))
    said = watched(driven)
    publish(driven, writer, *range(1, 12))
    assert said == []
    publish(driven, writer, *range(12, 50))  # one chunk: all of it is taken, though it is more than the queue's bound
    assert said == [("Pause", writer)]
    driven.say(third, p.Publish("b", b"", 1, packet_id=1))  # not for this reader
    driven.wait(3 * TICK_S)
    assert said == [("Pause", writer)]
    assert reading(driven, reader) == list(range(1, 50))
    driven.wait(2 * TICK_S)
    assert said == [("Pause", writer), ("Resume", writer)]
    assert answers(driven, writer) == [0] * 49


def test_whoever_takes_nothing_at_all_is_sent_away_and_a_publisher_that_waits_is_not_taken_for_silent() -> None:
    driven = Driven(setup(options=SMALL))
    reader, writer = driven.client("reader"), driven.client("writer", keep_alive_s=5)
    driven.say(reader, p.Subscribe(1, (p.Subscription("a", 1),)))
    said = watched(driven)
    publish(driven, writer, *range(1, 30))
    driven.wait(pressure.STUCK_S - 1)
    assert said == [("Pause", writer)]
    assert not driven.closed
    driven.wait(3)
    assert list(driven.closed) == [reader]
    assert driven.hear(reader)[-1] == p.Disconnect(Reason.QUOTA_EXCEEDED)
    assert said == [("Pause", writer), ("Resume", writer)]


def test_what_an_absent_client_has_no_room_for_is_refused_and_not_acknowledged() -> None:
    driven = Driven(setup(options=SMALL))
    reader = driven.client("reader", **LASTING)
    driven.say(reader, p.Subscribe(1, (p.Subscription("a", 1),)))
    driven.cut(reader)
    writer, older = driven.client("writer"), driven.client("older", version=p.MQTT_3)
    for number in range(1, 25):
        publish(driven, writer, number)
    assert answers(driven, writer) == [0] * 20 + [Reason.QUOTA_EXCEEDED] * 4
    publish(driven, older, 100)
    assert (answers(driven, older), older in driven.closed) == ([], True)  # 3.1.1 knows no other answer
    driven.say(writer, p.Publish("b", b"", 1, packet_id=99), p.Publish("a", b"", 0))  # not for it, or promised nothing
    assert answers(driven, writer) == [0]
    assert driven.broker.counts.stored_refused == 5
    again = Driven(setup(options=SMALL), shelf=driven.shelf, life=2)  # and in order after a restart
    reader = again.client("reader", **LASTING)
    assert reading(again, reader) == list(range(1, 21))
    writer = again.client("writer")
    publish(again, writer, 31)
    assert answers(again, writer) == [0]
    assert reading(again, reader) == [31]


def test_a_peer_that_does_not_read_slows_publishers_before_anything_is_given_up() -> None:
    peers = [PeerEntry(id=one, host="127.0.0.1", port=1 + one) for one in (0, 1)]
    made = setup(
        network=NetworkSection(peers=peers, key="k"), links=LinkSection(queue_bytes_max=20_000),
        slice=Slice(version=1, system="flooding", node=0, neighbours=(Neighbour(1),)),
        durability=DurabilitySection(copies=1),
    )  # fmt: skip
    driven = Driven(made)
    driven.take(PeerUp(1))
    writer = driven.client("writer")
    said = watched(driven)
    driven.take(PeerChoked(1))
    for number in range(1, 60):
        if said:
            break
        publish(driven, writer, number, payload=bytes(1_000))
    assert said == [("Pause", writer)]
    assert 5 < number < 20
    assert driven.broker.links.counts.shed == 0
    driven.take(PeerDrained(1))
    driven.wait(2 * TICK_S)
    assert said == [("Pause", writer), ("Resume", writer)]
    said.clear()
    driven.take(PeerChoked(1))
    for number in range(60, 80):
        publish(driven, writer, number, payload=bytes(1_000))
    driven.take(PeerGone(1, "it is dead"))  # nobody waits for the dead: the log has it
    driven.wait(2 * TICK_S)
    assert said == [("Pause", writer), ("Resume", writer)]
    assert set(answers(driven, writer)) == {0}
