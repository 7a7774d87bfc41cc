"""Long links found by random walks: medians, partitions, choices, and what that does to a running ring."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from coterie.model.plan import Neighbour, Slice, slices
from coterie.protocol.events import TimerFired
from coterie.protocol.system import System
from coterie.sim.engine import Simulation
from coterie.sim.faults import Crash
from coterie.substrate.identifiers import MASK
from coterie.systems.magnet.system import SYSTEM, UNIFORM
from coterie.systems.magnet.walking import LinkSearch, Met
from coterie.systems.magnet.wire import Walked
from coterie.trace import Traffic
from coterie.workloads import make_workload
from tests.systems.magnet.trees_of_nodes import assert_rings_agree, assert_trees_are_greedy_paths

NODES = 128


def running(system: System, nodes: int = NODES, extra: int = 0, **settings: int) -> Simulation:
    """The last `extra` nodes have a slice, but are not started."""
    workload = make_workload("multimodal", {"nodes": nodes, "topics": 40, "subscriptions": 4, "modes": 8}, 1)
    parameters = system.configure({"links": 14, "near": 2, **settings})
    cut = slices(system.plan(workload, parameters, 1))
    cut += [Slice(version=0, system=system.name, node=nodes + at) for at in range(extra)]
    simulation = Simulation(system, parameters, cut, 1)
    for node in range(nodes):
        simulation.start_node(node)
    for node in range(nodes):
        for topic in workload.interests.row(node).tolist():
            simulation.subscribe(node, topic)
    simulation.settle(5.0, 10_000.0)
    return simulation


def everybody_searches(simulation: Simulation) -> None:
    start_s = simulation.now_s
    for node in range(NODES):
        simulation.at(start_s + 0.1 * node, lambda node=node: simulation._step(node, TimerFired("search")))
    simulation.run_until(start_s + 0.1 * NODES + 60)
    simulation.settle(65.0, 10_000.0)


def link_scales(simulation: Simulation) -> np.ndarray:
    """The share of links that pass 1, 2 to 3, 4 to 7, ... nodes."""
    order = sorted(range(NODES), key=lambda at: simulation.nodes[at].ring.position)
    rank = {node: at for at, node in enumerate(order)}
    passed = [
        (rank[peer] - rank[node]) % NODES for node in range(NODES) for peer, _ in simulation.nodes[node].ring.links()
    ]
    counts = np.bincount(np.log2(passed).astype(int), minlength=8)
    return counts / counts.sum()


def walked(position: int) -> Walked:
    return Walked(0, position, (), 0.0)


def test_a_median_halves_what_is_sampled_next() -> None:
    search = LinkSearch(position=1000, walks=5)
    ends = [1000 + distance for distance in (50, 10, 40, 20, 30)]
    assert [search.met(peer, walked(end)) for peer, end in enumerate(ends)] == [False] * 4 + [True]
    assert search.narrow()
    assert search.reach == 29
    assert [it.distance for it in search.partitions[0]] == [30, 40, 50]
    assert not search.met(9, walked(1000 + 35)), "beyond what is sampled now"
    assert not search.met(9, walked(1000)), "ourselves"
    assert not search.narrow(), "nobody was met"


def test_places_before_ours_are_far_ahead() -> None:
    search = LinkSearch(position=1000, walks=1)
    search.met(1, walked(900))
    search.narrow()
    assert search.partitions[0][0].distance == MASK + 1 - 100


def test_links_come_from_all_partitions_and_prefer_the_alike() -> None:
    search = LinkSearch(0, 1)
    search.partitions = [[Met(10 * part + at, 10 * part + at, 0, (), at) for at in range(4)] for part in range(3)]
    drawn = [peer for peer, _ in search.draw(12, 1, lambda met: 0.0, Random(1))]
    assert sorted(drawn) == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    several = [search.draw(1, 8, lambda met: met.weight, Random(seed))[0][0] for seed in range(40)]
    assert {peer // 10 for peer in several} == {0, 1, 2}
    assert sum(peer % 10 == 3 for peer in several) > 30


@pytest.mark.parametrize("system", [SYSTEM, UNIFORM], ids=lambda system: system.name)
def test_walks_find_links_like_those_of_the_plan(system: System) -> None:
    """As many at every scale, within a twelfth of all links, for a bounded number of messages; trees follow."""
    simulation = running(system)
    before, sent = link_scales(simulation), simulation.book.sent.copy()
    everybody_searches(simulation)
    assert np.abs(link_scales(simulation) - before).sum() / 2 < 1 / 12
    messages = (simulation.book.sent - sent)[Traffic.OVERLAY] / NODES
    assert 100 < messages < 5 * 9 * 8 * 1.2  # walks x hops and the answer x medians, and some repair
    assert_rings_agree(simulation)
    assert_trees_are_greedy_paths(simulation)


def test_the_better_of_two_is_more_alike() -> None:
    alike = {}
    for choices in (1, 3):
        simulation = running(SYSTEM, choices=choices)
        everybody_searches(simulation)
        wanting = simulation.book.wanting
        shared = [
            len(set(wanting[node]) & set(wanting[peer]))
            for node in range(NODES)
            for peer, _ in simulation.nodes[node].ring.links()
        ]
        alike[choices] = np.mean(shared)
    assert alike[3] > 1.05 * alike[1]


def test_a_newcomer_finds_its_neighbours_its_place_and_its_links() -> None:
    """It knows one node and its own name; samples tell it who is alike, walks whom to link to."""
    simulation = running(SYSTEM, extra=1, sample_rounds=4)
    simulation.run_until(simulation.now_s + 120)
    first = simulation.slices[0]
    place = 12345 << 40
    simulation.slices[NODES] = Slice(
        version=0,
        system="magnet",
        node=NODES,
        position=place,
        neighbours=(Neighbour(0, first.position),),
        settings={"join": True},
    )
    alike = 7
    simulation.start_node(NODES)
    for topic in list(simulation.book.wanting[alike]):
        simulation.subscribe(NODES, topic)
    simulation.run_until(simulation.now_s + 300)
    simulation.settle(65.0, 10_000.0)
    newcomer = simulation.nodes[NODES]
    assert newcomer.ring.position != place
    behind = newcomer.ring.predecessors()[0][0]
    assert len(set(simulation.book.wanting[behind]) & set(simulation.book.wanting[NODES])) >= 2
    assert len(newcomer.ring.links()) >= 10
    assert_rings_agree(simulation)
    assert_trees_are_greedy_paths(simulation)
    for topic in list(simulation.book.wanting[NODES]):
        simulation.publish(3, topic)
    simulation.run_until(simulation.now_s + 60)
    assert simulation.book.missing() == []


def test_who_has_lost_a_third_of_its_links_looks_for_new_ones() -> None:
    simulation = running(SYSTEM)
    mourner = simulation.nodes[3]
    links = [peer for peer, _ in mourner.ring.links()]
    near = [peer for peer, _ in (*mourner.ring.successors(), *mourner.ring.predecessors())]
    lost = [peer for peer in links if peer not in near][:6]
    for peer in lost:
        for topic in list(simulation.book.wanting[peer]):
            simulation.unsubscribe(peer, topic)
        simulation.inject(Crash(simulation.now_s, peer))
    turn = mourner._turn
    simulation.run_until(simulation.now_s + 300)
    assert mourner._turn > turn, "walkers were sent"
    assert not {peer for peer, _ in mourner.ring.links()} & set(lost)
