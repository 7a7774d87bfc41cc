"""The accountant over time, against a count of every single event."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting.overtime import REDIRECT_COPIES, Course, LogWindow, Spent, least_copies, spend
from coterie.accounting.price import MOVE_COPIES
from coterie.model import Publications, Relation, Workload
from coterie.model.prices import Prices
from coterie.model.workload import Stays


def window_of(seed: int, clients: int = 12, topics: int = 7, brokers: int = 4, zones: int = 2) -> LogWindow:
    draw = np.random.default_rng(seed)
    wanted = draw.random((clients, topics)) < 0.3
    interests = Relation.from_pairs(*np.nonzero(wanted), clients, topics)
    said = Publications.of(
        draw.integers(0, clients, 9), draw.integers(0, topics, 9), draw.integers(1, 5, 9) / 10.0, 100.0
    )
    at = draw.integers(0, brokers, clients).astype(np.int32)
    zone_of = (np.arange(brokers) % zones).astype(np.int32)
    demand = Workload("tiny", interests, said, at, brokers, zone_of=zone_of, zones=("a", "b"))
    return LogWindow(demand, 10.0)


def by_hand(window: LogWindow, node_of: np.ndarray) -> tuple[float, float, float, float, np.ndarray]:
    """Copies, copies across zones, deliveries, remote ones, and messages by broker: event by event."""
    demand = window.demand
    copies = across = deliveries = remote = 0.0
    handled = np.zeros(demand.node_count)
    said = demand.publications
    for who, topic, rate in zip(said.publisher, said.topic, said.rate, strict=True):
        for _ in range(round(rate * window.span_s)):
            source = node_of[who]
            handled[source] += 1
            readers = [c for c in range(len(node_of)) if topic in demand.interests.row(c)]
            for broker in sorted({int(node_of[c]) for c in readers}):
                if broker != source:
                    copies += 1
                    across += demand.zone_of[broker] != demand.zone_of[source]
                    handled[source] += 1
                    handled[broker] += 1
            for reader in readers:
                deliveries += 1
                remote += node_of[reader] != source
                handled[node_of[reader]] += 1
    return copies, across, deliveries, remote, handled


@pytest.mark.parametrize("seed", range(6))
def test_every_event_is_counted(seed: int) -> None:
    window = window_of(seed)
    node_of = window.demand.attachment
    spent = spend(window, node_of, node_of)
    copies, across, deliveries, remote, handled = by_hand(window, node_of)
    assert spent.copies == pytest.approx(copies)
    assert spent.crossing_bytes == pytest.approx(across * (60 + 2 * 16 + 100))
    assert (spent.deliveries, spent.remote) == pytest.approx((deliveries, remote))
    assert spent.handled == pytest.approx(handled)
    assert sum(spent.connections) == len(node_of)
    assert least_copies(window, 1.2) <= copies


def test_announcements_are_those_of_first_and_last_wishes() -> None:
    window = window_of(3)
    stays = Stays(
        np.array([0], np.int32), window.demand.interests.row(0)[:1], np.array([2.0]), np.array([np.inf]), 10.0
    )
    lonely = replace(window.demand, stays=stays, attachment=np.array([0] + [1] * 11, np.int32))
    node_of = lonely.attachment
    assert spend(LogWindow(lonely, 10.0), node_of, node_of).announcements == 3  # one wish, told to three others
    moved = node_of.copy()
    moved[0] = 2
    held = len(lonely.interests.row(0)) - 1  # what began in the window was never announced where it was before
    assert spend(LogWindow(lonely, 10.0), moved, node_of, 1).announcements == 3 * (2 * held + 1)


def spent_of(copies: float, moves: int = 0, redirects: int = 0, announced: float = 0.0) -> Spent:
    return Spent(
        span_s=86400.0, events=10.0, deliveries=50.0, copies=copies, copy_bytes=copies * 100, crossing_bytes=0.0,
        announcements=announced, announcement_bytes=announced * 10, moves=moves, redirects=redirects, mean_bytes=100.0,
        remote=5.0, handled=(30.0, 10.0), connections=(3, 1),
    )  # fmt: skip


def test_net_is_what_is_saved_after_paying_for_changes_of_all_that_went_between_brokers() -> None:
    before = Course("hash", (spent_of(1000.0, announced=100), spent_of(1000.0)))
    mine = Course("mine", (spent_of(500.0, moves=3, announced=40), spent_of(700.0, redirects=2)))
    assert mine.gross(before) == pytest.approx(0.4)
    paid = 3 * MOVE_COPIES + 2 * REDIRECT_COPIES + (40 - 100) * 10 / 100
    assert mine.saved(before) == pytest.approx(800 - paid)
    assert mine.net(before) == pytest.approx((800 - paid) / (2000 + 100 * 10 / 100))
    assert mine.of_handling(before) == pytest.approx(2 * (800 - paid) / (80 + 2 * 100 * 10 / 100))
    assert before.net(before) == 0.0
    assert mine.moves_per_client_day == pytest.approx(3 / 8)
    assert (mine.hottest_messages, mine.hottest_connections) == (1.5, 1.5)


def test_nobody_saves_more_than_there_was() -> None:
    """Few copies, many announcements: who does without both saves all there is, and not a multiple of the copies."""
    before, silent = (Course(name, (spent_of(10.0 * times, announced=1000.0 * times),))
                      for name, times in (("hash", 1), ("nothing", 0)))  # fmt: skip
    assert silent.net(before) == pytest.approx(1.0)


def test_money_follows_the_price_file() -> None:
    course = Course("mine", (spent_of(1000.0),))
    month = course.month(Prices(per_gb_inside_zone=1.0, per_million_messages=2.0))
    assert month.traffic == pytest.approx(1000 * 100 * 30.4375 / 1e9)
    assert month.work == pytest.approx(1000 * 30.4375 / 1e6 * 2.0)
