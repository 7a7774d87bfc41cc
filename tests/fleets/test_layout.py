"""What a plan wants of a fleet, read from what the pipeline publishes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import ConfigError, InputError
from coterie.fleets.export.registry import target_named
from coterie.fleets.fleet import BrokerFleet, fleet_of
from coterie.fleets.layout import Filters, is_wild, read_layout
from coterie.plans.store import PlanStore
from coterie.plans.tables import OUTSIDE
from tests.fleets.plans import by_hand, publish_plan

WISHES = {"ann": ("a/1", "$share/g/b/+"), "bob": ("a/1", "a/2"), "cyd": ("b/#",)}
PUBLISHES = {"ann": ("a/1", "a/2"), "press": ("b/1", "c/1")}


def fleet(count: int = 3, **more: object) -> BrokerFleet:
    brokers = [{"name": f"b{number}", "address": f"127.0.0.1:{number + 1}"} for number in range(count)]
    return fleet_of({"broker": brokers, **more}, "fleet.toml")


@pytest.mark.parametrize("system", ["mesh", "star:crossing=wanted", "coterie:links=lean"])
def test_a_published_plan_has_homes_wishes_and_sources(tmp_path, system):
    publish_plan(tmp_path, WISHES, PUBLISHES, ["b0", "b1", "b2"], system)
    layout = read_layout(tmp_path / "plans", fleet())  # the folder of plans is as good as the one above it
    assert set(layout.home) == {"ann", "bob", "cyd", "press"}
    assert layout.wishes["ann"] == ("$share/g/b/+", "a/1")
    assert "b/+" in layout.filters[layout.home["ann"]]
    assert layout.sources["b/1"] == (layout.home["press"],)
    assert layout.readers("b/1") == tuple(sorted({layout.home["ann"], layout.home["cyd"]}))
    assert layout.version == 1
    assert layout.hub == "b0" or not system.startswith("star")
    assert (layout.links is None) == (system == "mesh")


@pytest.mark.parametrize("target", ["haproxy", "table"])
def test_whoever_the_log_does_not_name_is_a_source_and_no_client(tmp_path, target):
    publish_plan(tmp_path, WISHES, {**PUBLISHES, OUTSIDE: ("b/2",)}, ["b0", "b1", "b2"], "coterie:links=lean")
    balancer = {"socket": str(tmp_path / "socket"), "map": str(tmp_path / "clients.map")}
    known = fleet(hub="b0", balancer=balancer)
    layout = read_layout(tmp_path, known)
    assert OUTSIDE not in layout.home
    assert OUTSIDE not in layout.publishes
    assert len(layout.sources["b/2"]) == 1
    assert layout.moved(layout.home).sources["b/2"] == layout.sources["b/2"]
    pieces = target_named(target).pieces(known, layout)
    assert not [piece.name for piece in pieces if "outside" in piece.text]


def test_without_a_table_of_publishers_a_channel_per_topic_tells_where_topics_enter(tmp_path):
    publish_plan(tmp_path, WISHES, PUBLISHES, ["b0", "b1", "b2"], "mesh")
    layout = read_layout(tmp_path, fleet())
    (tmp_path / "plans" / "000001" / "publishes.parquet").unlink()
    other = read_layout(tmp_path, fleet())
    assert other.publishes == {}
    assert other.sources == layout.sources


def test_wishes_that_ended_are_not_served(tmp_path):
    publish_plan(tmp_path, WISHES, PUBLISHES, ["b0", "b1", "b2"], "mesh")
    path = tmp_path / "plans" / "000001" / "wishes.parquet"
    held = pa.table({"client": ["ann", "bob"], "filter": ["a/1", "a/2"], "is_later": [False, True]})
    pq.write_table(held, path)
    assert read_layout(tmp_path, fleet()).wishes == {"bob": ("a/2",)}


def test_a_plan_that_does_not_fit_is_told(tmp_path):
    with pytest.raises(InputError, match="holds no plan yet"):
        read_layout(tmp_path, fleet())
    publish_plan(tmp_path, WISHES, PUBLISHES, ["b0", "b1", "east"], "mesh")
    with pytest.raises(ConfigError, match=r"plan: expected brokers of fleet\.toml: b0, b1, b2, got 'east'"):
        read_layout(tmp_path, fleet())
    folder = PlanStore(tmp_path).folder(1)
    (folder / "nodes.parquet").unlink()
    with pytest.raises(ConfigError, match="3 nodes without names"):
        read_layout(tmp_path, fleet(4))
    assert set(read_layout(tmp_path, fleet()).home.values()) <= {"b0", "b1", "b2"}
    (folder / "wishes.parquet").unlink()
    with pytest.raises(InputError, match="does not say who wants what"):
        read_layout(tmp_path, fleet())
    pq.write_table(pa.table({"client": ["ann"]}), folder / "clients.parquet")
    with pytest.raises(InputError, match="names 1 clients where its design places 4"):
        read_layout(tmp_path, fleet())


@pytest.mark.parametrize(
    ("one", "topic", "is_match"),
    [
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a>b", "a>b", True),
        ("a*", "ab", False),
    ],
)
def test_filters_of_both_kinds(one, topic, is_match):
    assert Filters([one]).match(topic) == is_match


def test_what_is_wild():
    assert [is_wild(one) for one in ("a", "a/+", "a/#", "a.*", ">", "a.b", "a/*")] == [
        False,
        True,
        True,
        True,
        True,
        False,
        False,
    ]


def test_the_same_wishes_elsewhere():
    layout = by_hand({"ann": "b0", "bob": "b1"}, {"ann": ("x",), "bob": ("y",)}, {"ann": ("y",)})
    assert layout.filters == {"b0": ("x",), "b1": ("y",), "b2": ()}
    assert layout.moved({"ann": "b2", "bob": "b2"}).filters == {"b0": (), "b1": (), "b2": ("x", "y")}
    assert layout.moved({"ann": "b2", "bob": "b2"}).sources == {"y": ("b2",)}
    assert layout.loads == {"b0": 1, "b1": 1, "b2": 0}
