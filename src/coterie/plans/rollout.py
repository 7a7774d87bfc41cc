"""Changing a running network over to a plan: whose slice is whose, what would change, the four phases, following."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from coterie.errors import ConfigError, CoterieError, RunError
from coterie.model.plan import Slice, named, renumbered
from coterie.plans.admin import LiveNetwork, ask
from coterie.plans.orders import PlanPart
from coterie.plans.plan import Plan
from coterie.plans.store import PlanStore

READY_S = 60.0  # how long a new plan may take to be built
SWITCH_S = 5.0  # how long the word to switch may take to reach everybody
MOVING_S = 3.0  # clients that have not gone after so long are not going to
POLL_S = 0.2
LOOK_S = 1.0  # between two looks for a new plan
TRY_AGAIN_S = 10.0

Told = Callable[[str], None]


def silent(text: str) -> None:
    """For who does not want to know."""


@dataclass(frozen=True)
class Rollout:
    """A plan in the words of a running network: slices in the order of its nodes, clients by node number."""

    plan: Plan
    slices: list[Slice]
    clients: dict[str, int]

    @property
    def version(self) -> int:
        return self.plan.version


def fit(plan: Plan, network: LiveNetwork) -> Rollout:
    """The plan counts nodes, topics and clients; the network knows them by name."""
    healths = network.healths()
    numbers = _node_numbers(plan, healths)
    cut = [named(renumbered(part, numbers), plan.topics) for part in plan.slices()]
    order = {one["node"]: place for place, one in enumerate(healths)}
    clients = {name: numbers[node] for name, node in plan.placement.items()}
    return Rollout(plan, sorted(cut, key=lambda one: order[one.node]), clients)


def _node_numbers(plan: Plan, healths: list[dict[str, Any]]) -> list[int]:
    """Node of the plan -> number in the network: by name where the plan has names."""
    if len(healths) != plan.node_count:
        raise ConfigError("plan", f"{plan.node_count} nodes", f"a plan for the network's {len(healths)} nodes")
    if plan.nodes is None:
        return sorted(one["node"] for one in healths)
    number_of = {one["name"]: one["node"] for one in healths}
    if strangers := sorted(set(plan.nodes) - set(number_of)):
        raise ConfigError("plan", strangers[0], f"nodes of this network: {', '.join(sorted(number_of))}")
    return [number_of[name] for name in plan.nodes]


def changes(network: LiveNetwork, rollout: Rollout) -> dict[str, Any]:
    """What would change in the network as it is now."""
    before, homes = network.ask("/plan"), network.ask("/placement")
    at = {client: one["node"] for one, home in zip(before, homes, strict=True) for client in home["clients"]}
    old = [{pair[0] for pair in one.get("neighbours", [])} for one in before]
    new = [{one.node for one in part.neighbours} for part in rollout.slices]
    return {
        "system_now": before[0]["system"],
        "system_of_the_plan": rollout.plan.system,
        "clients_connected": len(at),
        "clients_known_to_the_plan": sum(client in rollout.clients for client in at),
        "clients_to_move": sum(rollout.clients.get(client, node) != node for client, node in at.items()),
        "positions_to_change": sum(
            one.get("position", 0) != part.position for one, part in zip(before, rollout.slices, strict=True)
        ),
        "links_to_add": sum(len(after - had) for had, after in zip(old, new, strict=True)),
        "links_to_drop": sum(len(had - after) for had, after in zip(old, new, strict=True)),
        "clusters_to_join": sum(one.is_member for part in rollout.slices for one in part.channels),
    }


def change_over(network: LiveNetwork, rollout: Rollout, told: Told = silent) -> None:
    """Send clients where they should be, then load, start, wait until it is ready everywhere, and switch.

    Clients go first, so that structures which nodes learn from what they see are made for where everybody is. If the
    plan cannot be built it is dropped: the network stays with the one it has.
    """
    before, version = network.ask("/plan"), rollout.version
    started_s = time.monotonic()
    body = msgspec.json.encode({"version": version, "clients": rollout.clients})
    network.ask("/placement", "POST", [body] * len(network.places))
    moved = _wait_moved(network)
    told(f"{moved} clients went to where plan {version} wants them ({time.monotonic() - started_s:.1f} s)")
    generation = 1 + max(max(one["generation"], (one["next"] or one)["generation"]) for one in before)
    settings = rollout.plan.settings
    parts = [PlanPart(generation=generation, slice=one, settings=settings) for one in rollout.slices]
    try:
        network.order("load", generation, parts)
        network.order("start", generation)
        _wait(network, lambda one: bool(one["next"] and one["next"]["is_ready"]), "build the plan")
    except CoterieError:
        _drop(network)
        raise
    told(f"plan {version} is built beside the one in use ({time.monotonic() - started_s:.1f} s)")
    _switch(network, generation)
    told(f"plan {version} is in force at all {len(before)} nodes ({time.monotonic() - started_s:.1f} s)")


def _switch(network: LiveNetwork, generation: int) -> None:
    first = LiveNetwork(network.places[:1], network.token)
    first.order("switch", generation)  # the others hear of it from their neighbours
    try:
        _wait(network, lambda one: one["generation"] == generation, "switch", SWITCH_S)
    except RunError:
        network.order("switch", generation)  # whoever the flood did not reach
        _wait(network, lambda one: one["generation"] == generation, "switch")


def _wait_moved(network: LiveNetwork) -> int:
    """Until nobody has moved for a while: some do not follow, and nobody is waited for. Returns how many have moved."""
    first = left = _to_move(network)
    changed_s = time.monotonic()
    while left and time.monotonic() - changed_s < MOVING_S:
        time.sleep(POLL_S)
        if (found := _to_move(network)) != left:
            left, changed_s = found, time.monotonic()
    return max(first - left, 0)  # somebody new may belong elsewhere, too


def _to_move(network: LiveNetwork) -> int:
    return sum(one["to_move"] for one in network.ask("/placement"))


def _wait(
    network: LiveNetwork, is_done: Callable[[dict[str, Any]], bool], what: str, limit_s: float | None = None
) -> None:
    limit_s = READY_S if limit_s is None else limit_s
    deadline_s = time.monotonic() + limit_s
    while waiting := [place for place, one in enumerate(network.ask("/plan")) if not is_done(one)]:
        if time.monotonic() > deadline_s:
            raise RunError(
                f"{len(waiting)} nodes did not {what} within {limit_s:g} s; see the log of node {waiting[0]}"
            )
        time.sleep(POLL_S)


def _drop(network: LiveNetwork) -> None:
    for place in network.places:
        ask(place[0], place[1], "/plan", network.token, "POST", b'{"phase": "drop"}')


def follow(store: PlanStore, network: LiveNetwork, told: Told, failed: Told) -> None:
    """Until interrupted: whatever the planner makes current is applied; what fails is told and tried again."""
    running = network.ask("/plan")[0]
    applied = running["version"] if running["is_applied"] else None
    while True:
        current = store.current()
        if current is not None and current != applied:
            try:
                change_over(network, fit(store.load(current), network), told)
                applied = current
            except CoterieError as error:
                failed(f"plan {current} was not applied: {error}")
                time.sleep(TRY_AGAIN_S)
        time.sleep(LOOK_S)
