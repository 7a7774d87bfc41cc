"""Keywords near their root, documents from nearby, and who gets what."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from coterie.errors import InputError
from coterie.kernels.graphs.nearby import closures, nearest_nodes
from coterie.model import BrokerGraph, Content, Relation, Workload
from coterie.workloads.content import Everywhere, Keywords, keywords, matches
from coterie.workloads.graphs import Flat, flat

SMALL = {"nodes": 200, "topics": 500, "keywords": 100}


def distances(graph: BrokerGraph) -> np.ndarray:
    links = coo_array((graph.cost, (graph.source, graph.target)), shape=(graph.node_count,) * 2)
    return dijkstra(links, directed=False)


def holders(workload: Workload) -> Relation:
    """Keyword -> nodes."""
    assert workload.content is not None
    pairs = workload.content.subscriptions
    return Relation.from_pairs(pairs.columns, workload.attachment[pairs.rows], pairs.column_count, workload.node_count)


def test_nearest_nodes_are_nearest() -> None:
    graph = flat(Flat(nodes=80, degree=4, cost="length"), 1).graph
    links, apart = graph.neighbours, distances(graph)
    roots = np.arange(80, dtype=np.int32)
    found = nearest_nodes(np.random.default_rng(1), links.indptr, links.columns, graph.neighbour_costs, roots, 10)
    assert (found[:, 0] == roots).all()
    for root in roots:
        assert apart[root][found[root]] == pytest.approx(np.sort(apart[root])[:10])


def test_keywords_are_wanted_in_one_neighbourhood() -> None:
    """Section VII-A: at most 10 nodes among the closest x % of a root; x = 100 is everywhere."""
    local = keywords(Keywords(**SMALL, locality=10), 1)
    everywhere = keywords(Everywhere(**SMALL), 1)
    spans = []
    for workload in (local, everywhere):
        assert workload.graph is not None
        apart = distances(workload.graph)
        nodes = holders(workload)
        assert (nodes.lengths == 10).all()
        spans.append(np.mean([apart[np.ix_(nodes.row(k), nodes.row(k))].mean() for k in range(100)]))
    assert spans[0] < 0.8 * spans[1]


def test_two_percent_of_a_small_network_limits_the_holders() -> None:
    assert (holders(keywords(Keywords(**SMALL, locality=2), 1)).lengths == 4).all()


@pytest.mark.parametrize("unit", ["keyword", "node"])
def test_units_share_what_nodes_receive(unit: str) -> None:
    workload = keywords(Keywords(**SMALL, unit=unit), 1)
    other = keywords(Keywords(**SMALL, unit="node"), 1)
    assert workload.node_interests() == other.node_interests()
    assert workload.content is not None
    assert (workload.content.documents.lengths <= 3).all()
    publisher_node = workload.attachment[workload.publications.publisher]
    assert np.array_equal(publisher_node, other.publications.publisher)
    if unit == "keyword":
        assert workload.content.subscriptions.lengths.max() == 1
        assert (workload.interests.lengths[workload.publications.publisher] == 0).all()


def test_matches_are_documents_with_a_common_keyword() -> None:
    draw = np.random.default_rng(4)
    content = Content(
        Relation.from_pairs(draw.integers(30, size=90), draw.integers(15, size=90), 30, 15),
        Relation.from_pairs(draw.integers(20, size=40), draw.integers(15, size=40), 20, 15),
    )
    found = matches(content).check("matches")
    for subscriber in range(20):
        wanted = set(content.subscriptions.row(subscriber).tolist())
        slow = [d for d in range(30) if wanted & set(content.documents.row(d).tolist())]
        assert found.row(subscriber).tolist() == slow


def test_a_graph_file_brings_its_own_nodes(tmp_path: object) -> None:
    path = f"{tmp_path}/inet"
    with open(path, "w") as file:
        file.write("3 2\n0 1 1\n1 2 2\n2 3 3\n0 1 5\n1 2 7\n")
    workload = keywords(Keywords(network=f"file:{path}", cost="length", topics=20, keywords=5, locality=100), 1)
    assert workload.node_count == 3
    assert workload.graph is not None
    assert workload.graph.cost.tolist() == [5, 7]
    with pytest.raises(InputError, match="cannot be read"):
        keywords(Keywords(network="file:nowhere"), 1)


def test_closures_take_all_that_is_needed() -> None:
    needs = Relation.from_rows([[1, 2], [3], [], [0], [5], []], 6)
    indptr, columns = closures(needs.indptr, needs.columns, np.array([0, 1, 3, 3]), np.array([1, 4, 4], np.int32))
    assert [sorted(columns[a:b].tolist()) for a, b in pairwise(indptr)] == [
        [0, 1, 2, 3],
        [4, 5],
        [],
    ]
