"""What the ways of spreading an event share when they are priced: the arrays of a design, and arrivals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.arrays import first_not_below
from coterie.kernels.jit import kernel

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


class Csr(NamedTuple):
    """Offsets (int64) and values (int32)."""

    indptr: Int64
    values: Int32


class Structure(NamedTuple):
    """The arrays of a design, see model.design."""

    members: Csr
    root: Int32
    tree_indptr: Int64
    tree_node: Int32
    tree_parent: Int32
    links: Csr
    cost_links: Csr
    cost_values: Float64
    has_relays: bool  # see kernels.pricing.handing
    zone_of: Int32  # of each node, as the relays know it


class EntryPaths(NamedTuple):
    """The arrays of model.design.Entries, rows grouped by publication through `of_publication`."""

    of_publication: Int64
    channel: Int32
    after: Int32
    hops: Csr
    targets: Csr


class Delays(NamedTuple):
    """The arrays of model.latency.Latency."""

    kind: int
    base_us: int
    matrix_us: Int64
    coordinates: Float64
    us_per_unit: float


class Flows(NamedTuple):
    """What copies add up to besides the columns: the work of each node, and what goes from zone to zone."""

    load: Float64  # messages per second a node sends, receives, takes from clients and hands to them
    zone_of: Int32
    crossing: Float64  # copies and bytes per second between zones


class Scratch(NamedTuple):
    """Per-node working arrays, reused for every publication; `stamp` values never repeat, so nothing is cleared."""

    wants: Float64  # deliveries to local clients that want the topic, valid where wants_stamp matches
    wants_stamp: Int64
    member_stamp: Int64
    reached_stamp: Int64
    us: Int64
    hops: Int64
    beyond: Int64
    heap_us: Int64
    heap_node: Int32
    had_stamp: Int64
    relay: Int32  # by zone: the node that passes a copy on inside, and how it scores
    relay_score: NDArray[np.uint64]


class Arrivals(NamedTuple):
    """Growable columns of arrivals; `size[0]` is how many there are."""

    size: Int64
    node: Int32
    us: Int64
    hops: Int64
    is_member: NDArray[np.bool_]
    is_copy: NDArray[np.bool_]


@kernel
def hanging_edge(structure: Structure, reached: Int64) -> int:
    """The first edge whose parent is neither the root of its channel nor the node of an edge before it; -1 if none is.

    `reached` (by node, zeros) is scratch.
    """
    for channel in range(len(structure.root)):
        if structure.root[channel] >= 0:
            reached[structure.root[channel]] = channel + 1
        for at in range(structure.tree_indptr[channel], structure.tree_indptr[channel + 1]):
            if reached[structure.tree_parent[at]] != channel + 1:
                return int(at)
            reached[structure.tree_node[at]] = channel + 1
    return -1


@kernel
def latency_us(delays: Delays, source: int, target: int) -> int:
    if delays.kind == 0:
        return delays.base_us
    if delays.kind == 1:
        size = len(delays.matrix_us)
        return delays.matrix_us[source % size, target % size]
    x = delays.coordinates[source, 0] - delays.coordinates[target, 0]
    y = delays.coordinates[source, 1] - delays.coordinates[target, 1]
    return delays.base_us + int(np.sqrt(x * x + y * y) * delays.us_per_unit)


@kernel
def link_cost(structure: Structure, source: int, target: int) -> float:
    """Cost of a link of the given network; 0 where no network is given or the two are not linked."""
    indptr, values = structure.cost_links
    last = indptr[source + 1]
    place = first_not_below(values, indptr[source], last, target)
    if place < last and values[place] == target:
        return structure.cost_values[place]
    return 0.0


@kernel
def cross(structure: Structure, flows: Flows, source: int, target: int, weight: float, size: float) -> float:
    """A copy goes from source to target, `weight` times a second: returns the link's cost."""
    flows.load[source] += weight
    flows.load[target] += weight
    if flows.zone_of[source] != flows.zone_of[target]:
        flows.crossing[0] += weight
        flows.crossing[1] += weight * size
    return link_cost(structure, source, target)


@kernel
def add_arrival(arrivals: Arrivals, node: int, us: int, hops: int, is_member: bool, is_copy: bool) -> None:
    at = arrivals.size[0]
    arrivals.node[at] = node
    arrivals.us[at] = us
    arrivals.hops[at] = hops
    arrivals.is_member[at] = is_member
    arrivals.is_copy[at] = is_copy
    arrivals.size[0] = at + 1
