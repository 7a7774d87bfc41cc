"""The retained store against a plain dictionary, its bounds and its expiry."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.mqtt.publish import Message
from coterie.mqtt.retained import RetainedStore
from coterie.mqtt.topics import filter_matches
from tests.mqtt.test_topics import names, wildcards

steps = st.tuples(names, st.sampled_from([b"", b"x", b"yy"]), st.none() | st.integers(1, 20), st.integers(0, 4))


@given(st.lists(steps, max_size=30), st.lists(wildcards, min_size=1, max_size=5))
@settings(max_examples=200)
def test_it_is_a_dictionary_with_wildcards(script: list[tuple[str, bytes, int | None, int]], asked: list[str]) -> None:
    store, held, now_s = RetainedStore(), {}, 0.0
    store.journal = []
    for topic, payload, lifetime_s, wait_s in script:
        now_s += wait_s
        message = Message(topic, payload, expires_at_s=None if lifetime_s is None else now_s + lifetime_s)
        store.set(message)
        held[topic] = message
        alive = {
            one.topic for one in held.values() if one.payload and (one.expires_at_s is None or one.expires_at_s > now_s)
        }
        for topic_filter in asked:
            expected = sorted(one for one in alive if filter_matches(topic_filter, one))
            assert [one.topic for one in store.matching(topic_filter, now_s)] == expected
    store.expire(now_s)
    assert sorted(one.topic for one in store) == sorted(alive if script else ())
    assert store.bytes == sum(len(one.topic) + len(one.payload) for one in store)
    replayed: dict[str, Message | None] = dict(store.journal)
    assert sorted(topic for topic, one in replayed.items() if one) == sorted(one.topic for one in store)
    store.expire(now_s + 100)
    for message in list(store):
        store.set(Message(message.topic))
    assert not store._root.children
    assert store.bytes == 0


def test_a_full_store_refuses_new_topics_and_says_so() -> None:
    store = RetainedStore(topic_count_max=2, bytes_max=100)
    assert store.set(Message("a", b"1"))
    assert store.set(Message("b", b"1"))
    assert not store.set(Message("c", b"1"))
    assert store.set(Message("a", b"2"))
    assert not store.set(Message("a", b"2" * 100))
    assert store.refused_count == 2
    assert store.get("a", 0.0) == Message("a", b"2")


def test_deadlines_of_replaced_messages_do_not_pile_up() -> None:
    store = RetainedStore()
    for number in range(10_000):
        store.set(Message("a", b"x", expires_at_s=1e6 + number))
    assert len(store._deadlines) < 200
    assert store.deadline_s is not None
    assert store.expire(1e6) == []
    assert store.expire(2e6) == ["a"]
