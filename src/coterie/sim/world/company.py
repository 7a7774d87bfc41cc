"""More people and more that they ask for: shared subscriptions, wills, messages that expire, rights that change.

Drawn apart from the rest, by chance of its own, so that a seed's other people do what they always did. One seed in ten
has no trouble at all: there nothing may be missing, not even at QoS 0.
"""

from __future__ import annotations

from random import Random

import msgspec

from coterie.mqtt.packets import MQTT_5
from coterie.sim.world.scenario import (
    Action,
    Arrive,
    Depart,
    Listen,
    Regrant,
    Resident,
    Scenario,
    Unlisten,
    Utter,
)

SALT = 0x5EED
GROUP = "g"
PEACEFUL = (Arrive, Listen, Unlisten, Utter)
replace = msgspec.structs.replace


def with_company(scenario: Scenario) -> Scenario:
    draw = Random(scenario.seed ^ SALT)
    is_calm = draw.random() < 0.1
    if is_calm:
        scenario = replace(scenario, actions=tuple(one for one in scenario.actions if isinstance(one, PEACEFUL)))
    if draw.random() < 0.25:
        scenario = _with_shares(draw, scenario)
    if draw.random() < 0.25:
        scenario = _with_wills(draw, scenario, is_calm)
    if draw.random() < 0.25 and not scenario.clocks:  # when a message expires is said by the clock of its node
        scenario = _with_expiry(draw, scenario)
    if scenario.users and not is_calm and draw.random() < 0.4:
        scenario = _with_other_rights(draw, scenario)
    return replace(scenario, actions=tuple(sorted(scenario.actions, key=lambda one: one.at_s)))


def _with_shares(draw: Random, scenario: Scenario) -> Scenario:
    """Two or three who take turns, and want nothing else."""
    wish = f"$share/{GROUP}/{draw.choice(('t/0', 't/+', 't/#'))}"
    qos = draw.choice((1, 1, 2))
    people, actions = list(scenario.residents), list(scenario.actions)
    for number in range(draw.randint(2, 3)):
        actions.append(Arrive(round(draw.uniform(0.0, 0.3), 6), len(people)))
        actions.append(Listen(round(draw.uniform(0.4, 0.6), 6), len(people), wish, qos))
        people.append(Resident(f"s{number}", draw.randrange(scenario.nodes), version=draw.choice((4, MQTT_5))))
    return replace(scenario, residents=tuple(people), actions=tuple(actions))


def _with_wills(draw: Random, scenario: Scenario, is_calm: bool) -> Scenario:
    """Somebody whose will is to be told, and somebody who listens to it."""
    people, actions = list(scenario.residents), list(scenario.actions)
    listener, who = len(people), len(people) + 1
    people.append(Resident("heir", draw.randrange(scenario.nodes)))
    is_lasting = draw.random() < 0.5
    user, will, wish = _testament(scenario)
    people.append(
        Resident("testator", draw.randrange(scenario.nodes), user, is_lasting=is_lasting, will=will, keep_alive_s=3)
    )
    actions += [Arrive(0.1, listener), Listen(0.4, listener, wish, draw.choice((1, 2))), Arrive(0.3, who)]
    for _ in range(0 if is_calm else draw.randint(1, 3)):
        at_s = round(draw.uniform(7.0, scenario.storm_s - 1.0), 6)
        back = Arrive(round(at_s + draw.choice((0.05, 2.0, 8.0)), 6), who)
        actions += [Depart(at_s, who, draw.choice(("said", "torn", "torn"))), back]
    return replace(scenario, residents=tuple(people), actions=tuple(actions))


def _testament(scenario: Scenario) -> tuple[str, str, str]:
    """Whose will it is, its topic, and what its hearer wishes for: in some seeds, of one who may not say everything."""
    draw = Random(f"testament {scenario.seed}")
    authors = [one.name for one in scenario.users if "t/#" in one.publish]
    return (draw.choice(authors), "t/2", "t/2") if authors and draw.random() < 0.7 else ("", "w/testator", "w/#")


def _with_expiry(draw: Random, scenario: Scenario) -> Scenario:
    def aged(one: Action) -> Action:
        if isinstance(one, Utter) and scenario.residents[one.who].version == MQTT_5 and draw.random() < 0.3:
            return replace(one, expiry_s=draw.choice((1, 3, 1000)))
        return one

    return replace(scenario, actions=tuple(map(aged, scenario.actions)))


def _with_other_rights(draw: Random, scenario: Scenario) -> Scenario:
    """An operator takes something away from somebody, often from one with a will, and perhaps gives it back."""
    at_s = round(draw.uniform(4.0, 12.0), 6)
    loser = draw.randrange(len(scenario.users))
    lot = Random(f"lost {scenario.seed}")
    lost = lot.choice(("subscribe", "subscribe", "publish"))
    heard = [one.name for one in scenario.users if any(one.name == who.user for who in scenario.residents if who.will)]
    if heard and lot.random() < 0.6:  # its will must not be told any more
        loser, lost = [one.name for one in scenario.users].index(heard[0]), "publish"
    poorer = tuple(
        replace(one, **{lost: ("t/1",)}) if number == loser else one for number, one in enumerate(scenario.users)
    )
    found: list[Action] = [Regrant(at_s, poorer)]
    if draw.random() < 0.5:
        found.append(Regrant(round(at_s + draw.uniform(1.0, 6.0), 6), scenario.users))
    return replace(scenario, actions=(*scenario.actions, *found))
