"""SpiderCast's neighbour maintenance (Figures 2 to 5) for a whole network at once, round by round.

How it works: a round visits the nodes that have something to do, in random order; each runs one iteration of
MAINTAINNEIGHBORS, and the conversation it starts (CONNECT and its answer, DISCONNECT and its answer) happens at once.
That is the protocol with messages much faster than `connect_timeout` and heartbeats that always arrive in time. Links
live in fixed slots per node, coverage in one counter per (node, topic) pair, so memory is linear in the pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.interests.shared import shared
from coterie.kernels.jit import kernel
from coterie.kernels.links import bits

GREEDY, RANDOM, SIMILAR, ANY = 0, 1, 2, 3  # how the next neighbour is chosen
TIES_RANDOM, TIES_FIRST = 0, 1
CONNECT, CONNECT_OK, REDIRECT, DISCONNECT, DISCONNECT_OK, LEAVE = range(6)
MESSAGE_KINDS = 6
QUARANTINE = 32  # refusers a node remembers

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


class Nodes(NamedTuple):
    """Who wants what, who is up, and which share of the others each node knows."""

    interest_indptr: Int64  # node -> topics, ascending
    interest: Int32
    topic_indptr: Int64  # topic -> nodes
    subscriber: Int32
    is_up: Bytes
    members: bits.Sets  # topic -> who of those that are up wants it, where bits are shorter than lists; else nothing
    view_share: float  # 1: everybody knows everybody
    view_seed: int


class TaskArrays(NamedTuple):
    """One maintenance task (greedy or random): the variables of Figure 1 for every node.

    Node v's neighbours are `peer[start[v]:start[v] + degree[v]]`; `refused` beside each is that neighbour's degree when
    it last refused to disconnect (-1: it never did). `cover` counts, per pair of the interests, neighbours with it.
    """

    choice: int  # GREEDY, RANDOM, SIMILAR or ANY
    ties: int
    is_strict: bool  # disconnect only from neighbours *above* their target, as Figure 3 prints it
    margin: int
    wanted: Int64  # K: coverage per topic, or (SIMILAR, ANY) the number of links
    limit: Int64  # L^max
    target: Int64  # L
    start: Int64
    degree: Int64
    peer: Int32
    refused: Int32
    cover: Int32
    redirect: Int32  # where the last REDIRECT pointed, -1 if nowhere
    quarantine: Int32  # QUARANTINE slots per node, -1 if empty
    quarantined: Int64  # how many were ever put there
    is_awake: Bytes
    messages: Int64  # per kind


class Desk(NamedTuple):
    """Scratch, reused by every choice."""

    mark: Int64  # stamp of nodes that may not be chosen
    gain: Int32
    touched: Int32
    stamp: Int64
    planes: bits.Planes  # gains, where topics have `members`
    carry: Words
    kept: Words


@kernel
def random_share(draw: Words) -> float:
    """The next of a stream of numbers in [0, 1); `draw` holds its one word of state (Weyl sequence, mixed)."""
    draw[0] += np.uint64(0x9E3779B97F4A7C15)
    return mixed(draw[0])


@kernel
def mixed(key: np.uint64) -> float:
    """A share in [0, 1) that depends on every bit of the key."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    key = key ^ (key >> np.uint64(31))
    return float(key >> np.uint64(11)) / 9007199254740992.0


@kernel
def is_known(nodes: Nodes, viewer: int, other: int) -> bool:
    """Whether `other` is in the viewer's interest view: a fixed draw per pair, so views need no memory."""
    if nodes.view_share >= 1.0:
        return True
    pair = (np.uint64(viewer) << np.uint64(32)) + np.uint64(other) + np.uint64(nodes.view_seed)
    return mixed(pair * np.uint64(0x9E3779B97F4A7C15)) < nodes.view_share


@kernel
def overlap(nodes: Nodes, one: int, other: int) -> int:
    """How many topics both want. O(length of both lists)."""
    count = 0
    for _ in shared(nodes.interest_indptr, nodes.interest, one, other):
        count += 1
    return count


@kernel
def change_cover(nodes: Nodes, task: TaskArrays, node: int, peer: int, by: int) -> None:
    for own, _ in shared(nodes.interest_indptr, nodes.interest, node, peer):
        task.cover[own] += by


