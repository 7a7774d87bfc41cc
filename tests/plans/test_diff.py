"""What a change from one plan to another means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from coterie.errors import ConfigError
from coterie.plans.admin import LiveNetwork
from coterie.plans.rollout import fit
from tests.plans.made import NODES, plan_of


def test_who_moves_which_links_and_what_of_the_bill() -> None:
    before, after = plan_of("mesh"), plan_of("star", [0, 1, 1, 0])
    found = before.diff(after)
    assert found.moves == {"cid": ("west", "north")}
    assert found.arrivals == {"north": 1}
    assert (len(found.links_added), len(found.links_dropped)) == (0, 1)
    assert (found.clients_new, found.clients_gone) == (0, 0)
    assert found.bill["links"] == (3.0, 2.0)
    back = after.diff(before)
    assert (back.links_added, back.links_dropped) == (found.links_dropped, found.links_added)
    assert back.moves == {"cid": ("north", "west")}
    assert any("1 clients move" in line for line in found.lines())


def test_the_same_plan_changes_nothing() -> None:
    found = plan_of("mesh").diff(plan_of("mesh"))
    assert found.is_same
    assert found.lines() == ["nothing changes"]


def test_nodes_go_by_name_not_by_number() -> None:
    before, after = plan_of("mesh"), plan_of("mesh", [2, 1, 0, 2], nodes=NODES[::-1])
    assert before.diff(after).is_same


def test_plans_without_names_need_as_many_nodes() -> None:
    assert plan_of("mesh", nodes=()).diff(plan_of("mesh")).is_same
    other = plan_of("mesh", nodes=())
    other.design = other.design.__class__(**{**vars(other.design), "placement": other.design.placement.__class__(
        other.design.placement.node_of, 4)})  # fmt: skip
    with pytest.raises(ConfigError, match="one for 3 nodes"):
        plan_of("mesh").diff(other)


class Said(LiveNetwork):
    """A network whose nodes say this."""

    def __init__(self, **answers: list[dict[str, Any]]) -> None:
        super().__init__([("127.0.0.1", 1 + place) for place in range(max(map(len, answers.values())))])
        self._answers = answers

    def ask(self, path: str, method: str = "GET", bodies: Sequence[bytes] | None = None) -> list[dict[str, Any]]:
        return self._answers[path.strip("/")]


def test_a_rollout_speaks_the_networks_numbers() -> None:
    healths = [{"node": 10 + place, "name": name} for place, name in enumerate(("west", "east", "north"))]
    found = fit(plan_of("mesh", [0, 1, 1, 0]), Said(health=healths))
    assert found.clients == {"ann": 11, "bob": 12, "cid": 12, "dan": 11}
    assert [part.node for part in found.slices] == [10, 11, 12]
    assert {one.node for one in found.slices[0].neighbours} == {11, 12}
    with pytest.raises(ConfigError, match="nodes of this network: a, b, c"):
        fit(plan_of("mesh"), Said(health=[{"node": at, "name": name} for at, name in enumerate("abc")]))
    with pytest.raises(ConfigError, match="a plan for the network's 1 nodes"):
        fit(plan_of("mesh"), Said(health=healths[:1]))
