"""What brokers may hold: a stated imbalance above the mean, and which client makes that impossible.

Room has dimensions (connections, messages a second, ...). A broker's share of the whole is even unless capacities are
given. A client heavier than a broker's limit breaks it wherever it sits. Such clients (dashboards that want everything)
together count as one limit: they may share a broker, which is then given up, or sit apart, as costs say. Whether
everybody fits is proved by packing them, heaviest first; where that fails the limit is raised to what the packing
reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.kernels.jit import kernel
from coterie.kernels.placement.books import DUST, Floats
from coterie.kernels.rings.chord import Index, Offset


@dataclass(frozen=True)
class Heaviest:
    """The client because of which a limit cannot hold."""

    client: int
    dimension: int
    weight: float
    limit: float  # as stated


@dataclass(frozen=True, eq=False)
class Limits:
    """Room by broker and dimension, what clients take of it, and a placement that keeps to it."""

    capacity: Floats  # [broker, dimension]
    weight: Floats  # [client, dimension]: nobody counts more than a broker holds, nor do the heaviest together
    packed: Index
    heaviest: Heaviest | None
    heavy: Offset  # clients of whom each is above a broker's limit


def limits_of(weight: Floats, shares: Floats, imbalance: Floats) -> Limits:
    """`shares` [broker, dimension] are relative; `imbalance` is by dimension how far above its share one may be."""
    counted, capacity = weight.copy(), np.empty_like(shares, dtype=np.float64)
    blamed: list[Heaviest] = []
    for dimension in range(weight.shape[1]):
        share = shares[:, dimension] / max(shares[:, dimension].sum(), 1e-30)
        column, room = clipped(weight[:, dimension], share, float(imbalance[dimension]))
        counted[:, dimension], capacity[:, dimension] = column, room
        if (column < weight[:, dimension]).any():
            blamed.append(_heaviest(weight, dimension, float(room.max())))
    packed, load = packing(counted, capacity)
    too_full = np.flatnonzero((load > capacity * (1 + DUST)).any(axis=0)).tolist()
    blamed += [_heaviest(weight, dimension, float(capacity[:, dimension].max())) for dimension in too_full]
    heavy = np.flatnonzero((weight > capacity.max(axis=0) * (1 + DUST)).any(axis=1))
    return Limits(np.maximum(capacity, load), counted, packed, blamed[0] if blamed else None, heavy)


def clipped(weight: Floats, share: Floats, imbalance: float) -> tuple[Floats, Floats]:
    """Weights, those above the largest limit counting as one limit together, and the limits.

    Like weights make whole numbers of clients.
    """
    total, each = float(weight.sum()), float(weight.max(initial=0.0))
    room = (1 + imbalance) * total * share
    if each > 0 and (weight == each).all():
        room = np.maximum(room, each * np.ceil(total / each * share - DUST))
    room = np.maximum(room, 1e-12)
    is_heavy = weight > room.max() * (1 + DUST)
    return np.where(is_heavy, room.max() / max(np.count_nonzero(is_heavy), 1), np.minimum(weight, room.max())), room


def packing(weight: Floats, capacity: Floats) -> tuple[Index, Floats]:
    """Heaviest first, each where it leaves the most room; and the loads."""
    order = np.argsort(-(weight / capacity.max(axis=0)).max(axis=1, initial=0.0), kind="stable")
    packed, load = pack(weight, capacity, order)
    return packed, load


@kernel
def pack(weight: Floats, capacity: Floats, order: Offset) -> tuple[Index, Floats]:
    load = np.zeros(capacity.shape)
    part = np.zeros(weight.shape[0], np.int32)
    for client in order:
        best, best_full = 0, np.inf
        for broker in range(capacity.shape[0]):
            full = 0.0
            for dimension in range(capacity.shape[1]):
                whole = (load[broker, dimension] + weight[client, dimension]) / capacity[broker, dimension]
                full = max(full, whole)
            if full < best_full:
                best, best_full = broker, full
        part[client] = best
        for dimension in range(capacity.shape[1]):
            load[best, dimension] += weight[client, dimension]
    return part, load


def _heaviest(weight: Floats, dimension: int, limit: float) -> Heaviest:
    client = int(np.argmax(weight[:, dimension]))
    return Heaviest(client, dimension, float(weight[client, dimension]), limit)
