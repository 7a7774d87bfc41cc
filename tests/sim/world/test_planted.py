"""Planted bugs are found, each within a few seeds; a simulator that finds nothing proves nothing."""

from __future__ import annotations

import pytest

from coterie.sim.world.drawing import draw_scenario
from coterie.sim.world.torture import run_scenario
from coterie.systems import system_named
from tests.sim.world.saboteurs import BUGS, sabotaged

SEEDS_MAX = 1000
RULES = {
    "drops a persist": {"lost", "session", "order"},
    "skips a dedupe": {"once", "retained", "order"},
    "acknowledges early": {"lost", "session", "once", "order"},
    "forgets an owner": {"session", "access"},
}


def seeds_until_found(bug: str) -> tuple[int, tuple[str, ...]]:
    for seed in range(SEEDS_MAX):
        scenario = draw_scenario(seed)
        if rules := run_scenario(scenario, sabotaged(scenario, system_named, bug), system_named).rules:
            return seed + 1, rules
    return SEEDS_MAX, ()


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str) -> None:
    _, rules = seeds_until_found(bug)
    assert RULES[bug] & set(rules), rules
