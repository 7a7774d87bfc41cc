"""The numbers Tamara's text works out, and the formulas behind them, one test per sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.kernels.clusters import benefit
from coterie.kernels.clusters.tamara import sample_size
from coterie.lab.experiment import Point, Row
from coterie.lab.judging import judge
from coterie.lab.tamara import EXPERIMENTS, TABLE2
from coterie.lab.tamara_readings import SHIFTED
from coterie.systems.tamara.costs import (
    SIMPLE,
    add_threshold,
    merge_threshold,
    scribe_average,
    scribe_worst,
    toss_probability,
)

COSTS = SIMPLE.tables(20_000, 300)


def test_a_topic_pays_from_911_of_10000_members_on() -> None:
    """Section 3.1: "as soon as the number of interested users passes 910, the update is profitable"."""
    assert add_threshold(0.1, 10_000) == pytest.approx(910.0909, abs=1e-4)
    assert benefit.shared_needed(COSTS, 0.1, 5_000, 10_000, 12) == 911
    assert benefit.add_benefit(COSTS, 0.1, 5_000, 911, 10_000, 12) < 0
    assert benefit.add_benefit(COSTS, 0.1, 5_000, 910, 10_000, 12) > 0


def test_the_coin_wins_five_times_in_a_thousand() -> None:
    """Section 3.1: phi = 0.99 and 911 users need omega > 0.005."""
    assert toss_probability(0.99, 911) == pytest.approx(0.00504, abs=5e-6)


def test_clusters_merge_from_80_common_subscribers_on() -> None:
    """Section 3.2: 80 common topics, 20 own ones each, 200 own subscribers each: more than 79.11 (at rate 0.1)."""
    assert merge_threshold(0.1, 20, 20, 200, 200, 80) == pytest.approx(79.11, abs=0.005)


def test_with_seven_common_topics_it_takes_467() -> None:
    """Section 3.2: "the merge would become profitable only if ... > 466"."""
    assert merge_threshold(0.1, 20, 20, 200, 200, 7) == pytest.approx(466.06, abs=0.005)


@given(
    rate=st.floats(0.001, 3),
    own=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    others=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    shared=st.integers(1, 600),
    common=st.integers(1, 100),
)
def test_the_merge_formula_is_the_difference_of_overall_costs(
    rate: float, own: tuple[int, int], others: tuple[int, int], shared: int, common: int
) -> None:
    """Section 3.2: beneficial exactly when the common subscribers pass the threshold."""
    change = benefit.merge_benefit(
        COSTS,
        others[0] + shared,
        others[1] + shared,
        shared,
        own[0] + common,
        own[1] + common,
        common,
        rate * (own[0] + common),
        rate * (own[1] + common),
        rate * common,
    )
    printed = rate * (own[0] * others[1] + own[1] * others[0] - common * (shared + 1)) - shared - common
    assert change == pytest.approx(printed, rel=1e-9, abs=1e-6)
    if abs(printed) > 1e-6:
        assert (change < 0) == (shared > merge_threshold(rate, *own, *others, common))


@given(rate=st.floats(0.001, 3), size=st.integers(1, 10_000), shared=st.integers(0, 10_000), topics=st.integers(1, 99))
def test_the_add_formula_is_the_difference_of_overall_costs(rate: float, size: int, shared: int, topics: int) -> None:
    """Section 3.1: freq(t)(|S_c| + 1 - |s|) + 1 - |s|; removing is the same with the sign changed."""
    change = benefit.add_benefit(COSTS, rate, 10_000, shared, size, topics)
    assert change == pytest.approx(rate * (size + 1 - shared) + 1 - shared, rel=1e-9, abs=1e-6)
    assert benefit.remove_benefit(COSTS, rate, 10_000 - shared, shared, size, topics + 1) == pytest.approx(-change)


@given(
    n1=st.integers(1, 200), n2=st.integers(1, 200), shared=st.integers(0, 200), f1=st.floats(0, 2), f2=st.floats(0, 2)
)
def test_two_topics_form_a_cluster_by_the_full_cost(n1: int, n2: int, shared: int, f1: float, f2: float) -> None:
    """Section 3.1, last remark, worked out: all direct subscribers of both move."""
    shared = min(shared, n1, n2)
    union = n1 + n2 - shared
    before = n1 + n2 + f1 * (1 + n1) + f2 * (1 + n2)
    after = union + 2 + (f1 + f2) * (1 + 1 + union)
    assert benefit.pair_benefit(COSTS, f1, f2, n1, n2, shared) == pytest.approx(after - before, abs=1e-9)


def test_samples_are_cochrans() -> None:
    """Reference [1]: 384 for large populations, fewer for small ones, everybody if asked for."""
    assert sample_size(384, 10**9) == 384
    assert sample_size(384, 3000) == 341
    assert sample_size(384, 10) == 10
    assert sample_size(0, 1234) == 1234


@pytest.mark.parametrize("functions", [SIMPLE, scribe_average(3000), scribe_worst(3000)])
def test_cost_functions_never_fall(functions: object) -> None:
    tables = functions.tables(3000, 120)  # type: ignore[attr-defined]
    for table in (tables.maintain, tables.disseminate, tables.associate):
        assert np.all(np.diff(table) >= 0)
        assert np.all(table >= np.arange(len(table)))


def smaller(point: Point, users: int) -> Point:
    return {**point, "users": min(int(point["users"]), users)} if "users" in point else point


def test_quick_experiments_judge_every_claim_they_can() -> None:
    """Every run is plain numbers by name; the worked numbers come out, and so do the shapes seen on small instances."""
    verdicts: dict[str, str] = {}
    for experiment in (one for one in EXPERIMENTS if one is not SHIFTED):
        users = 1000 if experiment is TABLE2 else 500
        points = {str(smaller(experiment.small(it), users)): it for it in experiment.points(is_full=False)}
        rows = [
            Row(experiment.id, it, 0, experiment.run(smaller(experiment.small(it), users), 0)) for it in points.values()
        ]
        assert all(np.isfinite(list(row.values.values())).all() for row in rows)
        verdicts |= {claim.id: str(judge(claim, rows).verdict) for claim in experiment.claims}
    for name in ("worked/add", "worked/omega", "worked/merge-80", "worked/merge-7", "safe/exact", "optimum/planner"):
        assert verdicts[name] == "reproduced"
    for name in (
        "table2/tamara-infrequent",
        "readings/scribe-frequent",
        "fig5/cheaper-average",
        "fig6/one-day",
        "fig7a/cheaper",
        "fig8/bump-average",
    ):
        assert verdicts[name] == "reproduced"
    assert verdicts["planner/shift-average"] == "reproduced"
