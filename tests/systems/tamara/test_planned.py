"""Planned clusters: the simulated ledger equals the priced one, delivery survives faults, filters drop the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.accounting.price import price
from coterie.model import Publications, Relation, Workload
from coterie.model.latency import Latency
from coterie.model.plan import slices
from coterie.sim.engine import Simulation
from coterie.sim.faults import FaultMix
from coterie.sim.run import SPAN_S, simulate
from coterie.systems import scribe
from coterie.systems.tamara.planned import SYSTEM
from coterie.systems.tamara.stages import cluster_names, clusters_of
from tests.bills import differing


def tasteful_workload(seed: int, nodes: int, topics: int, events_max: int = 2) -> Workload:
    """Nodes with one of two tastes and some noise, so that clusters pay."""
    draw = np.random.default_rng(seed)
    taste = draw.random((2, topics)) < 0.6
    wants = taste[draw.integers(0, 2, nodes)] ^ (draw.random((nodes, topics)) < 0.1)
    rows, columns = np.nonzero(wants)
    count = 2 * topics
    return Workload(
        "tasteful",
        Relation.from_pairs(rows, columns, nodes, topics),
        Publications.of(
            draw.integers(0, nodes, count),
            draw.integers(0, topics, count),
            draw.integers(0, events_max + 1, count) / SPAN_S,
        ),
        np.arange(nodes, dtype=np.int32),
        nodes,
    )


@settings(max_examples=25)
@given(nodes=st.integers(1, 60), topics=st.integers(1, 14), seed=st.integers(0, 2**32))
def test_simulated_ledger_equals_priced_ledger(nodes: int, topics: int, seed: int) -> None:
    workload = tasteful_workload(seed, nodes, topics)
    design = SYSTEM.plan(workload, seed=seed)
    latency = Latency.matrix(np.random.default_rng(seed).integers(1, 200, (7, 7)) + 0.017 * np.arange(49).reshape(7, 7))
    outcome = simulate(SYSTEM, SYSTEM.parameters(), design, workload, seed, latency, through_wire=True)
    assert outcome.missing == []
    assert differing(outcome.ledger, price(design, workload, latency)) == {}


def test_clusters_are_used_and_cheaper_than_scribe() -> None:
    workload = tasteful_workload(5, 80, 12, events_max=1)
    design = SYSTEM.plan(workload, seed=5)
    assert clusters_of(design.channels).row_count > 0
    clustered, plain = price(design, workload), price(scribe.SYSTEM.plan(workload, seed=5), workload)
    assert clustered.dissemination.filtered > 0
    assert clustered.maintenance.associations > 0
    upkeep, plain_upkeep = clustered.maintenance, plain.maintenance
    assert upkeep.tree_keepalives + upkeep.associations < plain_upkeep.tree_keepalives
    assert clustered.overall < plain.overall


@pytest.mark.parametrize("seed", range(4))
def test_recovers_from_loss_crashes_and_a_partition(seed: int) -> None:
    workload = tasteful_workload(seed, 30, 8)
    design = SYSTEM.plan(workload, seed=seed)
    assert clusters_of(design.channels).row_count > 0
    outcome = simulate(SYSTEM, SYSTEM.parameters(), design, workload, seed, faults=FaultMix(crash_share=0.15))
    assert outcome.probes > 0
    assert all(missing.reason for missing in outcome.missing)


def test_a_new_plan_is_taken_without_losing_an_event() -> None:
    first, second = tasteful_workload(1, 40, 10), tasteful_workload(2, 40, 10)
    before, after = SYSTEM.plan(first, seed=1), SYSTEM.plan(second, seed=1)
    assert cluster_names(clusters_of(before.channels)) != cluster_names(clusters_of(after.channels))
    simulation = Simulation(SYSTEM, SYSTEM.parameters(), slices(before), 1)
    simulation.start()
    for node in range(40):
        for topic in first.interests.row(node).tolist():
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 1000.0)
    changes = slices(SYSTEM.adopt(after, first, seed=1), version=1)
    start_s = simulation.now_s
    for step in range(60):
        simulation.at(start_s + 0.2 * step, lambda step=step: simulation.publish(step % 40, step % 10))
    for node in range(40):
        simulation.at(start_s + 2 + 0.1 * node, lambda node=node: simulation.plan(node, changes[node]))
    simulation.run_until(start_s + 60)
    assert simulation.book.missing() == []
    joined = {name for node in simulation.nodes if node for name in node.state().memberships if isinstance(name, str)}
    assert joined <= set(cluster_names(clusters_of(after.channels)))


def test_a_later_workload_is_served_by_the_same_clusters() -> None:
    first, second = tasteful_workload(3, 50, 10), tasteful_workload(4, 50, 10)
    design = SYSTEM.plan(first, seed=3)
    later = SYSTEM.adopt(design, second, seed=3)
    assert later.channels is design.channels
    assert price(later, second).loss.lost == 0
    outcome = simulate(SYSTEM, SYSTEM.parameters(), later, second, 3)
    assert outcome.missing == []
