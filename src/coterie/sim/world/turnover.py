"""Nodes that come and go while everything else happens: joining, leaving, dying for good and being removed.

Drawn apart from the rest, by chance of its own, so that a seed does what it always did where none of it is asked for.
"""

from __future__ import annotations

from random import Random

import msgspec

from coterie.mqtt.packets import MQTT_3, MQTT_5
from coterie.sim.world.scenario import (
    Action,
    Arrive,
    Depart,
    Dismiss,
    Enlist,
    Fell,
    Listen,
    Raise,
    Resident,
    Retire,
    Scenario,
    Utter,
)

TURNOVER = ("join", "drain", "remove")
NUMBERS = 50_000  # of messages that people of newcomers say
FILTERS = ("t/0", "t/+", "t/#", "#")
replace = msgspec.structs.replace


def with_turnover(scenario: Scenario, faults: tuple[str, ...]) -> Scenario:
    draw = Random(f"turnover {scenario.seed}")
    kinds = [one for one in TURNOVER if one in faults and draw.random() < 0.35]
    founders = scenario.nodes
    if founders < 2 or not kinds:
        return scenario
    has_troubles = draw.random() < 0.5
    if "join" in kinds:
        scenario = _with_newcomers(draw, scenario, has_troubles)
    leaver = draw.randrange(founders)
    if "drain" in kinds:
        scenario = _with_leaver(draw, scenario, leaver, has_troubles)
    can_lose = founders > 3 or (founders > 2 and "drain" not in kinds)  # else there may be no majority for anything
    is_lossy = any(isinstance(one, Fell) and one.how == "gone" for one in scenario.actions)
    if "remove" in kinds and can_lose and not is_lossy:
        node = (leaver + 1 + draw.randrange(founders - 1)) % founders
        at_s = _time(draw, 4.0, 12.0)
        ends: list[Action] = [Fell(at_s, node, "gone"), Dismiss(round(at_s + draw.choice((0.5, 4.0, 6.0)), 6), node)]
        scenario = _added(scenario, ends)
    return scenario


def _with_newcomers(draw: Random, scenario: Scenario, has_troubles: bool) -> Scenario:
    """One or two, and people who come to them: they want something, and say something to everybody."""
    people = list(scenario.residents)
    actions: list[Action] = []
    founders, late = scenario.nodes, draw.randint(1, 2)
    for node in range(founders, founders + late):
        at_s, via = _time(draw, 1.0, 9.0), draw.randrange(founders)
        actions.append(Enlist(at_s, node, via))
        if has_troubles and draw.random() < 0.6:
            victim = draw.choice((node, via))
            fall_s = round(at_s + draw.choice((0.0, 0.004, 0.02, 0.1, 0.5, 2.0)), 6)
            actions += [Fell(fall_s, victim), Raise(round(fall_s + draw.choice((0.1, 1.0, 4.0)), 6), victim)]
        for number in range(draw.randint(1, 2)):
            who = len(people)
            lasting, version = draw.random() < 0.7, draw.choice((MQTT_3, MQTT_5))
            people.append(Resident(f"n{node}-{number}", node, version=version, is_lasting=lasting))
            come_s = _time(draw, at_s, at_s + 4.0)
            actions += [Arrive(come_s, who), Listen(come_s, who, draw.choice(FILTERS), draw.choice((1, 1, 2)))]
            for word in range(draw.randint(2, 8)):
                said = NUMBERS + 100 * who + word
                said_s = _time(draw, come_s, scenario.storm_s)
                actions.append(Utter(said_s, who, said, draw.choice(("t/0", "t/1", "t/2")), draw.choice((0, 1, 1, 2))))
            if has_troubles and draw.random() < 0.5:
                moved_s = _time(draw, come_s, scenario.storm_s)
                back = Arrive(round(moved_s + 0.01, 6), who, draw.randrange(founders))
                actions += [Depart(moved_s, who, "torn"), back]
    clocks = scenario.clocks
    return _added(replace(scenario, nodes=founders + late, late=late, residents=tuple(people), clocks=clocks), actions)


def _with_leaver(draw: Random, scenario: Scenario, node: int, has_troubles: bool) -> Scenario:
    at_s = _time(draw, 3.0, 14.0)
    actions: list[Action] = [Retire(at_s, node)]
    if has_troubles and draw.random() < 0.6:
        fall_s = round(at_s + draw.choice((0.002, 0.1, 0.3, 0.6, 1.0, 2.0)), 6)
        actions += [Fell(fall_s, node), Raise(round(fall_s + draw.choice((0.1, 1.0, 4.0)), 6), node)]
    return _added(scenario, actions)


def _added(scenario: Scenario, actions: list[Action]) -> Scenario:
    return replace(scenario, actions=tuple(sorted((*scenario.actions, *actions), key=lambda one: one.at_s)))


def _time(draw: Random, first_s: float, last_s: float) -> float:
    return round(draw.uniform(first_s, last_s), 6)
