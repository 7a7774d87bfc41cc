"""Every document reaches exactly the brokers with matching filters."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.model.graph import BrokerGraph
from coterie.substrate.filters import Document, Filter, conjunction_covers, parse
from coterie.substrate.steiner import Terrain
from coterie.systems.content.filtering import FilteredTree
from tests.substrate.spanning import minimum_spanning_tree
from tests.substrate.test_filters import documents, filters
from tests.substrate.test_steiner import networks

hosted = st.lists(st.tuples(st.integers(0, 24), filters, st.integers(0, 2)), max_size=8)


@given(networks, hosted, st.lists(st.tuples(documents, st.integers(0, 24)), max_size=4), st.integers(0, 100))
@settings(max_examples=60)
def test_exactly_the_matching_brokers(
    graph: BrokerGraph, subscriptions: list[tuple[int, Filter, int]], published: list[tuple[Document, int]], seed: int
) -> None:
    terrain = Terrain(graph)
    count = terrain.graph.node_count
    random = np.random.default_rng(seed)
    trees = [minimum_spanning_tree(terrain.links, random.random(len(terrain.links.cost)), 0) for _ in range(3)]
    groups: list[dict[int, list[Filter]]] = [{}, {}, {}]
    for host, wanted, group in subscriptions:
        groups[group].setdefault(host % count, []).append(wanted)
    routed = [FilteredTree(tree, wanted) for tree, wanted in zip(trees, groups, strict=True)]
    for document, publisher in published:
        for group, tree in enumerate(routed):
            reached, crossed = tree.route(document, publisher % count)
            matching = [wanted for _, wanted, its in subscriptions if its == group and wanted.matches(document)]
            assert tree.matches(document) == bool(matching)
            assert reached == sorted(
                {host % count for host, wanted, its in subscriptions if its == group and wanted.matches(document)}
            )
            assert crossed <= (count - 1 if matching else 0)


def test_links_hold_merged_filters() -> None:
    line = Terrain(BrokerGraph.of(4, range(3), range(1, 4)))
    tree = minimum_spanning_tree(line.links, np.ones(3), 0)
    wanted = {2: [parse("price > 5 and price < 9")], 3: [parse("price > 3"), parse("nokia")]}
    routed = FilteredTree(tree, wanted)
    assert routed.links[0][1] == routed.links[1][2] == parse("nokia or price > 3")
    assert not any(
        conjunction_covers(one, other)
        for one in routed.links[0][1].conjunctions
        for other in routed.links[0][1].conjunctions
        if one != other
    )
    assert routed.links[3][2] == parse("price > 5 and price < 9")
    assert routed.route({"price": 4.0}, 0) == ([3], 3)
    assert routed.route({"price": 6.0}, 3) == ([2, 3], 1)
    assert routed.route({"price": 1.0}, 0) == ([], 0)