@kernel
def needed(nodes: Nodes, task: TaskArrays, node: int, peer: int, most: int) -> int:
    """Topics that would fall below K if `node` lost this neighbour; for plain link counts, missing links.

    Beyond `most` nobody counts on: it is more, however much.
    """
    if task.choice >= SIMILAR:
        return int(max(task.wanted[node] - (task.degree[node] - 1), 0))
    count = 0
    for own, _ in shared(nodes.interest_indptr, nodes.interest, node, peer):
        if task.cover[own] <= task.wanted[node]:
            count += 1
            if count > most:
                break
    return count


@kernel
def under_covered(nodes: Nodes, task: TaskArrays, node: int) -> int:
    """CALCKUNCOVERED, Figure 3."""
    if task.choice >= SIMILAR:
        return int(max(task.wanted[node] - task.degree[node], 0))
    count = 0
    for at in range(nodes.interest_indptr[node], nodes.interest_indptr[node + 1]):
        if task.cover[at] < task.wanted[node]:
            count += 1
    return count


@kernel
def wake(task: TaskArrays, node: int) -> None:
    """The node and its neighbours, to whom its next heartbeat tells the new degree."""
    task.is_awake[node] = 1
    for at in range(task.start[node], task.start[node] + task.degree[node]):
        task.is_awake[task.peer[at]] = 1


@kernel
def add_neighbour(nodes: Nodes, task: TaskArrays, node: int, peer: int) -> None:
    at = task.start[node] + task.degree[node]
    task.peer[at], task.refused[at] = peer, -1
    task.degree[node] += 1
    change_cover(nodes, task, node, peer, 1)
    if task.target[node] < task.limit[node] and task.degree[node] < task.target[node] + task.margin:
        task.target[node] += 1


@kernel
def remove_neighbour(nodes: Nodes, task: TaskArrays, node: int, peer: int) -> None:
    first, last = task.start[node], task.start[node] + task.degree[node] - 1
    for at in range(first, last + 1):
        if task.peer[at] == peer:
            task.peer[at], task.refused[at] = task.peer[last], task.refused[last]
            task.degree[node] -= 1
            change_cover(nodes, task, node, peer, -1)
            return


@kernel
def exclude(task: TaskArrays, desk: Desk, node: int) -> int:
    """Marks whom the node must not choose: itself, its neighbours, recent refusers. Returns the stamp."""
    desk.stamp[0] += 1
    stamp = int(desk.stamp[0])
    desk.mark[node] = stamp
    for at in range(task.start[node], task.start[node] + task.degree[node]):
        desk.mark[task.peer[at]] = stamp
    for at in range(node * QUARANTINE, (node + 1) * QUARANTINE):
        if task.quarantine[at] >= 0:
            desk.mark[task.quarantine[at]] = stamp
    return stamp


@kernel
def count_gains(nodes: Nodes, task: TaskArrays, desk: Desk, node: int, stamp: int) -> int:
    """For every candidate the topics it would help with; fills `touched`, returns how many. O(subscribers seen)."""
    count = 0
    # Handing the tuples to another function costs more than the rest of the loop, so it is asked for only where needed.
    knows_all = nodes.view_share >= 1.0
    gain, mark, is_up, subscriber = desk.gain, desk.mark, nodes.is_up, nodes.subscriber
    for at in range(nodes.interest_indptr[node], nodes.interest_indptr[node + 1]):
        if task.choice != SIMILAR and task.cover[at] >= task.wanted[node]:
            continue
        topic = nodes.interest[at]
        for entry in range(nodes.topic_indptr[topic], nodes.topic_indptr[topic + 1]):
            other = subscriber[entry]
            if gain[other] > 0:
                gain[other] += 1
            elif is_up[other] and mark[other] != stamp and (knows_all or is_known(nodes, node, other)):
                gain[other] = 1
                desk.touched[count] = other
                count += 1
    return count


@kernel
def pick_best(task: TaskArrays, desk: Desk, count: int, draw: Words) -> int:
    """The candidate with the highest gain (GREEDY, SIMILAR) or any one (RANDOM); clears the gains. -1 if none."""
    if count == 0:
        return -1
    if task.choice == RANDOM:
        chosen = desk.touched[int(random_share(draw) * count)]
    else:
        best, ties, chosen = 0, 0, -1
        for at in range(count):
            gain = desk.gain[desk.touched[at]]
            if gain > best:
                best, ties, chosen = gain, 1, desk.touched[at]
            elif gain == best:
                ties += 1
                if task.ties == TIES_FIRST:
                    chosen = min(chosen, desk.touched[at])
        if ties > 1 and task.ties == TIES_RANDOM:
            nth = int(random_share(draw) * ties)
            for at in range(count):
                if desk.gain[desk.touched[at]] == best:
                    if nth == 0:
                        chosen = desk.touched[at]
                        break
                    nth -= 1
    for at in range(count):
        desk.gain[desk.touched[at]] = 0
    return int(chosen)


