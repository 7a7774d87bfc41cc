"""Policies through the windows of a small fleet with interest groups: limits, sums, and never worse than nothing."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from coterie.accounting.overtime import LogWindow
from coterie.errors import ConfigError
from coterie.model import Publications, Relation, Workload
from coterie.model.prices import EXAMPLE
from coterie.model.workload import Stays
from coterie.pipeline.backtest import BacktestChoices, Trial, try_all, with_traffic
from coterie.pipeline.backtest_report import sentences
from coterie.substrate.attaching import COTERIE, HASH, REGIMES, Terms, Wish, first_sight, look

CLIENTS, TOPICS, BROKERS, WINDOWS = 120, 24, 6, 8


@cache
def fleet(seed: int = 1, groups: int = 6) -> tuple[LogWindow, ...]:
    """Clients come in all windows and want some topics of their group; a few wishes end."""
    draw = np.random.default_rng(seed)
    comes = draw.integers(0, WINDOWS - 1, CLIENTS)
    wants = draw.random((CLIENTS, TOPICS)) < 0.5
    wants &= (np.arange(TOPICS) % groups) == (np.arange(CLIENTS) % groups)[:, None]
    ends = draw.integers(3, 60, (CLIENTS, TOPICS))
    at = draw.integers(0, BROKERS, CLIENTS).astype(np.int32)
    found = []
    for number in range(WINDOWS):
        alive = wants & (comes <= number)[:, None] & (ends >= number)
        client, topic = np.nonzero(alive)
        is_new, is_last = comes[client] == number, ends[client, topic] == number
        short = is_new | is_last
        begin = np.where(is_new, draw.integers(1, 500, len(client)), -np.inf)
        stays = Stays(
            client[short].astype(np.int32), topic[short].astype(np.int32), begin[short],
            np.where(is_last, 900.0, np.inf)[short], 1000.0,
        )  # fmt: skip
        said = Publications.of(draw.integers(0, CLIENTS, 60), draw.integers(0, TOPICS, 60), draw.random(60) * 0.4)
        interests = Relation.from_pairs(client, topic, CLIENTS, TOPICS)
        found.append(LogWindow(Workload("fleet", interests, said, at, BROKERS, stays=stays), 1000.0))
    return tuple(found)


@cache
def trial_of(traffic: float) -> Trial:
    windows = [LogWindow(with_traffic(one.demand, traffic), one.span_s) for one in fleet()]
    return try_all(windows)


def test_every_policy_serves_the_same_and_pays_for_what_it_does() -> None:
    trial = trial_of(1.0)
    assert [one.policy for one in trial.courses] == [one.name for one in REGIMES]
    before = trial.before
    for course in trial.courses:
        assert course.total("deliveries") == pytest.approx(before.total("deliveries"))
        now, then = (one.total("copies") + one.total("upheaval") for one in (course, before))
        assert course.net(before) == pytest.approx(1 - now / then)
        assert course.gross(before) <= trial.possible + 1e-9
    assert (before.total("moves"), before.total("redirects")) == (0, 0)
    assert trial.course("admission").total("moves") == 0
    assert trial.course("plan once").total("moves") <= trial.course("replan").total("moves")
    assert trial.course("oracle").gross(before) > 0.5
    assert trial.course(COTERIE).net(before) > 0.2


def test_limits_hold_where_coterie_sends_people() -> None:
    for spent in trial_of(1.0).course(COTERIE).windows[-3:]:
        mean = sum(spent.connections) / BROKERS
        assert max(spent.connections) <= max(Terms().connections * mean, np.ceil(mean)) + 1


@pytest.mark.parametrize("traffic", [0.01, 0.1, 1.0, 10.0, 100.0])
def test_the_default_never_loses(traffic: float) -> None:
    trial = trial_of(traffic)
    assert trial.course(COTERIE).net(trial.before) >= 0.0


def test_where_nothing_pays_nothing_is_done_and_said() -> None:
    trial = trial_of(0.0001)
    mine = trial.course(COTERIE)
    assert (mine.total("moves"), mine.total("redirects")) == (0, 0)
    assert "keep what you have" in sentences(trial, {}, EXAMPLE)[0]
    assert "net" in sentences(trial_of(1.0), {}, EXAMPLE)[0]


def test_the_same_twice() -> None:
    windows = list(fleet())
    regimes = [one for one in REGIMES if one.name in (HASH, COTERIE)]
    assert try_all(windows, 3, regimes) == try_all(windows, 3, regimes)


def test_what_is_known_is_what_was_there() -> None:
    first, second = fleet()[:2]
    nothing = first_sight(first.demand, first.span_s)
    assert nothing.demand.interests.pair_count == 0
    assert nothing.demand.rates.sum() == pytest.approx(first.demand.rates[first.demand.rates > 0].mean() * TOPICS)
    sight = look(None, first.demand, 1000.0, Terms())
    wish = Wish.of(first.demand)
    lasting = {(int(c), int(t)) for c, t, e in zip(wish.client, wish.topic, wish.end_s, strict=True) if e == np.inf}
    assert (
        set(zip(sight.demand.interests.rows.tolist(), sight.demand.interests.columns.tolist(), strict=True)) == lasting
    )
    later = look(sight, second.demand, 1000.0, Terms(memory=0.25))
    assert later.demand.rates == pytest.approx(0.75 * first.demand.rates + 0.25 * second.demand.rates)


@pytest.mark.parametrize("wrong", [{"windows": 1}, {"traffic": 0.0}, {"brokers": (8, 8)}])
def test_choices_that_make_no_sense(wrong: dict) -> None:
    with pytest.raises(ConfigError):
        BacktestChoices(**wrong)
