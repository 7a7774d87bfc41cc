"""What changes kept of their promise: counted against the accountant, and what follows for the next change."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.model import Publications, Relation, Workload
from coterie.substrate.experience import MOVES, REDIRECTS, Experience, SeatedDemand, plain_problem

CLIENTS, TOPICS, BROKERS = 30, 8, 4


def demand(seed: int) -> Workload:
    draw = np.random.default_rng(seed)
    interests = Relation.from_pairs(*np.nonzero(draw.random((CLIENTS, TOPICS)) < 0.3), CLIENTS, TOPICS)
    said = Publications.of(draw.integers(0, CLIENTS, 20), draw.integers(0, TOPICS, 20), draw.random(20))
    return Workload("some", interests, said, draw.integers(0, BROKERS, CLIENTS).astype(np.int32), BROKERS)


@pytest.mark.parametrize("seed", range(4))
def test_a_change_is_worth_what_the_copies_differ_by(seed: int) -> None:
    draw, workload = np.random.default_rng(seed), demand(seed)
    now = workload.attachment
    client = draw.permutation(CLIENTS)[:9].astype(np.int32)
    other, seat = now[client], draw.integers(0, BROKERS, 9).astype(np.int32)
    then = now.copy()
    then[client] = seat
    saved = plain_problem(workload).copies(now) - plain_problem(workload).copies(then)
    assert SeatedDemand.of(workload, now).worth(client, other, seat) == pytest.approx(saved)
    assert SeatedDemand.of(workload, then).worth(client, other, seat) == pytest.approx(saved)
    left = np.full(CLIENTS, -1, np.int32)
    assert SeatedDemand.of(workload, left).worth(client, other, np.where(seat == 0, 1, seat).astype(np.int32)) != np.inf


def test_before_anything_was_seen_opinions_count_and_then_they_fade() -> None:
    known = Experience((5.0, 12.0), (30.0, 10.0))
    assert known.lasts(MOVES, 60) == pytest.approx(5.0)
    assert known.lasts(REDIRECTS, 60) == pytest.approx(12.0)
    assert known.lasts(REDIRECTS, 4) == pytest.approx(2.0)
    for age in range(1, 11):
        known.promised[MOVES, age], known.kept[MOVES, age] = 1e9, 0.9e9
    assert known.lasts(MOVES, 60) == pytest.approx(0.9 * 20, rel=1e-3)  # ten seen, ten more believed
    assert known.lasts(MOVES, 3) == pytest.approx(2.7, rel=1e-3)
    known.kept[MOVES] = -1e9
    assert known.lasts(MOVES, 60) < 0.1


def test_what_is_noted_is_followed_window_by_window() -> None:
    workload, known = demand(1), Experience((5.0, 12.0), (30.0, 10.0))
    now = workload.attachment
    client = np.arange(5, dtype=np.int32)
    seat = ((now[client] + 1) % BROKERS).astype(np.int32)
    moved = now.copy()
    moved[client] = seat
    known.note(MOVES, client, now[client], seat, 7.0)
    known.note(REDIRECTS, client[:0], now[:0], seat[:0], 0.0)
    known.learn(workload, 10.0, moved)
    known.learn(workload, 10.0, moved)
    saved = 10.0 * (plain_problem(workload).copies(now) - plain_problem(workload).copies(moved))
    assert known.kept[MOVES, 1:4].tolist() == pytest.approx([saved, saved, 0.0])
    assert known.promised[MOVES, 1:4].tolist() == [7.0, 7.0, 0.0]
    assert not known.promised[REDIRECTS].any()
    known.forget_who()
    known.learn(workload, 10.0, moved)
    assert known.kept[MOVES, 3] == 0.0
