"""The survey: all systems by one ledger, and nobody who leaves peers where they are beats the floor."""

from __future__ import annotations

import pytest

from coterie.lab.experiment import Row
from coterie.lab.judging import Verdict, judge
from coterie.lab.survey import LEDGER, SYSTEMS, floor_copies, run_named
from coterie.workloads import make_workload


def test_every_system_has_a_bill_and_peers_get_one_copy_each_at_least() -> None:
    values = run_named({"name": "spidercast", "workload": "rss", "nodes": 60}, 1)
    for system in SYSTEMS:
        assert values[f"{system}.copies"] >= values["floor.copies"] - 1e-9
        assert values[f"{system}.unwanted"] <= values[f"{system}.copies"]


def test_the_floor_is_one_copy_to_every_reader_but_one() -> None:
    workload = make_workload("rss", {"nodes": 40, "topics": 1, "subscriptions": 1}, 1)
    assert floor_copies(workload) == pytest.approx(39)


def test_a_system_that_loses_at_home_is_told() -> None:
    point = next(it for it in LEDGER.full if it["name"] == "tamara")
    five = {f"{name}.overall": 5.0 for name in SYSTEMS}
    home = next(claim for claim in LEDGER.claims if claim.id == "home/tamara")
    assert judge(home, [Row("survey/ledger", point, 1, five)]).verdict is Verdict.REPRODUCED
    assert judge(home, [Row("survey/ledger", point, 1, {**five, "magnet.overall": 4.0})]).verdict is Verdict.NOT
