"""Dashboards that want everything: together where that saves copies and a node can take it, apart where it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coterie.accounting.bounds import lower_bounds
from coterie.model import Relation, Workload
from coterie.systems.coterie import CoterieParameters, placing
from tests.systems.test_choosing import TOPICS, fleet

DASHBOARDS = 5


def watched(brokers: int, rate: float) -> Workload:
    """A fleet and five who want everything, each at another broker."""
    workload = replace(fleet(brokers, rate, clients_each=40), stays=None)
    clients = workload.subscriber_count
    rows = np.concatenate([workload.interests.rows, np.repeat(np.arange(clients, clients + DASHBOARDS), TOPICS)])
    columns = np.concatenate([workload.interests.columns, np.tile(np.arange(TOPICS), DASHBOARDS)])
    interests = Relation.from_pairs(rows, columns, clients + DASHBOARDS, TOPICS)
    home = np.concatenate([workload.attachment, np.arange(DASHBOARDS) % brokers]).astype(np.int32)
    return replace(workload, interests=interests, attachment=home)


def copies(workload: Workload, node_of: np.ndarray) -> float:
    return lower_bounds(workload, node_of).dissemination.wanted


def packed_by_hand(workload: Workload) -> float:
    """The others placed as if there were no dashboards, these on the broker where they cost least."""
    plain = replace(fleet(workload.node_count, float(workload.publications.rate.sum()), clients_each=40), stays=None)
    placed = placing(plain, CoterieParameters(), 1).node_of
    return min(
        copies(workload, np.concatenate([placed, np.full(DASHBOARDS, broker)]).astype(np.int32))
        for broker in range(workload.node_count)
    )


def test_five_dashboards_cost_no_more_than_packed_on_one_broker() -> None:
    for brokers in (8, 16):
        workload = watched(brokers, 10.0)
        found = placing(workload, CoterieParameters(), 1)
        assert len(set(found.node_of[-DASHBOARDS:].tolist())) == 1
        assert copies(workload, found.node_of) <= packed_by_hand(workload) * 1.0001
        assert found.copies == copies(workload, found.node_of)
        assert copies(workload, found.node_of) < 0.8 * copies(workload, workload.attachment)
        others = np.bincount(found.node_of[:-DASHBOARDS], minlength=brokers)
        assert others.max() <= 1.11 * others.mean() + 1


def test_a_node_that_could_not_take_them_keeps_them_apart() -> None:
    workload = watched(16, 10_000.0)
    found = placing(workload, CoterieParameters(), 1)
    assert len(set(found.node_of[-DASHBOARDS:].tolist())) > 1
    assert found.hottest[1] <= 1.31 or found.heaviest


def test_in_zones_they_sit_together_in_each() -> None:
    workload = replace(watched(8, 10.0), zone_of=np.arange(8, dtype=np.int32) % 2)
    found = placing(workload, CoterieParameters(), 1)
    zone = workload.zone_of[found.node_of[-DASHBOARDS:]]
    assert zone.tolist() == workload.zone_of[workload.attachment[-DASHBOARDS:]].tolist()
    assert len(set(found.node_of[-DASHBOARDS:].tolist())) == 2
