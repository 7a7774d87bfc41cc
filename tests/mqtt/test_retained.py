"""The retained store against a plain dictionary, its bounds and its expiry."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.mqtt.publish import Message
from coterie.mqtt.retained import RetainedStore
from coterie.mqtt.topics import filter_matches
from tests.mqtt.test_topics import names, wildcards

steps = st.tuples(names, st.sampled_from([b"", b"x", b"yy"]), st.none() | st.integers(1, 20), st.integers(0, 4))


def walked(
    store: RetainedStore, topic_filter: str, now_s: float = 0.0, after: str = "", count: int = 1000
) -> list[str]:
    walk, found = store.walk(topic_filter, after), []
    while len(found) < count and (message := walk.next(now_s)) is not None:
        found.append(message.topic)
        assert not walk.is_ahead(message.topic)
    return found


@given(st.lists(names, max_size=20), wildcards, st.integers(0, 20))
@settings(max_examples=300)
def test_a_walk_begins_again_behind_any_topic(topics: list[str], topic_filter: str, count: int) -> None:
    store = RetainedStore()
    for topic in topics:
        store.set(Message(topic, b"x"))
    every = walked(store, topic_filter)
    assert every == sorted(set(every), key=lambda one: one.split("/"))
    first = walked(store, topic_filter, count=count)
    assert first + walked(store, topic_filter, after=first[-1] if first else "") == every


@given(st.lists(names, max_size=20), st.lists(st.tuples(names, st.booleans()), max_size=20), wildcards)
@settings(max_examples=300)
def test_a_walk_goes_on_whatever_changes(topics: list[str], changes: list[tuple[str, bool]], topic_filter: str) -> None:
    """What was there all the time is met once; what was removed before the walk came to it is not met."""
    store = RetainedStore()
    for topic in topics:
        store.set(Message(topic, b"x"))
    walk, found, touched = store.walk(topic_filter), [], set()
    for topic, is_gone in changes:
        store.set(Message(topic, b"" if is_gone else b"y"))
        touched.add(topic)
        if (message := walk.next(0.0)) is not None:
            assert store.get(message.topic, 0.0) is message
            found.append(message.topic)
    while (message := walk.next(0.0)) is not None:
        found.append(message.topic)
    assert len(found) == len(set(found))
    assert {one for one in topics if filter_matches(topic_filter, one)} - touched <= set(found)


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
            assert sorted(walked(store, topic_filter, now_s)) == expected
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
