"""Where a system may differ from the contract, and why: the only place such exceptions are written down."""

from __future__ import annotations

from coterie.model import Workload
from coterie.protocol.system import System
from tests.conftest import small_workload

# (system, check) -> reason
DEVIATIONS: dict[tuple[str, str], str] = {}


def instance_for(system: System, nodes: int, topics: int, seed: int) -> Workload:
    """A small workload of the kind the system is made for."""
    subscribers = None if seed % 2 else 2 * nodes
    return small_workload(nodes, topics, seed, subscribers)
