"""Where a system may differ from the contract, and why: the only place such exceptions are written down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coterie.model import Workload
from coterie.protocol.system import System
from coterie.systems import SYSTEMS, system_named
from coterie.systems.zones import ZONED
from tests.conftest import small_workload

# (system, check) -> reason
DEVIATIONS: dict[tuple[str, str], str] = {
    ("tamara", "bulk"): "clusters grow from surveys and coin tosses; tests/systems/tamara compares costs instead",
    ("magnet", "control"): "the top-down join costs more than one message per edge, depending on who joins first",
    ("magnet-uniform", "control"): "as magnet",
    ("interest-ring", "control"): "as magnet",
    ("dynatops", "control"): "the top-down join costs more than one message per edge, depending on who joins first",
    ("content", "control"): "every broker makes itself known to the coordinator and is told the first version",
    ("coterie", "control"): "as content",
    ("spidercast", "control"): "neighbours are negotiated",
}


# Layers over other systems that the registry does not list: their contract is the same.
LAYERED = ("homes+zones", "star+zones", "flooding+zones")
CHECKED = (*SYSTEMS.values(), *(system_named(name) for name in LAYERED))


def instance_for(system: System, nodes: int, topics: int, seed: int) -> Workload:
    """A small workload of the kind the system is made for."""
    subscribers = None if seed % 2 else 2 * nodes
    workload = small_workload(nodes, topics, seed, subscribers)
    if ZONED in system.name:
        return replace(workload, zone_of=np.random.default_rng([seed, nodes]).integers(0, 4, nodes).astype(np.int32))
    return workload
