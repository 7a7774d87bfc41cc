"""A plan counts its nodes and topics; what it tells a running network is in the network's own numbers and names."""

from __future__ import annotations

import numpy as np

from coterie.model import Publications, Relation, Workload
from coterie.model.plan import slices
from coterie.plans.rollout import _renamed
from coterie.systems import system_named

NUMBERS, TOPICS = [7, 5, 3], ["a", "b"]


def demand() -> Workload:
    interests = Relation.from_rows([[0], [0, 1], [1]], 2)
    return Workload("plan", interests, Publications.of([0, 2], [0, 1], [1.0, 1.0]), np.arange(3, dtype=np.int32), 3)


def test_homes_are_told_by_name_and_number() -> None:
    system = system_named("homes")
    design = system.plan(demand())
    for part in slices(design):
        told = _renamed(part, NUMBERS, TOPICS)
        assert {topic: one.node for one in told.homes for topic in one.topics} == {
            name: NUMBERS[home] for name, home in zip(TOPICS, design.trees.root.tolist(), strict=True)
        }


def test_so_is_the_coordinator_of_content_trees() -> None:
    system = system_named("coterie")
    for part in slices(system.plan(demand(), system.configure({"links": "lean"}))):
        told = _renamed(part, NUMBERS, TOPICS)
        assert told.settings["coordinator"] == NUMBERS[int(part.settings["coordinator"])]
        assert told.settings["links"] == "lean"
