"""What a crash cuts, on networks small enough to see it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting.sturdiness import sturdiness
from coterie.model import Publications, Relation, Workload
from coterie.model.graph import BrokerGraph
from coterie.systems import content, system_named

NODES = 5


def line(is_ring: bool = False) -> Workload:
    """Five in a row; the first publishes what the last two want."""
    ends = [(node, node + 1) for node in range(NODES - 1)] + ([(NODES - 1, 0)] if is_ring else [])
    graph = BrokerGraph.of(NODES, [one for one, _ in ends], [other for _, other in ends])
    interests = Relation.from_rows([[], [], [], [0], [0]], 1)
    nodes = np.arange(NODES, dtype=np.int32)
    publications = Publications.of([0], [0], [1.0])
    return Workload(
        "line", interests, publications, nodes, NODES, graph=graph, zone_of=np.array([0, 0, 1, 2, 2], np.int32)
    )


def test_in_a_row_one_crash_cuts_everything_and_in_a_ring_nothing() -> None:
    for is_ring, cut in ((False, 1.0), (True, 0.0)):
        workload = line(is_ring)
        design = content.SYSTEM.plan(workload)
        found = sturdiness(design, workload)
        assert found.node == pytest.approx(cut)
        assert found.zone == pytest.approx(cut)


def test_a_mesh_and_homes_survive_anything_a_star_not_its_hub() -> None:
    workload = replace(line(), graph=None)
    for name in ("mesh", "homes", "mesh+zones"):
        found = sturdiness(system_named(name).plan(workload), workload)
        assert (found.node, found.zone) == (0.0, 0.0)
    star = system_named("star")
    for name in ("star", "star+zones"):
        star = system_named(name)
        design = star.plan(workload, star.configure({"hub": 1}))
        assert sturdiness(design, workload).node == pytest.approx(1.0)


def test_floods_are_cut_inside_their_topic() -> None:
    """Nodes 0 and 2 want the topic of 1, who alone links them."""
    system = system_named("spidercast")
    interests = Relation.from_rows([[0], [0], [0], [1]], 2)
    workload = Workload("flood", interests, Publications.of([1], [0], [1.0]), np.arange(4, dtype=np.int32), 4)
    design = system.plan(workload)
    row = Relation.from_rows([[1], [0, 2], [1, 3], [2]], 4)
    cut = replace(design, overlay=replace(design.overlay, links=row))
    assert sturdiness(cut, workload).node == pytest.approx(0.5)  # one of the two that are left is alone


def test_what_passes_through_the_coordinator_waits_for_it() -> None:
    workload, system = line(is_ring=True), content.SYSTEM
    cut = [sturdiness(system.plan(workload, system.configure({"coordinator": at})), workload).node for at in (2, 4)]
    assert cut == [0.0, 1.0]  # the way is 0, 4, 3; what node 4 wanted is not owed while it is away
