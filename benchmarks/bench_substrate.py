"""How fast trees are built on rings of 10,000 nodes for 1,000 topics, against the same in plain Python.

The plain version builds the same tables and walks the same paths with bisect, dicts and sets. It gets all nodes but
only some of the topics; its time for paths is scaled up by the number of members, and its trees are compared edge by
edge. Times are processor time, so that whatever else the machine does stays out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from time import process_time

import numpy as np

from coterie.model import Relation, Trees
from coterie.substrate.chord import chord_ring
from coterie.substrate.identifiers import MASK, node_positions, topic_keys
from coterie.substrate.oscar import oscar_ring
from coterie.substrate.pastry import PastryRing, PastryRouter
from coterie.substrate.rings import Ring
from coterie.substrate.trees import bottom_up_trees, top_down_trees

NODES, TOPICS, PLAIN_TOPICS = 10_000, 1_000, 20
Hop = Callable[[int, int, int], int]  # node, key, owner -> next node
Edges = list[list[tuple[int, int]]]


def plain_chord(positions: list[int]) -> Hop:
    order = sorted(range(len(positions)), key=positions.__getitem__)
    ring = [positions[node] for node in order]
    links: list[tuple[list[int], list[int]]] = [([], [])] * len(positions)
    for node, own in enumerate(positions):
        fingers = {(own + (1 << bit)) & MASK for bit in range(64)}
        peers = {order[bisect_left(ring, start) % len(ring)] for start in fingers} - {node}
        by_distance = sorted(((positions[peer] - own) & MASK, peer) for peer in peers)
        links[node] = [distance for distance, _ in by_distance], [peer for _, peer in by_distance]

    def hop(node: int, key: int, owner: int) -> int:
        distances, peers = links[node]
        return peers[max(bisect_right(distances, (key - positions[node]) & MASK) - 1, 0)]

    return hop


def nearest_by_xor(ring: list[int], low: int, high: int, own: int) -> int:
    while high - low > 1:
        bit = (ring[low] ^ ring[high - 1]).bit_length() - 1
        middle = bisect_left(ring, ring[high - 1] >> bit << bit, low, high)
        low, high = (middle, high) if own >> bit & 1 else (low, middle)
    return low


def plain_pastry(positions: list[int]) -> Hop:
    order = sorted(range(len(positions)), key=positions.__getitem__)
    ring = [positions[node] for node in order]
    routers = [PastryRouter(node, own) for node, own in enumerate(positions)]
    for index, node in enumerate(order):
        own = positions[node]
        near = [order[(index + step) % len(order)] for step in range(-8, 9) if step]
        routers[node].learn_all((peer, positions[peer]) for peer in near)
        low, high, row = 0, len(ring), 0
        while high - low > 1:
            shift = 60 - 4 * row
            for digit in range(16):
                prefix = own >> (shift + 4) << 4 | digit
                first, last = bisect_left(ring, prefix << shift), bisect_left(ring, (prefix + 1) << shift)
                if digit == own >> shift & 15:
                    low, high = first, last
                elif last > first:
                    best = nearest_by_xor(ring, first, last, own)
                    routers[node].learn(order[best], ring[best])
            row += 1

    def hop(node: int, key: int, owner: int) -> int:
        following = routers[node].next_hop(key)
        assert following is not None
        return following

    return hop


def plain_trees(hop: Hop, positions: list[int], trees: Trees, keys: list[int], is_upward: bool) -> Edges:
    every = []
    for topic, key in enumerate(keys):
        root = int(trees.root[topic])
        parent: dict[int, int] = {}
        for member in trees.members.row(topic).tolist():
            node, target, goal = (member, root, key) if is_upward else (root, member, positions[member])
            while node != target:
                following = hop(node, goal, target)
                if is_upward:
                    if node in parent:
                        break
                    parent[node] = following
                else:
                    parent.setdefault(following, node)
                node = following
        every.append(sorted(parent.items()))
    return every


def fast_edges(trees: Trees, topics: int) -> Edges:
    cut = [slice(trees.indptr[topic], trees.indptr[topic + 1]) for topic in range(topics)]
    return [sorted(zip(trees.node[own].tolist(), trees.parent[own].tolist(), strict=True)) for own in cut]


def best_of(repeats: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(repeats):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


def compare(
    name: str,
    make: Callable[[np.ndarray], Ring],
    plain: Callable[[list[int]], Hop],
    grow: Callable[[Ring, np.ndarray, Relation], Trees],
    subscriptions: int,
) -> None:
    positions, keys = node_positions(NODES, 1), topic_keys(TOPICS)
    draw = np.random.default_rng(subscriptions)
    topics = np.argsort(draw.random((NODES, TOPICS)), axis=1)[:, :subscriptions].ravel()
    members = Relation.from_pairs(topics, np.repeat(np.arange(NODES), subscriptions), TOPICS, NODES)
    ring = make(positions)
    trees = grow(ring, keys, members)  # also compiles
    table_s = best_of(3, lambda: make(positions))
    tree_s = best_of(3, lambda: grow(ring, keys, members))

    as_list = positions.tolist()
    start = process_time()
    hop = plain(as_list)
    plain_table_s = process_time() - start
    start = process_time()
    slow = plain_trees(hop, as_list, trees, keys[:PLAIN_TOPICS].tolist(), grow is bottom_up_trees)
    plain_s = (process_time() - start) * members.pair_count / int(members.indptr[PLAIN_TOPICS])
    assert slow == fast_edges(trees, PLAIN_TOPICS), "the two versions disagree"
    print(
        f"{name:>8} {grow.__name__:>15} {subscriptions:>4} subscriptions: {len(trees.node):>8} edges | tables "
        f"{table_s * 1e3:6.0f} ms, plain {plain_table_s:6.2f} s, x{plain_table_s / table_s:<4.0f} | trees "
        f"{tree_s * 1e3:6.0f} ms, plain {plain_s:6.2f} s, x{plain_s / tree_s:<4.0f}"
    )


def main() -> None:
    print(
        f"{NODES} nodes, {TOPICS} topics; plain Python measured on {PLAIN_TOPICS} topics, scaled to {TOPICS} by members"
    )
    for subscriptions in (10, 50):
        compare("Chord", chord_ring, plain_chord, top_down_trees, subscriptions)
        compare("Pastry", PastryRing.of, plain_pastry, bottom_up_trees, subscriptions)
    positions = node_positions(NODES, 1)
    oscar_ring(positions[:9], 1)
    print(f"   Oscar tables, 17 long links: {best_of(3, lambda: oscar_ring(positions, 1)) * 1e3:.0f} ms")
    router = PastryRouter(0, int(positions[0]))
    router.learn_all(enumerate(positions.tolist()))
    keys = topic_keys(10_000).tolist()
    each_us = best_of(3, lambda: [router.next_hop(key) for key in keys]) / len(keys) * 1e6
    print(f"  Pastry router: {each_us:.2f} microseconds for each next hop")


if __name__ == "__main__":
    main()
