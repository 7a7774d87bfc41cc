"""After how many seeds a planted bug is found, and by which checker: `python -m tests.sim.world.planted`."""

from __future__ import annotations

import sys

from coterie.sim.world.drawing import ALONE, Swarm, draw_scenario
from coterie.sim.world.scenario import Scenario
from coterie.sim.world.torture import run_scenario
from coterie.systems import system_named
from tests.sim.world.saboteurs import BUGS, KINDS, OF_MACHINE, sabotaged

SEEDS_MAX = 1000
RULES = {
    "drops a persist": {"lost", "session", "order"},
    "skips a dedupe": {"once", "retained", "order"},
    "acknowledges early": {"lost", "session", "once", "order"},
    "forgets an owner": {"session", "access"},
    "acknowledges before copies": {"kept"},
    "forgets its keepers": {"kept"},
    "grants before it raises": {"lost"},
    "forgets the unconfirmed": {"lost"},
    "forgets what it kept back": {"order", "lost"},
}
MACHINE = Swarm(3, (*ALONE, "sever", "one way", "snap", "roam"), is_machine=True)


def _drawn(bug: str, seed: int) -> Scenario:
    """A broker alone; processes of one machine; others, of which some never come back, where it is about copies."""
    if bug in OF_MACHINE:
        return draw_scenario(seed, "flooding", MACHINE)
    return draw_scenario(seed, "flooding", Swarm(3, ("gone",))) if bug in KINDS else draw_scenario(seed)


def seeds_until_found(bug: str) -> tuple[int, tuple[str, ...]]:
    for seed in range(SEEDS_MAX):
        scenario = _drawn(bug, seed)
        if rules := run_scenario(scenario, sabotaged(scenario, system_named, bug), system_named).rules:
            return seed + 1, rules
    return SEEDS_MAX, ()


if __name__ == "__main__":
    for name in (*BUGS, *KINDS, *OF_MACHINE):
        count, found = seeds_until_found(name)
        sys.stdout.write(
            f"{name:28} " + (f"found after {count} seeds: {', '.join(found)}" if found else "not found") + "\n"
        )
