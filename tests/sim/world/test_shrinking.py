"""A failing scenario is made as small as it can be."""

from __future__ import annotations

from coterie.sim.world.drawing import draw_scenario
from coterie.sim.world.scenario import Scenario, Tear, Utter
from coterie.sim.world.shrinking import shrink


def has_both(scenario: Scenario) -> bool:
    """Fails when message 17 is said and somebody's connection breaks, whoever they are."""
    said = any(isinstance(one, Utter) and one.number == 17 for one in scenario.actions)
    return said and any(isinstance(one, Tear) for one in scenario.actions)


def test_only_what_it_takes_is_left() -> None:
    scenario = next(one for one in map(draw_scenario, range(99)) if has_both(one))
    found = shrink(scenario, has_both)
    assert len(found.actions) == 2
    assert has_both(found)
    assert len(found.residents) == len({one.who for one in found.actions})  # type: ignore[union-attr]
    assert all(one.at_s == round(one.at_s) for one in found.actions)


def test_it_stops_when_it_may_try_no_more() -> None:
    scenario = next(one for one in map(draw_scenario, range(99)) if has_both(one))
    tried = []

    def fails(one: Scenario) -> bool:
        tried.append(one)
        return has_both(one)

    assert has_both(shrink(scenario, fails, 7))
    assert len(tried) <= 7
