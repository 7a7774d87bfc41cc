"""The sixth system on small networks: what it guarantees beside each paper, and what its ideas are worth."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.lab.coterie import EXPERIMENTS, FLEET, MATRIX, MATRIX_EXPERIMENT, small
from coterie.lab.coterie_ablation import DAY_S, drawn_events, drawn_fleet, intervals, run_over_time, windows_of
from coterie.lab.coterie_runs import redundancy, run_row
from coterie.model import Relation

TINY = {"events": "drawn", "clients": 300, "topics": 60, "groups": 6, "days": 10, "lease_days": 2, "windows": 5,
        "brokers": 4}  # fmt: skip


def test_spidercasts_guarantees_with_fewer_links() -> None:
    found = run_row({"row": "spidercast", "workload": "zipf", "nodes": 150}, 1)
    assert found["metric_ratio"] < 1
    assert found["our_partitioned"] == found["our_bare"] == found["our_cut_vertices"] == 0


@pytest.mark.parametrize("name", ["content-stub", "placed-flat"])
def test_never_dearer_than_content_trees_on_a_given_network(name: str) -> None:
    assert run_row(small(MATRIX[name]), 1)["metric_ratio"] <= 1 + 1e-9


@pytest.mark.parametrize(("name", "most"), [("dynatops-zipf", 0.99), ("placed-flat", 0.2), ("placed-stub", 0.5)])
def test_clients_are_placed_and_no_broker_is_hotter_than_there(name: str, most: float) -> None:
    """On a given network groups that do not see it cost 0.25 and 0.94 of content trees' links."""
    found = run_row(small(MATRIX[name]), 1)
    assert found["metric_ratio"] < most
    assert found["our_hottest"] <= found["their_hottest"] + 1e-9


def test_no_peer_carries_what_it_does_not_want() -> None:
    found = run_row(small(MATRIX["magnet"]), 1)
    assert found["our_unwanted"] == 0 < found["their_unwanted"]
    assert found["our_clients_max"] == 1


def test_redundancy_counts_neighbours_with_the_same_wish() -> None:
    links = Relation.from_rows([[1, 2], [0], [0]], 3)
    interests = Relation.from_rows([[0, 1], [0], [0, 1]], 2)
    assert redundancy(links, interests) == {"redundancy": pytest.approx(6 / 5), "bare": pytest.approx(2 / 5)}


def test_a_wish_lasts_until_a_lease_after_the_last_event() -> None:
    pair, begin, end = intervals(np.array([7, 7, 7, 2]), np.array([0.0, 3.0, 20.0, 1.0]), 5.0)
    assert (pair.tolist(), begin.tolist(), end.tolist()) == ([2, 7, 7], [1.0, 0.0, 20.0], [6.0, 8.0, 25.0])


def test_windows_hold_all_events_and_every_wish_while_it_lasts() -> None:
    events = drawn_events(300, 60, 6, 10.0, 1)
    windows = windows_of(events, TINY, 1)
    counted = sum(one.demand.publications.rate.sum() * one.span_s for one in windows)
    assert counted == pytest.approx(len(events.who))
    for one in windows:
        stays = one.demand.stays
        assert stays is not None
        assert (stays.begin_s[np.isfinite(stays.begin_s)] >= 0).all()
        assert (stays.end_s[np.isfinite(stays.end_s)] <= one.span_s).all()
        wanted = set(zip(one.demand.interests.rows.tolist(), one.demand.interests.columns.tolist(), strict=True))
        said = zip(one.demand.publications.publisher.tolist(), one.demand.publications.topic.tolist(), strict=True)
        assert set(said) <= wanted
    assert windows[0].span_s == pytest.approx(2 * DAY_S, rel=0.01)


def test_prices_and_admission_are_worth_something() -> None:
    found = run_over_time(TINY, 1)
    assert found["prices_loss"] > 0
    assert found["whole_gross"] > found["moves_gross"]
    assert found["whole_hottest"] < 2


def test_a_fleet_of_sensors_stays_in_its_zones() -> None:
    fleet = drawn_fleet({**FLEET, "sensors": 200, "dashboards": 20, "brokers": 6}, 1)
    assert fleet.zone_of is not None
    zone = fleet.zone_of[fleet.attachment]
    assert (zone[:200] == np.arange(200) // 50 % 3).all()
    assert (zone[-5:] == 0).all()
    assert fleet.interests.lengths[:200].sum() == 0


def test_every_row_has_a_claim() -> None:
    ids = {claim.id for claim in MATRIX_EXPERIMENT.claims}
    assert {f"matrix/{name}" for name in MATRIX} <= ids
    assert all(experiment.paper == "coterie" for experiment in EXPERIMENTS)
