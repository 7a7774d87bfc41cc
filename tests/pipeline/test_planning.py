"""Planning and pricing as Spark tasks: the same numbers as without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.model import Ledger
from coterie.model.ledger import Dissemination, Loss
from coterie.model.store import load_design, save_workload
from coterie.pipeline.planning import LATER, LEARN, Candidate, Priced, cheapest, design_file, price_all, price_one
from coterie.systems import SYSTEMS
from coterie.systems.scribe import ScribeParameters
from tests.conftest import small_workload


def candidate(name: str) -> Candidate:
    return Candidate(SYSTEMS[name], SYSTEMS[name].parameters())


def unfit() -> Candidate:
    return Candidate(replace(SYSTEMS["scribe"], name="unfit", fits=lambda workload: False), ScribeParameters())


@pytest.fixture
def workloads(tmp_path):
    learn, later = small_workload(20, 8, seed=1), small_workload(20, 8, seed=2)
    save_workload(learn, tmp_path / LEARN)
    save_workload(later, tmp_path / LATER)
    return learn, later


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_priced_in_tasks_equals_priced_here(spark, tmp_path, workloads):
    learn, later = workloads
    asked = [candidate("scribe"), unfit(), candidate("flooding"), candidate("dynatops")]
    found = price_all(spark, tmp_path, asked, tmp_path / "designs", seed=5)
    assert [entry.system for entry in found] == ["scribe", "unfit", "flooding", "dynatops"]
    assert found[1].problem
    for entry in found:
        if entry.problem:
            continue
        system = SYSTEMS[entry.system]
        design = system.plan(learn, seed=5)
        adopted = system.adopt(design, later, seed=5)
        assert entry.learn == price(design, learn)
        assert entry.later == price(adopted, later)
        assert entry.learn_bound == lower_bounds(learn, design.placement.node_of)
        assert entry.later_bound == lower_bounds(later, adopted.placement.node_of)
        saved = load_design(design_file(tmp_path / "designs", entry.system))
        assert saved.overlay.links == design.overlay.links


def test_a_system_that_cannot_serve_is_told_apart_from_one_that_can(tmp_path, workloads):
    found = price_one(unfit(), tmp_path, tmp_path / "designs", seed=1)
    assert found == Priced("unfit", problem="it is not made for a workload of this kind or size")
    assert not (tmp_path / "designs").exists()


def bill(system: str, copies: float, lost: float = 0.0) -> Priced:
    ledger = Ledger(dissemination=Dissemination(wanted=copies), loss=Loss(owed=10.0, delivered=10.0 - lost))
    return Priced(system, ledger, ledger, ledger, ledger)


def test_the_cheapest_is_one_that_serves_everybody():
    assert cheapest(
        [bill("a", 5), bill("b", 3), bill("c", 1, lost=1), bill("d", 3), Priced("e", problem="no")]
    ) == bill("b", 3)
    assert cheapest([bill("a", 5), bill("b", 3, lost=1e-12)]) == bill("b", 3, lost=1e-12)  # rates are no whole numbers
    assert cheapest([Priced("e", problem="no"), bill("c", 1, lost=1)]) is None
