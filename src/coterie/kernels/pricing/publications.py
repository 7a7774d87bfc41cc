"""The accountant's arithmetic: follow every publication through its channels and count what arrives where.

One call prices all publications. Per publication the kernel collects *arrivals* (node, microseconds, hops, role,
whether a copy was sent), orders them by time and judges them one by one, exactly as a driver judges messages as they
arrive.
"""

from __future__ import annotations

import numpy as np

from coterie.kernels.jit import kernel
from coterie.kernels.pricing.arriving import (
    Arrivals,
    Csr,
    Delays,
    EntryPaths,
    Float64,
    Flows,
    Int32,
    Scratch,
    Structure,
    add_arrival,
    cross,
    latency_us,
)
from coterie.kernels.pricing.handing import mixed, spread_direct, spread_through

DIRECT, ROOTED, FLOOD, FILTERED, THROUGH = 0, 1, 2, 3, 4
INBOUND, WANTED, RELAYED, FILTERED_OUT, DUPLICATE, LINK_COST, OWED, DELIVERED, US_SUM, US_MAX = range(10)
COUNTER_COUNT = 10

US_PER_BIN = 100
US_BINS = 1_000_000


@kernel
def book(counters: Float64, column: int, weight: float, size: float) -> None:
    """Messages in the first row, bytes in the second."""
    counters[0, column] += weight
    counters[1, column] += weight * size


@kernel
def spread_rooted(
    structure: Structure,
    flows: Flows,
    delays: Delays,
    scratch: Scratch,
    stamp: int,
    channel: int,
    us: int,
    hops: int,
    weight: float,
    size: float,
    out: Arrivals,
) -> float:
    """Down the tree from its root; parents stand before their children.

    The four lines that pass the event over an edge stand in `spread_filtered` too: as a kernel of their own they made
    pricing 1.1 (inlined, with plain arrays) to 1.6 times (with tuples of arrays) as slow.
    """
    for at in range(structure.members.indptr[channel], structure.members.indptr[channel + 1]):
        scratch.member_stamp[structure.members.values[at]] = stamp
    root = structure.root[channel]
    scratch.us[root], scratch.hops[root] = us, hops
    add_arrival(out, root, us, hops, scratch.member_stamp[root] == stamp, False)
    cost = 0.0
    for at in range(structure.tree_indptr[channel], structure.tree_indptr[channel + 1]):
        node, parent = structure.tree_node[at], structure.tree_parent[at]
        scratch.us[node] = scratch.us[parent] + latency_us(delays, parent, node)
        scratch.hops[node] = scratch.hops[parent] + 1
        cost += cross(structure, flows, parent, node, weight, size)
        add_arrival(out, node, scratch.us[node], scratch.hops[node], scratch.member_stamp[node] == stamp, True)
    return cost


@kernel
def heap_push(scratch: Scratch, size: int, us: int, node: int) -> int:
    at = size
    while at > 0:
        above = (at - 1) // 2
        if scratch.heap_us[above] <= us:
            break
        scratch.heap_us[at], scratch.heap_node[at] = scratch.heap_us[above], scratch.heap_node[above]
        at = above
    scratch.heap_us[at], scratch.heap_node[at] = us, node
    return size + 1


