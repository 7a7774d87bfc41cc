"""Links chosen with the whole network in sight: always one that helps most topics, until every need is met.

How it works: a need is a topic that a node wants covered once more, two components of a topic, or a leaf block of a
topic that one crash could cut off. The gain of a link is the number of needs it meets; adding links never raises the
gain of another, so one sweep per gain, from the highest down, takes links in greedy order without a queue of pairs.
Memory is linear; the cost is a handful of scans of each node's topics' subscribers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.graphs.paths import find
from coterie.kernels.interests.shared import shared
from coterie.kernels.jit import kernel
from coterie.kernels.links.maintenance import random_share

COVERAGE, BLOCKS = 0, 1  # which needs are served

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


class PartLabels(NamedTuple):
    """Components of topics once more, laid out for scans: all arrays beside the subscribers of the topics."""

    label: Int32  # the same within a component: the number of one of its members
    following: Int32  # the next member, round in a circle
    size: Int32  # of the component with this label
    entry: Int32  # beside each pair: where it stands among the subscribers


NO_LABELS = PartLabels(*(np.zeros(0, np.int32) for _ in range(4)))


class Needs(NamedTuple):
    """Interests in both directions and what is still to be done, per pair (node, topic) of the interests."""

    kind: int
    wanted: int  # neighbours per pair, 0 if only components count
    is_joining: bool  # whether components of a topic are to be joined
    interest_indptr: Int64
    interest: Int32
    topic_indptr: Int64
    subscriber: Int32
    pair: Int64  # beside each subscriber: its pair
    cover: Int32
    group: Int64  # union-find over pairs: components of topics
    parts: Int64  # components per topic
    leaf: Int64  # number of the leaf block a pair lies in, -1 if in none
    cut: Int32  # per leaf block: the node that ties it to the rest
    is_open: Bytes  # per leaf block: nothing has been done for it yet
    labels: PartLabels  # where nothing but components counts, else empty


class Web(NamedTuple):
    """Undirected links as linked lists: ends 2i and 2i + 1 are link i."""

    head: Int64
    following: Int64
    end: Int32
    size: Int64


class Board(NamedTuple):
    """Scratch per node: gains of one scan, who may not be chosen, best gain still possible."""

    gain: Int32
    mark: Int64
    touched: Int32
    bound: Int64
    stamp: Int64


@kernel
def add_link(web: Web, one: int, other: int) -> None:
    at = 2 * web.size[0]
    web.end[at], web.end[at + 1] = other, one
    web.following[at], web.head[one] = web.head[one], at
    web.following[at + 1], web.head[other] = web.head[other], at + 1
    web.size[0] += 1


@kernel
def met(needs: Needs, topic: int, one: int, other: int, own: int, its: int) -> int:
    """Needs of this topic that a link between nodes `one` and `other` (pairs `own` and `its`) would meet."""
    if needs.kind == COVERAGE:
        count = 0
        if needs.cover[own] < needs.wanted:
            count += 1
        if needs.cover[its] < needs.wanted:
            count += 1
        if needs.is_joining and needs.parts[topic] > 1 and find(needs.group, own) != find(needs.group, its):
            count += 1
        return count
    left, right = needs.leaf[own], needs.leaf[its]
    count = 0
    if left >= 0 and needs.is_open[left] and left != right and needs.cut[left] != other:
        count += 1
    if right >= 0 and needs.is_open[right] and left != right and needs.cut[right] != one:
        count += 1
    return count


@kernel
def meet(needs: Needs, one: int, other: int, is_counting: bool) -> int:
    """The gain of a link, or, if not counting, what follows from adding it. O(length of both lists)."""
    gain = 0
    for own, its in shared(needs.interest_indptr, needs.interest, one, other):
        if is_counting:
            gain += met(needs, needs.interest[own], one, other, own, its)
        else:
            settle_pair(needs, needs.interest[own], one, other, own, its)
    return gain


@kernel
def add_links(needs: Needs, web: Web, ends: Int32) -> None:
    for at in range(len(ends)):
        add_link(web, ends[at, 0], ends[at, 1])
        meet(needs, ends[at, 0], ends[at, 1], False)


@kernel
def settle_pair(needs: Needs, topic: int, one: int, other: int, own: int, its: int) -> None:
    needs.cover[own] += 1
    needs.cover[its] += 1
    first, second = find(needs.group, own), find(needs.group, its)
    if first != second:
        needs.group[first] = second
        needs.parts[topic] -= 1
        if len(needs.labels.entry):
            label_alike(needs.labels, needs.labels.entry[own], needs.labels.entry[its])
    left, right = needs.leaf[own], needs.leaf[its]
    if left != right:
        if left >= 0 and needs.cut[left] != other:
            needs.is_open[left] = 0
        if right >= 0 and needs.cut[right] != one:
            needs.is_open[right] = 0


@kernel
def labels_of(pair: Int64, group: Int64) -> PartLabels:
    """What the components are called that `group` tells, by entry; `pair` is that of every entry."""
    count = len(pair)
    entry = np.empty(count, np.int32)
    for at in range(count):
        entry[pair[at]] = at
    own, size = np.arange(count).astype(np.int32), np.ones(count, np.int32)
    labels = PartLabels(own, own.copy(), size, entry)
    for at in range(count):
        first = entry[find(group, pair[at])]
        if labels.label[at] != labels.label[first]:
            label_alike(labels, at, first)
    return labels


@kernel
def label_alike(labels: PartLabels, one: int, other: int) -> None:
    """Two components become one: the smaller takes the name of the larger."""
    if labels.size[labels.label[one]] > labels.size[labels.label[other]]:
        one, other = other, one
    new = labels.label[other]
    labels.size[new] += labels.size[labels.label[one]]
    at = one
    while True:
        labels.label[at] = new
        at = labels.following[at]
        if at == one:
            break
    labels.following[one], labels.following[other] = labels.following[other], labels.following[one]


@kernel
def has_needs(needs: Needs, node: int) -> bool:
    for at in range(needs.interest_indptr[node], needs.interest_indptr[node + 1]):
        if needs.kind == BLOCKS:
            if needs.leaf[at] >= 0 and needs.is_open[needs.leaf[at]]:
                return True
        elif needs.cover[at] < needs.wanted or (needs.is_joining and needs.parts[needs.interest[at]] > 1):
            return True
    return False


@kernel
def touch(board: Board, other: int, gain: int, count: int) -> int:
    """Add to what a link with this node gains; returns how many nodes were touched so far."""
    if board.gain[other] == 0:
        board.touched[count] = other
        count += 1
    board.gain[other] += gain
    return count


@kernel
def scan_coverage(needs: Needs, board: Board, own: int, stamp: int, count: int) -> int:
    """`met` for all subscribers of one topic at once, with what is the same for all of them looked up once."""
    topic = needs.interest[own]
    is_joining = needs.is_joining and needs.parts[topic] > 1
    base = 1 if needs.cover[own] < needs.wanted else 0
    part = find(needs.group, own) if is_joining else -1
    for entry in range(needs.topic_indptr[topic], needs.topic_indptr[topic + 1]):
        other, its = needs.subscriber[entry], needs.pair[entry]
        gain = base + (1 if needs.cover[its] < needs.wanted else 0)
        if is_joining and find(needs.group, its) != part:
            gain += 1
        if gain and board.mark[other] != stamp:
            count = touch(board, other, gain, count)
    return count


@kernel
def scan(needs: Needs, web: Web, board: Board, node: int) -> int:
    """Gains of all others for this node; returns how many were touched."""
    board.stamp[0] += 1
    stamp = board.stamp[0]
    board.mark[node] = stamp
    at = web.head[node]
    while at >= 0:
        board.mark[web.end[at]] = stamp
        at = web.following[at]
    count = 0
    for own in range(needs.interest_indptr[node], needs.interest_indptr[node + 1]):
        topic = needs.interest[own]
        if needs.kind == COVERAGE:
            count = scan_coverage(needs, board, own, stamp, count)
            continue
        for entry in range(needs.topic_indptr[topic], needs.topic_indptr[topic + 1]):
            other = needs.subscriber[entry]
            if board.mark[other] == stamp:
                continue
            gain = met(needs, topic, node, other, own, needs.pair[entry])
            if gain:
                count = touch(board, other, gain, count)
    return count


@kernel
def scan_parts(needs: Needs, board: Board, node: int, level: int) -> tuple[int, int]:
    """The same where nothing but components counts: how many were touched that gain so much, and the most any gains.

    Who is linked already is in the same components. Plain passes are several times faster than one that asks at every
    subscriber whether it was met before.
    """
    label, entry, seen = needs.labels.label, needs.labels.entry, 0
    best, good = 0, 0
    for own in range(needs.interest_indptr[node], needs.interest_indptr[node + 1]):
        topic, mine = needs.interest[own], label[entry[own]]
        if needs.parts[topic] > 1:
            start, end = needs.topic_indptr[topic], needs.topic_indptr[topic + 1]
            seen += end - start
            for at in range(start, end):
                other = needs.subscriber[at]
                gain = board.gain[other] + (label[at] != mine)
                board.gain[other] = gain
                best = max(best, gain)
    if best >= level or seen < len(board.gain):
        for own in range(needs.interest_indptr[node], needs.interest_indptr[node + 1]):
            topic, mine = needs.interest[own], label[entry[own]]
            if needs.parts[topic] > 1:
                for at in range(needs.topic_indptr[topic], needs.topic_indptr[topic + 1]):
                    other = needs.subscriber[at]
                    if label[at] != mine:
                        if board.gain[other] >= level:
                            board.touched[good] = other
                            good += 1
                        board.gain[other] = 0
    if seen >= len(board.gain):
        board.gain[:] = 0
    return good, best


@kernel
def reach(needs: Needs, web: Web, board: Board, node: int, level: int) -> tuple[int, int]:
    """Who would gain so much by a link, first among the touched: how many; and the most any link gains."""
    if len(needs.labels.entry):
        return scan_parts(needs, board, node, level)
    count = scan(needs, web, board, node)
    best, good = 0, 0
    for at in range(count):
        other = board.touched[at]
        gain = board.gain[other]
        board.gain[other] = 0
        if gain >= level:
            board.touched[good] = other
            good += 1
        best = max(best, gain)
    return good, best


@kernel
def take(needs: Needs, web: Web, board: Board, node: int, level: int, enough: int, draw: Words) -> int:
    """Add the node's links of this gain (at least), in random order, until enough is gained; returns what was.

    Remembers the best gain left.
    """
    good, best = reach(needs, web, board, node, level)
    gained = 0
    for at in range(good):
        if gained >= enough:
            break
        swap = at + int(random_share(draw) * (good - at))
        board.touched[at], board.touched[swap] = board.touched[swap], board.touched[at]
        other = board.touched[at]
        gain = meet(needs, node, other, True)
        if gain >= level:
            add_link(web, node, other)
            meet(needs, node, other, False)
            gained += gain
    board.bound[node] = min(best, level - 1)
    return gained


@kernel
def serve(needs: Needs, web: Web, board: Board, enough: int, draw: Words) -> None:
    """Links of the highest gain first until so many needs are met, or no link meets any."""
    count = len(needs.interest_indptr) - 1
    order = np.arange(count)
    highest = 0
    for node in range(count):
        size = needs.interest_indptr[node + 1] - needs.interest_indptr[node]
        board.bound[node] = 3 * size
        highest = max(highest, 3 * size)
    for back in range(highest):
        level = highest - back
        for at in range(count):
            swap = at + int(random_share(draw) * (count - at))
            order[at], order[swap] = order[swap], order[at]
        for at in range(count):
            node = order[at]
            if enough > 0 and board.bound[node] >= level and has_needs(needs, node):
                enough -= take(needs, web, board, node, level, enough, draw)


@kernel
def prune(needs: Needs, one: Int32, other: Int32, order: Int64) -> Bytes:
    """Reverse deletion: 1 for every link that is still needed for coverage when those before it in order are gone."""
    keep = np.ones(len(one), np.uint8)
    for at in order:
        keep[at] = 0
        for own, its in shared(needs.interest_indptr, needs.interest, one[at], other[at]):
            if needs.cover[own] <= needs.wanted or needs.cover[its] <= needs.wanted:
                keep[at] = 1
        if not keep[at]:
            for own, its in shared(needs.interest_indptr, needs.interest, one[at], other[at]):
                needs.cover[own] -= 1
                needs.cover[its] -= 1
    return keep
