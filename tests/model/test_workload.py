"""Workloads at a moment of a timeline, against replaying the changes one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import ConfigError
from coterie.model import BrokerGraph, Change, Relation, Timeline
from coterie.model.latency import Latency
from coterie.model.ledger import Distribution
from coterie.sim.run import SPAN_S
from tests.conftest import small_workload

changes = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(list(Change)), st.integers(0, 4), st.integers(0, 2)), max_size=40
)


@given(changes, st.integers(0, 10))
def test_a_moment_is_the_changes_replayed(steps: list[tuple[int, Change, int, int]], moment: int) -> None:
    start = small_workload(nodes=5, topics=3, seed=1)
    steps = sorted(steps, key=lambda step: step[0])
    time_s, kind, who, what = (np.array([step[field] for step in steps]) for field in range(4))
    timeline = Timeline(start, time_s.astype(float), kind.astype(np.uint8), who.astype(np.int32), what.astype(np.int32))
    wanted = {row: set(start.interests.row(row).tolist()) for row in range(5)}
    attached = start.attachment.tolist()
    for when, change, subject, thing in steps:
        if when > moment:
            break
        if change is Change.SUBSCRIBE:
            wanted[subject].add(thing)
        elif change is Change.UNSUBSCRIBE:
            wanted[subject].discard(thing)
        elif change is Change.MOVE:
            attached[subject] = thing
    then = timeline.at(moment)
    assert [set(then.interests.row(row).tolist()) for row in range(5)] == list(wanted.values())
    assert then.attachment.tolist() == attached


def test_node_interests_are_unions() -> None:
    workload = small_workload(nodes=4, topics=6, seed=3, subscribers=30)
    unions = [set() for _ in range(4)]
    for subscriber, node in enumerate(workload.attachment.tolist()):
        unions[node] |= set(workload.interests.row(subscriber).tolist())
    assert [set(workload.node_interests().row(node).tolist()) for node in range(4)] == unions


def test_whole_events_keep_the_mean() -> None:
    workload = small_workload(nodes=50, topics=40, seed=3)
    fractional = replace(workload, publications=replace(workload.publications, rate=workload.publications.rate + 0.33))
    drawn = [fractional.with_whole_events(seed, 10.0).publications.rate for seed in range(200)]
    assert all(np.allclose(rates * 10, np.rint(rates * 10)) for rates in drawn)
    assert np.mean(drawn) == pytest.approx(fractional.publications.rate.mean(), rel=0.02)
    assert workload.with_whole_events(1, SPAN_S) is workload


def test_bad_workloads_are_refused() -> None:
    workload = small_workload(nodes=4, topics=2, seed=3)
    with pytest.raises(ConfigError, match="attachment"):
        replace(workload, attachment=np.zeros(3, np.int32))
    with pytest.raises(ConfigError, match="nodes"):
        replace(workload, node_count=0)


def test_graph_links_are_normalised() -> None:
    graph = BrokerGraph.of(4, [2, 0, 1, 3, 2], [0, 2, 1, 1, 3], [5.0, 4.0, 1.0, 2.0, 3.0])
    assert list(zip(graph.source.tolist(), graph.target.tolist(), graph.cost.tolist(), strict=True)) == [
        (0, 2, 4.0),
        (1, 3, 2.0),
        (2, 3, 3.0),
    ]
    assert graph.neighbours == Relation.from_rows([[2], [3], [0, 3], [1, 2]], 4)
    assert graph.neighbour_costs.tolist() == [4.0, 2.0, 4.0, 3.0, 2.0, 3.0]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), min_size=1, max_size=30))
def test_distribution_of_weights_is_that_of_repeats(weighted: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in weighted])
    weights = np.array([weight for _, weight in weighted], float)
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    made = Distribution.of(values, weights)
    assert made.mean == pytest.approx(repeated.mean())
    assert made.max == repeated.max()
    assert made.p50 == repeated[int(np.ceil(0.5 * len(repeated))) - 1]
    assert made.p99 == repeated[int(np.ceil(0.99 * len(repeated))) - 1]
    assert Distribution.of(values, weights) == Distribution.of(values[::-1], weights[::-1])


def test_latency_models() -> None:
    assert Latency.constant(50).between_us(1, 2) == 50_000
    matrix = Latency.matrix(np.array([[np.nan, 10.0], [30.0, np.nan]]))
    assert (matrix.between_us(0, 1), matrix.between_us(1, 0), matrix.between_us(2, 1)) == (10_000, 30_000, 10_000)
    assert matrix.between_us(0, 0) == 20_000  # the median fills gaps
    plane = Latency.distance(np.array([[0.0, 0.0], [3.0, 4.0]]), milliseconds_per_unit=2.0, base_ms=1.0)
    assert plane.between_us(0, 1) == 11_000
    with pytest.raises(ConfigError):
        Latency.constant(-1)
    with pytest.raises(ConfigError):
        Latency.matrix(np.zeros((2, 3)))
