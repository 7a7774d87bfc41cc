"""Coterie's columns: users of one taste together, topics in one piece, and not a single copy to nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting.price import price
from coterie.errors import ConfigError
from coterie.model import Publications, Relation, Workload
from coterie.model.graph import BrokerGraph
from coterie.systems import content
from coterie.systems.coterie import SYSTEM, CoterieParameters, interest_graph, links, place_together, placing
from coterie.systems.spidercast.greedy import greedy_merge
from coterie.systems.spidercast.measures import connectivity

NODES, MODES, PER_MODE = 8, 4, 10


def crowd(seed: int) -> Workload:
    """Users in modes of interest, scattered over the nodes; everybody publishes on what they want."""
    draw = np.random.default_rng(seed)
    count = NODES * PER_MODE
    rows = [
        sorted({*(user % MODES * 5 + draw.choice(5, 3, replace=False)), int(draw.integers(MODES * 5))})
        for user in range(count)
    ]
    publications = Publications.of(range(count), [row[0] for row in rows], [1.0] * count)
    home = draw.permutation(np.arange(count) % NODES).astype(np.int32)
    return Workload("crowd", Relation.from_rows(rows, MODES * 5), publications, home, NODES)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("placement", ["given", "hypergraph"])
def test_every_copy_is_wanted(seed: int, placement: str) -> None:
    workload = crowd(seed)
    design = SYSTEM.plan(workload, CoterieParameters(placement=placement, links="lean"), seed)
    bill = price(design, workload)
    assert bill.loss.lost == 0
    assert bill.dissemination.copies == bill.dissemination.wanted
    interests = workload.node_interests(design.placement.node_of)
    assert connectivity(design.overlay.undirected, interests).partitioned_count == 0


def test_placing_saves_copies_and_keeps_the_balance() -> None:
    workload = crowd(1)
    given, placed = (
        price(SYSTEM.plan(workload, CoterieParameters(placement=how, links="lean"), 1), workload)
        for how in ("given", "hypergraph")
    )
    assert placed.dissemination.copies < 0.7 * given.dissemination.copies
    parameters = CoterieParameters()
    found = placing(workload, parameters, 1)
    assert not found.heaviest
    assert found.hottest[0] <= 1 + parameters.imbalance
    assert found.hottest[1] <= 1 + parameters.message_imbalance
    assert placed.dissemination.copies == pytest.approx(found.copies)


def test_the_links_of_a_design_are_searched_once(monkeypatch) -> None:
    asked = []

    def counted(interests: Relation, seed: int) -> Relation:
        asked.append(seed)
        return greedy_merge(interests, seed)

    monkeypatch.setattr(links, "greedy_merge", counted)
    workload, parameters = crowd(1), CoterieParameters(placement="given", links="lean")
    design = SYSTEM.plan(workload, parameters, 1)
    assert asked == [1]
    graph = interest_graph(workload, design.placement, parameters, 1)
    assert design.overlay.undirected == graph.neighbours


def test_a_peer_is_its_node() -> None:
    workload = crowd(1)
    peers = replace(workload, attachment=np.arange(workload.subscriber_count, dtype=np.int32),
                    node_count=workload.subscriber_count)  # fmt: skip
    assert place_together(peers, CoterieParameters(), 1).node_of.tolist() == list(range(workload.subscriber_count))


def test_nodes_without_interest_are_linked_too() -> None:
    workload = Workload("few", Relation.from_rows([[0], [0], [], [1]], 2), Publications.of([0], [0], [1.0]),
                        np.arange(4, dtype=np.int32), 6)  # fmt: skip
    placement = place_together(workload, CoterieParameters(placement="given"), 0)
    graph = interest_graph(workload, placement, CoterieParameters(), 0)
    assert graph.link_count == 5
    assert price(SYSTEM.plan(workload, CoterieParameters(placement="given"), 0), workload).loss.lost == 0


def test_a_given_network_is_kept_and_so_is_content_trees_on_it() -> None:
    workload = crowd(2)
    ring = BrokerGraph.of(NODES, range(NODES), [(node + 1) % NODES for node in range(NODES)])
    given = Workload(workload.name, workload.interests, workload.publications, workload.attachment, NODES, graph=ring)
    ours = SYSTEM.plan(given, CoterieParameters(placement="given"), 2)
    theirs = content.SYSTEM.plan(given, None, 2)
    assert price(ours, given).columns() == price(theirs, given).columns()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("placement", "best"),
        ("imbalance", -0.1),
        ("message_imbalance", -1.0),
        ("coverage", -1),
        ("links", "ring"),
        ("across", 0.5),
        ("hops_p99", -1.0),
        ("links_max", -1),
        ("survive", "everything"),
        ("zone_ms", -1.0),
    ],
)
def test_parameters_are_checked(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        CoterieParameters(**{key: value})  # type: ignore[arg-type]


def test_topics_too_many_to_group_have_trees_of_their_own(monkeypatch) -> None:
    """Where only some were grouped, all others joined one of these, and passed through nodes that do not want them."""
    workload = crowd(1)
    parameters = CoterieParameters(placement="given", links="lean")
    grouped = price(SYSTEM.plan(workload, parameters, 1), workload)
    monkeypatch.setattr(content.stages, "WORK_MAX", 5 * NODES)
    design = SYSTEM.plan(workload, parameters, 1)
    apart = price(design, workload)
    assert design.channels.count == np.count_nonzero(workload.interests.transposed.lengths)
    assert apart.dissemination.relayed + apart.dissemination.filtered == 0.0
    assert apart.dissemination.copies == grouped.dissemination.copies
    monkeypatch.setattr(content.stages, "APART_MAX", 0)
    assert price(SYSTEM.plan(workload, parameters, 1), workload).dissemination.copies > apart.dissemination.copies
