"""Admission by interest, against the slow obvious way, and its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coterie.kernels.placement.admission import AdmissionRules, Asked, Seating, admit


def slow(asked, seat, home, worth, price, brokers, limit, is_strict):
    """The same with dicts; messages are not limited."""
    seat, wanting, count = list(seat), {}, [0] * brokers
    for at, (client, topic, moment) in enumerate(asked):
        if seat[client] < 0:
            first = [t for c, t, m in asked[at:] if c == client and m == moment]
            score = [sum(worth[t] for t in first if not wanting.get((t, b))) for b in range(brokers)]
            mean = (sum(count) + 1) / brokers
            room = max(limit * mean, math.ceil(mean))
            is_full = is_strict and count[home[client]] + 1 > room
            better = [
                (score[b], count[b], b)
                for b in range(brokers)
                if b != home[client] and count[b] + 1 <= room and (is_full or score[b] < score[home[client]] - price)
            ]
            seat[client] = min(better)[2] if better else home[client]
            count[seat[client]] += 1
        wanting[topic, seat[client]] = True
    return seat


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_does_what_the_obvious_loop_does(seed: int, is_strict: bool) -> None:
    draw = np.random.default_rng(seed)
    clients, topics, brokers, price = 40, 8, 4, 1.5
    rows = sorted(
        {(int(draw.integers(0, 6)), int(c), int(draw.integers(0, topics))) for c in draw.integers(0, clients, 90)}
    )
    asked = [(c, t, m) for m, c, t in rows]
    home, worth = draw.integers(0, brokers, clients), draw.integers(1, 6, topics).astype(float)
    seating = Seating(
        np.full(clients, -1, np.int32),
        np.zeros((topics, brokers), np.int32),
        np.zeros(brokers, np.int32),
        np.zeros(brokers),
    )
    rules = AdmissionRules(worth, price, 1.2, 1e9, np.zeros(brokers, np.int32), is_strict)
    columns = [np.array(column, np.int32) for column in zip(*asked, strict=True)]
    to, promised = np.full(clients, -1, np.int32), np.zeros(clients)
    redirects = admit(Asked(*columns), seating, rules, home.astype(np.int32), to, promised)
    expected = slow(asked, [-1] * clients, home, worth, price, brokers, 1.2, is_strict)
    assert seating.seat.tolist() == expected
    there = seating.seat >= 0
    assert redirects == int((seating.seat[there] != home[there]).sum())
    if is_strict:
        assert seating.connections.max() <= max(1.2 * there.sum() / brokers, math.ceil(there.sum() / brokers))


def test_nobody_is_sent_across_zones_or_where_it_does_not_pay() -> None:
    def seats(price: float, zone_of: list[int]) -> list[int]:
        seating = Seating(np.full(3, -1, np.int32), np.zeros((1, 4), np.int32), np.zeros(4, np.int32), np.zeros(4))
        rules = AdmissionRules(np.array([5.0]), price, 4.0, 1e9, np.array(zone_of, np.int32), False)
        asked = Asked(np.arange(3, dtype=np.int32), np.zeros(3, np.int32), np.arange(3, dtype=np.int32))
        admit(asked, seating, rules, np.array([0, 1, 2], np.int32), np.full(3, -1, np.int32), np.zeros(3))
        return seating.seat.tolist()

    assert seats(1.0, [0, 0, 0, 0]) == [0, 0, 0]
    assert seats(6.0, [0, 0, 0, 0]) == [0, 1, 2]
    assert seats(1.0, [0, 1, 0, 1]) == [0, 1, 0]
