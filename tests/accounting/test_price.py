"""The pricing kernels against the slow accountant, for every way of spreading; and the bounds below everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.accounting.bounds import free_placement_copies, lower_bounds
from coterie.accounting.price import price
from coterie.errors import ConfigError
from coterie.model import BrokerGraph, Channels, Design, Entries, Overlay, Placement, Relation, Spread, Trees, Workload
from coterie.model.latency import Latency
from coterie.systems import SYSTEMS
from tests.accounting.oracles import slow_dissemination
from tests.conformance.deviations import instance_for
from tests.conftest import small_workload


def random_tree(draw: np.random.Generator, nodes: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(node, parent) edges of a random tree over some of the nodes, parents first, and its root."""
    order = draw.permutation(nodes)[: int(draw.integers(1, nodes + 1))]
    parents = [order[int(draw.integers(0, at))] for at in range(1, len(order))]
    return order[1:].astype(np.int32), np.array(parents, np.int32), int(order[0])


def random_design(workload: Workload, spread: Spread, seed: int) -> Design:
    """A design no planner would make: overlapping channels, relays, members without interest, chained entries."""
    draw = np.random.default_rng(seed)
    nodes, topics = workload.node_count, workload.topic_count
    channel_count = int(draw.integers(1, 5))
    trees = [random_tree(draw, nodes) for _ in range(channel_count)]
    on_tree = [sorted({root, *node.tolist()}) for node, _, root in trees]
    members = [[node for node in range(nodes) if draw.random() < 0.6] for _ in range(channel_count)]
    if spread is Spread.ROOTED:
        members = [[node for node in places if draw.random() < 0.7] for places in on_tree]
    links = Relation.from_pairs(*np.nonzero(draw.random((nodes, nodes)) < 0.4), nodes, nodes)
    rows: list[tuple[int, int, int, list[int]]] = []
    targets: list[list[int]] = []
    for publication in range(workload.publications.count):
        start = int(workload.attachment[workload.publications.publisher[publication]])
        for channel in sorted(draw.permutation(channel_count)[: int(draw.integers(1, channel_count + 1))].tolist()):
            end = {Spread.ROOTED: trees[channel][2], Spread.FILTERED: int(draw.choice(on_tree[channel]))}.get(spread)
            if end is None:
                end = int(draw.choice(members[channel])) if members[channel] else start
            is_chained = bool(rows) and rows[-1][0] == publication and draw.random() < 0.5
            first = rows[-1][3][-1] if is_chained else start
            path = [first, *draw.integers(0, nodes, int(draw.integers(0, 3))).tolist()]
            path = [*path, end] if path[-1] != end else path
            rows.append((publication, channel, len(rows) - 1 if is_chained else -1, path))
            targets.append([node for node in on_tree[channel] if draw.random() < 0.5])
    entries = Entries(
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.int32),
        np.array([row[2] for row in rows], np.int32),
        np.concatenate([[0], np.cumsum([len(row[3]) for row in rows])]).astype(np.int64),
        np.array([node for row in rows for node in row[3]], np.int32),
        Relation.from_rows(targets, nodes) if spread is Spread.FILTERED else None,
    )
    with_edges = spread in (Spread.ROOTED, Spread.FILTERED)
    sizes = [len(tree[0]) if with_edges else 0 for tree in trees]
    edges = [np.concatenate([tree[part] for tree in trees]) if with_edges else np.zeros(0, np.int32) for part in (0, 1)]
    return Design(
        "random",
        Placement(workload.attachment, nodes),
        Channels(Relation.from_rows([range(topics)] * channel_count, topics)),
        Overlay(links),
        Trees(
            spread,
            Relation.from_rows(members, nodes),
            np.array([tree[2] for tree in trees], np.int32),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            *edges,
        ),
        entries,
        {},
    )


