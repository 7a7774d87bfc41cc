"""The long calm after the storm: nobody is there, nothing happens; nodes write nothing, say little and do not grow.

The one place where a broker's inside is looked at, and only at how many things it holds.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from coterie.sim.world.world import World

LEAVE_S, CALM_S = 180.0, 600.0
BEATS_PER_S = 0.5  # frames a node may send each of its peers, for as little as nothing happens
GROWTH_MAX = 300  # things in memories of what was said lately, which are bounded but not full yet
WRITES_PER_S = 1.1  # that it is alive


def weigh(root: object) -> int:
    """How many things are in all the containers that can be reached from here."""
    seen: set[int] = set()
    todo: list[Any] = [root]
    count = 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, str | bytes | int | float | type | None):
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            count += len(one)
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            count += len(one)
            todo += one
        elif type(one).__module__.startswith("coterie.") and not type(one).__module__.startswith("coterie.sim."):
            todo += [getattr(one, name) for name in _names(one) if hasattr(one, name)]
    return count


def _names(one: object) -> list[str]:
    names = list(getattr(one, "__dict__", ()))
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return names


def check_calm(world: World) -> None:
    """Everybody leaves; from some time later on nothing may change."""
    for person in world.people:
        person.depart("said")
    world.run_until(world.now_us / 1e6 + LEAVE_S)
    before = [(site.disk.write_count, world.told[site.node], weigh(site.broker)) for site in world.sites]
    world.run_until(world.now_us / 1e6 + CALM_S)
    for site, (writes, told, weight) in zip(world.sites, before, strict=True):
        if site.broker is None:
            continue
        world.record.checked["quiet"] += 1
        wrote, said = site.disk.write_count - writes, world.told[site.node] - told
        grown = weigh(site.broker) - weight
        if wrote > WRITES_PER_S * CALM_S:
            world.record.violate("quiet", f"node {site.node} wrote {wrote} times in {CALM_S:g} s without clients")
        if said > BEATS_PER_S * CALM_S * (world.node_count - 1):
            world.record.violate("quiet", f"node {site.node} sent {said} frames in {CALM_S:g} s without clients")
        if grown > GROWTH_MAX:
            world.record.violate("bounds", f"node {site.node} holds {grown} things more after {CALM_S:g} s of nothing")
