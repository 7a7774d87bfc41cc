"""The smallest scenario that still fails: delta debugging over actions, clients, nodes and settings, in that order.

Delays are drawn by name (`chance`), so leaving one thing out leaves the rest as it was, and halves of a scenario mostly
fail as the whole did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from coterie.sim.world.scenario import Action, Fell, Scenario, Utter

Fails = Callable[[Scenario], bool]
replace = msgspec.structs.replace


class Tries:
    """How often a scenario may be tried."""

    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails, self.left = fails, tries

    def fails(self, scenario: Scenario) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return self._fails(scenario)


def shrink(scenario: Scenario, fails: Fails, most: int = 400) -> Scenario:
    """`fails` says whether a scenario breaks the rule that this one breaks. Never larger, and still failing."""
    tries = Tries(fails, most)
    while True:
        smaller = _without_actions(scenario, tries)
        for way in (_without_residents, _with_fewer_nodes, _simpler):
            smaller = _first_of(smaller, way, tries)
        if smaller == scenario or tries.left <= 0:
            return smaller
        scenario = smaller


def _without_actions(scenario: Scenario, tries: Tries) -> Scenario:
    """Zeller's ddmin on complements: drop ever smaller parts for as long as it still fails."""
    parts = 2
    while len(scenario.actions) > 1 and parts <= len(scenario.actions):
        size = -(-len(scenario.actions) // parts)
        for first in range(0, len(scenario.actions), size):
            fewer = replace(scenario, actions=scenario.actions[:first] + scenario.actions[first + size :])
            if tries.fails(fewer):
                scenario, parts = fewer, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(scenario.actions))
        if tries.left <= 0:
            break
    return scenario


def _first_of(scenario: Scenario, way: Callable[[Scenario], Iterator[Scenario]], tries: Tries) -> Scenario:
    """Take the first change of this kind that still fails, for as long as there is one."""
    while True:
        for smaller in way(scenario):
            if smaller != scenario and tries.fails(smaller):
                scenario = smaller
                break
        else:
            return scenario


def _without_residents(scenario: Scenario) -> Iterator[Scenario]:
    for who in range(len(scenario.residents) - 1, -1, -1):
        kept = scenario.residents[:who] + scenario.residents[who + 1 :]
        actions = tuple(_moved(one, who) for one in scenario.actions if getattr(one, "who", -1) != who)
        yield replace(scenario, residents=kept, actions=actions)


def _moved(action: Action, who: int) -> Action:
    return replace(action, who=action.who - 1) if hasattr(action, "who") and action.who > who else action


def _with_fewer_nodes(scenario: Scenario) -> Iterator[Scenario]:
    if scenario.late:  # the last ones are those that come later
        return
    for nodes in range(1, scenario.nodes):
        residents = tuple(replace(one, home=one.home % nodes) for one in scenario.residents)
        actions = tuple(one for one in scenario.actions if _fits(one, nodes))
        yield replace(scenario, nodes=nodes, residents=residents, actions=actions, clocks=scenario.clocks[:nodes])


def _fits(action: Action, nodes: int) -> bool:
    named = [
        getattr(action, "node", 0),
        getattr(action, "peer", 0),
        getattr(action, "via", 0),
        *getattr(action, "nodes", ()),
    ]
    return all(node < nodes for node in named) and (nodes > 1 or not hasattr(action, "nodes"))


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    yield replace(scenario, clocks=())
    if not any(isinstance(one, Fell) and one.how != "kill" for one in scenario.actions):
        yield replace(scenario, sync="normal")  # with a power cut it would promise less
    if not any(one.user for one in scenario.residents):
        yield replace(scenario, users=())
    aging = {one.who for one in scenario.actions if isinstance(one, Utter) and one.expiry_s}  # 3.1.1 cannot say it
    for who, one in enumerate(scenario.residents):
        older = one if who in aging else replace(one, version=4)
        for plain in (replace(one, keep_alive_s=0), older, replace(one, roams=False)):
            yield replace(scenario, residents=(*scenario.residents[:who], plain, *scenario.residents[who + 1 :]))
    for index, action in enumerate(scenario.actions):
        for digits in (0, 1, 2, 3):
            rounded = replace(action, at_s=round(action.at_s, digits))
            if rounded != action and _is_in_order(scenario, index, rounded):
                actions = (*scenario.actions[:index], rounded, *scenario.actions[index + 1 :])
                yield replace(scenario, actions=actions)


def _is_in_order(scenario: Scenario, index: int, action: Action) -> bool:
    before = scenario.actions[index - 1].at_s if index else 0.0
    after = scenario.actions[index + 1].at_s if index + 1 < len(scenario.actions) else scenario.storm_s
    return before <= action.at_s <= after
