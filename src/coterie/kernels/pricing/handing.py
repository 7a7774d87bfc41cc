"""One copy to each member of a channel: from where it enters, or through the root; with relays, once into every zone.

A relay is a member of its zone, chosen by the topic and by who sends: the same for every event, so that events keep
their order, and another one for other topics, so that no node passes on everything.
"""

from __future__ import annotations

import numpy as np

from coterie.kernels.jit import kernel
from coterie.kernels.pricing.arriving import Arrivals, Delays, Flows, Scratch, Structure, add_arrival, cross, latency_us

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@kernel
def mixed(value: np.uint64) -> np.uint64:
    """substrate.identifiers.splitmix64"""
    value = value + GOLDEN
    value = (value ^ (value >> S30)) * FIRST
    value = (value ^ (value >> S27)) * SECOND
    return value ^ (value >> S31)


@kernel
def relay_score(key: np.uint64, sender: int, node: int) -> np.uint64:
    """The member with the lowest one is the relay; systems.zones.relay_score says the same."""
    return mixed(key ^ mixed((np.uint64(sender) << S32) | np.uint64(node)))


@kernel
def choose_relays(structure: Structure, scratch: Scratch, channel: int, sender: int, but: int, key: np.uint64) -> None:
    """For every zone but the sender's, of the members to be served."""
    first, last = structure.members.indptr[channel], structure.members.indptr[channel + 1]
    for at in range(first, last):
        scratch.relay[structure.zone_of[structure.members.values[at]]] = -1
    for at in range(first, last):
        node = structure.members.values[at]
        zone = structure.zone_of[node]
        if node in (sender, but) or zone == structure.zone_of[sender]:
            continue
        score = relay_score(key, sender, node)
        if scratch.relay[zone] < 0 or score < scratch.relay_score[zone]:
            scratch.relay[zone], scratch.relay_score[zone] = node, score


@kernel
def hand_out(
    structure: Structure,
    flows: Flows,
    delays: Delays,
    scratch: Scratch,
    key: np.uint64,
    channel: int,
    sender: int,
    but: int,
    us: int,
    hops: int,
    weight: float,
    size: float,
    out: Arrivals,
) -> float:
    """The sender's copies to all members but itself and `but`. Returns the cost of the links used."""
    cost = 0.0
    if structure.has_relays:
        choose_relays(structure, scratch, channel, sender, but, key)
    for at in range(structure.members.indptr[channel], structure.members.indptr[channel + 1]):
        node = structure.members.values[at]
        if node in (sender, but):
            continue
        via, via_us, via_hops = sender, us, hops
        if structure.has_relays and structure.zone_of[node] != structure.zone_of[sender]:
            relay = scratch.relay[structure.zone_of[node]]
            if relay != node:
                via, via_us, via_hops = relay, us + latency_us(delays, sender, relay), hops + 1
        cost += cross(structure, flows, via, node, weight, size)
        add_arrival(out, node, via_us + latency_us(delays, via, node), via_hops + 1, True, True)
    return cost


@kernel
def spread_direct(
    structure: Structure,
    flows: Flows,
    delays: Delays,
    scratch: Scratch,
    key: np.uint64,
    channel: int,
    entry: int,
    us: int,
    hops: int,
    weight: float,
    size: float,
    out: Arrivals,
) -> float:
    """The entry node sends a copy to every other member."""
    for at in range(structure.members.indptr[channel], structure.members.indptr[channel + 1]):
        if structure.members.values[at] == entry:
            add_arrival(out, entry, us, hops, True, False)
    return hand_out(structure, flows, delays, scratch, key, channel, entry, entry, us, hops, weight, size, out)


@kernel
def spread_through(
    structure: Structure,
    flows: Flows,
    delays: Delays,
    scratch: Scratch,
    key: np.uint64,
    channel: int,
    entry: int,
    us: int,
    hops: int,
    weight: float,
    size: float,
    out: Arrivals,
) -> float:
    """To the root, and on to every other member. The root is a member where it wants the event itself."""
    root = structure.root[channel]
    cost = 0.0
    add_arrival(out, entry, us, hops, False, False)
    if entry != root:
        us, hops = us + latency_us(delays, entry, root), hops + 1
        cost += cross(structure, flows, entry, root, weight, size)
        add_arrival(out, root, us, hops, False, True)
    return cost + hand_out(structure, flows, delays, scratch, key, channel, root, entry, us, hops, weight, size, out)
