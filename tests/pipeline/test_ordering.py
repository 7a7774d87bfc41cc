"""The order of a big ring by likeness: the same from all executors as from one machine."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.accounting.price import price
from coterie.kernels.rings.likeness import Likes, Sizes, likeness_order
from coterie.model import Relation
from coterie.model.store import load_design, save_workload
from coterie.pipeline import planning
from coterie.pipeline.ordering import order_network
from coterie.pipeline.planning import LATER, LEARN, Candidate, Ways, design_file, price_all
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.system import INTEREST_RING
from coterie.workloads import make_workload

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SMALL = Sizes(sample=60, block=80)  # several rounds and many blocks on a small instance


def scattered(nodes: int, topics: int, seed: int) -> Relation:
    """Sparse: some want nothing, many share nothing with a sample."""
    draw = np.random.default_rng(seed)
    return Relation.from_rows(
        [draw.choice(topics, draw.integers(0, 3), replace=False).tolist() for _ in range(nodes)], topics
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_spark_finds_the_order_of_one_machine(spark, tmp_path, seed):
    workload = make_workload("multimodal", {"nodes": 700, "topics": 90, "subscriptions": 8, "modes": 9}, seed)
    for interests in (workload.interests, scattered(700, 400, seed)):
        weights = np.random.default_rng(seed).random(interests.column_count)
        expected = likeness_order(Likes.of(interests.indptr, interests.columns, weights), seed, SMALL)
        found = order_network(spark, interests, weights, tmp_path / "scratch", seed, SMALL)
        assert found.tolist() == expected.tolist()
        assert sorted(found.tolist()) == list(range(700))
        assert not (tmp_path / "scratch").exists()


def test_the_planner_orders_big_rings_before_it_plans(spark, tmp_path, monkeypatch):
    """The design from an order made by Spark is the design that the system makes alone."""
    learn = make_workload("multimodal", {"nodes": 300, "topics": 60, "subscriptions": 6, "modes": 6}, 1)
    save_workload(learn, tmp_path / LEARN)
    save_workload(learn, tmp_path / LATER)
    orders = []

    def counted(*arguments):
        orders.append(order_network(*arguments))
        return orders[-1]

    monkeypatch.setattr(planning, "ORDERED_NODES_MIN", 300)
    monkeypatch.setattr(planning, "order_network", counted)
    found = price_all(
        spark, tmp_path, [Candidate(INTEREST_RING, MagnetParameters())], tmp_path / "designs", Ways(seed=3)
    )
    alone = INTEREST_RING.plan(learn, MagnetParameters(), 3)
    assert len(orders) == 1
    assert found[0].learn == price(alone, learn)
    saved = load_design(design_file(tmp_path / "designs", "interest-ring"))
    assert saved.overlay.positions is not None
    assert np.argsort(saved.overlay.positions).tolist() == orders[0].tolist()


def test_small_rings_are_left_to_the_system(spark, tmp_path, monkeypatch):
    learn = make_workload("multimodal", {"nodes": 50, "topics": 20, "subscriptions": 4, "modes": 4}, 1)
    save_workload(learn, tmp_path / LEARN)
    save_workload(learn, tmp_path / LATER)
    monkeypatch.setattr(planning, "order_network", lambda *arguments: pytest.fail("not worth a job"))
    found = price_all(
        spark, tmp_path, [Candidate(INTEREST_RING, MagnetParameters())], tmp_path / "designs", Ways(seed=3)
    )
    assert found[0].learn == price(INTEREST_RING.plan(learn, MagnetParameters(), 3), learn)
