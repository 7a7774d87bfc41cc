"""What the running nodes say of rings and trees, and what it should be."""

from __future__ import annotations

from typing import Any

from coterie.sim.engine import Simulation
from coterie.substrate.identifiers import clockwise, topic_key
from coterie.systems.magnet.interest import InterestNode


def routers(simulation: Simulation) -> dict[int, Any]:
    return {node: simulation.nodes[node] for node in range(simulation.node_count) if simulation.is_up(node)}


def greedy_union(simulation: Simulation, topic: int) -> dict[int, int]:
    """Child -> parent of the union of greedy paths from the home to the subscribers, by the nodes' own rings."""
    nodes = routers(simulation)
    key = topic_key(topic)
    homes = [node for node, it in nodes.items() if it.root_hop(key) is None]
    assert len(homes) == 1, "the control ring is not agreed on"
    parents: dict[int, int] = {}
    for member in simulation.book.audience.get(topic, {}):
        if member not in nodes:
            continue
        at, hops = homes[0], 0
        while at != member:
            own, target = nodes[at].ring.position, nodes[member].ring.position
            links = nodes[at].tree_links(topic)
            following = [peer for peer, place in links if clockwise(own, place) <= clockwise(own, target)][-1]
            assert parents.setdefault(following, at) == at, "two greedy paths reach a node by different ways"
            at, hops = following, hops + 1
            assert hops <= len(nodes)
    return parents


def protocol_tree(simulation: Simulation, topic: int) -> dict[int, int]:
    return {
        node: parent for node, it in routers(simulation).items() for on, parent in it.state().parents if on == topic
    }


def assert_no_own_ancestor(simulation: Simulation) -> None:
    """By what parents believe as well as by what children believe."""
    states = {node: it.state() for node, it in routers(simulation).items()}
    for topic in range(8):
        below: dict[int, list[int]] = {
            node: [child for on, child in state.children if on == topic] for node, state in states.items()
        }
        above = {node: parent for node, state in states.items() for on, parent in state.parents if on == topic}
        for node in above:
            at, seen = node, {node}
            while at in above:
                at = above[at]
                assert at not in seen, f"node {node} is its own ancestor in topic {topic}"
                seen.add(at)
        assert all(node not in children for node, children in below.items())


def assert_trees_are_greedy_paths(simulation: Simulation) -> None:
    for topic in sorted(simulation.book.audience):
        assert protocol_tree(simulation, topic) == greedy_union(simulation, topic)
        assert_home_knows_the_first(simulation, topic)


def assert_home_knows_the_first(simulation: Simulation, topic: int) -> None:
    """Where trees begin with a subscriber, it is the first one after the home."""
    nodes = routers(simulation)
    home = next(it for it in nodes.values() if it.root_hop(topic_key(topic)) is None)
    wanting = [node for node in simulation.book.audience.get(topic, {}) if node in nodes]
    if not isinstance(home, InterestNode) or home.address in wanting or not wanting:
        return
    own = home.ring.position
    first = min(wanting, key=lambda node: clockwise(own, nodes[node].ring.position))
    assert [child for on, child in home.state().children if on == topic] == [first]


def assert_rings_agree(simulation: Simulation) -> None:
    """Everybody knows its successor and its predecessor on both rings."""
    nodes = routers(simulation)
    for ring_of in (lambda node: node.ring, lambda node: getattr(node.router, "control", node.ring)):
        order = sorted(nodes, key=lambda at: ring_of(nodes[at]).position)
        for rank, at in enumerate(order):
            ring = ring_of(nodes[at])
            assert [peer for peer, _ in ring.successors()[:1]] == [order[(rank + 1) % len(order)]]
            assert [peer for peer, _ in ring.predecessors()[:1]] == [order[rank - 1]]
