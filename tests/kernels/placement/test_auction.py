"""Passes with prices: books, limits, bytes and the same result again, against counting everything anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.kernels.placement import auction
from coterie.kernels.placement.auction import Costs, Whereabouts
from coterie.kernels.placement.passes import (
    QUICK,
    Layout,
    Manner,
    Present,
    Zones,
    auctioned,
    layer_of,
    ranks,
    room_of,
    settle,
    show_all,
)
from coterie.kernels.placement.problem import Problem
from tests.kernels.placement.crowds import plain_copies, problem_of


def field_of(problem: Problem, part: np.ndarray, zones: Zones | None = None) -> tuple[Layout, Whereabouts]:
    layout = Layout.of(problem, ranks(problem), np.random.default_rng(1), None, zones)
    is_counted, topics = len(problem.publisher) > 0, len(problem.rate)
    near = layer_of(topics, problem.broker_count, is_counted=is_counted)
    far = layer_of(topics, 0 if zones is None else zones.count, is_counted=is_counted)
    shape = problem.capacity.shape
    field = Whereabouts(part[layout.order], near, far, np.zeros(shape), np.zeros(shape, np.float32))
    settle(layout.clients, room_of(problem, layout.unit, 0.7, zones).zone_of, field)
    return layout, field


@pytest.mark.parametrize("smoothing", [0.0, 0.05, 0.5, 0.9])
def test_a_byte_tells_one_wish_fewer(smoothing: float) -> None:
    tables = auction.tables_of(smoothing)
    assert tables.shown[0] == 255
    assert tables.shown[1] > 0
    for count in range(1, 20):
        if tables.shown[count] and tables.shown[count] != tables.shown[count - 1]:
            assert abs(int(tables.fewer[tables.shown[count]]) - int(tables.shown[count - 1])) <= 1
    assert tables.fewer[0] == 0


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5]), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_passes_keep_the_books_and_the_limits(seed: int, smoothing: float, publish: bool, is_zoned: bool) -> None:
    problem = problem_of(seed, 60, 12, 6, publish=publish)
    zones = Zones(np.arange(6, dtype=np.int32) % 2, 3.0, np.zeros(60)) if is_zoned else None
    part = (np.arange(60) % 6).astype(np.int32)
    layout, field = field_of(problem, part, zones)
    room, tables = room_of(problem, layout.unit, 0.7, zones), show_all(field, layout.rate, smoothing)
    blocks = np.random.default_rng(seed).permutation(4).astype(np.int32)
    moved = auction.sweep(layout.clients, room, field, Costs(layout.rate, 3.0, 0.0, 1.0), tables, blocks)
    new = np.empty(60, np.int32)
    new[layout.order] = field.part
    assert moved == np.count_nonzero(new != part)
    _, fresh = field_of(problem, new, zones)
    show_all(fresh, layout.rate, smoothing)
    assert problem.is_within(new)
    for layer, again in ((field.near, fresh.near), (field.far, fresh.far)):
        assert np.array_equal(layer.counts, again.counts)
        assert np.allclose(layer.entering, again.entering, atol=1e-4)
        assert np.abs(layer.shown.astype(int) - again.shown).max(initial=0) <= 1  # events enter in single precision
    assert np.allclose(field.load, fresh.load)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_scores_are_what_moving_costs(seed: int, publish: bool) -> None:
    """At p = 0 and without prices, up to what bytes round away."""
    problem = problem_of(seed, 30, 8, 4, publish=publish)
    part = (np.arange(30) % 4).astype(np.int32)
    layout, field = field_of(problem, part)
    room, costs = room_of(problem, layout.unit, 0.7, None), Costs(layout.rate, 0.0, 0.0, 1.0)
    tables = show_all(field, layout.rate, 0.0)
    place = seed % 30
    client, here = int(layout.order[place]), int(field.part[place])
    auction.seat(layout.clients, room, field, costs, tables, place, here, -1)
    score = np.empty(4, np.float32)
    auction.scores(layout.clients, room, field, costs, tables, place, np.empty(0, np.float32), score)
    wishes = problem.topics[problem.indptr[client] : problem.indptr[client + 1]]
    dust = float(problem.rate[wishes].sum()) * 1.6 / 255 + 1e-3
    before = plain_copies(problem, part)
    for there in range(4):
        moved = part.copy()
        moved[client] = there
        assert (score[there] - score[here]) / 255 == pytest.approx(plain_copies(problem, moved) - before, abs=dust)


@pytest.mark.parametrize("publish", [True, False])
def test_an_auction_gathers_kinds_within_limits(publish: bool) -> None:
    draw = np.random.default_rng(1)
    kind = draw.integers(8, size=2000)
    topics = np.concatenate([np.sort(10 * one + draw.choice(10, 3, replace=False)) for one in kind]).astype(np.int32)
    indptr, weight = np.arange(0, 6001, 3, dtype=np.int64), np.ones((2000, 1))
    who, said = np.arange(0, 2000, 5, dtype=np.int32), topics[0:6000:15]
    rows = (who, said, np.ones(400)) if publish else (who[:0], said[:0], np.zeros(0))
    rate = np.bincount(said, minlength=80).astype(float) if publish else np.ones(80)
    problem = Problem(indptr, topics, rate, weight, np.full((8, 1), 275.0), *rows)
    even = (np.arange(2000) % 8).astype(np.int32)
    found = auctioned(problem, 3)
    assert problem.is_within(found)
    assert problem.copies(found) < 0.1 * problem.copies(even)
    assert np.array_equal(found, auctioned(problem, 3))
    assert not np.array_equal(found, auctioned(problem, 4))


def test_pure_publishers_go_where_they_are_wanted() -> None:
    """Ten sensors for each of four dashboards that want them all; every broker takes a dashboard and its sensors."""
    indptr = np.concatenate([np.arange(0, 41, 10), np.full(40, 40)]).astype(np.int64)
    publisher, said = np.arange(4, 44, dtype=np.int32), np.arange(40, dtype=np.int32)
    capacity = np.full((4, 1), 11.0)
    problem = Problem(indptr, said, np.ones(40), np.ones((44, 1)), capacity, publisher, said, np.ones(40))
    found = auctioned(problem, 1)
    assert problem.is_within(found)
    assert problem.copies(found) == 0


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_layouts_know_which_publishers_want_what_they_say(seed: int) -> None:
    problem = problem_of(seed, 40, 8, 4, publish=True)
    clients = Layout.of(problem, ranks(problem), np.random.default_rng(seed)).clients
    wishes, said = (
        list(zip(np.repeat(np.arange(40), np.diff(starts)).tolist(), topics.tolist(), strict=True))
        for starts, topics in ((clients.indptr, clients.topics), (clients.said_indptr, clients.said_topics))
    )
    assert clients.is_wanted.tolist() == [one in set(wishes) for one in said]
    assert {0, 1} >= set(clients.is_wanted.tolist())


def test_a_move_that_does_not_pay_is_not_made() -> None:
    problem = problem_of(5, 200, 20, 4)
    now = (np.arange(200) % 4).astype(np.int32)
    free, dear = (auctioned(problem, 1, QUICK, now, Present(now, price)) for price in (0.0, 1e6))
    assert (free != now).any()
    assert np.array_equal(dear, now)


def test_nobody_leaves_a_zone_that_must_not() -> None:
    problem = problem_of(7, 200, 20, 6)
    now, zone_of = (np.arange(200) % 6).astype(np.int32), np.array([0, 0, 0, 1, 1, 1], np.int32)
    kept = auctioned(problem, 1, Manner(QUICK.schedule), now, Present(now), Zones(zone_of, 9.0, np.full(200, np.inf)))
    assert (kept != now).any()
    assert np.array_equal(zone_of[kept], zone_of[now])
