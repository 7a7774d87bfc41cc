"""How much all clients together can share, where whoever sits with a client has that client beside it in turn.

x[u, v], from 0 to 1, says how much clients u and v are at one broker. It is the same for both, and what sits with u
weighs no more than u leaves free. A wish of u for a topic of rate R costs R / c, c being 1 and the x of all others who
want the topic. That is convex: no less than its tangent at any c, which is a sum over pairs of clients; and a sum over
pairs has an upper bound for any prices of the room that u leaves (its dual). So any c and any prices give a bound.
Rounds make both better: each pays for the pairs that gain, and lets c be what they come to (Frank and Wolfe's method).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.kernels.interests.shared import meet, shared
from coterie.kernels.jit import kernel
from coterie.kernels.placement.books import Floats
from coterie.kernels.rings.chord import Index, Offset

ROUNDS = 16
HALVINGS = 12  # to find a price; the last one is near
FIRST = 4.0  # c before anything is known
NEAR = 0.02  # of its gain: so much short of gaining, a pair is about to


class Companions(NamedTuple):
    """Clients who share a topic, each pair once; and which wishes those are."""

    one: Index
    other: Index
    indptr: Offset  # [pair], into:
    own: Index  # the wish of `one`, as its place in the interests
    its: Index


@kernel
def pairs_of(indptr: Offset, topics: Index, by_topic: Offset, wanting: Index) -> Companions:
    count = len(indptr) - 1
    met, times = np.empty(count, np.int32), np.zeros(count, np.int32)
    found, common = 0, 0
    for client in range(count):
        for at in range(meet(indptr, topics, by_topic, wanting, client, met, times)):
            if met[at] > client:
                found += 1
                common += times[met[at]]
            times[met[at]] = 0
    pairs = Companions(
        np.empty(found, np.int32), np.empty(found, np.int32), np.zeros(found + 1, np.int64),
        np.empty(common, np.int32), np.empty(common, np.int32),
    )  # fmt: skip
    pair, place = 0, 0
    for client in range(count):
        for at in range(meet(indptr, topics, by_topic, wanting, client, met, times)):
            times[met[at]] = 0
            if met[at] <= client:
                continue
            pairs.one[pair], pairs.other[pair] = client, met[at]
            for own, its in shared(indptr, topics, client, met[at]):
                pairs.own[place], pairs.its[place] = own, its
                place += 1
            pair += 1
            pairs.indptr[pair] = place
    return pairs


@kernel
def gains_of(pairs: Companions, slope: Floats, gain: Floats) -> None:
    """What a pair saves by the tangents, being at one broker."""
    for pair in range(len(gain)):
        gain[pair] = 0.0
        for at in range(pairs.indptr[pair], pairs.indptr[pair + 1]):
            gain[pair] += slope[pairs.own[at]] + slope[pairs.its[at]]


@kernel
def reprice(
    begin: Offset, end: Index, pair_at: Index, gain: Floats, weight: Floats, room: Floats, price: Floats
) -> Floats:
    """For every client the price of its room at which no more pairs with it gain than there is room for."""
    found = np.zeros(len(price))
    for client in range(len(price)):
        high, heavy = 0.0, 0.0
        for at in range(begin[client], begin[client + 1]):
            if weight[end[at]] > 0.0:
                high = max(high, (gain[pair_at[at]] - price[end[at]] * weight[client]) / weight[end[at]])
                heavy += weight[end[at]]
        if heavy <= room[client]:
            continue
        low = 0.0
        for _ in range(HALVINGS):
            middle, taken = 0.5 * (low + high), 0.0
            for at in range(begin[client], begin[client + 1]):
                own = weight[end[at]]
                if gain[pair_at[at]] - price[end[at]] * weight[client] > middle * own:
                    taken += own
            if taken > room[client]:
                low = middle
            else:
                high = middle
        found[client] = 0.5 * (low + high)
    return found


@kernel
def by_client(count: int, pairs: Companions) -> tuple[Offset, Index, Index]:
    """Beside each client the others of its pairs, and the pairs."""
    begin = np.zeros(count + 1, np.int64)
    for pair in range(len(pairs.one)):
        begin[pairs.one[pair] + 1] += 1
        begin[pairs.other[pair] + 1] += 1
    begin = np.cumsum(begin)
    free = begin[:-1].copy()
    end, pair_at = np.empty(begin[-1], np.int32), np.empty(begin[-1], np.int32)
    for pair in range(len(pairs.one)):
        for client, other in ((pairs.one[pair], pairs.other[pair]), (pairs.other[pair], pairs.one[pair])):
            end[free[client]], pair_at[free[client]] = other, pair
            free[client] += 1
    return begin, end, pair_at


@kernel
def sit_down(
    pairs: Companions, left: Floats, gain: Floats, weight: Floats, room: Floats, share: float, x: Floats
) -> None:
    """Companions that gain at these prices, and those about to, as far as there is room; by this share."""
    taken = np.zeros(len(weight))
    for pair in range(len(gain)):
        if left[pair] > -NEAR * gain[pair]:
            taken[pairs.one[pair]] += weight[pairs.other[pair]]
            taken[pairs.other[pair]] += weight[pairs.one[pair]]
    for pair in range(len(gain)):
        fitting = 0.0
        if left[pair] > -NEAR * gain[pair]:
            fitting = 1.0
            for client in (pairs.one[pair], pairs.other[pair]):
                if taken[client] > room[client]:
                    fitting = min(fitting, room[client] / taken[client])
        x[pair] += share * (fitting - x[pair])


@kernel
def least_in_company(pairs: Companions, rate: Floats, weight: Floats, most: float) -> float:
    """The least sum of R / c over all wishes (`rate` by wish), if no broker's clients weigh more than `most`."""
    count = len(weight)
    begin, end, pair_at = by_client(count, pairs)
    room = np.maximum(most - weight, 0.0)
    price, x = np.zeros(count), np.zeros(len(pairs.one))
    gain, left = np.empty(len(x)), np.empty(len(x))
    c = np.full(len(rate), FIRST)
    best = 0.0
    for turn in range(ROUNDS):
        gains_of(pairs, rate / c**2, gain)
        for _ in range(6 if turn == 0 else 2):
            price += 0.5 * (reprice(begin, end, pair_at, gain, weight, room, price) - price)
        saved = float((price * room).sum())
        for pair in range(len(x)):
            one, other = pairs.one[pair], pairs.other[pair]
            left[pair] = gain[pair] - price[one] * weight[other] - price[other] * weight[one]
            saved += max(left[pair], 0.0)
        best = max(best, float((rate * (2.0 / c - 1.0 / c**2)).sum()) - saved)
        sit_down(pairs, left, gain, weight, room, 2.0 / (turn + 2), x)
        c[:] = 1.0
        for pair in range(len(x)):
            for at in range(pairs.indptr[pair], pairs.indptr[pair + 1]):
                c[pairs.own[at]] += x[pair]
                c[pairs.its[at]] += x[pair]
    return best
