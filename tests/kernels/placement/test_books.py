"""Moves, exchanges and groups of clients between brokers, against counting everything anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.kernels.placement import books
from coterie.kernels.placement.books import Crowd, Seats
from coterie.kernels.placement.levels import coarsened
from coterie.kernels.placement.search import Search
from coterie.kernels.placement.swaps import swap_sweep
from tests.kernels.placement.crowds import plain_copies, problem_of

POWERS = books.POWERS
Step = tuple[Crowd, np.ndarray, Seats, np.random.Generator]


def seated(seed: int, clients: int, topics: int, brokers: int, *, publish: bool) -> Step:
    problem = problem_of(seed, clients, topics, brokers, publish=publish)
    draw = np.random.default_rng(seed + 1)
    part = draw.integers(brokers, size=clients).astype(np.int32)
    return problem.crowd, problem.rate, books.seats_of(problem.crowd, part, topics, brokers), draw


def smoothed(seats: Seats, rate: np.ndarray, table: np.ndarray) -> float:
    left = rate[:, None] - (seats.entering if len(seats.entering) else 0.0)
    return float((left * (1 - table[np.minimum(seats.counts, POWERS)])).sum())


def assert_true_books(crowd: Crowd, seats: Seats) -> None:
    fresh = books.seats_of(crowd, seats.part, *seats.counts.shape)
    assert np.array_equal(fresh.counts, seats.counts)
    assert np.allclose(fresh.entering, seats.entering)
    assert np.allclose(fresh.load, seats.load)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_copies_are_counted_event_by_event(seed: int, publish: bool) -> None:
    problem = problem_of(seed, 25, 8, 4, publish=publish)
    part = np.random.default_rng(seed).integers(4, size=25).astype(np.int32)
    seats = books.seats_of(problem.crowd, part, 8, 4)
    expected = plain_copies(problem, part)
    assert books.cost_of(seats, problem.rate) == pytest.approx(expected)
    assert problem.copies(part) == pytest.approx(expected)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 0.7]), st.booleans(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_each_step_lowers_the_objective_and_keeps_the_books(
    seed: int, smoothing: float, publish: bool, is_swap: bool
) -> None:
    crowd, rate, seats, draw = seated(seed, 40, 12, 5, publish=publish)
    capacity = np.tile(seats.load.max(axis=0), (5, 1))
    table = books.powers(smoothing)
    for user in draw.permutation(40).astype(np.int32):
        before, one = smoothed(seats, rate, table), np.array([user], np.int32)
        if is_swap:
            moved = swap_sweep(crowd, rate, seats, capacity, table, one, 0.0)
        else:
            moved = books.sweep(crowd, rate, seats, capacity, table, one, seats.part, 0.0)
        after = smoothed(seats, rate, table)
        assert after < before if moved else after == before
    assert_true_books(crowd, seats)
    assert books.is_within(seats, capacity)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_score_is_what_joining_costs(seed: int, publish: bool) -> None:
    crowd, rate, seats, draw = seated(seed, 20, 8, 4, publish=publish)
    table, user, score = books.powers(0.4), int(draw.integers(20)), np.empty(4)
    here = int(seats.part[user])
    saved = books.joining_costs(crowd, rate, seats, table, user, here, score)
    before = smoothed(seats, rate, table)
    for there in range(4):
        part = seats.part.copy()
        part[user] = there
        moved = smoothed(books.seats_of(crowd, part, 8, 4), rate, table)
        if there != here:
            assert moved - before == pytest.approx(score[there] - saved)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_an_exchange_is_the_best_with_the_broker_wished_for(seed: int, publish: bool) -> None:
    crowd, rate, seats, draw = seated(seed, 24, 10, 4, publish=publish)
    table = books.powers(0.5)
    user = int(draw.integers(24))
    here = int(seats.part[user])
    score = np.empty(4)
    books.joining_costs(crowd, rate, seats, table, user, here, score)
    score[here] = np.inf
    start = seats.part.copy()
    reachable = [smoothed(seats, rate, table)]
    for other in np.flatnonzero(start == np.argmin(score)):
        swapped = start.copy()
        swapped[user], swapped[other] = start[other], start[user]
        reachable.append(smoothed(books.seats_of(crowd, swapped, 10, 4), rate, table))
    wide = np.full((4, 2), 1e6)
    moved = swap_sweep(crowd, rate, seats, wide, table, np.array([user], np.int32), 0.0)
    if moved:
        assert smoothed(seats, rate, table) == pytest.approx(min(reachable))


def test_two_full_brokers_can_only_exchange() -> None:
    crowd = books.crowd_of(np.array([0, 1, 2, 3, 4]), np.array([0, 1, 0, 1], np.int32))
    seats = books.seats_of(crowd, np.array([0, 0, 1, 1], np.int32), 2, 2)
    rate, table, order, full = np.ones(2), books.powers(0.5), np.arange(4, dtype=np.int32), np.full((2, 1), 2.0)
    assert books.sweep(crowd, rate, seats, full, table, order, seats.part, 0.0) == 0
    assert swap_sweep(crowd, rate, seats, full, table, order, 0.0) == 1
    assert books.cost_of(seats, rate) == 0


def test_coming_home_gives_the_price_back() -> None:
    crowd = books.crowd_of(np.array([0, 1, 2]), np.array([0, 0], np.int32))
    home, wide = np.array([0, 1], np.int32), np.full((2, 1), 9.0)
    for rate, expected in ((1.0, [0, 1]), (3.0, [1, 1])):  # one broker fewer saves `rate`, being away costs 2
        seats = books.seats_of(crowd, np.array([1, 1], np.int32), 1, 2)
        books.sweep(crowd, np.array([rate]), seats, wide, books.powers(0.0), np.array([0], np.int32), home, 2.0)
        assert seats.part.tolist() == expected


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_groups_stand_for_their_users(seed: int, publish: bool) -> None:
    crowd, rate, seats, draw = seated(seed, 60, 12, 4, publish=publish)
    coarse, group = coarsened(crowd, rate, seats.part, np.array([8.0, 8.0]), draw.permutation(60).astype(np.int32))
    assert len(coarse.weight) == group.max() + 1 < 60
    assert np.allclose(coarse.weight[:, 0], np.bincount(group, crowd.weight[:, 0]))
    assert coarse.weight.max() <= 8
    part = np.empty(len(coarse.weight), np.int32)
    part[group] = seats.part
    assert part[group].tolist() == seats.part.tolist()  # nobody is grouped with somebody from another broker
    whole = books.seats_of(coarse, part, 12, 4)
    assert np.array_equal(whole.counts, seats.counts)
    assert np.allclose(whole.entering, seats.entering)


def test_equal_users_are_matched_first() -> None:
    rows = [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5], [0, 4, 6]]
    crowd = books.crowd_of(np.arange(0, 16, 3), np.array(rows, np.int32).ravel())
    heaviest, order = np.array([100.0]), np.arange(5, dtype=np.int32)
    _, group = coarsened(crowd, np.ones(7), np.zeros(5, np.int32), heaviest, order)
    assert group[0] == group[2]
    assert group[1] == group[3]
    assert group.max() == 2


def test_groups_do_what_single_users_cannot() -> None:
    """Two halves of one kind sit at two brokers: a user who moves alone saves nothing, half the kind together does."""
    crowd = books.crowd_of(np.arange(0, 13, 3), np.array([0, 1, 2] * 4, np.int32))
    start, rate, exact, wide = np.array([0, 0, 1, 1], np.int32), np.ones(3), books.powers(0.0), np.full((2, 1), 12.0)
    seats = books.seats_of(crowd, start, 3, 2)
    assert books.sweep(crowd, rate, seats, wide, exact, np.arange(4, dtype=np.int32), start, 0.0) == 0
    coarse, _ = coarsened(crowd, rate, start, np.array([6.0]), np.arange(4, dtype=np.int32))
    halves = books.seats_of(coarse, np.array([0, 1], np.int32), 3, 2)
    assert books.sweep(coarse, rate, halves, wide, exact, np.arange(2, dtype=np.int32), halves.part, 0.0) == 1
    assert books.cost_of(halves, rate) == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("publish", [True, False])
def test_improving_never_makes_it_worse_nor_overfull(seed: int, publish: bool) -> None:
    crowd, rate, seats, draw = seated(seed, 300, 30, 6, publish=publish)
    search = Search(crowd, rate, 6, np.tile(seats.load.max(axis=0), (6, 1)), draw)
    before = search.cost(seats)
    found = search.improved(seats)
    assert search.cost(found) < before
    assert search.is_within(found)
    assert_true_books(crowd, found)
