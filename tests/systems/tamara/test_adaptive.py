"""Tamara's protocol: agrees with the bulk form on the same operations, delivers throughout, adapts, falls silent."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.kernels.clusters import benefit
from coterie.model.plan import slices
from coterie.sim.engine import Simulation
from coterie.sim.faults import FaultMix
from coterie.sim.run import simulate, subscribe_all
from coterie.systems.tamara import decisions
from coterie.systems.tamara.adaptive import SYSTEM, TamaraNode
from coterie.systems.tamara.bulk import TopicClusters
from coterie.systems.tamara.costs import SIMPLE
from coterie.systems.tamara.names import is_cluster, next_version
from coterie.systems.tamara.parameters import TamaraParameters
from coterie.trace import Traffic
from coterie.workloads.tamara import Clustered, generate
from tests.systems.tamara.test_planned import tasteful_workload

EXACT = TamaraParameters(survey_size=0, confidence=1.0)
RATE = EXACT.rate_prior  # nothing is published while clusters form, so this is what every node believes
COSTS = SIMPLE.tables(1000, 100)


def started(nodes: int, topics: int, seed: int) -> Simulation:
    design = SYSTEM.plan(tasteful_workload(seed, nodes, topics), EXACT, seed=seed)
    simulation = Simulation(SYSTEM, EXACT, slices(design), seed, through_wire=True)
    simulation.start()
    return simulation


def tamara_nodes(simulation: Simulation) -> list[TamaraNode]:
    return [node for node in simulation.nodes if isinstance(node, TamaraNode)]


def overall_cost(simulation: Simulation, topic_count: int) -> tuple[float, int]:
    """OC of section 2 and the number of clusters in use, read off the nodes."""
    size: Counter[int | str] = Counter()
    shapes: dict[str, tuple[int, tuple[int | str, ...]]] = {}
    for node in tamara_nodes(simulation):
        size.update(node.state().memberships)
        for name, shape in node._shapes.items():
            shapes[name] = max(shapes.get(name, (-1, ())), shape)
    cost = topic_count * RATE
    for channel, members in size.items():
        carried = len(shapes[str(channel)][1]) if is_cluster(channel) else 1
        cost += members * (1 + RATE * carried) + (carried * (1 + RATE) if is_cluster(channel) else 0)
    return cost, sum(1 for channel in size if is_cluster(channel))


def assert_covered(simulation: Simulation) -> None:
    """Section 2: interests(s) lie in topics(s) and the topics of clusters(s)."""
    for address, node in enumerate(simulation.nodes):
        assert isinstance(node, TamaraNode)
        received: set[int | str] = set()
        for channel in node.state().memberships:
            received |= set(node._assigned.get(str(channel), ())) if is_cluster(channel) else {channel}
        assert set(simulation.book.wanting[address]) <= received


@pytest.mark.parametrize("seed", range(3))
def test_protocol_and_bulk_form_reach_about_the_same_cost(seed: int) -> None:
    """The same subscriptions in the same order; messages take time and decisions overlap, so 20 % are allowed."""
    workload = generate(Clustered(nodes=60, topics=24, clusters=3, elsewhere=2.0), seed)
    interests = workload.interests
    simulation = Simulation(SYSTEM, EXACT, slices(SYSTEM.plan(workload, EXACT, seed=seed)), seed)
    simulation.start()
    order = np.random.default_rng(seed).permutation(interests.pair_count)
    for pair in order.tolist():
        simulation.subscribe(int(interests.rows[pair]), int(interests.columns[pair]))
        simulation.run_until(simulation.now_s + 1.0)
    simulation.settle(5.0, 10_000.0)
    assert_covered(simulation)
    cost, clusters = overall_cost(simulation, 24)
    bulk = TopicClusters(60, np.full(24, RATE), EXACT, seed=seed)
    history = bulk.apply(np.zeros(len(order), np.uint8), interests.rows[order], interests.columns[order])
    assert clusters > 0
    assert cost == pytest.approx(float(history.overall[-1]), rel=0.2)
    assert cost < 0.5 * history.plain[-1]


def test_nothing_is_lost_while_clusters_form_and_interests_change() -> None:
    """Events are published all the time; who wants one when it is published, and still does, receives it once."""
    workload = tasteful_workload(7, 40, 10)
    simulation = started(40, 10, 7)
    draw = np.random.default_rng(7)
    interests = workload.interests
    for pair in draw.permutation(interests.pair_count).tolist():
        simulation.subscribe(int(interests.rows[pair]), int(interests.columns[pair]))
        simulation.run_until(simulation.now_s + 0.5)
    simulation.settle(5.0, 10_000.0)
    assert overall_cost(simulation, 10)[1] > 0
    for step in range(150):
        node, topic = int(draw.integers(40)), int(draw.integers(10))
        if topic in simulation.book.wanting[node]:
            simulation.unsubscribe(node, topic)
        else:
            simulation.subscribe(node, topic)
        assert_covered(simulation)
        simulation.run_until(simulation.now_s + 3.0)  # a new subscription may miss what is under way
        assert_covered(simulation)
        simulation.publish(step % 40, int(draw.integers(10)))
        simulation.run_until(simulation.now_s + 2.0)
    simulation.settle(5.0, 10_000.0)
    simulation.run_until(simulation.now_s + 60)
    assert_covered(simulation)
    assert simulation.book.missing() == []
    assert simulation.book.tally.filtered > 0


@pytest.mark.parametrize("seed", range(5))
def test_clusters_survive_a_storm(seed: int) -> None:
    workload = tasteful_workload(seed, 30, 8)
    design = SYSTEM.plan(workload, seed=seed)
    outcome = simulate(SYSTEM, SYSTEM.parameters(), design, workload, seed, faults=FaultMix(crash_share=0.15))
    assert outcome.probes > 0


def test_control_ends_and_associations_go_on() -> None:
    workload = tasteful_workload(3, 40, 10)
    simulation = started(40, 10, 3)
    subscribe_all(simulation, np.arange(40, dtype=np.int32), workload.interests)
    simulation.settle(5.0, 10_000.0)
    simulation.run_until(simulation.now_s + 120)
    settled_us, ties = simulation.last_control_us, simulation.book.sent[Traffic.ASSOCIATION]
    simulation.run_until(simulation.now_s + 600)
    assert simulation.last_control_us == settled_us
    assert simulation.book.sent[Traffic.ASSOCIATION] > ties
    assert all(len(node._rooted) <= 10 + 40 for node in tamara_nodes(simulation))


def test_clusters_are_given_up_when_nobody_wants_them() -> None:
    workload = tasteful_workload(5, 30, 8)
    simulation = started(30, 8, 5)
    subscribe_all(simulation, np.arange(30, dtype=np.int32), workload.interests)
    simulation.settle(5.0, 10_000.0)
    for node in range(30):
        for topic in list(simulation.book.wanting[node]):
            simulation.unsubscribe(node, topic)
        simulation.run_until(simulation.now_s + 1)
    simulation.settle(5.0, 10_000.0)
    simulation.run_until(simulation.now_s + 300)
    for node in tamara_nodes(simulation):
        assert node.state().memberships == ()
        assert not node._shapes
        assert not node._carriers
        assert not node._rooted


@given(
    sizes=st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(0, 300)),
    rates=st.tuples(st.floats(0, 3), st.floats(0, 3), st.floats(0, 1)),
    topics=st.integers(1, 40),
)
def test_a_nodes_tests_are_the_kernels_tests(
    sizes: tuple[int, int, int], rates: tuple[float, float, float], topics: int
) -> None:
    one, other, common = sizes
    shared = min(one, other, common)
    assert decisions.pair_change(rates[0], rates[1], one, other, shared) == pytest.approx(
        benefit.pair_benefit(COSTS, rates[0], rates[1], one, other, shared), abs=1e-6
    )
    assert decisions.absorb_change(rates[0], one, other, shared, rates[1]) == pytest.approx(
        benefit.absorb_benefit(COSTS, rates[0], one, other, shared, topics, rates[1]), abs=1e-6
    )
    assert decisions.add_change(rates[0], other, shared) == pytest.approx(
        benefit.add_benefit(COSTS, rates[0], one, shared, other, topics), abs=1e-6
    )
    both = min(rates) if rates else 0.0
    assert decisions.merge_change(one, other, shared, rates[0], rates[1], both, topics) == pytest.approx(
        benefit.merge_benefit(COSTS, one, other, shared, topics + 1, topics, topics, rates[0], rates[1], both), abs=1e-6
    )
    assert decisions.needed_shared(rates[0], other) == benefit.shared_needed(COSTS, rates[0], one, other, topics) or (
        abs((1 + rates[0] * (other + 1)) / (1 + rates[0]) % 1) < 1e-6
    )


def test_versions_rise_and_differ() -> None:
    first = next_version(0, (1, 2))
    assert next_version(first, (1, 2, 3)) > first
    assert next_version(first, (1, 2, 3)) != next_version(first, (1, 2, 4))
