"""The library as its first page shows it: a log, a plan, its bill, a comparison, a simulation; without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import coterie as ct
from coterie.errors import ConfigError
from tests.api.logs import CLIENTS, rows

BROKERS = 6


@pytest.fixture(scope="module")
def halves() -> tuple[ct.Log, ct.Log]:
    return ct.read_log(*rows(), brokers=BROKERS).split(0.5)


@pytest.fixture(scope="module")
def plan(halves: tuple[ct.Log, ct.Log]) -> ct.Plan:
    return ct.plan(*halves, system="coterie")


@pytest.fixture(scope="module")
def found(halves: tuple[ct.Log, ct.Log]) -> ct.Comparison:
    return ct.compare(*halves, systems=["mesh", "scribe", "coterie"])


def test_the_windows_share_ids_and_not_events(halves: tuple[ct.Log, ct.Log]) -> None:
    learn, later = (half.demand() for half in halves)
    assert learn.clients.equals(later.clients)
    assert learn.workload.node_count == later.workload.node_count == BROKERS
    events = [one.workload.publications.rate.sum() for one in (learn, later)]
    assert events[0] == pytest.approx(events[1], rel=0.05)
    assert "learn window" in repr(halves[0])


def test_a_plan_costs_less_than_what_runs_on_a_window_it_never_saw(
    plan: ct.Plan, halves: tuple[ct.Log, ct.Log]
) -> None:
    bill = plan.price(halves[1])
    assert bill.ledger.loss.lost == 0
    assert bill.bound is not None
    assert bill.bound.volume.copies <= bill.ledger.volume.copies * (1 + 1e-12)  # a mesh meets it, but for the dust
    assert bill.saved is not None
    assert bill.saved > 0.1
    assert bill == ct.price(plan, halves[1])
    assert plan.facts.later == bill.ledger
    assert bill.money.total > 0
    assert bill.rows()[0][0] == "copies between nodes a second"


def test_a_comparison_knows_the_best_and_makes_its_plan(found: ct.Comparison, halves: tuple[ct.Log, ct.Log]) -> None:
    assert found.best is not None
    assert found.saved is not None
    cheapest = next(iter(found.bills.values()))
    assert cheapest.system == found.best.name
    assert found.plan().price(halves[1]).ledger == found.best.later
    assert set(found.bills) == {
        f"{name} ({way})" for name in ("mesh", "scribe", "coterie") for way in ("stay", "placed")
    }
    assert found.document()["schema"] == 2
    with pytest.raises(ConfigError, match=r"one of coterie \(placed\), mesh \(placed\)"):
        found.plan("nonsense")
    assert any("Now: a full mesh" in line for line in found.sentences)
    assert found.outcome.rolled.later  # four pairs of windows


def test_what_runs_now_may_be_named_by_its_product(halves: tuple[ct.Log, ct.Log]) -> None:
    other = ct.compare(*halves, systems=["coterie"], against="mosquitto")
    assert other.outcome.against is not None
    assert other.outcome.against.system == "star"


def test_simulated_is_priced_and_a_storm_is_survived(plan: ct.Plan, halves: tuple[ct.Log, ct.Log]) -> None:
    calm = ct.simulate(plan, halves[1], seed=7)
    assert calm.priced is not None
    assert calm.ledger.dissemination.copies == pytest.approx(calm.priced.dissemination.copies)
    assert not calm.missing
    storm = ct.simulate(plan, halves[1], faults="storm", seed=7)
    assert storm.probes > 0
    assert sum(storm.reasons.values()) == len(storm.missing)
    assert repr(storm) == repr(ct.simulate(plan, halves[1], faults="storm", seed=7))
    with pytest.raises(ConfigError, match="faults: expected 'storm'"):
        ct.simulate(plan, halves[1], faults="rain")


def test_spark_is_not_even_imported() -> None:
    code = """
import sys, coterie as ct
from tests.api.logs import rows
learn, later = ct.read_log(*rows(), brokers=4).split()
ct.compare(learn, later, systems=["mesh"]).plan().price(later)
ct.simulate(ct.plan(learn, system="mesh"), later)
assert "pyspark" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_generated_workloads_are_logs_too() -> None:
    log = ct.workload_log("multimodal", {"nodes": 40, "topics": 40, "subscriptions": 3}, seed=1)
    bill = ct.price("scribe", log)
    assert bill.against == "mesh"
    assert ct.price("mesh", log).saved == 0
    assert {"scribe", "coterie"} <= set(ct.list_systems())
    assert "multimodal" in ct.list_workloads()


def test_everything_shows_itself(
    plan: ct.Plan, found: ct.Comparison, halves: tuple[ct.Log, ct.Log], tmp_path: Path
) -> None:
    bill = plan.price(halves[1])
    run = ct.simulate(plan, halves[1], seed=1)
    diff = ct.plan(halves[0], system="mesh").diff(plan)
    for one in (plan, found, halves[0], bill, run, diff, ct.list_systems(), ct.list_systems()["scribe"]):
        assert one._repr_html_().startswith("<")
    for one in (plan, found, halves[0], bill, run, diff):
        assert repr(one).startswith(f"<{type(one).__name__}")
        assert len(repr(one)) < 400
    assert list(found.to_pandas().index) == list(found.bills)
    assert len(bill.to_pandas()) == len(bill.rows())


def test_plots_are_drawn_when_asked_for(plan: ct.Plan, found: ct.Comparison, halves: tuple[ct.Log, ct.Log]) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = found.plot()
    assert axes.get_yticklabels()[0].get_text() == "mesh (stay) (now)"
    assert plan.price(halves[1]).plot(plt.figure().gca()).get_xlabel() == "GB a month between nodes"
    plt.close("all")


def test_wishes_that_make_no_sense_are_told(halves: tuple[ct.Log, ct.Log]) -> None:
    learn, later = halves
    with pytest.raises(ConfigError, match="split already"):
        learn.split()
    with pytest.raises(ConfigError, match="between 0 and 1"):
        ct.read_log(*rows()).split(1.0)
    with pytest.raises(ConfigError, match="the other half of the same log"):
        ct.compare(later, learn)
    with pytest.raises(ConfigError, match="one of flooding"):
        ct.plan(learn, system="gossip")
    named = ct.read_log(*rows(), nodes=[{"node": "a"}, {"node": "b"}])
    with pytest.raises(ConfigError, match="2, because the log names its nodes"):
        ct.plan(named, brokers=5)
    assert ct.plan(named, system="mesh").nodes == ["a", "b"]
    assert len(ct.plan(named, system="mesh").clients) == CLIENTS
    with pytest.raises(ConfigError, match=r"a log; ct\.read_log"):
        ct.plan(named).price([1, 2])


def test_one_system_is_named_without_a_list(halves: tuple[ct.Log, ct.Log], found: ct.Comparison) -> None:
    one = ct.compare(*halves, systems="mesh")
    assert {entry.system for entry in one.outcome.priced} == {"mesh"} < {entry.system for entry in found.outcome.priced}


def test_what_is_no_log_is_told_by_all_who_take_one() -> None:
    for take in (ct.plan, ct.compare, ct.backtest):
        with pytest.raises(ConfigError, match=r"log: expected a log; ct.read_log"):
            take("subs.csv")  # type: ignore[operator]
    for use in (ct.price, ct.simulate):
        with pytest.raises(ConfigError, match=r"log: expected a log; ct.read_log"):
            use("mesh", 3)  # type: ignore[operator]
