"""The plan as a type: what it knows, its file format, what is refused, and its price on demand it was not made for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.errors import ConfigError, InputError
from coterie.plans.fitting import brought_over
from coterie.plans.plan import Plan
from coterie.plans.store import MANIFEST, PlanStore
from tests.plans.made import CLIENTS, NODES, TOPICS, demand, plan_of


def same(one: Plan, other: Plan) -> bool:
    tables = all(one.table(name) == other.table(name) for name in ("topics", "clients", "nodes"))
    return tables and one.placement == other.placement and one.settings == other.settings


def test_a_plan_knows_names_places_and_moves() -> None:
    plan = plan_of("mesh", [0, 1, 1, 0])
    assert (plan.topics, plan.clients, plan.nodes) == (TOPICS, CLIENTS, list(NODES))
    assert plan.placement == {"ann": 0, "bob": 1, "cid": 1, "dan": 0}
    assert plan.moves == ["cid"]
    assert [part.node for part in plan.slices()] == [0, 1, 2]
    wishes = plan.table("wishes")
    assert wishes is not None
    assert wishes.to_pylist()[0] == {"client": "ann", "filter": "a", "is_learned": True, "is_later": True}
    publishes = plan.table("publishes")
    assert publishes is not None
    assert {row["client"]: row["rate"] for row in publishes.to_pylist()} == {"dan": 2.0, "ann": 1.0, "bob": 0.5}


def test_what_was_saved_is_what_is_loaded_and_the_same_plan_is_one_version(tmp_path: Path) -> None:
    made = plan_of("star")
    first, again = made.save(tmp_path), made.save(tmp_path)
    assert (first.version, again.version) == (1, 1)
    assert same(first, made)
    assert first.facts.predicted == made.facts.predicted
    assert plan_of("mesh").save(tmp_path).version == 2
    assert PlanStore(tmp_path).load(1).system == "star"


def test_readers_find_plans_one_folder_below(tmp_path: Path) -> None:
    plan_of("mesh").save(tmp_path / "subs")
    assert PlanStore.at(tmp_path).load().version == 1
    assert PlanStore.at(tmp_path / "subs" / "plans").load().version == 1
    plan_of("mesh").save(tmp_path / "other")
    with pytest.raises(InputError, match=r"holds several: name one of .*other, .*subs"):
        PlanStore.at(tmp_path).load()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format_version": 1}, "a plan of format 1; this program reads format 2: plan again"),
        ({"format_version": 3}, "a plan of format 3"),
        ({"format": "a cake"}, "a plan of format None"),
        ({"system": 7}, "is damaged: Expected `str`"),
    ],
)
def test_plans_of_other_times_are_refused_with_what_to_do(tmp_path: Path, change: dict[str, object], says: str) -> None:
    plan_of("mesh").save(tmp_path)
    path = PlanStore(tmp_path).folder(1) / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=says):
        PlanStore(tmp_path).load()


def test_a_manifest_of_0_1_is_refused(tmp_path: Path) -> None:
    """It has no format, and its bill counts per interval: read as one of ours it would be wrong by a factor of 60."""
    plan_of("mesh").save(tmp_path)
    path = PlanStore(tmp_path).folder(1) / MANIFEST
    table = json.loads(path.read_text())
    del table["format"], table["format_version"]
    path.write_text(json.dumps(table))
    with pytest.raises(InputError, match="a plan of format 1; this program reads format 2: plan again"):
        PlanStore(tmp_path).load()


def test_the_price_is_that_of_the_names_whatever_their_numbers() -> None:
    plan = plan_of("mesh", [0, 1, 1, 0])
    bill = plan.price(demand())
    assert bill.ledger == plan.facts.predicted
    assert bill.now is not None
    assert bill.saved == pytest.approx(1 - bill.ledger.volume.total / bill.now.volume.total)
    renamed = demand(topics=["a", "b", "z"])  # c is gone, z is new
    assert plan.price(renamed).ledger.loss.lost == 0
    moved = brought_over(plan, renamed)
    assert not isinstance(moved, str)
    assert moved.placement.node_of.tolist() == [0, 1, 1, 0]


def test_a_plan_for_other_nodes_says_so() -> None:
    with pytest.raises(ConfigError, match=r"the plan is for other nodes \(south is new, west is gone\)"):
        plan_of("mesh").price(demand(("east", "north", "south")))
    with pytest.raises(ConfigError, match="was not made for these nodes"):
        plan_of("mesh", nodes=()).price(demand())
