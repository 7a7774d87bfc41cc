"""TopicRules for topics: what they cover, and that no name turns into more than a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.rights import Rights, TopicRules, filled_in
from coterie.mqtt.topics import filter_covers, filter_matches

_level = st.sampled_from(["a", "b", "+", ""])
_filter = st.builds(
    lambda levels, tail: "/".join([*levels, *tail]),
    st.lists(_level, min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
)
_topic = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=4).map("/".join)


@given(_filter, _filter, _topic)
def test_a_filter_that_covers_another_matches_all_its_topics(wide: str, narrow: str, topic: str) -> None:
    if filter_covers(wide, narrow) and filter_matches(narrow, topic):
        assert filter_matches(wide, topic)


@pytest.mark.parametrize("name", ["+", "#", "a/b", "/", "+/#", "$SYS", "", "a#", "a+"])
def test_a_name_with_a_meaning_voids_the_rules_it_is_in(name: str) -> None:
    assert filled_in(("dev/%c/#", "open/#"), "ann", name) == ("open/#",)
    assert filled_in(("dev/%u/#", "%u", "open/#"), name, "c1") == ("open/#",)
    assert filled_in(("both/%u/%c",), "ann", name) == ()


def test_a_name_is_filled_in_once() -> None:
    assert filled_in(("home/%u/%c",), "%c", "x") == ("home/%c/x",)


@given(st.text(max_size=8), _topic)
def test_whatever_a_client_is_called_it_stays_on_its_own_level(name: str, topic: str) -> None:
    rights = Rights(TopicRules(("dev/%c/#",), ("dev/%c/#",)), "ann", name)
    if rights.may_publish(f"dev/{topic}"):
        assert topic.split("/")[0] == name
    for wish in ("dev/#", "dev/+/#", "#", "+/#"):
        assert not rights.may_subscribe(wish)


def test_dollar_topics_are_never_published_and_read_only_by_rule() -> None:
    everything = Rights(TopicRules(("#", "$SYS/#", "$share/#", "$coterie/retained"), ("#",), ("+",)))
    for topic in ("$SYS/broker/version", "$share/g/a", "$coterie/retained", "$anything"):
        assert not everything.may_publish(topic)
    assert everything.may_publish("a/$SYS")
    for wish in ("$SYS/#", "$SYS/broker/uptime", "$share/g/$SYS/#"):
        assert not everything.may_subscribe(wish)
        assert Rights(TopicRules(subscribe=("$SYS/#",), share=("+",))).may_subscribe(wish)


def test_groups_of_shared_subscriptions_have_a_rule() -> None:
    ann = Rights(TopicRules(subscribe=("a/#",), share=("workers", "%u")), "ann", "c1")
    for wish, allowed in (("$share/workers/a/b", True), ("$share/ann/a/#", True), ("$share/other/a/b", False),
                          ("$share/workers/b", False), ("a/b", True)):  # fmt: skip
        assert ann.may_subscribe(wish) == allowed
    assert Rights(TopicRules(subscribe=("a/#",), share=("+",))).may_subscribe("$share/any/a/x")
