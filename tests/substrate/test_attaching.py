"""Policies of attaching: what is known, what brokers handle, who is moved and admitted, and the limits they keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.accounting.overtime import LogWindow, spend
from coterie.model import Publications, Relation, Workload
from coterie.model.workload import Stays
from coterie.substrate.attaching import (
    Sight,
    Terms,
    Wish,
    at_home,
    burden_of,
    by_interest,
    first_sight,
    if_it_pays,
    look,
    pay,
    rebuild,
)

CLIENTS, TOPICS, BROKERS = 160, 20, 5
CHEAP = Terms(move=0.0, redirect=0.0)


def demand(seed: int, zones: int = 1) -> Workload:
    """Four groups of interests, spread by chance."""
    draw = np.random.default_rng(seed)
    kind = draw.integers(0, 4, CLIENTS)
    wants = (draw.random((CLIENTS, TOPICS)) < 0.5) & ((np.arange(TOPICS) % 4) == kind[:, None])
    interests = Relation.from_pairs(*np.nonzero(wants), CLIENTS, TOPICS)
    said = Publications.of(draw.integers(0, CLIENTS, 80), draw.integers(0, TOPICS, 80), draw.random(80), 100.0)
    home = (np.arange(CLIENTS) % BROKERS).astype(np.int32)
    zone_of = (np.arange(BROKERS) % zones).astype(np.int32) if zones > 1 else None
    return Workload("groups", interests, said, home, BROKERS, zone_of=zone_of, zones=("a", "b")[:zones])


def sight_of(workload: Workload) -> Sight:
    return look(None, workload, 1000.0, Terms())


@pytest.mark.parametrize("seed", range(4))
def test_a_burden_is_what_the_accountant_says_brokers_handle(seed: int) -> None:
    workload = demand(seed)
    window, seats = LogWindow(workload, 50.0), np.random.default_rng(seed).integers(0, BROKERS, CLIENTS)
    seats = seats.astype(np.int32)
    burden = burden_of(workload, seats)
    load = burden.besides.copy()
    np.add.at(load, seats, burden.weight)
    assert load[:, 0].tolist() == np.bincount(seats, minlength=BROKERS).tolist()
    assert (load[:, 1] * 50.0).tolist() == pytest.approx(spend(window, seats, seats).handled)
    assert load[:, 2] == pytest.approx(100.0 * load[:, 1])


@pytest.mark.parametrize("seed", range(3))
def test_moves_that_pay_save_copies_and_keep_all_limits(seed: int) -> None:
    workload, terms = demand(seed), replace(CHEAP, connections=1.2, messages=1.5, bytes=1.5)
    seats = workload.attachment
    found = pay(sight_of(workload), seats, terms)
    window = LogWindow(workload, 1000.0)
    before, after = (spend(window, part, part) for part in (seats, found))
    assert after.copies < 0.8 * before.copies
    assert max(after.connections) <= np.ceil(1.2 * CLIENTS / BROKERS)
    burden = burden_of(workload, seats)  # what was known when it was decided
    load = burden.besides.copy()
    np.add.at(load, found, burden.weight)
    was = burden.besides.copy()
    np.add.at(was, seats, burden.weight)
    limit = 1.5 * was.mean(axis=0)
    assert (load[:, 1:] <= np.maximum(limit[1:], was[:, 1:]) * (1 + 1e-9)).all()


def test_the_longer_a_move_pays_the_more_are_made() -> None:
    workload = demand(5)
    slow = replace(workload, publications=replace(workload.publications, rate=workload.publications.rate / 3000))
    moves = [
        int((pay(sight_of(slow), slow.attachment, Terms(move_lasts=lasts)) != slow.attachment).sum())
        for lasts in (0.0, 200.0, 1e9)
    ]
    assert moves[0] == 0 < moves[1] < moves[2]


@pytest.mark.parametrize("policy", [pay, rebuild])
def test_nobody_leaves_its_zone_nor_comes_by_being_moved(policy) -> None:
    workload = demand(2, zones=2)
    seats = workload.attachment.copy()
    seats[7] = -1
    found = policy(sight_of(workload), seats, CHEAP)
    assert found[7] == -1
    there = seats >= 0
    assert np.array_equal(workload.zone_of[found[there]], workload.zone_of[seats[there]])


def test_newcomers_stay_or_go_where_their_like_are() -> None:
    """Two clients of one wish come one after the other; the second follows the first if that pays."""
    interests = Relation.from_rows([[0], [0]], 1)
    workload = Workload("two", interests, Publications.of([0], [0], [1.0]), np.array([0, 1], np.int32), 2)
    stays = Stays(np.arange(2, dtype=np.int32), np.zeros(2, np.int32), np.array([1.0, 2.0]), np.full(2, np.inf), 10.0)
    workload = replace(workload, stays=stays)
    nowhere, sight = np.full(2, -1, np.int32), first_sight(workload, 10.0)
    loose = Terms(connections=4.0, messages=9.0)
    assert at_home(sight, workload, nowhere, loose).seats.tolist() == [0, 1]
    followed = if_it_pays(sight, workload, nowhere, loose)
    assert followed.seats.tolist() == [0, 0]
    assert (followed.sent.tolist(), followed.to.tolist()) == ([1], [0])
    assert followed.promised.tolist() == [pytest.approx(10.0 * loose.redirect_lasts)]
    assert if_it_pays(sight, workload, nowhere, replace(loose, redirect=1e9)).seats.tolist() == [0, 1]
    assert by_interest(sight, workload, nowhere, loose).seats.tolist() == [0, 0]
    assert by_interest(sight, workload, nowhere, Terms()).seats.tolist() == [0, 1]  # two at one broker are too many
    assert len(Wish.of(workload).client) == 2


def test_what_is_known_forgets_slowly() -> None:
    first, second = demand(1), demand(2)
    sight = look(sight_of(first), second, 1000.0, Terms(memory=0.25))
    assert sight.demand.rates == pytest.approx(0.75 * first.rates + 0.25 * second.rates)
    assert Terms(move_lasts=5.0).within(4).move_lasts == 2.0


def test_a_broker_that_was_hot_is_relieved_once_there_are_savings_to_pay_for_it() -> None:
    workload = demand(6)
    seats = np.where(np.arange(CLIENTS) < CLIENTS // 2, 0, workload.attachment).astype(np.int32)
    strict = Terms(move=1e9, connections=9.0, is_strict=True)  # a move never pays
    cool = replace(sight_of(workload), heat=np.ones(BROKERS))
    hot = replace(cool, heat=np.array([3.0, 0.5, 0.5, 0.5, 0.5]))
    assert np.array_equal(pay(cool, seats, strict), seats)
    assert np.array_equal(pay(hot, seats, replace(strict, is_strict=False)), seats)
    found = pay(hot, seats, strict)
    assert set(seats[found != seats]) == {0}
    handled = [spend(LogWindow(workload, 1.0), part, part).handled for part in (seats, found)]
    assert handled[1][0] < 0.8 * handled[0][0]


def test_who_was_seen_to_hear_more_than_it_is_known_to_want_weighs_more() -> None:
    workload = demand(7)
    known = burden_of(workload, workload.attachment).weight
    seen = known.copy()
    seen[3, 1] += 5.0
    found = burden_of(workload, workload.attachment, seen).weight
    assert found[3, 1] > known[3, 1] + 5.0
    assert (found[:, 0] == 1).all()
