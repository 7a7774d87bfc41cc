"""Which broker sits at which place of a Chord ring, and what that costs: whole costs, and what a swap would change.

A *slot* is a rank on the ring, fixed; `slot_of` int32[n] says where each broker sits, `broker_at` int32[n] who sits at
a slot. `parent` and `depth` int32[n, n] hold, for every root slot (row), the greedy paths to all slots as a tree.
`wants` uint8[n, p] by broker, `topics_indptr/topics` the same as CSR; `root` int32[p] and `rate` float64[p] by topic.
The cost is eq. 5 of DYNATOPS: rate x (relays + delay_weight x summed depths); a root is never a relay.

`counts` int32[p, n] is how many wanting slots lie at or below a slot in the topic's tree. Only whether it is zero
decides about relays, so a swap is judged by walking up from two slots until a count settles the matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import inlined, kernel
from coterie.kernels.rings.chord import Index, Offset

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


class Instance(NamedTuple):
    """What does not change while brokers move."""

    parent: Index
    depth: Index
    wants: Bytes
    indptr: Offset
    topics: Index
    root: Index
    rate: Floats
    delay_weight: float


class SlotState(NamedTuple):
    """What does: the mapping, the counts, and each slot's relay cost (by slot) and each broker's delay cost."""

    slot_of: Index
    broker_at: Index
    counts: Index
    relay: Floats
    delay: Floats


@kernel
def path_tables(indptr: Offset, links: Index) -> tuple[Index, Index]:
    """(parent, depth) of every slot in the tree of greedy paths from every root; links by ascending clockwise steps.

    Column by column, roots at growing distance: the first hop is always closer, so its row is done. n^2 log log n.
    """
    count = len(indptr) - 1
    parent = np.full((count, count), -1, np.int32)
    depth = np.zeros((count, count), np.int32)
    for slot in range(count):
        for steps in range(1, count):
            root = (slot - steps) % count
            low, high = indptr[root], indptr[root + 1]
            while high - low > 1:
                middle = (low + high) >> 1
                if (links[middle] - root) % count <= steps:
                    low = middle
                else:
                    high = middle
            hop = links[low]
            parent[root, slot] = root if hop == slot else parent[hop, slot]
            depth[root, slot] = depth[hop, slot] + 1
    return parent, depth


@kernel
def stand(instance: Instance, slot_of: Index) -> SlotState:
    """Everything from scratch for a mapping (which is copied)."""
    brokers, topics = instance.wants.shape
    broker_at = np.empty(brokers, np.int32)
    for broker in range(brokers):
        broker_at[slot_of[broker]] = broker
    standing = SlotState(
        slot_of.copy(), broker_at, np.zeros((topics, brokers), np.int32), np.zeros(brokers), np.zeros(brokers)
    )
    for broker in range(brokers):
        for i in range(instance.indptr[broker], instance.indptr[broker + 1]):
            _add(instance, standing, instance.topics[i], slot_of[broker])
        standing.delay[broker] = _delay(instance, broker, slot_of[broker])
    return standing


@kernel
def full_cost(instance: Instance, slot_of: Index) -> tuple[float, float]:
    """(relay messages, summed delay in hops), both weighted with rates, counted topic by topic without `counts`."""
    brokers, topics = instance.wants.shape
    on_tree = np.full(brokers, -1, np.int64)
    broker_at = np.empty(brokers, np.int32)
    for broker in range(brokers):
        broker_at[slot_of[broker]] = broker
    relayed = 0.0
    hops = 0.0
    for topic in range(topics):
        root = instance.root[topic]
        on_tree[root] = topic
        for broker in range(brokers):
            if instance.wants[broker, topic]:
                slot = slot_of[broker]
                hops += instance.rate[topic] * instance.depth[root, slot]
                while on_tree[slot] != topic:
                    on_tree[slot] = topic
                    if not instance.wants[broker_at[slot], topic]:
                        relayed += instance.rate[topic]
                    slot = instance.parent[root, slot]
    return relayed, hops


@kernel
def _delay(instance: Instance, broker: int, slot: int) -> float:
    total = 0.0
    for i in range(instance.indptr[broker], instance.indptr[broker + 1]):
        topic = instance.topics[i]
        total += instance.rate[topic] * instance.depth[instance.root[topic], slot]
    return instance.delay_weight * total


@kernel
def _add(instance: Instance, standing: SlotState, topic: int, slot: int) -> None:
    root = instance.root[topic]
    counts, relay, rate = standing.counts[topic], standing.relay, instance.rate[topic]
    if counts[slot] > 0 and slot != root:
        relay[slot] -= rate
    counts[slot] += 1
    while slot != root:
        slot = instance.parent[root, slot]
        if counts[slot] == 0 and slot != root:
            relay[slot] += rate
        counts[slot] += 1


@kernel
def _remove(instance: Instance, standing: SlotState, topic: int, slot: int) -> None:
    root = instance.root[topic]
    counts, relay, rate = standing.counts[topic], standing.relay, instance.rate[topic]
    counts[slot] -= 1
    if counts[slot] > 0 and slot != root:
        relay[slot] += rate
    while slot != root:
        slot = instance.parent[root, slot]
        counts[slot] -= 1
        if counts[slot] == 0 and slot != root:
            relay[slot] -= rate


# These take plain arrays: tuples of arrays cost a reference count per call, which dominates here.


@kernel
def _relays_gained(parent: Index, counts: Index, topic: int, root: int, slot: int) -> int:
    """Relays more if a wanting broker came to this slot."""
    if counts[topic, slot] > 0:
        return 0 if slot == root else -1
    gained = 0
    while slot != root:
        slot = parent[root, slot]
        if counts[topic, slot] > 0 or slot == root:
            break
        gained += 1
    return gained


@kernel
def _relays_shed(parent: Index, counts: Index, topic: int, root: int, slot: int) -> int:
    """Relays fewer if the wanting broker at this slot left; counts that would reach zero are set to zero."""
    if counts[topic, slot] > 1:
        return 0 if slot == root else -1
    counts[topic, slot] = 0
    shed = 0
    while slot != root:
        slot = parent[root, slot]
        if slot == root or counts[topic, slot] > 1:
            break
        counts[topic, slot] = 0
        shed += 1
    return shed


@kernel
def _restore(parent: Index, counts: Index, topic: int, root: int, slot: int) -> None:
    """Undo the zeros of `_relays_shed`."""
    while counts[topic, slot] == 0:
        counts[topic, slot] = 1
        if slot == root:
            break
        slot = parent[root, slot]
        if slot == root:
            break


@inlined
def _cost_moved(
    parent: Index, depth: Index, counts: Index, weight: float, topic: int, root: int, source: int, target: int
) -> float:
    """What eq. 5 grows by, at rate 1, if a wanting broker went from `source` to `target`, where nobody wants it."""
    shed = _relays_shed(parent, counts, topic, root, source)
    gained = _relays_gained(parent, counts, topic, root, target)
    _restore(parent, counts, topic, root, source)
    return gained - shed + weight * (depth[root, target] - depth[root, source])


@kernel
def swap_delta(instance: Instance, standing: SlotState, one: int, other: int) -> float:
    """What eq. 5 changes by if two brokers swapped slots; topics both want do not count. Nothing is changed."""
    parent, depth, wants, indptr, topics, roots, rate, weight = instance
    counts = standing.counts
    delta = 0.0
    for side in range(2):
        mover, host = one if side == 0 else other, other if side == 0 else one
        source, target = standing.slot_of[mover], standing.slot_of[host]
        for i in range(indptr[mover], indptr[mover + 1]):
            topic = topics[i]
            if not wants[host, topic]:
                delta += rate[topic] * _cost_moved(parent, depth, counts, weight, topic, roots[topic], source, target)
    return delta


@kernel
def swap(instance: Instance, standing: SlotState, one: int, other: int) -> None:
    """Swap two brokers."""
    here, there = standing.slot_of[one], standing.slot_of[other]
    for i in range(instance.indptr[one], instance.indptr[one + 1]):
        topic = instance.topics[i]
        _remove(instance, standing, topic, here)
    for i in range(instance.indptr[other], instance.indptr[other + 1]):
        _remove(instance, standing, instance.topics[i], there)
    for i in range(instance.indptr[one], instance.indptr[one + 1]):
        _add(instance, standing, instance.topics[i], there)
    for i in range(instance.indptr[other], instance.indptr[other + 1]):
        _add(instance, standing, instance.topics[i], here)
    standing.slot_of[one], standing.slot_of[other] = there, here
    standing.broker_at[here], standing.broker_at[there] = other, one
    standing.delay[one] = _delay(instance, one, there)
    standing.delay[other] = _delay(instance, other, here)


@kernel
def total_cost(standing: SlotState) -> float:
    total: float = standing.relay.sum() + standing.delay.sum()
    return total


@kernel
def broker_costs(standing: SlotState) -> Floats:
    """c_b of eq. 12, by broker."""
    return standing.delay + standing.relay[standing.slot_of]


@kernel
def _best_swap(instance: Instance, standing: SlotState, broker: int, shed: Floats) -> tuple[int, float]:
    """(partner, change) of the best swap for one broker; `shed` is scratch, one number per topic."""
    parent, depth, wants, indptr, topics, roots, rate, weight = instance
    slot_of, counts = standing.slot_of, standing.counts
    here = slot_of[broker]
    first, last = indptr[broker], indptr[broker + 1]
    for i in range(first, last):  # take the broker out once, for all candidates
        topic = topics[i]
        shed[topic] = _relays_shed(parent, counts, topic, roots[topic], here) + weight * depth[roots[topic], here]
    partner, best = -1, 0.0
    for other in range(len(slot_of)):
        if other == broker:
            continue
        there = slot_of[other]
        delta = 0.0
        for i in range(first, last):
            topic = topics[i]
            if not wants[other, topic]:
                root = roots[topic]
                gained = _relays_gained(parent, counts, topic, root, there)
                delta += rate[topic] * (gained + weight * depth[root, there] - shed[topic])
        for i in range(indptr[other], indptr[other + 1]):
            topic = topics[i]
            if not wants[broker, topic]:
                delta += rate[topic] * _cost_moved(parent, depth, counts, weight, topic, roots[topic], there, here)
        if delta < best:
            partner, best = other, delta
    for i in range(first, last):
        _restore(parent, counts, topics[i], roots[topics[i]], here)
    return partner, best


@kernel
def descend(
    instance: Instance, standing: SlotState, is_fall_through: bool, swap_count_max: int
) -> tuple[Index, Index, Floats]:
    """SSBR-Greedy: the costliest broker takes its best swap, until it has none (as printed).

    Falling through goes on with the next costliest, in sweeps over all brokers, until a whole sweep gains nothing.
    Returns the improvement path: who swapped with whom, and the cost after each swap.
    """
    brokers = len(standing.slot_of)
    ones = np.empty(swap_count_max, np.int32)
    others = np.empty(swap_count_max, np.int32)
    costs = np.empty(swap_count_max)
    shed = np.zeros(len(instance.rate))
    cost = total_cost(standing)
    tolerance = 1e-9 * (1.0 + abs(cost))  # sums of floats must not look like gains
    used = 0
    idle = 0  # brokers tried since the last gain
    by_cost = broker_costs(standing)
    while used < swap_count_max and idle < (brokers if is_fall_through else 1):
        worst = int(np.argmax(by_cost))
        if by_cost[worst] < 0.0:
            by_cost = broker_costs(standing)
            continue
        partner, delta = _best_swap(instance, standing, worst, shed)
        by_cost[worst] = -1.0
        if partner < 0 or delta >= -tolerance:
            idle += 1
            continue
        swap(instance, standing, worst, partner)
        cost += delta
        ones[used], others[used], costs[used] = worst, partner, cost
        used += 1
        idle = 0
        if not is_fall_through:
            by_cost = broker_costs(standing)
    return ones[:used].copy(), others[:used].copy(), costs[:used].copy()


@kernel
def anneal(
    instance: Instance, standing: SlotState, draw: np.random.Generator, move_count: int, hottest: float, coldest: float
) -> None:
    """Random swaps, accepted by Metropolis with a temperature that falls by one ratio; changes `standing`."""
    brokers = len(standing.slot_of)
    if brokers < 2:
        return
    cooling = (coldest / hottest) ** (1.0 / max(move_count, 1))
    temperature = hottest
    for _ in range(move_count):
        one = int(draw.random() * brokers)
        other = int(draw.random() * (brokers - 1))
        other += other >= one
        delta = swap_delta(instance, standing, one, other)
        if delta <= 0.0 or draw.random() < np.exp(-delta / temperature):
            swap(instance, standing, one, other)
        temperature *= cooling


@kernel
def typical_delta(instance: Instance, standing: SlotState, draw: np.random.Generator, samples: int) -> float:
    """The mean size of a random swap's change, to set temperatures by."""
    brokers = len(standing.slot_of)
    total = 0.0
    for _ in range(samples):
        total += abs(swap_delta(instance, standing, int(draw.random() * brokers), int(draw.random() * brokers)))
    return total / samples
