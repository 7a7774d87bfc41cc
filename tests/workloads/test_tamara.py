"""Clusters, frequencies, arrivals and shift as Tamara states them."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.model import Change
from coterie.workloads.rates import FREQUENCY_BINS, per_interval
from coterie.workloads.tamara import Clustered, Tamara, arrivals, clustered, shift, uniform


@pytest.mark.parametrize(("reading", "mean"), [("tables", 26.7), ("text", 25.0)])
def test_both_readings_have_their_number_of_topics(reading: str, mean: float) -> None:
    workload = clustered(Clustered(reading=reading), 1)
    assert workload.interests.lengths.mean() == pytest.approx(mean, abs=0.3)


def test_favourites_stand_out() -> None:
    """Ten clusters of twelve: a fifth of the users has one favourite, the others two, each topic with 0.89."""
    workload = clustered(Clustered(), 1)
    wanted = np.zeros((3000, 120), bool)
    wanted[workload.interests.rows, workload.interests.columns] = True
    share = np.sort(wanted.reshape(3000, 10, 12).mean(axis=2), axis=1)
    assert workload.modes is not None
    assert wanted.reshape(3000, 10, 12)[np.arange(3000), workload.modes].mean() == pytest.approx(0.89, abs=0.01)
    assert (share[:, -2] > 0.5).mean() == pytest.approx(0.8, abs=0.03)
    assert share[:, -3].mean() < 0.25


def test_a_wanted_mean_sets_the_topics_elsewhere() -> None:
    assert clustered(Clustered(subscriptions=40), 1).interests.lengths.mean() == pytest.approx(40, abs=0.5)
    assert uniform(Tamara(subscriptions=25.5), 1).interests.lengths.mean() == pytest.approx(25.5, abs=0.05)


@pytest.mark.parametrize("model", sorted(FREQUENCY_BINS))
@pytest.mark.parametrize("spread", ["log-uniform", "uniform"])
def test_frequencies_fill_the_bins_of_table_1(model: str, spread: str) -> None:
    workload = clustered(Clustered(topics=1200, rates=model, frequency_spread=spread), 2)
    assert sum(percent for _, _, percent in FREQUENCY_BINS[model]) == 100
    rates = per_interval(workload)
    for low, high, percent in FREQUENCY_BINS[model]:
        inside = rates[(rates > low) & (rates <= high)]
        assert len(inside) == pytest.approx(12 * percent, abs=2)
        middle = np.sqrt(low * high) if spread == "log-uniform" else (low + high) / 2
        assert np.median(inside) == pytest.approx(middle, rel=0.25)


def test_the_printed_first_bin_is_one_value() -> None:
    rates = per_interval(clustered(Clustered(is_first_bin_printed=True), 2))
    assert (rates == 0.6).sum() == 18


def test_arrivals_fill_an_empty_system_in_one_interleaving() -> None:
    timeline = arrivals(Clustered(nodes=300), 3)
    goal = clustered(Clustered(nodes=300), 3)
    assert timeline.start.interests.pair_count == 0
    assert timeline.at(np.inf).interests == goal.interests
    assert (timeline.change == Change.SUBSCRIBE).all()
    assert np.corrcoef(np.arange(timeline.change_count), timeline.who)[0, 1] == pytest.approx(0, abs=0.05)
    assert timeline.at(timeline.start.node_count * 0.0).interests.pair_count == 0


def test_shift_replaces_interests_with_about_125000_operations() -> None:
    timeline = shift(Clustered(), 3)
    assert timeline.change_count == pytest.approx(125_000, rel=0.02)
    after = timeline.at(np.inf).interests
    assert after.lengths.mean() == pytest.approx(26.7, abs=0.3)
    assert shift(Clustered(operations_max=75_000), 3).change_count == 75_000
    to_uniform = shift(Clustered(shift_to="uniform"), 3).at(np.inf).interests
    counts = np.bincount(to_uniform.columns, minlength=120)
    assert counts.std() < 0.1 * counts.mean()


def test_uniform_users_can_shift_to_clusters() -> None:
    after = shift(Tamara(nodes=500), 3).at(np.inf).interests
    common = np.zeros((500, 120))
    common[after.rows, after.columns] = 1
    together = np.corrcoef(common.T)
    assert np.sort(together, axis=1)[:, -12:-1].mean() > 0.5