@pytest.mark.parametrize("spread", Spread)
@given(nodes=st.integers(1, 12), topics=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_kernels_agree_with_the_slow_accountant(spread: Spread, nodes: int, topics: int, seed: int) -> None:
    zones = np.random.default_rng(seed).integers(0, 3, nodes).astype(np.int32)
    workload = replace(small_workload(nodes, topics, seed, subscribers=nodes + 3), zone_of=zones)
    design = random_design(workload, spread, seed)
    # Odd latencies keep different paths apart; what still ties is booked in the order of the rows by both.
    latency = Latency.matrix(3.0 ** np.random.default_rng(seed).uniform(0, 6, (nodes, nodes)) + 0.1234)
    ours = price(design, workload, latency).columns()
    slow = slow_dissemination(design, workload, latency)
    for kind in ("inbound", "wanted", "relayed", "filtered", "duplicate"):
        assert ours[f"dissemination.{kind}"] == pytest.approx(slow[kind]), kind
        assert ours[f"volume.{kind}"] == pytest.approx(slow[f"{kind} bytes"]), kind
    assert ours["crossing.copies"] == pytest.approx(slow["crossing"])
    assert ours["crossing.bytes"] == pytest.approx(slow["crossing bytes"])
    assert ours["load.messages.mean"] * nodes == pytest.approx(slow["load"])
    assert ours["loss.owed"] == pytest.approx(slow["owed"])
    assert ours["loss.delivered"] == pytest.approx(slow["delivered"])
    assert ours["delay.hops.mean"] * slow["delivered"] == pytest.approx(slow["hops"])
    assert ours["delay.milliseconds.mean"] * slow["delivered"] * 1000 == pytest.approx(slow["us"])


def test_link_cost_is_the_cost_of_the_links_used() -> None:
    """A line 0 - 1 - 2 - 3 with costs 1, 2, 4; published at 1, wanted at 0 and 3."""
    workload = Workload(
        "line",
        Relation.from_rows([[0], [], [], [0]], 1),
        small_workload(4, 1, seed=0).publications.of([1], [0], [10.0]),
        np.arange(4, dtype=np.int32),
        4,
        graph=BrokerGraph.of(4, [0, 1, 2], [1, 2, 3], [1.0, 2.0, 4.0]),
    )
    edges = np.array([1, 2, 3], np.int32), np.array([0, 1, 2], np.int32)
    trees = Trees(
        Spread.FILTERED,
        Relation.from_rows([range(4)], 4),
        np.zeros(1, np.int32),
        np.array([0, 3], np.int64),
        *edges,
    )
    at_publisher = Entries.at_publisher(np.array([1], np.int32), np.array([0], np.int32))
    entries = Entries(
        at_publisher.publication,
        at_publisher.channel,
        at_publisher.after,
        at_publisher.indptr,
        at_publisher.hops,
        Relation.from_rows([[0, 3]], 4),
    )
    assert workload.graph is not None
    overlay = Overlay(workload.graph.neighbours)
    design = Design("line", Placement(workload.attachment, 4), Channels.one_per_topic(1), overlay, trees, entries, {})
    columns = price(design, workload).columns()
    assert columns["dissemination.link_cost"] == 10 * (1 + 2 + 4)
    assert (columns["dissemination.wanted"], columns["dissemination.relayed"]) == (20, 10)


BOUNDED = (
    *("dissemination.copies", "maintenance.upkeep", "volume.copies", "volume.upkeep", "volume.total", "overall"),
    *("delay.hops.mean", "state.links", "state.degree.mean", "load.messages.mean", "load.messages.max"),
    *("crossing.copies", "crossing.bytes"),
)


@pytest.mark.parametrize("name", SYSTEMS)
@given(seed=st.integers(0, 2**32))
def test_no_system_beats_the_bounds(name: str, seed: int) -> None:
    system = SYSTEMS[name]
    zones = np.random.default_rng(seed).integers(0, 3, 15).astype(np.int32)
    workload = replace(instance_for(system, 15, 5, seed), zone_of=zones)
    design = system.plan(workload, seed=seed)
    bound = lower_bounds(workload, design.placement.node_of, upkeep=design.upkeep).columns()
    ours = price(design, workload).columns()
    assert ours["loss.owed"] == pytest.approx(bound["loss.owed"])
    assert ours["dissemination.copies"] - ours["dissemination.inbound"] >= ours["dissemination.wanted"] - 1e-9
    below = {name: (ours[name], bound[name]) for name in BOUNDED if ours[name] < bound[name] * (1 - 1e-9)}
    assert below == {}


def test_bound_on_copies_counts_every_interested_node_but_the_publishers() -> None:
    workload = small_workload(nodes=6, topics=4, seed=11, subscribers=20)
    interests = workload.node_interests()
    publications = workload.publications
    expected = 0.0
    for publisher, topic, rate in zip(publications.publisher, publications.topic, publications.rate, strict=True):
        home = int(workload.attachment[publisher])
        expected += rate * sum(topic in interests.row(node) for node in range(6) if node != home)
    assert lower_bounds(workload).dissemination.wanted == pytest.approx(expected)


def test_free_placement_bound() -> None:
    workload = small_workload(nodes=6, topics=4, seed=11, subscribers=20)
    sizes = np.bincount(workload.interests.columns, minlength=4)
    expected = sum(rate * max(-(-int(size) // 3) - 1, 0) for rate, size in zip(workload.rates, sizes, strict=True))
    assert free_placement_copies(workload, capacity=3) == pytest.approx(expected)


def test_edges_in_the_wrong_order_are_refused() -> None:
    workload = small_workload(nodes=6, topics=4, seed=11, subscribers=20)
    design = SYSTEMS["scribe"].plan(workload, seed=1)
    trees = design.trees
    channel = int(np.argmax(trees.edge_counts))
    first, last = trees.indptr[channel], trees.indptr[channel + 1]
    parent = trees.parent.copy()
    parent[first] = trees.node[last - 1]
    with pytest.raises(
        ConfigError, match=rf"scribe, channel {channel}: expected edges from the root down, .* got 'node"
    ):
        price(replace(design, trees=replace(trees, parent=parent)), workload)
