"""What the report says about links, moves and channels, against plain counting."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from coterie.model import Publications, Relation, Workload
from coterie.pipeline import plan_report
from coterie.systems import SYSTEMS


def small(node_count: int = 12) -> Workload:
    draw = np.random.default_rng(3)
    interests = Relation.from_rows([sorted(draw.choice(6, 3, replace=False).tolist()) for _ in range(40)], 6)
    publications = Publications.of(np.arange(6), np.arange(6), np.arange(1, 7) / 2)
    return Workload("small", interests, publications, np.arange(40, dtype=np.int32) % node_count, node_count)


def named(ends, values) -> dict[tuple[int, int], float]:
    return {tuple(pair): value for pair, value in zip(ends.tolist(), values.tolist(), strict=True)}


def test_tree_links_carry_the_events_of_their_channels():
    workload = small()
    design = SYSTEMS["scribe"].plan(workload)
    channels: Counter[tuple[int, int]] = Counter()
    events: Counter[tuple[int, int]] = Counter()
    for topic in range(6):
        for at in range(design.trees.indptr[topic], design.trees.indptr[topic + 1]):
            pair = tuple(sorted((int(design.trees.node[at]), int(design.trees.parent[at]))))
            channels[pair] += 1
            events[pair] += workload.rates[topic]
    ends, counted, carried = plan_report._tree_links(design, workload)
    assert named(ends, counted) == channels
    assert named(ends, carried) == pytest.approx(events)


def test_flooded_links_carry_what_both_ends_want(monkeypatch):
    workload = small()
    design = SYSTEMS["spidercast"].plan(workload)
    wanted = [set(workload.node_interests().row(node).tolist()) for node in range(12)]
    found = plan_report._flooded_links(design, workload)
    assert found is not None
    ends, channels, events = found
    assert len(ends) == design.overlay.link_count
    for (one, other), count, carried in zip(ends.tolist(), channels, events, strict=True):
        both = wanted[one] & wanted[other]
        assert count == len(both)
        assert carried == pytest.approx(sum(workload.rates[topic] for topic in both))
    monkeypatch.setattr(plan_report, "LINK_PAIRS_MAX", 1)
    assert plan_report._flooded_links(design, workload) is None


def test_moves_name_the_nodes_that_gain_subscribers():
    workload = small(4)
    design = SYSTEMS["dynatops"].plan(workload)
    names = plan_report.Names(pa.array(["a", "b", "c", "d"]))
    table = plan_report._moves(design, workload, names)
    arrived = Counter(
        "abcd"[now] for was, now in zip(workload.attachment, design.placement.node_of, strict=True) if was != now
    )
    assert arrived
    assert table is not None
    assert {row.cells[0]: int(row.cells[1]) for row in table.rows} == arrived
    assert plan_report._moves(SYSTEMS["scribe"].plan(workload), workload, names) is None


def test_nodes_without_names_are_numbered():
    people = pa.chunked_array([["ann", "bob"]])
    assert plan_report.Names(people).node(1) == "bob"
    assert plan_report.Names(people).node(7) == "node 7"
    assert plan_report.Names(None).node(1) == "node 1"
