"""The judge with planted results: right, nearly right, wrong, missing, spread too wide."""

from __future__ import annotations

import math

import pytest

from coterie.errors import RunError
from coterie.lab.experiment import OURS, Claim, Kind, Row, Sense, per_seed, yes
from coterie.lab.judging import Verdict, confidence, judge


def rows(*values: float) -> list[Row]:
    return [Row("paper/fig", {}, seed, {"y": value}) for seed, value in enumerate(values)]


def claim(sense: Sense = Sense.ABOUT, expected: float = 10.0, tolerance: float = 1.0, where: str = "Figure 1") -> Claim:
    return Claim("fig/one", where, "", expected, tolerance, lambda found: per_seed(found, "y"), "%", sense=sense)


@pytest.mark.parametrize(
    ("sense", "measured", "verdict"),
    [
        (Sense.ABOUT, (10.2, 9.9, 10.1), Verdict.REPRODUCED),
        (Sense.ABOUT, (11.0, 11.0, 11.0), Verdict.REPRODUCED),  # the tolerance itself
        (Sense.ABOUT, (11.1, 11.1, 11.1), Verdict.PARTLY),
        (Sense.ABOUT, (8.0, 8.0, 8.0), Verdict.PARTLY),  # twice the tolerance
        (Sense.ABOUT, (7.9, 7.9, 7.9), Verdict.NOT),
        (Sense.ABOUT, (10.5,), Verdict.REPRODUCED),  # one seed has no interval
        (Sense.ABOUT, (5.0, 10.0, 15.0), Verdict.UNDECIDED),  # the mean is perfect, and says nothing
        (Sense.ABOUT, (20.0, 30.0, 40.0), Verdict.UNDECIDED),  # 30 +- 25: it may be 10
        (Sense.ABOUT, (28.0, 30.0, 32.0), Verdict.NOT),  # 30 +- 5: wide, and clearly elsewhere
        (Sense.AT_LEAST, (50.0, 51.0, 49.0), Verdict.REPRODUCED),  # better than claimed is no failure
        (Sense.AT_LEAST, (9.9, 9.9, 9.9), Verdict.PARTLY),  # a limit is a limit
        (Sense.AT_LEAST, (8.9, 8.9, 8.9), Verdict.NOT),
        (Sense.AT_LEAST, (20.0, 5.0, 8.0), Verdict.UNDECIDED),
        (Sense.AT_LEAST, (40.0, 50.0, 60.0), Verdict.REPRODUCED),  # 50 +- 25: wide, and clearly above
        (Sense.AT_MOST, (0.0, 0.1, 0.0), Verdict.REPRODUCED),
        (Sense.AT_MOST, (10.5, 10.5, 10.5), Verdict.PARTLY),
        (Sense.AT_MOST, (11.5, 11.5, 11.5), Verdict.NOT),
        (Sense.ABOUT, (), Verdict.MISSING),
        (Sense.ABOUT, (10.0, math.nan, 10.0), Verdict.MISSING),
        (Sense.AT_LEAST, (math.inf,), Verdict.MISSING),
    ],
)
def test_planted_results_get_the_verdict_they_deserve(sense, measured, verdict):
    assert judge(claim(sense), rows(*measured)).verdict is verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        ((1.0, 1.0, 1.0), Verdict.REPRODUCED),
        ((1.0, 1.0, 0.0), Verdict.PARTLY),
        ((1.0, 0.0), Verdict.NOT),
        ((0.0,), Verdict.NOT),
        ((1.0, 0.5, 0.5), Verdict.NOT),  # half a sentence is not a seed
        ((), Verdict.MISSING),
    ],
)
def test_yes_or_no_holds_for_every_seed_or_it_is_not_reproduced(measured, verdict):
    found = judge(yes("fig/shape", "Figure 1", "", lambda given: per_seed(given, "y")), rows(*measured))
    assert found.verdict is verdict
    assert found.paper == "yes"
    assert found.ours == (f"{measured.count(1.0)} of {len(measured)} seeds" if measured else "")


def test_an_exact_claim_that_fails_for_one_seed_has_failed():
    assert judge(claim(expected=0.0, tolerance=0.0), rows(0.0, 0.0, 1.0)).verdict is Verdict.NOT
    assert judge(claim(expected=0.0, tolerance=0.0), rows(0.0, 0.0, 0.0)).verdict is Verdict.REPRODUCED


def test_the_interval_is_students():
    """Three values around 10 with standard deviation 1: 4.303 / sqrt(3)."""
    assert confidence([9.0, 10.0, 11.0]) == pytest.approx(4.303 / math.sqrt(3))
    assert confidence([0.0, 2.0] * 50) == pytest.approx(1.96 * 1.005 / 10, rel=1e-3)


def test_what_a_table_shows():
    found = judge(claim(), rows(9.0, 10.0, 11.0))
    assert (found.paper, found.ours) == ("10 ± 1 %", "10 ± 2.5")
    assert judge(claim(), rows(9.0)).ours == "9, one seed"
    assert judge(claim(), rows(9.0, 9.0, 9.0)).ours == "9, alike in 3 seeds"
    assert judge(claim(Sense.AT_LEAST), rows(9.0)).paper == "at least 10 %"


def test_whose_claim_it_is():
    assert claim().kind is Kind.PAPER
    assert claim(where=OURS).kind is Kind.OURS
    assert yes("fig/b", "Figure 1", "", lambda found: [], reads="fig/a").kind is Kind.READING


def test_a_measure_that_breaks_is_named_with_its_file():
    def measure(found):
        return [row.values["z"] for row in found]

    broken = Claim("fig/two", "Figure 1", "", 1.0, 0.1, measure)
    with pytest.raises(
        RunError, match=r"claim fig/two: its measure ended with KeyError: 'z' \(.*test_judging\.py, line"
    ):
        judge(broken, rows(1.0))
