"""Poisson changes and movement as DYNATOPS states them."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.model import Change
from coterie.workloads.dynatops import HOUR_S, Dynatops, changes, poisson
from coterie.workloads.location import DAY_S, Foursquare, Gowalla, Location, located, movement

SMALL = {"nodes": 20, "subscribers": 2000, "topics": 200, "modes": 20}


@pytest.mark.parametrize("pattern", ["uniform", "zipf", "multimodal"])
@pytest.mark.parametrize("change", ["topic", "mode"])
def test_users_keep_their_number_of_topics(pattern: str, change: str) -> None:
    timeline = changes(Dynatops(pattern=pattern, change=change, **SMALL), 1)
    for hour in (0, 17, 100):
        now = timeline.at(hour * HOUR_S).interests.check("dynatops")
        assert (now.lengths == 5).all()


def test_changes_are_a_poisson_process_on_the_hour() -> None:
    """Section 6.1.2: T = 100 h in steps of 1 h."""
    timeline = changes(Dynatops(change_rate=0.1, **SMALL), 1)
    subscribed = timeline.change == Change.SUBSCRIBE
    assert subscribed.sum() == pytest.approx(2000 * 0.1 * 100, rel=0.03)
    per_user = np.bincount(timeline.who[subscribed], minlength=2000)
    assert per_user.var() == pytest.approx(per_user.mean(), rel=0.15)
    assert (timeline.time_s % HOUR_S == 0).all()
    assert timeline.time_s.max() <= 100 * HOUR_S
    at_once = changes(Dynatops(step_s=0, **SMALL), 1)
    assert (at_once.time_s % HOUR_S != 0).any()


def test_one_reading_stays_in_the_mode_and_the_other_leaves_it() -> None:
    stays = changes(Dynatops(change="topic", **SMALL), 1)
    modes = stays.start.modes
    assert modes is not None
    end = stays.at(np.inf).interests
    assert (end.columns // 10 == modes[end.rows]).all()
    leaves = changes(Dynatops(change="mode", **SMALL), 1).at(np.inf).interests
    assert (leaves.columns // 10 == modes[leaves.rows]).mean() < 0.1
    assert (np.diff((leaves.columns // 10).reshape(-1, 5), axis=1) == 0).all()


def test_zipf_starts_at_the_second_power() -> None:
    """Section 6.1.2: p_i proportional to (i + 1)^-sigma."""
    counts = np.bincount(
        poisson(Dynatops(pattern="zipf", subscribers=200_000, subscriptions=1, exponent=2.0), 1).interests.columns
    )
    assert counts[0] / counts[1] == pytest.approx((3 / 2) ** 2, rel=0.03)


def test_everybody_follows_the_cells_of_friends_at_any_time() -> None:
    """Section 6.1.1: subscribed to one's own grid cell and the current cells of 4 friends; brokers in cells."""
    timeline = movement(Location(subscribers=60, duration_s=20 * DAY_S), 3)
    assert timeline.start.node_count == timeline.start.topic_count == 1200
    for day in (0, 3, 11, 20):
        now = timeline.at(day * DAY_S)
        wants = np.zeros((60, 1200), bool)
        wants[now.interests.rows, now.interests.columns] = True
        assert wants[np.arange(60), now.attachment].all()  # one's own cell is where one is attached
        assert now.interests.lengths.max() <= 5
        occupied = np.zeros(1200, bool)
        occupied[now.attachment] = True
        assert not wants[:, ~occupied].any()


def test_synthetic_stays_are_as_long_as_in_figure_5() -> None:
    """Half of the stays under a day, a tenth over a week; most visits are to cells seen before."""
    timeline = movement(Location(subscribers=2000, friends=0, duration_s=400 * DAY_S), 3)
    moves = timeline.change == Change.MOVE
    order = np.lexsort([timeline.time_s[moves], timeline.who[moves]])
    who, time_s = timeline.who[moves][order], timeline.time_s[moves][order]
    stay_s = np.diff(time_s)[np.diff(who) == 0]
    assert (stay_s < DAY_S).mean() == pytest.approx(0.45, abs=0.1)
    assert (stay_s > 7 * DAY_S).mean() == pytest.approx(0.12, abs=0.05)


def test_fewer_brokers_serve_the_cells_around_them() -> None:
    workload = located(Location(nodes=30, subscribers=300), 3)
    assert workload.node_count == 30
    static = movement(Location(nodes=30, subscribers=300, placement="static"), 3)
    assert (static.change != Change.MOVE).all()


@pytest.mark.traces
@pytest.mark.usefixtures("traces")
def test_check_ins_have_the_recorded_sizes() -> None:
    gowalla = located(Gowalla(), 1)
    assert (gowalla.subscriber_count, gowalla.topic_count) == (1000, 388)
    foursquare = located(Foursquare(), 1)
    assert (foursquare.subscriber_count, foursquare.topic_count) == (4969, 80)
    assert foursquare.coordinates is not None
    assert -130 < foursquare.coordinates[:, 0].min() < foursquare.coordinates[:, 0].max() < -60


def test_missing_traces_name_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("COTERIE_TRACES", f"{tmp_path}/nowhere")
    with pytest.raises(InputError, match="COTERIE_TRACES"):
        located(Gowalla(), 1)
    monkeypatch.setenv("COTERIE_TRACES", str(tmp_path))
    with pytest.raises(InputError, match="COTERIE_TRACES"):
        located(Gowalla(), 1)
