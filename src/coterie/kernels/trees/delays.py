"""How far members are from the roots of their trees, and topic-connected overlays to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel
from coterie.kernels.rings.chord import Index, Offset

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


@kernel
def member_delays(
    indptr: Offset, node: Index, parent: Index, root: Index, members_indptr: Offset, members: Index, plane: Floats
) -> tuple[Index, Floats]:
    """(hops, distance) from the root to every member, aligned with `members`; parents come before children.

    `plane` float64[n, 2] are the brokers' coordinates; distances add up along the path.
    """
    count = len(plane)
    hops_at = np.zeros(count, np.int32)
    far_at = np.zeros(count)
    hops = np.zeros(len(members), np.int32)
    far = np.zeros(len(members))
    for channel in range(len(root)):
        if root[channel] >= 0:
            hops_at[root[channel]] = 0
            far_at[root[channel]] = 0.0
        for i in range(indptr[channel], indptr[channel + 1]):
            here, above = node[i], parent[i]
            hops_at[here] = hops_at[above] + 1
            span = np.sqrt((plane[here, 0] - plane[above, 0]) ** 2 + (plane[here, 1] - plane[above, 1]) ** 2)
            far_at[here] = far_at[above] + span
        for i in range(members_indptr[channel], members_indptr[channel + 1]):
            hops[i] = hops_at[members[i]]
            far[i] = far_at[members[i]]
    return hops, far


@kernel
def _merge(part: Index, weight: Index, one: int, other: int) -> None:
    """Join two components of one topic and take the pairs between them off the weights."""
    kept, gone = part[one], part[other]
    if kept == gone:
        return
    count = len(part)
    for first in range(count):
        if part[first] == kept:
            for second in range(count):
                if part[second] == gone:
                    weight[first, second] -= 1
                    weight[second, first] -= 1
    for index in range(count):
        if part[index] == gone:
            part[index] = kept


@kernel
def topic_connected(wants: Bytes, existing: Bytes) -> Bytes:
    """Greedy merge (Chockler et al., 2007): links until every topic's nodes are connected among themselves.

    `wants` uint8[n, p], `existing` uint8[n, n] are links that stay. The link that joins most topic components is added
    first. Memory n x p; about n^2 p steps.
    """
    count, topics = wants.shape
    links = existing.copy()
    part = np.full((topics, count), -1, np.int32)
    weight = np.zeros((count, count), np.int32)
    for topic in range(topics):
        for one in range(count):
            if wants[one, topic]:
                part[topic, one] = one
                for other in range(count):
                    if other != one and wants[other, topic]:
                        weight[one, other] += 1
    for one in range(count):
        for other in range(one + 1, count):
            if links[one, other]:
                for topic in range(topics):
                    if wants[one, topic] and wants[other, topic]:
                        _merge(part[topic], weight, one, other)
    while True:
        best = int(np.argmax(weight))
        one, other = best // count, best % count
        if weight[one, other] <= 0:
            return links
        links[one, other] = links[other, one] = 1
        for topic in range(topics):
            if wants[one, topic] and wants[other, topic]:
                _merge(part[topic], weight, one, other)


@kernel
def flood_hops(wants: Bytes, links: Bytes, source: Index, members_indptr: Offset, members: Index) -> Index:
    """Hops from each topic's source to its members along links between members; -1 where there is no way."""
    count = len(links)
    hops = np.full(len(members), -1, np.int32)
    at = np.empty(count, np.int32)
    queue = np.empty(count, np.int32)
    for topic in range(len(source)):
        first, last = members_indptr[topic], members_indptr[topic + 1]
        if first == last:
            continue
        at[:] = -1
        at[source[topic]] = 0
        queue[0] = source[topic]
        head, tail = 0, 1
        while head < tail:
            here = queue[head]
            head += 1
            for there in range(count):
                if links[here, there] and at[there] < 0 and wants[there, topic]:
                    at[there] = at[here] + 1
                    queue[tail] = there
                    tail += 1
        for i in range(first, last):
            hops[i] = at[members[i]]
    return hops


@kernel
def update_messages(
    parent: Index,
    depth: Index,
    counts: Index,
    root: Index,
    slot_of: Index,
    broker: Index,
    topic: Index,
    sign: NDArray[np.int8],
) -> int:
    """Messages that keep the trees right: each change goes to the root, and every edge made or cut is one message.

    `counts` int32[p, n] as in slotcost, changed in place.
    """
    messages = 0
    for i in range(len(broker)):
        slot, top = slot_of[broker[i]], root[topic[i]]
        row = counts[topic[i]]
        messages += depth[slot, top]
        step = sign[i]
        before = row[slot]
        row[slot] += step
        messages += slot != top and (before == 0 or row[slot] == 0)
        while slot != top:
            slot = parent[top, slot]
            before = row[slot]
            row[slot] += step
            messages += slot != top and (before == 0 or row[slot] == 0)
    return messages
