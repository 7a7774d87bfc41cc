"""What a broker at a slot costs on its own: the matrix that a linear assignment starts from, and bounds follow from."""

from __future__ import annotations

import numpy as np

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index
from coterie.kernels.rings.slotcost import Floats, Instance


@kernel
def subtree_sizes(parent: Index) -> Index:
    """int32[n, n]: how many slots lie at or below each slot (column) in the tree of each root (row)."""
    count = len(parent)
    sizes = np.ones((count, count), np.int32)
    for root in range(count):
        for steps in range(count - 1, 0, -1):  # clockwise, every parent comes before its children
            slot = (root + steps) % count
            sizes[root, parent[root, slot]] += sizes[root, slot]
    return sizes


@kernel
def delay_matrix(instance: Instance) -> Floats:
    """float64[n, n]: broker (row) at slot (column): its delay cost, which depends on no other broker."""
    count = len(instance.parent)
    matrix = np.zeros((count, count))
    for broker in range(count):
        for i in range(instance.indptr[broker], instance.indptr[broker + 1]):
            topic = instance.topics[i]
            root = instance.root[topic]
            for slot in range(count):
                matrix[broker, slot] += instance.rate[topic] * instance.depth[root, slot]
    return matrix * instance.delay_weight


@kernel
def expected_matrix(instance: Instance, sizes: Index) -> Floats:
    """Delay cost plus the relays a broker there is expected to need, less those it saves, if all others sat at random.

    A slot is on a topic's tree with probability 1 - (1 - share)^(slots below); a broker that wants the topic and sits
    at such a slot saves a relay, and makes a relay of each ancestor that would not be on the tree otherwise.
    """
    count, topics = instance.wants.shape
    matrix = np.zeros((count, count))
    alone = np.empty(count)
    value = np.empty(count)
    wanting = np.zeros(topics, np.int64)
    for topic in instance.topics:
        wanting[topic] += 1
    by_topic = np.argsort(instance.topics, kind="mergesort")
    owner = np.empty(len(instance.topics), np.int64)
    for broker in range(count):
        owner[instance.indptr[broker] : instance.indptr[broker + 1]] = broker
    start = 0
    for topic in range(topics):
        if wanting[topic] == 0:
            continue
        root = instance.root[topic]
        absent = 1.0 - (wanting[topic] - 1) / max(count - 1, 1)
        alone[root] = value[root] = 0.0
        for steps in range(1, count):
            slot = (root + steps) % count
            above = instance.parent[root, slot]
            free = 0.0 if above == root else absent ** sizes[root, above]
            alone[slot] = alone[above] + free
            saved = 1.0 - absent ** (sizes[root, slot] - 1)
            hops = instance.depth[root, slot]
            value[slot] = instance.rate[topic] * (instance.delay_weight * hops + alone[slot] - saved)
        for i in range(start, start + wanting[topic]):
            matrix[owner[by_topic[i]]] += value
        start += wanting[topic]
    return matrix
