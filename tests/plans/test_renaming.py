"""A plan counts its nodes and topics; what it tells a running network is in the network's own numbers and names."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from coterie.api import running
from coterie.model import Publications, Relation, Workload
from coterie.model.plan import Slice, named, renumbered, slices
from coterie.systems import system_named
from tests.plans.made import plan_of

NUMBERS, TOPICS = [7, 5, 3], ["a", "b"]


def demand() -> Workload:
    interests = Relation.from_rows([[0], [0, 1], [1]], 2)
    return Workload("plan", interests, Publications.of([0, 2], [0, 1], [1.0, 1.0]), np.arange(3, dtype=np.int32), 3)


def test_homes_are_told_by_name_and_number() -> None:
    system = system_named("homes")
    design = system.plan(demand())
    for part in slices(design):
        told = named(renumbered(part, NUMBERS), TOPICS)
        assert {topic: one.node for one in told.homes for topic in one.topics} == {
            name: NUMBERS[home] for name, home in zip(TOPICS, design.trees.root.tolist(), strict=True)
        }


def test_so_is_the_coordinator_of_content_trees() -> None:
    system = system_named("coterie")
    for part in slices(system.plan(demand(), system.configure({"links": "lean"}))):
        told = named(renumbered(part, NUMBERS), TOPICS)
        assert told.settings["coordinator"] == NUMBERS[int(part.settings["coordinator"])]
        assert told.settings["links"] == "lean"


def test_a_network_that_begins_with_a_plan_has_its_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "check_free", lambda *place: None)  # nothing is started
    plan = plan_of("homes")
    running.arranged(plan, None, "", {}, 31_200, tmp_path, "127.0.0.1", 0)
    for node in range(plan.node_count):
        told = msgspec.json.decode((tmp_path / f"node-{node}" / "slice.json").read_bytes(), type=Slice)
        assert sorted(topic for one in told.homes for topic in one.topics) == plan.topics
