"""Planted bugs are found, each within a few seeds; a simulator that finds nothing proves nothing."""

from __future__ import annotations

import pytest

from coterie.mqtt import answers
from coterie.sim.world.drawing import ALONE, Swarm, draw_scenario
from coterie.sim.world.scenario import Utter
from coterie.sim.world.torture import brokers_of, run_scenario
from coterie.systems import system_named
from tests.sim.world.planted import RULES, SEEDS_MAX, seeds_until_found
from tests.sim.world.spoilers import SPOILERS, answers_in_part, hoarding, spoilt

TOGETHER = Swarm(4, (*ALONE, "sever", "one way", "snap", "replan"))


@pytest.mark.parametrize("bug", sorted(RULES))
def test_a_planted_bug_is_found(bug: str) -> None:
    _, rules = seeds_until_found(bug)
    assert RULES[bug] & set(rules), rules


@pytest.mark.parametrize("name", sorted(SPOILERS))
def test_every_checker_finds_what_it_is_for(name: str) -> None:
    spoil, rule, system, first = SPOILERS[name]
    for seed in range(first, first + SEEDS_MAX):
        scenario = draw_scenario(seed, system, TOGETHER)
        if rule in run_scenario(scenario, spoilt(scenario, system_named, spoil), system_named).rules:
            return
    raise AssertionError(f"{rule} found nothing")


def test_subscriptions_that_are_answered_in_part_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with parts of one message nothing else is, whatever happens between them."""
    monkeypatch.setattr(answers, "PART_COUNT", 1)
    scenarios = [draw_scenario(seed, "flooding", TOGETHER) for seed in range(20)]
    retaining = [one for one in scenarios if any(isinstance(said, Utter) and said.retain for said in one.actions)]
    found: set[str] = set()
    for scenario in retaining:
        assert run_scenario(scenario, brokers_of(scenario, system_named), system_named).violations == []
        found |= set(run_scenario(scenario, spoilt(scenario, system_named, answers_in_part), system_named).rules)
    assert "retained" in found


def test_what_is_kept_for_nobody_is_found() -> None:
    scenario = draw_scenario(1, "flooding", TOGETHER)
    assert "bounds" in run_scenario(scenario, hoarding(scenario, system_named), system_named).rules
