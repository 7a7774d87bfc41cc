"""Two plans for the same people: a mesh that leaves everybody where they are, a star with one client moved."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from coterie.accounting.price import price
from coterie.model import Publications, Relation, Workload
from coterie.plans.plan import Plan, PlanFacts
from coterie.plans.tables import NamedWorkload
from coterie.systems import system_named

TOPICS, CLIENTS, NODES = ["a", "b", "c"], ["ann", "bob", "cid", "dan"], ("east", "north", "west")


def demand(nodes: tuple[str, ...] = NODES, topics: list[str] | None = None) -> NamedWorkload:
    names = TOPICS if topics is None else topics
    interests = Relation.from_rows([[0], [0, 1], [1, 2], []], len(names))
    sent = Publications.of([3, 0, 1], [0, 1, 2], [2.0, 1.0, 0.5], [100.0, 50.0, 10.0])
    workload = Workload("small", interests, sent, np.array([0, 1, 2, 0], np.int32), 3)
    return NamedWorkload(workload, pa.array(names), pa.array(CLIENTS), nodes)


def plan_of(system: str, home: list[int] | None = None, nodes: tuple[str, ...] = NODES) -> Plan:
    found = demand(nodes)
    node_of = None if home is None else np.array(home, np.int32)
    design = system_named(system).plan(found.workload, None, 1, node_of=node_of)
    bill = price(design, found.workload)
    return Plan.of(design, found, PlanFacts(system=system, predicted=bill, later=bill))
