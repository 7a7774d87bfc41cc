"""Names and filters, and the index against a matcher that is slow and obvious."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.mqtt.index import SubscriptionIndex
from coterie.mqtt.packets import Subscription
from coterie.mqtt.reasons import MqttError
from coterie.mqtt.topics import TopicNames, check_filter, check_topic_name, filter_matches, split_shared

MATCHES = [
    ("sport/#", "sport", True),
    ("sport/#", "sport/tennis/player1", True),
    ("#", "sport/tennis", True),
    ("sport/tennis/+", "sport/tennis/player1", True),
    ("sport/tennis/+", "sport/tennis/player1/ranking", False),
    ("sport/+", "sport", False),
    ("sport/+", "sport/", True),
    ("+/+", "/finance", True),
    ("/+", "/finance", True),
    ("+", "/finance", False),
    ("#", "$SYS/monitor", False),
    ("+/monitor", "$SYS/monitor", False),
    ("$SYS/#", "$SYS/monitor", True),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
    ("a/+/#", "a", False),
    ("a/+/#", "a/b", True),
    ("ACCOUNTS", "Accounts", False),
]


@pytest.mark.parametrize(("topic_filter", "topic", "expected"), MATCHES)
def test_examples_of_the_specification(topic_filter: str, topic: str, expected: bool) -> None:
    """Section 4.7."""
    assert obvious(topic_filter, topic) == expected
    assert filter_matches(topic_filter, topic) == expected
    index: SubscriptionIndex[str] = SubscriptionIndex()
    index.subscribe("client", Subscription(topic_filter))
    assert bool(index.matches(topic).receivers) == expected


@pytest.mark.parametrize("name", ["a", "/", "a//b", " ", "$SYS/x", "é"])
def test_valid_names(name: str) -> None:
    assert check_topic_name(name) == name
    assert check_filter(name) == name


@pytest.mark.parametrize("name", ["", "a/+", "#", "a#"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(MqttError):
        check_topic_name(name)


@pytest.mark.parametrize(
    "topic_filter",
    ["", "a#", "#/a", "a/#/b", "a+", "+a", "$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a"],
)
def test_invalid_filters(topic_filter: str) -> None:
    with pytest.raises(MqttError):
        check_filter(topic_filter)


def test_shared_filters_are_split() -> None:
    assert split_shared("$share/group/a/b") == ("group", "a/b")
    assert split_shared("$shared/group/a") == ("", "$shared/group/a")


def test_names_are_bounded_and_identical() -> None:
    names = TopicNames(name_count_max=10)
    for number in range(100):
        names.add(b"t/%d" % number)
        assert len(names.names) <= 10
    assert names.add(b"t/99") is names.add(b"t/99")
    with pytest.raises(MqttError):
        names.add(b"t/#")


def obvious(topic_filter: str, topic: str) -> bool:
    """The rules of section 4.7, level by level, by recursion."""

    def fits(wanted: list[str], levels: list[str]) -> bool:
        if wanted == ["#"]:
            return True
        if not wanted or not levels:
            return wanted == levels
        return wanted[0] in ("+", levels[0]) and fits(wanted[1:], levels[1:])

    if topic[0] == "$" and topic_filter[0] in "+#":
        return False
    return fits(topic_filter.split("/"), topic.split("/"))


names = st.lists(st.sampled_from(["a", "b", "", "$s"]), min_size=1, max_size=4).map("/".join).filter(bool)
words = st.lists(st.sampled_from(["a", "b", "", "$s", "+"]), min_size=1, max_size=4)
wildcards = st.tuples(words, st.booleans()).map(lambda pair: "/".join(pair[0] + ["#"] * pair[1])).filter(bool)
groups = st.sampled_from(["", "", "$share/g/", "$share/h/"])
subscriptions = st.builds(
    Subscription,
    st.tuples(groups, wildcards).map("".join),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
    st.just(0),
    st.integers(0, 3),
)
steps = st.one_of(
    st.tuples(st.just("subscribe"), st.integers(0, 3), subscriptions),
    st.tuples(st.just("unsubscribe"), st.integers(0, 3), subscriptions),
    st.tuples(st.just("match"), names),
)


@given(st.lists(steps, max_size=30), st.integers(1, 4))
@settings(max_examples=300)
def test_the_index_is_the_obvious_matcher(script: list[tuple[object, ...]], cache_size: int) -> None:
    index: SubscriptionIndex[int] = SubscriptionIndex(topic_count_max=cache_size)
    held: dict[tuple[int, str], Subscription] = {}
    for step in [*script, ("match", "a"), ("match", "a/b"), ("match", "$s/a")]:
        match step:
            case ("subscribe", int(client), Subscription() as one):
                assert index.subscribe(client, one) == ((client, one.filter) not in held)
                held[client, one.filter] = one
            case ("unsubscribe", int(client), Subscription() as one):
                assert index.unsubscribe(client, one.filter) == ((client, one.filter) in held)
                held.pop((client, one.filter), None)
            case ("match", str(topic)):
                check_match(index, held, topic)
                assert len(index.cache) <= cache_size
    assert sorted(set(index.filters())) == sorted({split_shared(one)[1] for _, one in held})
    for client, topic_filter in list(held):
        index.unsubscribe(client, topic_filter)
    assert not index._root.children
    assert list(index.filters()) == []


def check_match(index: SubscriptionIndex[int], held: dict[tuple[int, str], Subscription], topic: str) -> None:
    direct: dict[int, list[Subscription]] = {}
    shared: dict[str, set[int]] = {}
    for (client, topic_filter), one in held.items():
        group, bare = split_shared(topic_filter)
        if not obvious(bare, topic):
            continue
        if group:
            shared.setdefault(topic_filter, set()).add(client)
        else:
            direct.setdefault(client, []).append(one)
    match = index.matches(topic)
    assert {one.receiver for one in match.receivers} == set(direct)
    for receiver in match.receivers:
        mine = direct[receiver.receiver]
        assert receiver.qos == max(one.qos for one in mine)
        assert set(receiver.identifiers) == {one.identifier for one in mine if one.identifier}
        local = [one for one in mine if not one.no_local]
        assert (receiver.local is None) == (not local)
        if receiver.local is not None:
            assert receiver.local.qos == max(one.qos for one in local)
    assert sorted(sorted(group.members) for group in match.groups) == sorted(sorted(one) for one in shared.values())


def test_a_shared_group_takes_turns_and_skips_the_absent() -> None:
    index: SubscriptionIndex[str] = SubscriptionIndex()
    for client in "abc":
        index.subscribe(client, Subscription("$share/g/x/+"))
    group = index.matches("x/y").groups[0]
    chosen = [group.choose(lambda _: True).receiver for _ in range(9)]
    assert [chosen.count(client) for client in "abc"] == [3, 3, 3]
    chosen = [group.choose(lambda client: client != "b").receiver for _ in range(8)]
    assert [chosen.count(client) for client in "abc"] == [4, 0, 4]
    assert group.choose(lambda _: False).receiver in "abc"


def test_an_exact_filter_leaves_the_other_answers_alone() -> None:
    index: SubscriptionIndex[str] = SubscriptionIndex()
    index.subscribe("a", Subscription("x/+"))
    kept, changed = index.matches("x/1"), index.matches("x/2")
    index.subscribe("b", Subscription("x/2"))
    assert index.matches("x/1") is kept
    assert index.matches("x/2") is not changed
    index.subscribe("b", Subscription("x/2"))  # the same again changes nothing
    assert [one.receiver for one in index.matches("x/2").receivers] == ["b", "a"]
