"""The order by likeness against slow words for the same thing, and against Magnet's own order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from coterie.kernels.rings.likeness import Likes, Sizes, cut_clusters, drawn, likeness_order, put_together
from coterie.kernels.rings.linkage import by_topic, distances, leaf_order, linked_pairs, nearest_rows
from coterie.model import Relation

CAMPS = Relation.from_rows([[camp * 3, camp * 3 + 1, camp * 3 + 2] for _ in range(20) for camp in range(5)], 15)


def interests_of(seed: int, nodes: int, topics: int) -> tuple[list[set[int]], Relation, np.ndarray]:
    draw = np.random.default_rng(seed)
    sets = [set(draw.choice(topics, draw.integers(0, topics + 1), replace=False).tolist()) for _ in range(nodes)]
    return sets, Relation.from_rows([sorted(one) for one in sets], topics), draw.random(topics) + 0.1


def jaccard(one: set[int], other: set[int], weights: np.ndarray) -> float:
    either = sum(weights[topic] for topic in one | other)
    return float(sum(weights[topic] for topic in one & other) / either) if either else 0.0


def runs(order: list[int], camp_of: list[int]) -> int:
    return sum(camp_of[order[at]] != camp_of[order[at - 1]] for at in range(len(order)))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 30), topics=st.integers(1, 8))
def test_distances_of_all_pairs(seed: int, nodes: int, topics: int) -> None:
    sets, relation, weights = interests_of(seed, nodes, topics)
    apart = distances(np.arange(nodes, dtype=np.int32), relation.indptr, relation.columns, weights)
    for one in range(nodes):
        for other in range(nodes):
            expected = 0.0 if one == other else 1 - jaccard(sets[one], sets[other], weights)
            assert apart[one, other] == pytest.approx(expected, abs=1e-6)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), nodes=st.integers(2, 40))
def test_merges_are_those_of_average_linkage(seed: int, nodes: int) -> None:
    """Against scipy, where no two distances are equal: the same clusters."""
    draw = np.random.default_rng(seed)
    apart = draw.random((nodes, nodes))
    apart = ((apart + apart.T) / 2).astype(np.float32)
    np.fill_diagonal(apart, 0)
    theirs = linkage(squareform(apart.astype(float), checks=False), "average")
    left, right = linked_pairs(apart.copy())
    assert clusters(left.tolist(), right.tolist(), nodes) == clusters(
        theirs[:, 0].astype(int).tolist(), theirs[:, 1].astype(int).tolist(), nodes
    )


def clusters(left: list[int], right: list[int], nodes: int) -> set[frozenset[int]]:
    members = [frozenset([node]) for node in range(nodes)]
    for one, other in zip(left, right, strict=True):
        members.append(members[one] | members[other])
    return set(members)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 30), topics=st.integers(1, 8))
def test_leaves_of_a_cluster_stay_together(seed: int, nodes: int, topics: int) -> None:
    _, relation, weights = interests_of(seed, nodes, topics)
    rows = np.arange(nodes, dtype=np.int32)
    left, right = linked_pairs(distances(rows, relation.indptr, relation.columns, weights))
    rank = np.argsort(leaf_order(left, right, rows, relation.indptr, relation.columns, weights))
    for cluster in clusters(left.tolist(), right.tolist(), nodes):
        ranks = sorted(rank[sorted(cluster)].tolist())
        assert ranks == list(range(ranks[0], ranks[0] + len(ranks)))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), nodes=st.integers(2, 40), topics=st.integers(1, 8))
def test_everybody_finds_the_most_similar_of_a_sample(seed: int, nodes: int, topics: int) -> None:
    sets, relation, weights = interests_of(seed, nodes, topics)
    rows = np.arange(nodes, dtype=np.int32)
    sample = drawn(rows, max(1, nodes // 3), seed, 1)
    found = nearest_rows(
        *(0, nodes, sample, *by_topic(sample, relation.indptr, relation.columns)),
        *(relation.indptr, relation.columns, weights, rows),
    )
    for node in range(nodes):
        worths = [jaccard(sets[node], sets[other], weights) for other in sample.tolist()]
        if max(worths) == 0:
            assert found[node] == -1
        else:
            assert worths[found[node]] == pytest.approx(max(worths))


@pytest.mark.parametrize("sizes", [Sizes(1000, 1000), Sizes(20, 30), Sizes(10, 12)])
def test_camps_sit_together(sizes: Sizes) -> None:
    order = likeness_order(Likes.of(CAMPS.indptr, CAMPS.columns, np.ones(15)), 1, sizes).tolist()
    assert sorted(order) == list(range(100))
    assert runs(order, [node % 5 for node in range(100)]) == 5


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 80), topics=st.integers(1, 40), block=st.integers(1, 20))
def test_everybody_has_one_place_whatever_the_sizes(seed: int, nodes: int, topics: int, block: int) -> None:
    draw = np.random.default_rng(seed)
    rows = [draw.choice(topics, min(topics, draw.integers(0, 3)), replace=False).tolist() for _ in range(nodes)]
    relation = Relation.from_rows(rows, topics)
    likes = Likes.of(relation.indptr, relation.columns, draw.integers(0, 2, topics).astype(float))
    order = likeness_order(likes, seed % 1000, Sizes(1 + block // 2, block)).tolist()
    assert sorted(order) == list(range(nodes))
    silent = [node for node in range(nodes) if not rows[node]]
    assert order[nodes - len(silent) :] == silent


def test_many_equals_are_spread_over_blocks() -> None:
    """A crowd with one and the same interest must not stay one block for ever."""
    relation = Relation.from_rows([[0, 1]] * 500, 2)
    likes = Likes.of(relation.indptr, relation.columns, np.ones(2))
    assert sorted(likeness_order(likes, 1, Sizes(20, 25)).tolist()) == list(range(500))


def test_blocks_are_whole_clusters_in_the_order_of_the_leaves() -> None:
    left, right = np.array([0, 2, 4], np.int32), np.array([1, 3, 5], np.int32)
    order = np.array([2, 3, 1, 0], np.int32)
    assert cut_clusters(left, right, order, np.array([3, 3, 1, 1]), 6).tolist() == [1, 1, 0, 0]
    assert cut_clusters(left, right, order, np.array([3, 3, 1, 1]), 5).tolist() == [2, 1, 0, 0]
    assert cut_clusters(left, right, order, np.array([3, 3, 1, 1]), 100).tolist() == [0, 0, 0, 0]


def test_parts_are_turned_so_that_ends_fit() -> None:
    relation = Relation.from_rows([[0], [1], [1], [2], [3], [2]], 4)
    likes = Likes.of(relation.indptr, relation.columns, np.ones(4))
    parts = [np.array([1, 0], np.int32), np.array([2, 3], np.int32), np.array([4, 5], np.int32)]
    assert put_together(parts, likes).tolist() == [0, 1, 2, 3, 5, 4]


def test_the_sample_depends_on_nothing_else() -> None:
    rows = np.arange(1000, dtype=np.int32)
    assert drawn(rows, 50, 3, 1).tolist() == drawn(rows[::-1].copy(), 50, 3, 1).tolist()
    assert drawn(rows, 50, 3, 1).tolist() != drawn(rows, 50, 3, 2).tolist()
    assert drawn(rows[:10], 50, 3, 1).tolist() == list(range(10))
