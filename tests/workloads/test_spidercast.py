"""Popularity, list sizes and churn as SpiderCast states them."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.model import Change
from coterie.workloads.popularity import draw_interests, exponential, fixed_sizes, zipf
from coterie.workloads.rates import per_interval
from coterie.workloads.spidercast import Churn, Nyse, Popular, Uniform, Zipf, churn, popular


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_single_draws_follow_the_zipf_exponent(exponent: float) -> None:
    """Section 3.1: p_i proportional to i^-alpha."""
    drawn = draw_interests(np.random.default_rng(1), zipf(1000, exponent), fixed_sizes(400_000, 1))
    counts = np.bincount(drawn.columns, minlength=1000)[:30]
    slope = np.polyfit(np.log(np.arange(1, 31)), np.log(counts), 1, w=np.sqrt(counts))[0]
    assert slope == pytest.approx(-exponent, abs=0.03)


@pytest.mark.parametrize("topics", [20, 100, 1000])
def test_nyse_gives_the_top_tenth_55_percent(topics: int) -> None:
    weights = exponential(topics, 0.55)
    assert weights[: topics // 10].sum() / weights.sum() == pytest.approx(0.55, abs=1e-6)
    assert (np.diff(weights) < 0).all()
    one_each = popular(Nyse(nodes=50_000, topics=topics, subscriptions=1), 3).interests
    assert (one_each.columns < topics // 10).mean() == pytest.approx(0.55, abs=0.01)


def test_uniform_topics_are_equally_popular() -> None:
    counts = np.bincount(popular(Uniform(nodes=20_000, topics=50, subscriptions=10), 5).interests.columns, minlength=50)
    expected = 20_000 * 10 / 50
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_drawing_on_and_racing_for_the_rest_follow_one_law() -> None:
    """A skewed popularity forces the race, whose law is that of drawing one by one: compare with a slow version."""
    weights = zipf(8, 9.0)
    drawn = draw_interests(np.random.default_rng(2), weights, fixed_sizes(30_000, 3))
    share = np.bincount(drawn.columns, minlength=8) / 30_000
    slow = np.random.default_rng(3)
    counts = np.zeros(8)
    for _ in range(20_000):
        counts[slow.choice(8, 3, replace=False, p=weights / weights.sum())] += 1
    assert share == pytest.approx(counts / 20_000, abs=0.01)


def test_all_topics_can_be_taken() -> None:
    everything = popular(Zipf(nodes=50, topics=30, subscriptions=30, exponent=8.0), 1).interests
    assert (everything.columns.reshape(50, 30) == np.arange(30)).all()


def test_list_sizes_spread_evenly_over_the_interval() -> None:
    """Section 3.6: sizes uniform in [10 : 30]."""
    sizes = popular(Popular(nodes=21_000, subscriptions=10, subscriptions_max=30), 2).interests.lengths
    assert (sizes.min(), sizes.max()) == (10, 30)
    assert np.abs(np.bincount(sizes)[10:] - 1000).max() < 150


def test_subscribers_sit_at_brokers() -> None:
    workload = popular(Popular(nodes=10, subscribers=10_000), 2)
    assert not workload.is_peer_network
    assert np.bincount(workload.attachment, minlength=10).min() > 850
    assert popular(Popular(nodes=10), 2).is_peer_network


def test_rates_can_be_shared_by_publishers_in_whole_events() -> None:
    workload = popular(Uniform(nodes=500, topics=20, publishers=3, rate=7.0), 4)
    assert (per_interval(workload) == 7).all()
    assert np.rint(workload.publications.rate * 60).reshape(20, 3).tolist() == [[3, 2, 2]] * 20
    fractional = popular(Uniform(nodes=500, topics=20, publishers=4, rate=0.5), 4).publications
    assert (fractional.rate * 60 == 0.125).all()


def test_churn_keeps_four_fifths_connected() -> None:
    """Section 3.8: away a quarter as long as connected, so 1,000 of 1,250 nodes are there on average."""
    timeline = churn(Churn(nodes=1250, mean_life_s=100, crash_share=0.25), 9)
    node_changes = timeline.change >= Change.JOIN
    step = np.where(timeline.change[node_changes] == Change.JOIN, 1, -1)
    connected = 1250 + np.cumsum(step)[timeline.time_s[node_changes] > 0]
    assert connected.mean() == pytest.approx(1000, rel=0.02)
    departures = timeline.change[node_changes & (timeline.time_s > 0) & (timeline.change != Change.JOIN)]
    assert (departures == Change.CRASH).mean() == pytest.approx(0.25, abs=0.02)
    assert len(departures) == pytest.approx(1000 * 1000 / 100, rel=0.05)


def test_churn_renews_interests_before_the_join() -> None:
    timeline = churn(Churn(nodes=100), 9)
    assert (timeline.at(np.inf).interests.lengths == 10).all()
    same = churn(Churn(nodes=100, is_renewed=False), 9)
    assert (same.change >= Change.JOIN).all()
    first_join = int(np.argmax(timeline.change == Change.JOIN))
    assert timeline.change[first_join - 1] == Change.SUBSCRIBE
    assert timeline.who[first_join - 1] == timeline.who[first_join]
    assert timeline.time_s[first_join - 1] == timeline.time_s[first_join]
