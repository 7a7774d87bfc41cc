"""Planning and pricing as Spark tasks: the same numbers as without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.model import Ledger
from coterie.model.ledger import Distribution, Load, Loss, Volume
from coterie.model.store import load_design, save_workload
from coterie.pipeline.planning import (
    LATER,
    LEARN,
    OWN,
    PLACED,
    STAY,
    Candidate,
    Priced,
    Ways,
    both_ways,
    cheapest,
    design_file,
    price_all,
    price_one,
)
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
    found = price_all(spark, tmp_path, asked, tmp_path / "designs", Ways(seed=5))
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
        assert entry.learn_bound == lower_bounds(learn, design.placement.node_of, upkeep=design.upkeep)
        assert entry.later_bound == lower_bounds(later, adopted.placement.node_of, upkeep=design.upkeep)
        saved = load_design(design_file(tmp_path / "designs", entry.system))
        assert saved.overlay.links == design.overlay.links


def test_a_system_that_cannot_serve_is_told_apart_from_one_that_can(tmp_path, workloads):
    found = price_one(unfit(), tmp_path, tmp_path / "designs")
    assert found == Priced("unfit", problem="it is not made for a workload of this kind or size")
    assert not (tmp_path / "designs").exists()


def bill(system: str, copies: float, lost: float = 0.0) -> Priced:
    ledger = Ledger(volume=Volume(wanted=copies), loss=Loss(owed=10.0, delivered=10.0 - lost))
    return Priced(system, OWN, ledger, ledger, ledger, ledger)


def test_the_cheapest_is_calm_where_there_is_much_to_handle():
    def hot(system: str, copies: float, busiest: float, mean: float = 10_000.0) -> Priced:
        load = Load(messages=Distribution(mean=mean, max=busiest))
        return Priced(system, OWN, *[Ledger(volume=Volume(wanted=copies), load=load)] * 4)

    assert cheapest([hot("star", 3, 50_000.0), hot("mesh", 4, 12_000.0)]).system == "mesh"
    assert cheapest([hot("star", 3, 50_000.0), hot("mesh", 4, 30_000.0)]).system == "mesh"  # nothing is calm
    assert cheapest([hot("star", 3, 50_000.0), hot("homes", 2, 51_000.0)]).system == "homes"
    assert cheapest([hot("star", 3, 90.0, 10.0), hot("mesh", 4, 12.0, 10.0)]).system == "star"  # with ease


def test_the_cheapest_is_one_that_serves_everybody():
    assert cheapest(
        [bill("a", 5), bill("b", 3), bill("c", 1, lost=1), bill("d", 3), Priced("e", problem="no")]
    ) == bill("b", 3)
    assert cheapest([bill("a", 5), bill("b", 3, lost=1e-12)]) == bill("b", 3, lost=1e-12)  # rates are no whole numbers
    assert cheapest([Priced("e", problem="no"), bill("c", 1, lost=1)]) is None


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_in_a_fleet_every_system_is_planned_with_clients_where_they_are_and_placed(spark, tmp_path):
    fleet = small_workload(6, 8, seed=3, subscribers=60)
    for name in (LEARN, LATER):
        save_workload(fleet, tmp_path / name)
    asked = both_ways([candidate("mesh"), candidate("coterie")], is_fleet=True)
    found = price_all(spark, tmp_path, asked, tmp_path / "designs", Ways(candidate("coterie"), seed=2))
    assert [one.name for one in found] == ["mesh (stay)", "mesh (placed)", "coterie (stay)", "coterie (placed)"]
    stay, placed = found[0], found[1]
    assert stay.later.setup.moves == found[2].later.setup.moves == 0
    assert placed.later.setup.moves == found[3].later.setup.moves > 0
    assert placed.learn.volume.total < stay.learn.volume.total
    designs = [load_design(design_file(tmp_path / "designs", one.system, one.placement)) for one in found]
    assert designs[0].placement.node_of.tolist() == fleet.attachment.tolist()
    assert designs[1].placement.node_of.tolist() == designs[3].placement.node_of.tolist()


def test_peers_stay_where_they_are():
    assert [one.placement for one in both_ways([candidate("mesh")], is_fleet=False)] == [STAY]
    assert {one.placement for one in both_ways([candidate("mesh")], is_fleet=True)} == {STAY, PLACED}
