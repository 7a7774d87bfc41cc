"""Filters of a log match what the broker's own index says, and what is no filter is named as such."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from coterie.mqtt.index import SubscriptionIndex
from coterie.mqtt.packets import Subscription
from coterie.mqtt.reasons import MqttError
from coterie.mqtt.topics import check_filter, check_topic_name, filter_matches
from coterie.pipeline import filters

LEVELS = ["", "a", "b", "cc", "$s"]


def drawn_topics(draw: np.random.Generator, count: int) -> list[str]:
    names = {"/".join(draw.choice(LEVELS, draw.integers(1, 5))) for _ in range(count)} - {""}
    return sorted(names)


def drawn_filters(draw: np.random.Generator, count: int) -> list[str]:
    found = set()
    for _ in range(count):
        levels = list(draw.choice([*LEVELS, "+", "+"], draw.integers(1, 5)))
        if draw.random() < 0.3:
            levels[-1] = "#"
        body = "/".join(levels)
        found.add(f"$share/{draw.choice(['g', 'h'])}/{body}" if draw.random() < 0.3 and body else body)
    return sorted(found - {""})


@pytest.mark.parametrize("seed", range(20))
def test_the_trie_matches_what_the_brokers_index_matches(seed):
    draw = np.random.default_rng(seed)
    names, wanted = drawn_topics(draw, 60), drawn_filters(draw, int(draw.integers(1, 80)))
    bodies = sorted(set(filters.bodies_of(pa.array(wanted)).to_pylist()))
    index: SubscriptionIndex[str] = SubscriptionIndex()
    for body in bodies:
        index.subscribe(body, Subscription(body))
    told = {(one.receiver, name) for name in names for one in index.matches(name).receivers}
    found_filters, found_topics = filters.FilterTrie.of(pa.array(bodies)).matches(pa.array(names))
    found = [(bodies[one], names[topic]) for one, topic in zip(found_filters, found_topics, strict=True)]
    assert len(found) == len(set(found))
    assert set(found) == told
    assert told == {(body, name) for body in bodies for name in names if filter_matches(body, name)}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_tasks_match_ranges_of_topics_and_shared_filters_match_by_what_follows_the_group(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(filters, "TOPICS_PER_TASK", 7)
    draw = np.random.default_rng(5)
    names, wanted = drawn_topics(draw, 40), drawn_filters(draw, 60)
    relation = filters.match_filters(spark, pa.array(wanted), pa.array(names), tmp_path)
    assert relation.check("matches").row_count == len(wanted)
    for row, one in enumerate(wanted):
        body = filters.bodies_of(pa.array([one]))[0].as_py()
        expected = [topic for topic, name in enumerate(names) if filter_matches(body, name)]
        assert relation.row(row).tolist() == expected


WRONG = ["a/#/b", "a+", "+a", "a/b#", "#/a", "a\0b", "$share/g", "$share/g/", "$share//x", "$share/+/x", "##", "a/+b/c"]
RIGHT = ["a/#", "#", "+", "+/+", "a//b", "/", "$share/g/#", "$share/g//", "$share", "$SYS/#", "a b"]


@pytest.mark.parametrize("name", WRONG + RIGHT)
def test_a_filter_is_refused_with_a_reason_exactly_where_the_broker_refuses_it(name):
    fault = filters.filter_faults(pa.array([name]))[0].as_py()
    if name in RIGHT:
        assert check_filter(name) == name
        assert fault is None
        return
    assert fault.startswith("topic is not an MQTT filter")
    if "\0" not in name:  # the broker refuses that when it decodes text
        with pytest.raises(MqttError):
            check_filter(name)


@pytest.mark.parametrize(("name", "is_sound"), [("a/b", True), ("$SYS/x", True), ("a/+", False), ("#", False)])
def test_a_topic_holds_no_wildcard(name, is_sound):
    assert filters.topic_faults(pa.array([name])).is_valid()[0].as_py() is not is_sound
    if not is_sound:
        with pytest.raises(MqttError):
            check_topic_name(name)


def test_names_without_wildcards_and_groups_need_no_matching():
    assert not filters.has_filters(pa.array(["a/b", "$SYS/x"]))
    assert filters.has_filters(pa.array(["a/b", "$share/g/x"]))
    assert filters.is_shared(pa.array(["$share/g/x", "x"])).tolist() == [True, False]
