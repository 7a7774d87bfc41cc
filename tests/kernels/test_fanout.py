"""Moves, exchanges and groups of users between brokers, against counting everything anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.kernels import fanout
from coterie.kernels.fanout import Crowd, Seats
from coterie.kernels.fanout_levels import coarsened
from coterie.kernels.fanout_search import Search
from coterie.kernels.fanout_swaps import swap_sweep

POWERS = fanout.POWERS


def problem(seed: int, users: int, topics: int, brokers: int) -> tuple[Crowd, np.ndarray, Seats, np.random.Generator]:
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, min(6, topics + 1), users)
    rows = [np.sort(draw.choice(topics, length, replace=False)) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    crowd = fanout.crowd_of(indptr, np.concatenate(rows).astype(np.int32))
    rate = draw.integers(1, 9, topics).astype(float)
    part = draw.integers(brokers, size=users).astype(np.int32)
    return crowd, rate, fanout.seats_of(crowd, part, topics, brokers), draw


def smoothed(counts: np.ndarray, rate: np.ndarray, table: np.ndarray) -> float:
    return float((rate[:, None] * (1 - table[np.minimum(counts, POWERS)])).sum())


def assert_true_books(crowd: Crowd, seats: Seats) -> None:
    fresh = fanout.seats_of(crowd, seats.part, *seats.counts.shape)
    assert np.array_equal(fresh.counts, seats.counts)
    assert fresh.load.tolist() == seats.load.tolist()


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 0.7]), st.sampled_from([fanout.sweep, swap_sweep]))
@settings(max_examples=60, deadline=None)
def test_each_step_lowers_the_objective_and_keeps_the_books(seed: int, smoothing: float, step) -> None:
    crowd, rate, seats, draw = problem(seed, 40, 12, 5)
    capacity = int(seats.load.max())
    table = fanout.powers(smoothing)
    for user in draw.permutation(40).astype(np.int32):
        before = smoothed(seats.counts, rate, table)
        moved = step(crowd, rate, seats, capacity, table, np.array([user], np.int32), 0.0)
        after = smoothed(seats.counts, rate, table)
        assert after < before if moved else after == before
    assert_true_books(crowd, seats)
    assert seats.load.max() <= capacity


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_an_exchange_is_the_best_with_the_broker_wished_for(seed: int) -> None:
    crowd, rate, seats, draw = problem(seed, 24, 10, 4)
    table = fanout.powers(0.5)
    user = int(draw.integers(24))
    here = int(seats.part[user])
    score = np.empty(4)
    fanout.joining_costs(crowd, rate, seats.counts, table, user, here, score)
    score[here] = np.inf
    start = seats.part.copy()
    before = smoothed(seats.counts, rate, table)
    reachable = [before]
    for other in np.flatnonzero(start == np.argmin(score)):
        swapped = start.copy()
        swapped[user], swapped[other] = start[other], start[user]
        reachable.append(smoothed(fanout.pin_counts(crowd, swapped, 10, 4), rate, table))
    moved = swap_sweep(crowd, rate, seats, 10**6, table, np.array([user], np.int32), 0.0)
    if moved:
        assert smoothed(seats.counts, rate, table) == pytest.approx(min(reachable))


def test_two_full_brokers_can_only_exchange() -> None:
    crowd = fanout.crowd_of(np.array([0, 1, 2, 3, 4]), np.array([0, 1, 0, 1], np.int32))
    seats = fanout.seats_of(crowd, np.array([0, 0, 1, 1], np.int32), 2, 2)
    rate, table, order = np.ones(2), fanout.powers(0.5), np.arange(4, dtype=np.int32)
    assert fanout.sweep(crowd, rate, seats, 2, table, order, 0.0) == 0
    assert swap_sweep(crowd, rate, seats, 2, table, order, 0.0) == 1
    assert fanout.touched(seats.counts, rate) == 0


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_groups_stand_for_their_users(seed: int) -> None:
    crowd, rate, seats, draw = problem(seed, 60, 12, 4)
    coarse, group = coarsened(crowd, rate, seats.part, 8, draw.permutation(60).astype(np.int32))
    assert len(coarse.weight) == group.max() + 1 < 60
    assert coarse.weight.tolist() == np.bincount(group, crowd.weight).astype(int).tolist()
    assert coarse.weight.max() <= 8
    part = np.empty(len(coarse.weight), np.int32)
    part[group] = seats.part
    assert part[group].tolist() == seats.part.tolist()  # nobody is grouped with somebody from another broker
    whole = fanout.seats_of(coarse, part, 12, 4)
    assert np.array_equal(whole.counts, seats.counts)


def test_equal_users_are_matched_first() -> None:
    rows = [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5], [0, 4, 6]]
    crowd = fanout.crowd_of(np.arange(0, 16, 3), np.array(rows, np.int32).ravel())
    _, group = coarsened(crowd, np.ones(7), np.zeros(5, np.int32), 100, np.arange(5, dtype=np.int32))
    assert group[0] == group[2]
    assert group[1] == group[3]
    assert group.max() == 2


def test_groups_do_what_single_users_cannot() -> None:
    """Two halves of one kind sit at two brokers: a user who moves alone saves nothing, half the kind together does."""
    crowd = fanout.crowd_of(np.arange(0, 13, 3), np.array([0, 1, 2] * 4, np.int32))
    start, rate, exact = np.array([0, 0, 1, 1], np.int32), np.ones(3), fanout.powers(0.0)
    seats = fanout.seats_of(crowd, start, 3, 2)
    assert fanout.sweep(crowd, rate, seats, 12, exact, np.arange(4, dtype=np.int32), 0.0) == 0
    coarse, _ = coarsened(crowd, rate, start, 6, np.arange(4, dtype=np.int32))
    halves = fanout.seats_of(coarse, np.array([0, 1], np.int32), 3, 2)
    assert fanout.sweep(coarse, rate, halves, 12, exact, np.arange(2, dtype=np.int32), 0.0) == 1
    assert fanout.touched(halves.counts, rate) == 0


@pytest.mark.parametrize("seed", range(3))
def test_improving_never_makes_it_worse_nor_overfull(seed: int) -> None:
    crowd, rate, seats, draw = problem(seed, 300, 30, 6)
    search = Search(crowd, rate, 6, int(seats.load.max()), draw)
    before = search.cost(seats)
    found = search.improved(seats)
    assert search.cost(found) < before
    assert found.load.max() <= search.capacity
    assert_true_books(crowd, found)
