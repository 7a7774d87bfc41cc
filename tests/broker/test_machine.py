"""A whole broker by its facts and orders: what waits for the disk, what does not, and what a route may not remember."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie.broker.commands import Reload
from coterie.broker.facts import Bytes, StoreFailed
from coterie.broker.orders import Fail, Persist, Prove, Write
from coterie.broker.settings import AccessSection, User
from coterie.broker.writes import DELIVERIES, MESSAGES
from coterie.mqtt import packets as p
from coterie.mqtt.encode import encode_packet
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.properties import Properties
from tests.broker.driving import Driven, setup

LASTING: dict[str, Any] = {"clean_start": False, "properties": Properties(session_expiry_s=1000)}


def of_kind(driven: Driven, line: int, kind: type[Any]) -> list[Any]:
    return [one for one in driven.hear(line) if isinstance(one, kind)]


def test_an_acknowledgement_leaves_behind_the_batch_that_it_depends_on_and_qos_0_does_not_wait() -> None:
    driven = Driven()
    reader, plain = driven.client("reader", **LASTING), driven.client("plain")
    driven.say(reader, p.Subscribe(1, (p.Subscription("a", 1),)))
    driven.say(plain, p.Subscribe(1, (p.Subscription("b", 0),)))
    writer = driven.client("writer")
    for line in (reader, plain, writer):
        driven.hear(line)
    driven.is_slow = True
    driven.say(writer, p.Publish("b", b"0"), p.Publish("a", b"1", 1, packet_id=7))
    assert [one.payload for one in of_kind(driven, plain, p.Publish)] == [b"0"]
    assert driven.hear(writer) == driven.hear(reader) == []
    (waiting,) = driven.waiting
    assert {table for table, _, _ in waiting.writes} == {DELIVERIES, MESSAGES}
    driven.say(writer, p.PingReq())  # behind the acknowledgement, though it depends on nothing
    assert driven.hear(writer) == []
    assert [len(one.writes) for one in driven.waiting] == [2, 0]
    driven.persist()
    assert [one.packet_id for one in of_kind(driven, writer, p.PubAck)] == [7]
    assert [one.payload for one in of_kind(driven, reader, p.Publish)] == [b"1"]
    driven.persist()
    assert driven.hear(writer) == [p.PingResp()]


def test_a_connection_ends_behind_its_last_words_which_wait_for_the_disk() -> None:
    driven = Driven()
    reader, writer = driven.client("reader", **LASTING), driven.client("writer")
    driven.say(reader, p.Subscribe(1, (p.Subscription("a", 1),)))
    driven.hear(writer)
    driven.is_slow = True
    driven.say(writer, p.Publish("a", b"1", 1, packet_id=7))
    driven.say(writer, p.Connect("once more"))
    assert (driven.hear(writer), driven.closed) == ([], {})
    while driven.waiting:
        driven.persist()
    acknowledged, ended = driven.hear(writer)
    assert isinstance(acknowledged, p.PubAck)
    assert isinstance(ended, p.Disconnect)
    assert driven.closed == {writer: True}


def test_what_was_not_persisted_was_not_promised_and_what_was_is_there_after_a_crash() -> None:
    driven = Driven()
    reader = driven.client("reader", **LASTING)
    driven.say(reader, p.Subscribe(1, (p.Subscription("a", 1),)))
    driven.cut(reader)
    writer = driven.client("writer")
    driven.say(writer, p.Publish("a", b"kept", 1, packet_id=1))
    driven.is_slow = True
    driven.hear(writer)
    driven.say(writer, p.Publish("a", b"lost", 1, packet_id=2))
    assert driven.hear(writer) == []
    again = Driven(shelf=driven.shelf, life=2)
    reader = again.client("reader", **LASTING)
    connack, *rest = again.hear(reader)
    assert isinstance(connack, p.ConnAck)
    assert connack.session_present
    assert [one.payload for one in rest if isinstance(one, p.Publish)] == [b"kept"]


def test_a_will_that_was_said_is_not_said_again_after_a_restart() -> None:
    """Section 3.1.2.5: it is removed once it has been published; its session lasts."""
    driven = Driven()
    line = driven.client("a", will=p.Will("w", b"gone", 1), **LASTING)
    reader = driven.client("reader", **LASTING)
    driven.say(reader, p.Subscribe(1, (p.Subscription("w", 1),)))
    driven.cut(line)
    (will,) = of_kind(driven, reader, p.Publish)
    driven.say(reader, p.PubAck(will.packet_id))
    driven.wait(2.0)
    again = Driven(shelf=driven.shelf, life=2)
    assert not of_kind(again, again.client("reader", **LASTING), p.Publish)


def test_a_store_that_fails_ends_the_broker() -> None:
    driven = Driven()
    line = driven.client("a")
    orders = driven.broker.step(StoreFailed("disk full"), driven.now_s)
    assert [type(one) for one in orders] == [Fail]
    assert driven.broker.step(Bytes(line, encode_packet(p.PingReq())), driven.now_s) == []
    assert driven.broker.end_turn(driven.now_s) == []


def test_fifty_who_are_away_cost_one_body() -> None:
    driven = Driven()
    for number in range(50):
        line = driven.client(f"reader{number}", **LASTING)
        driven.say(line, p.Subscribe(1, (p.Subscription("#", 1),)))
        driven.cut(line)
    writer = driven.client("writer")
    driven.orders.clear()
    driven.say(writer, p.Publish("a", b"x" * 500, 1, packet_id=1))
    (batch,) = [one for one in driven.orders if isinstance(one, Persist)]
    tables = [table for table, _, _ in batch.writes]
    assert (tables.count(MESSAGES), tables.count(DELIVERIES)) == (1, 50)


def test_a_password_goes_out_as_a_question_and_the_answer_decides() -> None:
    stored = "scrypt$16384$8$1$" + "A" * 22 + "==$" + "A" * 43 + "="
    driven = Driven(setup(access=AccessSection(anonymous="never", users=[User(name="ann", password=stored)])))
    line = driven.open()
    driven.say(line, p.Connect("c", username="ann", password=b"secret"))
    (asked,) = [one for one in driven.orders if isinstance(one, Prove)]
    assert (asked.line, asked.check.user, asked.check.is_known) == (line, "ann", True)
    assert driven.hear(line) == []


FILTERS = ["a", "+", "#"]
step = st.one_of(
    st.tuples(st.just("subscribe"), st.integers(0, 1), st.sampled_from(FILTERS)),
    st.tuples(st.just("unsubscribe"), st.integers(0, 1), st.sampled_from(FILTERS)),
    st.tuples(st.just("publish"), st.integers(0, 1), st.sampled_from(["a", "b"])),
    st.tuples(st.just("rights"), st.integers(0, 1), st.sampled_from(["#", "a", "b"])),
)


@example([("publish", 0, "a"), ("subscribe", 1, "a"), ("publish", 0, "a")], 0)
@example([("publish", 0, "a"), ("rights", 0, "b"), ("publish", 0, "a")], 1)
@given(st.lists(step, max_size=30), st.sampled_from([0, 1]))
@settings(max_examples=60)
def test_a_route_is_never_older_than_a_subscription_or_a_right(steps: list[tuple[str, int, str]], qos: int) -> None:
    """Against a broker that forgets its routes before every publication."""
    both = [Driven(), Driven()]
    lines = [[one.client(f"c{number}") for number in range(2)] for one in both]
    for number, (kind, who, what) in enumerate(steps, 1):
        for which, one in enumerate(both):
            line = lines[which][who]
            if kind == "subscribe":
                one.say(line, p.Subscribe(number, (p.Subscription(what, 1),)))
            elif kind == "unsubscribe":
                one.say(line, p.Unsubscribe(number, (what,)))
            elif kind == "rights":
                access = AccessSection(anonymous_publish=(what,), anonymous_subscribe=("#",))
                limits, options = one.broker.setup.limits, ServerOptions()
                one.command(Reload(access, limits, options, 100))
            else:
                if which:
                    for client in one.broker.clients.lines.values():
                        client.connection.routes.clear()
                one.say(line, p.Publish(what, b"%d" % number, qos, packet_id=number if qos else 0))
    for first, second in zip(*lines, strict=True):
        assert both[0].hear(first) == both[1].hear(second)


@pytest.mark.parametrize("count", [1, 7])
def test_a_burst_to_many_is_one_write_each(count: int) -> None:
    driven = Driven()
    readers = [driven.client(f"r{number}") for number in range(5)]
    for line in readers:
        driven.say(line, p.Subscribe(1, (p.Subscription("a"),)))
    writer = driven.client("writer")
    driven.say(writer, p.Publish("a", b"first"))
    driven.orders.clear()
    driven.say(writer, *(p.Publish("a", b"%d" % number) for number in range(count)))
    assert sorted(one.line for one in driven.orders if isinstance(one, Write)) == readers


def test_nothing_happens_when_nothing_happens() -> None:
    driven = Driven()
    driven.wait(10.0)
    driven.orders.clear()
    driven.wait(600.0)
    assert not [one for one in driven.orders if isinstance(one, Persist | Write)]
