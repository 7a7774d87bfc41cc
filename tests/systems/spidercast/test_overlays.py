"""The bulk overlays keep what they promise: coverage, limits, connectivity, survival of any one crash."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.kernels.links import greedy as kernel
from coterie.model import Relation
from coterie.systems.spidercast import baselines, coverage, greedy, measures, search
from coterie.systems.spidercast.parameters import SpiderCastParameters
from coterie.systems.spidercast.system import links_of
from coterie.workloads import make_workload
from tests.systems.spidercast import oracles

instances = {"nodes": st.integers(1, 16), "topics": st.integers(1, 5), "seed": st.integers(0, 10**6)}


def is_symmetric(links: Relation) -> bool:
    return links == links.transposed


@settings(max_examples=40)
@given(k_greedy=st.integers(1, 3), k_random=st.integers(0, 2), **instances)
def test_maintenance_rests_covered_and_within_limits(
    k_greedy: int, k_random: int, nodes: int, topics: int, seed: int
) -> None:
    interests = oracles.random_interests(nodes, topics, seed)
    bulk = coverage.build(interests, SpiderCastParameters(k_greedy=k_greedy, k_random=k_random), seed)
    links = bulk.links()
    assert is_symmetric(links)
    assert oracles.covers(interests, links, max(k_greedy, k_random))
    for task in bulk.tasks:
        assert np.all(task.degree <= task.limit + task.margin)


@settings(max_examples=25)
@given(**instances)
def test_at_rest_no_link_can_be_spared_by_both_ends(nodes: int, topics: int, seed: int) -> None:
    interests = oracles.random_interests(nodes, topics, seed)
    links = coverage.build(interests, SpiderCastParameters(k_greedy=2), seed).links()
    for one in range(nodes):
        for other in links.row(one).tolist():
            kept = (links.rows != one) | (links.columns != other)
            kept &= (links.rows != other) | (links.columns != one)
            without = Relation.from_pairs(links.rows[kept], links.columns[kept], nodes, nodes)
            assert not oracles.covers(interests, without, 2)


def test_links_are_a_function_of_the_seed() -> None:
    interests = make_workload("rss", {"nodes": 200}, 3).interests
    first, again, other = (coverage.build(interests, SpiderCastParameters(), seed).links() for seed in (1, 1, 2))
    assert first == again
    assert first != other


@settings(max_examples=30)
@given(**instances)
def test_greedy_merge_connects_every_topic(nodes: int, topics: int, seed: int) -> None:
    interests = oracles.random_interests(nodes, topics, seed)
    links = greedy.greedy_merge(interests, seed)
    assert measures.connectivity(links, interests).partitioned_count == 0
    assert links.pair_count <= 2 * max(interests.pair_count - topics, 0) + 2 * topics


@settings(max_examples=40)
@given(is_begun=st.booleans(), **instances)
def test_merging_alone_takes_the_very_links_of_the_plain_scan(
    is_begun: bool, nodes: int, topics: int, seed: int
) -> None:
    """Components laid out for scans are another way to see the same."""
    interests = oracles.random_interests(nodes, topics, seed)
    begun = greedy._once(oracles.random_links(nodes, seed, share=0.2)) if is_begun else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(greedy, "is_dense", lambda interests: False)
        fast = greedy._Builder(interests, seed, begun).serve(wanted=0).links()
        patch.setattr(kernel, "labels_of", lambda pair, group: kernel.NO_LABELS)
        plain = greedy._Builder(interests, seed, begun).serve(wanted=0).links()
    assert fast == plain


@settings(max_examples=40)
@given(nodes=st.integers(1, 12), topics=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_a_table_of_all_links_keeps_the_same_promises(nodes: int, topics: int, seed: int) -> None:
    """Few nodes with many topics take another way to the same end; here both go it."""
    interests = oracles.random_interests(nodes, topics, seed)
    counts = []
    for is_dense in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(greedy, "is_dense", lambda interests, answer=is_dense: answer)
            merged, twice = greedy.greedy_merge(interests, seed), greedy.two_connected(interests, seed)
            lean = greedy.lean(interests, 2, seed, 0.5)
        assert measures.connectivity(merged, interests).partitioned_count == 0
        assert oracles.covers(interests, lean, 2)
        for node in range(nodes):
            assert measures.after_crashes(twice, interests, np.array([node])).partitioned_count == 0
        counts.append(merged.pair_count)
    assert abs(counts[0] - counts[1]) <= 2 * max(2, 0.2 * max(counts))


@settings(max_examples=40)
@given(wanted=st.integers(1, 3), bare_share=st.sampled_from([0.0, 0.3, 1.0]), **instances)
def test_lean_covers_and_connects(wanted: int, bare_share: float, nodes: int, topics: int, seed: int) -> None:
    interests = oracles.random_interests(nodes, topics, seed)
    links = greedy.lean(interests, wanted, seed, bare_share)
    assert is_symmetric(links)
    assert oracles.covers(interests, links, wanted)
    assert oracles.bare_count(interests, links, wanted) <= bare_share * interests.pair_count
    assert measures.connectivity(links, interests).partitioned_count == 0


@settings(max_examples=40)
@given(wanted=st.integers(1, 3), bare_share=st.sampled_from([0.0, 0.3, 1.0]), **instances)
def test_the_search_keeps_cover_and_never_adds_links(
    wanted: int, bare_share: float, nodes: int, topics: int, seed: int
) -> None:
    interests = oracles.random_interests(nodes, topics, seed)
    links = oracles.random_links(nodes, seed, share=0.5)
    fewer = search.fewer_links(interests, links, wanted, bare_share, 5, seed)
    assert is_symmetric(fewer)
    assert fewer.pair_count <= links.pair_count
    if oracles.covers(interests, links, wanted):
        assert oracles.covers(interests, fewer, wanted)
    bare_before, bare_after = (oracles.bare_count(interests, each, wanted) for each in (links, fewer))
    assert bare_after <= max(bare_before, bare_share * interests.pair_count)


@settings(max_examples=40)
@given(**instances)
def test_two_connected_survives_any_single_crash(nodes: int, topics: int, seed: int) -> None:
    interests = oracles.random_interests(nodes, topics, seed)
    links = greedy.two_connected(interests, seed)
    assert measures.connectivity(links, interests).partitioned_count == 0
    for node in range(nodes):
        assert measures.after_crashes(links, interests, np.array([node])).partitioned_count == 0


def test_lean_needs_clearly_fewer_links_than_spidercast_and_loses_no_more_in_mass_crashes() -> None:
    interests = make_workload("rss", {"nodes": 400}, 1).interests
    theirs, ours = (links_of(interests, SpiderCastParameters(links=kind), 1) for kind in ("spidercast", "lean"))
    assert ours.pair_count < 0.93 * theirs.pair_count
    for crashed_share in (0.05, 0.1, 0.2):  # all neighbours who share an interest crash
        their_loss, our_loss = (
            sum(crashed_share**near for near, _ in oracles.neighbour_counts(interests, links))
            for links in (theirs, ours)
        )
        assert our_loss < their_loss


def test_joining_repairs_a_partitioned_topic_and_leaves_connected_ones_alone() -> None:
    interests = Relation.from_rows([[0], [0], [0], [0]], 1)
    two_pairs = Relation.from_pairs([0, 1, 2, 3], [1, 0, 3, 2], 4, 4)
    whole = greedy.joined(interests, two_pairs, seed=1)
    assert measures.connectivity(whole, interests).partitioned_count == 0
    assert whole.pair_count == two_pairs.pair_count + 2
    assert greedy.joined(interests, whole, seed=1) is whole


def test_a_ring_per_topic_merges_shared_links() -> None:
    interests = Relation.from_rows([[0, 1], [0, 1], [0]], 2)
    ring = baselines.ring_per_topic(interests)
    assert [ring.row(node).tolist() for node in range(3)] == [[1, 2], [0, 2], [0, 1]]


def test_partial_views_limit_whom_a_node_asks() -> None:
    interests = make_workload("rss", {"nodes": 300}, 1).interests
    full, partial = (
        coverage.build(interests, SpiderCastParameters(view_share=share), 1).links().pair_count for share in (1.0, 0.2)
    )
    assert partial > full


@pytest.mark.parametrize(
    "settings", [{"links": "star"}, {"k_greedy": -1}, {"k_greedy": 0}, {"view_share": 0.0}, {"bare_share": 1.5}]
)
def test_bad_parameters_are_named(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        SpiderCastParameters(**settings)