@kernel
def look_up(nodes: Nodes, task: TaskArrays, desk: Desk, node: int, draw: Words) -> int:
    """What `count_gains` and `pick_best` find, by bits."""
    kept, used = desk.kept, 0
    first, last = nodes.interest_indptr[node], nodes.interest_indptr[node + 1]
    for at in range(first, last):
        if task.choice == SIMILAR or task.cover[at] < task.wanted[node]:
            used = bits.count_in(desk.planes, used, nodes.members[nodes.interest[at]], desk.carry)
    bits.keep_counted(desk.planes, used, kept)
    bits.put_out(kept, node)
    for at in range(task.start[node], task.start[node] + task.degree[node]):
        bits.put_out(kept, task.peer[at])
    for at in range(node * QUARANTINE, (node + 1) * QUARANTINE):
        if task.quarantine[at] >= 0:
            bits.put_out(kept, task.quarantine[at])
    if nodes.view_share < 1.0:
        for other in range(len(nodes.is_up)):
            if kept[other >> 6] >> np.uint64(other & 63) & np.uint64(1) and not is_known(nodes, node, other):
                bits.put_out(kept, other)
    if task.choice != RANDOM:
        bits.keep_highest(desk.planes, used, kept)
    count = bits.size_of(kept)
    if count == 0:
        return -1
    nth = 0
    if task.choice == RANDOM or (count > 1 and task.ties == TIES_RANDOM):
        nth = int(random_share(draw) * count)
    elif task.ties == TIES_FIRST:
        return bits.nth_of(kept, 0)
    # Candidates stand in the order in which the topics' lists name them.
    for at in range(first, last):
        if task.choice == SIMILAR or task.cover[at] < task.wanted[node]:
            members = nodes.members[nodes.interest[at]]
            for word in range(len(kept)):
                desk.carry[word] = kept[word] & members[word]
            count = bits.size_of(desk.carry)
            if nth < count:
                return bits.nth_of(desk.carry, nth)
            nth -= count
            for word in range(len(kept)):
                kept[word] &= ~members[word]
    return -1


@kernel
def next_node(nodes: Nodes, task: TaskArrays, desk: Desk, node: int, draw: Words) -> int:
    """NEXTCOVERAGENODE of Figure 5, after the node a REDIRECT named. -1 if nobody helps."""
    stamp = exclude(task, desk, node)
    named = task.redirect[node]
    if named >= 0:
        task.redirect[node] = -1
        if nodes.is_up[named] and desk.mark[named] != stamp:
            return int(named)
    if task.choice != ANY and len(nodes.members):
        return look_up(nodes, task, desk, node, draw)
    if task.choice != ANY:
        return pick_best(task, desk, count_gains(nodes, task, desk, node, stamp), draw)
    for _ in range(64):
        other = int(random_share(draw) * len(nodes.is_up))
        if nodes.is_up[other] and desk.mark[other] != stamp and is_known(nodes, node, other):
            return other
    return -1


@kernel
def redirect(nodes: Nodes, task: TaskArrays, refuser: int, asker: int, draw: Words) -> None:
    """Figure 4, lines 7 to 9; the asker keeps away from the refuser for a while."""
    task.messages[REDIRECT] += 1
    best, ties, chosen = -1, 0, -1
    for at in range(task.start[refuser], task.start[refuser] + task.degree[refuser]):
        peer = task.peer[at]
        if peer == asker or task.degree[peer] >= task.target[peer] + task.margin:
            continue
        common = overlap(nodes, peer, asker)
        if common > best:
            best, ties, chosen = common, 1, peer
        elif common == best:
            ties += 1
            if random_share(draw) * ties < 1.0:
                chosen = peer
    task.redirect[asker] = chosen
    task.quarantine[asker * QUARANTINE + task.quarantined[asker] % QUARANTINE] = refuser
    task.quarantined[asker] += 1


