"""Where a system may differ from the contract, and why: the only place such exceptions are written down."""

from __future__ import annotations

from coterie.model import Workload
from coterie.protocol.system import System
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


def instance_for(system: System, nodes: int, topics: int, seed: int) -> Workload:
    """A small workload of the kind the system is made for."""
    subscribers = None if seed % 2 else 2 * nodes
    return small_workload(nodes, topics, seed, subscribers)
