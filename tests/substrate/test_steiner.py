"""Shortest paths, spanning trees and Steiner trees against scipy and against exhaustive search."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra, minimum_spanning_tree

from coterie.errors import ConfigError
from coterie.kernels.graphs import paths as graphs
from coterie.model.graph import BrokerGraph
from coterie.substrate import lowstretch
from coterie.substrate.steiner import NODES_MAX, Terrain, links_of
from tests.substrate import spanning


def network(count: int, extra: int, seed: int, is_uniform: bool) -> BrokerGraph:
    """A random tree and some more links."""
    random = np.random.default_rng(seed)
    later = np.arange(1, count)
    source = np.concatenate([later, random.integers(count, size=extra)])
    target = np.concatenate([(random.random(count - 1) * later).astype(int), random.integers(count, size=extra)])
    cost = 1.0 if is_uniform else random.integers(1, 9, size=len(source)).astype(float)
    return BrokerGraph.of(count, source, target, cost)


def matrix(graph: BrokerGraph) -> coo_array:
    shape = (graph.node_count, graph.node_count)
    return coo_array((graph.cost, (graph.source, graph.target)), shape=shape)


networks = st.builds(network, st.integers(2, 25), st.integers(0, 30), st.integers(0, 10_000), st.booleans())


@given(networks)
@settings(max_examples=40, deadline=None)
def test_routes_are_shortest_and_walkable(graph: BrokerGraph) -> None:
    terrain = Terrain(graph)
    routes = terrain.routes
    assert np.allclose(routes.distance, dijkstra(matrix(graph), directed=False))
    for start, end in ((0, graph.node_count - 1), (graph.node_count - 1, 0)):
        node, length = end, 0.0
        while node != start:
            edge = routes.via[start, node]
            length += graph.cost[edge]
            node = int(graph.source[edge] + graph.target[edge] - node)
        assert length == pytest.approx(routes.distance[start, end])


def exact_steiner(graph: BrokerGraph, terminals: NDArray[np.int32]) -> float:
    """The best spanning tree over every choice of additional nodes."""
    distance = dijkstra(matrix(graph), directed=False)
    others = [node for node in range(graph.node_count) if node not in terminals]
    best = np.inf
    for size in range(max(len(terminals) - 1, 1)):
        for chosen in combinations(others, size):
            points = [*terminals.tolist(), *chosen]
            closure = distance[np.ix_(points, points)]
            best = min(best, float(minimum_spanning_tree(closure).sum()))
    return best


@given(st.builds(network, st.integers(4, 11), st.integers(0, 14), st.integers(0, 10_000), st.booleans()), st.data())
@settings(max_examples=40, deadline=None)
def test_steiner_trees_lie_between_their_floor_and_twice_the_optimum(graph: BrokerGraph, data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.integers(0, graph.node_count - 1), min_size=2, max_size=4))
    terminals = np.array(sorted(chosen), np.int32)
    terrain = Terrain(graph)
    optimum = exact_steiner(graph, terminals)
    plain, better = (terrain.cost_of(terrain.steiner(terminals, extra)) for extra in (0, 8))
    assert terrain.steiner_floor(terminals) <= optimum + 1e-6
    assert optimum - 1e-6 <= better <= plain <= 2 * optimum + 1e-6
    in_tree = np.zeros(graph.link_count, np.bool_)
    in_tree[terrain.steiner(terminals)] = True
    tree = lowstretch.hang(terrain.links, in_tree, int(terminals[0]))
    roots = {_root(tree.parent, int(node)) for node in terminals}
    assert roots == {int(terminals[0])}


def _root(parent: NDArray[np.int32], node: int) -> int:
    while parent[node] >= 0:
        node = int(parent[node])
    return node


@given(networks, st.data())
@settings(max_examples=40, deadline=None)
def test_low_stretch_trees_span_and_their_stretch_is_what_paths_say(graph: BrokerGraph, data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(0, 5), min_size=graph.link_count, max_size=graph.link_count))
    multiplicity = np.array(weights, np.float64)
    terrain = Terrain(graph)
    tree = spanning.low_stretch_tree(terrain.links, multiplicity, terrain.is_uniform)
    edges = tree.parent_edge[tree.parent_edge >= 0]
    assert len(set(edges.tolist())) == graph.node_count - 1
    place = np.empty(graph.node_count, int)
    place[tree.order] = np.arange(graph.node_count)
    below = tree.parent >= 0
    assert np.all(place[tree.parent[below]] < place[below])
    inside = BrokerGraph.of(graph.node_count, graph.source[edges], graph.target[edges], graph.cost[edges])
    along = dijkstra(matrix(inside), directed=False)[graph.source, graph.target]
    wanted = (multiplicity * along / graph.cost).sum() / multiplicity.sum() if multiplicity.sum() else 1.0
    assert lowstretch.average_stretch(terrain.links, multiplicity, tree) == pytest.approx(wanted)


@given(networks)
@settings(max_examples=25, deadline=None)
def test_minimum_spanning_and_shortest_path_trees(graph: BrokerGraph) -> None:
    terrain = Terrain(graph)
    smallest = spanning.minimum_spanning_tree(terrain.links, graph.cost)
    assert terrain.cost_of(smallest.parent_edge[1:]) >= 0
    total = graph.cost[smallest.parent_edge[smallest.parent_edge >= 0]].sum()
    assert total == pytest.approx(minimum_spanning_tree(matrix(graph).tocsr()).sum())
    tree = lowstretch.shortest_path_tree(terrain.links, terrain.is_uniform, 0)
    for node in range(graph.node_count):
        length, at = 0.0, node
        while tree.parent[at] >= 0:
            length += graph.cost[tree.parent_edge[at]]
            at = int(tree.parent[at])
        assert length == pytest.approx(terrain.routes.distance[0, node])


def test_a_forest_is_joined_by_its_shortest_connections() -> None:
    line = BrokerGraph.of(6, range(5), range(1, 6))
    links = links_of(line)
    in_tree = np.array([True, False, False, False, True])
    graphs.span_forest(links, in_tree, np.array([True, True, False, False, True, True]), True)
    assert in_tree.all()


def test_low_stretch_is_far_below_that_of_a_random_tree() -> None:
    graph = network(400, 2000, 1, True)
    terrain = Terrain(graph)
    ones = np.ones(graph.link_count)
    low = lowstretch.average_stretch(terrain.links, ones, spanning.low_stretch_tree(terrain.links, ones, True))
    chance = spanning.minimum_spanning_tree(terrain.links, np.random.default_rng(0).random(graph.link_count))
    assert low < np.log2(400) < lowstretch.average_stretch(terrain.links, ones, chance)


def test_parts_without_a_way_between_them() -> None:
    terrain = Terrain(BrokerGraph.of(4, [0, 2], [1, 3]))
    assert not terrain.is_connected
    assert np.isinf(terrain.routes.distance[0, 2])
    assert terrain.steiner_floor(np.array([0, 2], np.int32)) == np.inf


def test_networks_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(ConfigError, match="more than 0"):
        links_of(BrokerGraph.of(2, [0], [1], 0.0))
    with pytest.raises(ConfigError, match="at most"):
        Terrain(BrokerGraph.of(NODES_MAX + 1, [0], [1]))
