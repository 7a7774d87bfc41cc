"""Every workload by name: sound, seeded, and clear about wrong settings."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.model import Change, Timeline, Workload
from coterie.workloads import WORKLOADS, kind_of, make_timeline, make_workload

SMALL: dict[str, dict[str, object]] = {
    "spatial": {"nodes": 200, "subscriptions": 8},
    "hierarchical": {"nodes": 200, "topics": 100, "subscriptions": 5},
    "multimodal": {"nodes": 300, "topics": 100, "subscriptions": 5},
    "uncorrelated": {"nodes": 300, "topics": 100, "subscriptions": 5},
    "churn": {"nodes": 100},
    "tamara": {"nodes": 200},
    "tamara-uniform": {"nodes": 200},
    "dynatops": {"nodes": 10, "subscribers": 300, "topics": 100, "modes": 10, "subscriptions": 4},
    "dynatops-location": {"subscribers": 100},
    "content": {"nodes": 60, "topics": 200, "keywords": 50},
    "content-localized2": {"nodes": 60, "topics": 200, "keywords": 50},
    "content-uniform": {"nodes": 60, "topics": 200, "keywords": 50},
    "wiki": {"topics": 100},
    "wiki24h": {"topics": 500},
    "debian": {"subscribers": 50, "topics": 300},
    "gowalla": {"subscribers": 100},
    "foursquare": {"subscribers": 100, "nodes": 10},
    "citeulike": {"topics": 500},
    "citeulike-documents": {"topics": 300, "subscribers": 100, "nodes": 50},
}
SYNTHETIC = [name for name, kind in WORKLOADS.items() if not kind.is_recorded]
RECORDED = [name for name, kind in WORKLOADS.items() if kind.is_recorded]


def assert_within(indices: np.ndarray, count: int) -> None:
    assert indices.min() >= 0
    assert indices.max() < count


def assert_sound(workload: Workload) -> None:
    workload.interests.check(workload.name)
    assert workload.attachment.dtype == np.int32
    assert_within(workload.attachment, workload.node_count)
    published = workload.publications
    assert published.count > 0
    assert (published.rate > 0).all()
    assert_within(published.topic, workload.topic_count)
    assert_within(published.publisher, workload.subscriber_count)
    if workload.coordinates is not None:
        assert workload.coordinates.shape == (workload.node_count, 2)
    if workload.graph is not None:
        assert workload.graph.node_count == workload.node_count
    if workload.modes is not None:
        assert len(workload.modes) == workload.subscriber_count


def assert_same(first: Workload, second: Workload) -> None:
    assert first.interests == second.interests
    assert np.array_equal(first.attachment, second.attachment)
    for column in ("publisher", "topic", "rate"):
        assert np.array_equal(getattr(first.publications, column), getattr(second.publications, column))


def assert_orderly(timeline: Timeline) -> None:
    """Times rise; nobody drops what they lack or takes what they have; nodes that leave are there."""
    assert (np.diff(timeline.time_s) >= 0).all()
    start = timeline.start
    held = set(zip(start.interests.rows.tolist(), start.interests.columns.tolist(), strict=True))
    away: set[int] = set()
    for change, who, what in zip(timeline.change.tolist(), timeline.who.tolist(), timeline.what.tolist(), strict=True):
        if change == Change.SUBSCRIBE:
            assert (who, what) not in held
            held.add((who, what))
        elif change == Change.UNSUBSCRIBE:
            held.remove((who, what))
        elif change == Change.JOIN:
            away.remove(who)
        elif change in (Change.LEAVE, Change.CRASH):
            assert who not in away
            away.add(who)
        else:
            assert 0 <= what < start.node_count
    end = timeline.at(np.inf).interests
    assert held == set(zip(end.rows.tolist(), end.columns.tolist(), strict=True))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_same_seed_gives_the_same_workload_and_another_seed_another(name: str) -> None:
    one = make_workload(name, SMALL.get(name, {}), 7)
    assert_sound(one)
    assert one.name == name
    assert_same(one, make_workload(name, SMALL.get(name, {}), 7))
    assert one.interests != make_workload(name, SMALL.get(name, {}), 8).interests


@pytest.mark.parametrize("name", [name for name in SYNTHETIC if WORKLOADS[name].timelines])
def test_timelines_are_orderly(name: str) -> None:
    for story in WORKLOADS[name].timelines:
        timeline = make_timeline(name, SMALL[name], 3, story)
        assert timeline.change_count > 100
        assert timeline.start.name == name
        assert_sound(timeline.at(timeline.time_s[-1] / 2))
        assert_orderly(timeline)


@pytest.mark.traces
@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize("name", RECORDED)
def test_traces_are_sound_and_seeded(name: str) -> None:
    one = make_workload(name, SMALL[name], 7)
    assert_sound(one)
    assert_same(one, make_workload(name, SMALL[name], 7))
    for story in WORKLOADS[name].timelines:
        assert_orderly(make_timeline(name, SMALL[name], 7, story))


def test_same_arrays_in_another_process_with_another_hash_seed() -> None:
    script = (
        "import zlib; from coterie.workloads import make_workload, make_timeline;"
        "w = make_workload('multimodal', {'nodes': 500, 'topics': 100, 'subscriptions': 5}, 7);"
        "t = make_timeline('dynatops-location', {'subscribers': 50}, 7);"
        "c = make_workload('content', {'nodes': 60, 'topics': 100, 'keywords': 40}, 7);"
        "parts = [w.interests.columns, w.publications.publisher, t.who, t.what, t.time_s, c.interests.columns];"
        "print([zlib.crc32(p.tobytes()) for p in parts])"
    )
    prints = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert prints[0] == prints[1]


def test_settings_come_as_text_too() -> None:
    typed = make_workload("multimodal", {"nodes": 200, "topics": 50, "subscriptions": 3, "whole_rates": True}, 1)
    text = make_workload("multimodal", {"nodes": "200", "topics": "50", "subscriptions": "3", "whole_rates": "true"}, 1)
    assert_same(typed, text)


def test_unknown_names_and_parameters_list_what_exists() -> None:
    with pytest.raises(ConfigError, match="multimodal"):
        kind_of("multi")
    with pytest.raises(ConfigError, match="modes_per_peer"):
        make_workload("multimodal", {"mode": 3}, 1)
    with pytest.raises(ConfigError, match="arrivals, shift"):
        make_timeline("tamara", {}, 1, "drift")
    with pytest.raises(ConfigError, match="churn"):
        make_timeline("uniform", {}, 1)


@pytest.mark.parametrize(
    ("name", "wrong", "key"),
    [
        ("uniform", {"nodes": 0}, "nodes"),
        ("uniform", {"nodes": "many"}, "nodes"),
        ("uniform", {"topics": -5}, "topics"),
        ("uniform", {"nodes": 2**31}, "nodes"),
        ("uniform", {"subscriptions": 101}, "subscriptions"),
        ("uniform", {"subscriptions": 5, "subscriptions_max": 4}, "subscriptions_max"),
        ("zipf", {"exponent": -1}, "exponent"),
        ("zipf", {"exponent": float("nan")}, "exponent"),
        ("nyse", {"top_tenth": 0.05}, "top_tenth"),
        ("rss", {"popularity": "fame"}, "popularity"),
        ("rss", {"rates": "fast"}, "rates"),
        ("rss", {"rate": 0}, "rate"),
        ("rss", {"publishers": 0}, "publishers"),
        ("multimodal", {"modes": 0}, "modes"),
        ("multimodal", {"modes": 4, "modes_per_peer": 5}, "modes_per_peer"),
        ("multimodal", {"modes": 500, "subscriptions": 3}, "subscriptions"),
        ("multimodal", {"sizes": "some"}, "sizes"),
        ("spatial", {"nodes": 10, "topics": 9}, "topics"),
        ("spatial", {"nodes": 10, "subscriptions": 11}, "subscriptions"),
        ("hierarchical", {"initial_fraction": 2}, "initial_fraction"),
        ("hierarchical", {"initial_exponent": 1}, "initial_exponent"),
        ("tamara", {"reading": "mine"}, "reading"),
        ("tamara", {"subscriptions": 3}, "subscriptions"),
        ("tamara", {"clusters": 121}, "clusters"),
        ("tamara", {"shift_to": "nothing"}, "shift_to"),
        ("dynatops", {"subscriptions": 10}, "subscriptions"),
        ("dynatops", {"pattern": "odd"}, "pattern"),
        ("dynatops", {"change_rate": -1}, "change_rate"),
        ("dynatops-location", {"returning": 1.5}, "returning"),
        ("dynatops-location", {"subscribers": 3, "friends": 3}, "friends"),
        ("dynatops-location", {"nodes": 5000}, "nodes"),
        ("dynatops-location", {"source": "phone"}, "source"),
        ("churn", {"mean_life_s": 0}, "mean_life_s"),
        ("churn", {"subscribers": 10}, "subscribers"),
        ("content", {"locality": 0}, "locality"),
        ("content", {"network": "mesh"}, "network"),
        ("content", {"unit": "word"}, "unit"),
        ("wiki", {"selection": "best"}, "selection"),
        ("debian", {"sections": 0}, "sections"),
    ],
)
def test_wrong_settings_are_named(name: str, wrong: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_workload(name, wrong, 1)
    assert caught.value.key == key


def test_negative_seed_is_named() -> None:
    with pytest.raises(ConfigError, match="seed"):
        make_workload("uniform", {}, -1)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["uniform", "zipf", "nyse", "multimodal"]),
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0, 60),
    st.data(),
)
def test_any_sizes_give_a_sound_workload(
    name: str, nodes: int, topics: int, subscribers: int, data: st.DataObject
) -> None:
    wanted = {"nodes": nodes, "topics": topics, "subscribers": subscribers}
    room = topics
    if name == "multimodal":
        wanted["modes"] = data.draw(st.integers(1, topics))
        wanted["modes_per_peer"] = data.draw(st.integers(1, wanted["modes"]))
        room = wanted["modes_per_peer"] * (topics // wanted["modes"])
    wanted["subscriptions"] = data.draw(st.integers(1, room))
    wanted["publishers"] = data.draw(st.integers(1, 4))
    workload = make_workload(name, wanted, data.draw(st.integers(0, 2**40)))
    assert_sound(workload)
    assert (workload.interests.lengths == wanted["subscriptions"]).all()
    pairs = set(zip(workload.interests.rows.tolist(), workload.interests.columns.tolist(), strict=True))
    published = zip(workload.publications.publisher.tolist(), workload.publications.topic.tolist(), strict=True)
    assert all(pair in pairs for pair in published)
