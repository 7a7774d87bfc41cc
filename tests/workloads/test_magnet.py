"""Modes, neighbourhoods, hierarchy and rates as Magnet states them."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.workloads.magnet import Hierarchical, MultiModal, Spatial, Uncorrelated, hierarchical, multimodal, spatial
from coterie.workloads.rates import per_interval


def test_every_peer_stays_inside_its_modes() -> None:
    """Section 4.2: b_p of b_n categories, all alike in popularity."""
    workload = multimodal(MultiModal(nodes=4000, modes=25, modes_per_peer=5), 1)
    mode = workload.interests.columns.reshape(4000, 50) // 40
    distinct = 1 + (np.diff(np.sort(mode, axis=1), axis=1) > 0).sum(axis=1)
    assert distinct.max() == 5
    assert distinct.mean() > 4.9
    assert workload.modes is not None
    assert (mode == workload.modes[:, None]).any(axis=1).mean() > 0.99
    per_mode = np.bincount(workload.modes, minlength=25)
    assert np.abs(per_mode - 160).max() < 70


def test_one_mode_per_peer_is_one_block_of_topics() -> None:
    workload = multimodal(MultiModal(nodes=1000, topics=103, modes=10, subscriptions=10), 1)
    bounds = np.arange(11) * 103 // 10
    mode = np.searchsorted(bounds, workload.interests.columns, side="right") - 1
    assert workload.modes is not None
    assert (mode.reshape(1000, 10) == workload.modes[:, None]).all()


def test_popularity_inside_a_mode_is_a_power_law() -> None:
    workload = multimodal(MultiModal(nodes=100_000, topics=1000, modes=10, subscriptions=1, exponent=1.0), 1)
    counts = np.bincount(workload.interests.columns % 100, minlength=100)[:20]
    assert np.polyfit(np.log(np.arange(1, 21)), np.log(counts), 1)[0] == pytest.approx(-1, abs=0.05)


def test_ratio_of_modes_keeps_topic_frequencies() -> None:
    """Section 4.2: with b_p / b_n fixed the topics stay equally popular, only correlation falls."""
    frequency = [
        np.sort(
            np.bincount(
                multimodal(MultiModal(nodes=3000, modes=n, modes_per_peer=p, exponent=0.0), 2).interests.columns
            )
        )
        for p, n in ((1, 10), (2, 20), (5, 50))
    ]
    for counts in frequency:
        assert counts.mean() == 150
        assert counts.std() < 40


def test_average_sizes_vary_but_keep_the_mean() -> None:
    sizes = multimodal(MultiModal(nodes=5000, sizes="average", subscriptions=20), 3).interests.lengths
    assert sizes.mean() == pytest.approx(20, abs=0.1)
    assert sizes.std() == pytest.approx(np.sqrt(20), rel=0.05)


def test_uncorrelated_has_one_mode() -> None:
    workload = multimodal(Uncorrelated(nodes=2000, topics=100, subscriptions=5), 1)
    assert (np.bincount(workload.interests.columns, minlength=100) > 0).all()


def test_power_law_rates_favour_the_most_popular_topic() -> None:
    """Section 4.2: rates with alpha 0.75, the highest to the most popular topic."""
    workload = multimodal(MultiModal(nodes=2000, topics=200, subscriptions=10, rates="power-law"), 1)
    popularity = np.bincount(workload.interests.columns, minlength=200)
    order = np.argsort(-popularity, kind="stable")
    rates = per_interval(workload)[order]
    assert (np.diff(rates) <= 0).all()
    assert rates.mean() == pytest.approx(1.0)
    assert np.polyfit(np.log(np.arange(1, 201)), np.log(rates), 1)[0] == pytest.approx(-0.75, abs=1e-6)
    whole = multimodal(
        MultiModal(nodes=2000, topics=200, subscriptions=10, rates="power-law", rate=3, whole_rates=True), 1
    )
    assert (per_interval(whole) == np.floor(per_interval(whole))).all()
    assert per_interval(whole).min() == 1


@pytest.mark.parametrize("mean", [8, 16, 32])
def test_spatial_neighbourhoods_are_discs_of_the_stated_mean_size(mean: int) -> None:
    """Section 4.3: everybody within r of one's own place."""
    workload = spatial(Spatial(nodes=1500, subscriptions=mean), 4)
    assert workload.interests.lengths.mean() == pytest.approx(mean, abs=0.01)
    points = workload.coordinates
    assert points is not None
    apart = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    is_wanted = np.zeros((1500, 1500), bool)
    is_wanted[workload.interests.rows, workload.interests.columns] = True
    assert apart[is_wanted].max() <= apart[~is_wanted].min()
    assert (workload.publications.publisher == workload.publications.topic).all()


def test_hierarchical_popularity_is_the_papers_power_law() -> None:
    """Figure 7: the CCDF of popularity falls with 1.68."""
    workload = hierarchical(Hierarchical(), 7)
    assert workload.interests.lengths.mean() == 16
    popularity = np.bincount(workload.interests.columns, minlength=2**14)
    assert popularity.min() >= 1
    sizes = np.arange(10, 301)
    ccdf = (popularity[:, None] >= sizes[::10]).mean(axis=0)
    slope = np.polyfit(np.log(sizes[::10]), np.log(ccdf), 1)[0]
    assert slope == pytest.approx(-1.68, abs=0.15)


def test_homophily_keeps_interests_close_in_the_tree() -> None:
    """Section 4.4: a larger lambda means shorter tree distances between the topics of a peer."""

    def median_distance(homophily: float) -> float:
        settings = Hierarchical(nodes=1000, topics=1024, subscriptions=8, homophily=homophily)
        rows = hierarchical(settings, 5).interests
        steps = np.bitwise_xor(rows.columns[1:], rows.columns[:-1])[np.diff(rows.rows) == 0]
        return float(np.mean(np.floor(np.log2(steps)) + 1))

    assert median_distance(3.0) < median_distance(1.0) < median_distance(0.0)


def test_topics_need_not_be_a_power_of_two() -> None:
    workload = hierarchical(Hierarchical(nodes=300, topics=77, subscriptions=6), 1)
    assert workload.interests.pair_count == 1800
    assert workload.interests.check("hierarchical").columns.max() == 76