@kernel
def connect(nodes: Nodes, task: TaskArrays, node: int, other: int, draw: Words) -> None:
    """CONNECT and its answer, Figure 4."""
    task.messages[CONNECT] += 1
    if task.degree[other] >= task.limit[other] + task.margin:
        redirect(nodes, task, other, node, draw)
        return
    add_neighbour(nodes, task, other, node)
    task.messages[CONNECT_OK] += 1
    add_neighbour(nodes, task, node, other)
    wake(task, node)
    wake(task, other)


@kernel
def disconnect(nodes: Nodes, task: TaskArrays, node: int, draw: Words) -> bool:
    """DISCONNECT of Figure 2 with its answer; False if there was nobody to ask."""
    task.target[node] = min(task.limit[node], task.degree[node])
    best, ties, slot = 1 << 30, 0, -1
    for at in range(task.start[node], task.start[node] + task.degree[node]):
        peer = task.peer[at]
        spare = task.degree[peer] - task.target[peer]
        if spare < 0 or (task.is_strict and spare == 0) or task.refused[at] == task.degree[peer]:
            continue
        lost = needed(nodes, task, node, peer, best)
        if lost < best:
            best, ties, slot = lost, 1, at
        elif lost == best:
            ties += 1
            if random_share(draw) * ties < 1.0:
                slot = at
    if slot < 0 or (best > 0 and task.degree[node] <= task.target[node]):
        return False
    task.messages[DISCONNECT] += 1
    peer = task.peer[slot]
    if task.degree[peer] > task.target[peer] or needed(nodes, task, peer, node, 0) == 0:
        task.messages[DISCONNECT_OK] += 1
        wake(task, node)
        wake(task, peer)
        remove_neighbour(nodes, task, peer, node)
        remove_neighbour(nodes, task, node, peer)
        if under_covered(nodes, task, peer) == 0:
            task.target[peer] = task.degree[peer]
    else:
        task.refused[slot] = task.degree[peer]
    return True


@kernel
def maintain(nodes: Nodes, task: TaskArrays, desk: Desk, node: int, draw: Words) -> bool:
    """One iteration of MAINTAINNEIGHBORS; False if there was nothing to do."""
    if task.wanted[node] == 0:
        return False
    gap = np.int64(0)
    if under_covered(nodes, task, node) > 0:
        task.target[node] = task.limit[node]
        gap = task.target[node] - task.degree[node]
        if gap > 0:
            other = next_node(nodes, task, desk, node, draw)
            if other >= 0:
                connect(nodes, task, node, other, draw)
                return True
    # Also when nobody is left who could help: then the node is as covered as it can be.
    return disconnect(nodes, task, node, draw)


@kernel
def run_rounds(nodes: Nodes, task: TaskArrays, desk: Desk, rounds: int, draw: Words) -> int:
    """Rounds until everybody sleeps or `rounds` are over; returns how many it took. A node sleeps until woken."""
    order = np.empty(len(nodes.is_up), np.int32)
    for done in range(rounds):
        count = 0
        for node in range(len(nodes.is_up)):
            if task.is_awake[node] and nodes.is_up[node]:
                order[count] = node
                count += 1
        if count == 0:
            return done
        for at in range(count):
            other = at + int(random_share(draw) * (count - at))
            order[at], order[other] = order[other], order[at]
        for at in range(count):
            if not maintain(nodes, task, desk, order[at], draw):
                task.is_awake[order[at]] = 0
    return rounds


@kernel
def leave(nodes: Nodes, task: TaskArrays, node: int) -> None:
    """An orderly leave: LEAVE to all neighbours, who drop the link and look again."""
    task.messages[LEAVE] += task.degree[node]
    wake(task, node)
    while task.degree[node] > 0:
        peer = task.peer[task.start[node]]
        wake(task, peer)
        remove_neighbour(nodes, task, peer, node)
        remove_neighbour(nodes, task, node, peer)
    nodes.is_up[node] = 0
    task.is_awake[node] = 0
    if len(nodes.members):
        for at in range(nodes.interest_indptr[node], nodes.interest_indptr[node + 1]):
            bits.put_out(nodes.members[nodes.interest[at]], node)


@kernel
def join(task: TaskArrays, nodes: Nodes, node: int) -> None:
    nodes.is_up[node] = 1
    task.is_awake[node] = 1
    task.target[node] = 0
    if len(nodes.members):
        for at in range(nodes.interest_indptr[node], nodes.interest_indptr[node + 1]):
            bits.put_in(nodes.members[nodes.interest[at]], node)