@kernel
def heap_pop(scratch: Scratch, size: int) -> int:
    """Removes the smallest entry (read it at index 0 before); returns the new size."""
    size -= 1
    us, node = scratch.heap_us[size], scratch.heap_node[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and scratch.heap_us[below + 1] < scratch.heap_us[below]:
            below += 1
        if scratch.heap_us[below] >= us:
            break
        scratch.heap_us[at], scratch.heap_node[at] = scratch.heap_us[below], scratch.heap_node[below]
        at = below
    scratch.heap_us[at], scratch.heap_node[at] = us, node
    return size


@kernel
def spread_flood(
    structure: Structure,
    flows: Flows,
    delays: Delays,
    scratch: Scratch,
    stamp: int,
    channel: int,
    entry: int,
    us: int,
    hops: int,
    weight: float,
    size: float,
    out: Arrivals,
) -> tuple[float, int]:
    """Along every link between two members, except back: first arrivals by shortest delay.

    Returns the cost of the links used and the number of copies that arrived late. Every node reached sends to all its
    neighbours in the channel but the one it has the event from, so the number of copies does not depend on timing.
    """
    for at in range(structure.members.indptr[channel], structure.members.indptr[channel + 1]):
        scratch.member_stamp[structure.members.values[at]] = stamp
        scratch.us[structure.members.values[at]] = np.iinfo(np.int64).max
    scratch.us[entry], scratch.hops[entry] = us, hops
    waiting = heap_push(scratch, 0, us, entry)
    cost, late = 0.0, 0
    while waiting > 0:
        at_us, node = scratch.heap_us[0], scratch.heap_node[0]
        waiting = heap_pop(scratch, waiting)
        if scratch.reached_stamp[node] == stamp or at_us > scratch.us[node]:
            continue
        scratch.reached_stamp[node] = stamp
        is_origin = node == entry
        add_arrival(out, node, at_us, scratch.hops[node], scratch.member_stamp[node] == stamp, not is_origin)
        if not is_origin:
            late -= 2  # the copy it came by is not late, and none goes back
            cost -= cross(structure, flows, node, scratch.beyond[node], -weight, size)
        for at in range(structure.links.indptr[node], structure.links.indptr[node + 1]):
            peer = structure.links.values[at]
            if scratch.member_stamp[peer] != stamp:
                continue
            late += 1
            cost += cross(structure, flows, node, peer, weight, size)
            then_us = at_us + latency_us(delays, node, peer)
            if then_us < scratch.us[peer]:
                scratch.us[peer], scratch.hops[peer] = then_us, scratch.hops[node] + 1
                scratch.beyond[peer] = node
                waiting = heap_push(scratch, waiting, then_us, peer)
    return cost, late


@kernel
def spread_filtered(
    structure: Structure,
    flows: Flows,
    paths: EntryPaths,
    delays: Delays,
    scratch: Scratch,
    stamp: int,
    row: int,
    us: int,
    hops: int,
    weight: float,
    size: float,
    out: Arrivals,
) -> float:
    """Along the tree in all directions, cut where no target lies beyond."""
    channel = paths.channel[row]
    entry = paths.hops.values[paths.hops.indptr[row + 1] - 1]
    first, last = structure.tree_indptr[channel], structure.tree_indptr[channel + 1]
    root = structure.root[channel]
    scratch.beyond[root] = 0
    for at in range(first, last):
        scratch.beyond[structure.tree_node[at]] = 0
    total = paths.targets.indptr[row + 1] - paths.targets.indptr[row]
    for at in range(paths.targets.indptr[row], paths.targets.indptr[row + 1]):
        scratch.beyond[paths.targets.values[at]] += 1
    scratch.reached_stamp[entry] = stamp
    scratch.us[entry], scratch.hops[entry] = us, hops
    add_arrival(out, entry, us, hops, False, False)
    cost = 0.0
    edges = last - first
    for step in range(2 * edges):  # up from the entry, children before parents, then down
        is_up = step < edges
        at = last - 1 - step if is_up else step - edges + first
        node, parent = structure.tree_node[at], structure.tree_parent[at]
        wanted = scratch.beyond[node]
        if is_up:
            scratch.beyond[parent] += wanted
            if scratch.reached_stamp[node] != stamp or wanted == total:
                continue
        elif wanted == 0 or scratch.reached_stamp[parent] != stamp or scratch.reached_stamp[node] == stamp:
            continue
        source, target = (node, parent) if is_up else (parent, node)
        scratch.reached_stamp[target] = stamp
        scratch.us[target] = scratch.us[source] + latency_us(delays, source, target)
        scratch.hops[target] = scratch.hops[source] + 1
        cost += cross(structure, flows, source, target, weight, size)
        add_arrival(out, target, scratch.us[target], scratch.hops[target], False, True)
    return cost


@kernel
def judge(
    arrivals: Arrivals,
    in_order: bool,
    is_filtering: bool,
    scratch: Scratch,
    flows: Flows,
    stamp: int,
    rate: float,
    size: float,
    client_size: float,
    counters: Float64,
    hop_weights: Float64,
    us_weights: Float64,
) -> None:
    """Go through one publication's arrivals in time order and book each where it belongs."""
    count = arrivals.size[0]
    order = np.arange(count) if in_order else np.argsort(arrivals.us[:count], kind="mergesort")
    for at in order:
        node = arrivals.node[at]
        wants = scratch.wants[node] if scratch.wants_stamp[node] == stamp else 0.0
        is_member = arrivals.is_member[at] or (is_filtering and wants > 0)
        had = scratch.had_stamp[node] == stamp
        if arrivals.is_copy[at]:
            if had:
                book(counters, DUPLICATE, rate, size)
            elif not is_member:
                book(counters, RELAYED, rate, size)
            elif wants > 0:
                book(counters, WANTED, rate, size)
            else:
                book(counters, FILTERED_OUT, rate, size)
        if is_member and not had:
            scratch.had_stamp[node] = stamp
            if wants > 0:
                weight = rate * wants
                flows.load[node] += weight
                book(counters, DELIVERED, weight, client_size)
                counters[0, US_SUM] += weight * arrivals.us[at]
                counters[0, US_MAX] = max(counters[0, US_MAX], arrivals.us[at])
                hop_weights[arrivals.hops[at]] += weight
                us_weights[min(arrivals.us[at] // US_PER_BIN, US_BINS - 1)] += weight


@kernel
def price_publications(
    spread: int,
    topic: Int32,
    rate: Float64,
    copy_bytes: Float64,
    client_bytes: Float64,
    audience: Csr,
    local_deliveries: Float64,
    structure: Structure,
    flows: Flows,
    paths: EntryPaths,
    delays: Delays,
    scratch: Scratch,
    arrivals: Arrivals,
    counters: Float64,
    hop_weights: Float64,
    us_weights: Float64,
) -> None:
    """Adds the whole workload to `counters`, `hop_weights`, `us_weights`. Cost: the sum of all structures touched."""
    row_us = np.zeros(len(paths.channel), np.int64)
    row_hops = np.zeros(len(paths.channel), np.int64)
    channel_stamp = len(topic)
    for publication in range(len(topic)):
        if rate[publication] <= 0:
            continue
        stamp = publication + 1
        weight, size = rate[publication], copy_bytes[publication]
        key = mixed(np.uint64(topic[publication]))
        for at in range(audience.indptr[topic[publication]], audience.indptr[topic[publication] + 1]):
            scratch.wants[audience.values[at]] = local_deliveries[at]
            scratch.wants_stamp[audience.values[at]] = stamp
            counters[0, OWED] += weight * local_deliveries[at]
        arrivals.size[0] = 0
        first, last = paths.of_publication[publication], paths.of_publication[publication + 1]
        for row in range(first, last):
            after = paths.after[row]
            us, hops = (row_us[after], row_hops[after]) if after >= 0 else (0, 0)
            for at in range(paths.hops.indptr[row] + 1, paths.hops.indptr[row + 1]):
                us += latency_us(delays, paths.hops.values[at - 1], paths.hops.values[at])
                cost = cross(structure, flows, paths.hops.values[at - 1], paths.hops.values[at], weight, size)
                counters[0, LINK_COST] += weight * cost
                hops += 1
                book(counters, INBOUND, weight, size)
            row_us[row], row_hops[row] = us, hops
            channel_stamp += 1
            channel = paths.channel[row]
            entry = paths.hops.values[paths.hops.indptr[row + 1] - 1]
            if spread == DIRECT:
                cost = spread_direct(
                    structure, flows, delays, scratch, key, channel, entry, us, hops, weight, size, arrivals
                )
            elif spread == ROOTED:
                cost = spread_rooted(
                    structure, flows, delays, scratch, channel_stamp, channel, us, hops, weight, size, arrivals
                )
            elif spread == FLOOD:
                cost, late = spread_flood(
                    structure, flows, delays, scratch, channel_stamp, channel, entry, us, hops, weight, size, arrivals
                )
                book(counters, DUPLICATE, weight * late, size)
            elif spread == THROUGH:
                cost = spread_through(
                    structure, flows, delays, scratch, key, channel, entry, us, hops, weight, size, arrivals
                )
            else:
                cost = spread_filtered(
                    structure, flows, paths, delays, scratch, channel_stamp, row, us, hops, weight, size, arrivals
                )
            counters[0, LINK_COST] += weight * cost
        in_order = last - first <= 1
        is_filtering = spread in (FILTERED, THROUGH)
        judge(
            arrivals, in_order, is_filtering, scratch, flows, stamp, weight, size, client_bytes[publication],
            counters, hop_weights, us_weights,
        )  # fmt: skip
