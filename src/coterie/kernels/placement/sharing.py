"""How much a client can share with the others at its broker, whoever they are: the heart of a bound for any placement.

A broker that wants a topic of rate R costs R, which its c wishes for it share: R / c each. Who sits with a client is
free, but not how many: with at most k - 1 others its wishes are shared at most as often as the k - 1 clients most like
it share them. Spreading that over its topics as best one can (a convex problem, solved as reals) leaves what the client
costs at least.
"""

from __future__ import annotations

import numpy as np

from coterie.kernels.interests.shared import meet
from coterie.kernels.jit import kernel
from coterie.kernels.placement.books import Floats
from coterie.kernels.rings.chord import Index, Offset

HALVINGS = 60


@kernel
def least_share(rates: Floats, most: Floats, shared: float) -> float:
    """The least sum of rate / c with 1 <= c <= most and the sum of c - 1 at most `shared`."""
    total, cost = 0.0, 0.0
    for at in range(len(rates)):
        total += most[at] - 1.0
        cost += rates[at] / most[at]
    if total <= shared:
        return cost
    low, high = 0.0, 0.0  # of the price of sharing once more
    for rate in rates:
        high = max(high, rate)
    if high == 0.0:
        return 0.0  # nothing is published of all it wants
    for _ in range(HALVINGS):
        price = 0.5 * (low + high)
        total = 0.0
        for at in range(len(rates)):
            total += min(max(np.sqrt(rates[at] / price), 1.0), most[at]) - 1.0
        if total > shared:
            low = price
        else:
            high = price
    cost = 0.0
    for at in range(len(rates)):  # at the price below the right one more is shared than there is: never too much cost
        best = most[at] if low == 0.0 else min(max(np.sqrt(rates[at] / low), 1.0), most[at])
        cost += rates[at] / best
    return cost


@kernel
def shared_at_most(
    indptr: Offset, topics: Index, by_topic: Offset, wanting: Index, user: int, others: int, met: Index, times: Index
) -> float:
    """How often the `others` clients most like this one want what it wants, in all; `times` is left at nothing."""
    meetings = meet(indptr, topics, by_topic, wanting, user, met, times)
    width = indptr[user + 1] - indptr[user]
    alike = np.zeros(width + 1, np.int64)
    for at in range(meetings):
        alike[times[met[at]]] += 1
        times[met[at]] = 0
    shared, left = 0, others
    for overlap in range(width, 0, -1):
        taken = min(alike[overlap], left)
        shared += taken * overlap
        left -= taken
    return float(shared)


@kernel
def least_wanted(
    indptr: Offset, topics: Index, by_topic: Offset, wanting: Index, rate: Floats, clients_max: int, steps_max: float
) -> float:
    """The sum over topics of rate x brokers that want it, at least, if no broker holds more than so many clients.

    Clients beyond `steps_max` comparisons are taken to share with everybody, which is never too much.
    """
    count = len(indptr) - 1
    met, times = np.empty(count, np.int32), np.zeros(count, np.int32)
    total, steps = 0.0, 0.0
    for user in range(count):
        width = indptr[user + 1] - indptr[user]
        rates, most = np.empty(width), np.empty(width)
        own = 0.0
        for i in range(width):
            topic = topics[indptr[user] + i]
            size = by_topic[topic + 1] - by_topic[topic]
            rates[i], most[i] = rate[topic], min(float(size), float(clients_max))
            own += size
        steps += own
        shared = np.inf
        if steps <= steps_max:
            shared = shared_at_most(indptr, topics, by_topic, wanting, user, clients_max - 1, met, times)
        total += least_share(rates, most, shared)
    return total
