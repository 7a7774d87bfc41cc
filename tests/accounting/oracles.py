"""A deliberately slow and obvious accountant: follows every event copy by copy through a heap of arrivals."""

from __future__ import annotations

import heapq
from collections import Counter
from itertools import pairwise

from coterie.model import Design, Spread, Workload
from coterie.model.latency import Latency
from coterie.model.wires import COTERIE
from coterie.model.workload import TOPIC_BYTES


def slow_dissemination(design: Design, workload: Workload, latency: Latency) -> Counter[str]:
    """The dissemination and loss columns, one event at a time."""
    book: Counter[str] = Counter()
    node_of = design.placement.node_of.tolist()
    wanting: dict[int, Counter[int]] = {}
    for subscriber in range(workload.subscriber_count):
        for topic in workload.interests.row(subscriber).tolist():
            wanting.setdefault(topic, Counter())[node_of[subscriber]] += 1
    publications = workload.publications
    for publication in range(publications.count):
        rate = float(publications.rate[publication])
        if rate > 0:
            wants = wanting.get(int(publications.topic[publication]), Counter())
            book["owed"] += rate * sum(wants.values())
            size = COTERIE.copy_bytes(TOPIC_BYTES, float(publications.size[publication]))
            for kind, count in _one_event(design, workload, latency, publication, wants).items():
                book[kind] += rate * count
                book[f"{kind} bytes"] += rate * count * size
            book["load"] += rate
    copies = sum(book[kind] for kind in ("inbound", "wanted", "relayed", "filtered", "duplicate"))
    book["load"] += 2 * copies + book["delivered"]
    return book


def _one_event(
    design: Design, workload: Workload, latency: Latency, publication: int, wants: Counter[int]
) -> Counter[str]:
    book: Counter[str] = Counter()
    entries, trees = design.entries, design.trees

    def crosses(source: int, target: int) -> bool:
        return workload.zone_of is not None and workload.zone_of[source] != workload.zone_of[target]

    arrivals: list[tuple[int, int, int, int, int, int]] = []  # (us, row, order, node, hops, came from or -1)
    ready: dict[int, tuple[int, int]] = {}
    for row in range(entries.count):
        if entries.publication[row] != publication:
            continue
        us, hops = ready.get(int(entries.after[row]), (0, 0))
        path = entries.hops[entries.indptr[row] : entries.indptr[row + 1]].tolist()
        for source, target in pairwise(path):
            us, hops = us + latency.between_us(source, target), hops + 1
            book["inbound"] += 1
            book["crossing"] += crosses(source, target)
        ready[row] = us, hops
        heapq.heappush(arrivals, (us, row, 0, path[-1], hops, -1))
    order = 0
    had: set[int] = set()
    seen: set[tuple[int, int]] = set()
    while arrivals:
        us, row, _, node, hops, source = heapq.heappop(arrivals)
        channel = int(entries.channel[row])
        is_member = node in trees.members.row(channel).tolist()
        if trees.spread is Spread.FILTERED:
            is_member = node in wants
        if trees.spread is Spread.THROUGH:  # what is passed on is kept where it is wanted, and filtered at the spokes
            is_member = node in wants or node not in (trees.root[channel], entries.hops[entries.indptr[row + 1] - 1])
        if source >= 0:
            book["crossing"] += crosses(source, node)
            if node in had:
                book["duplicate"] += 1
            elif not is_member:
                book["relayed"] += 1
            else:
                book["wanted" if node in wants else "filtered"] += 1
        if is_member and node not in had:
            had.add(node)
            if node in wants:
                book["delivered"] += wants[node]
                book["hops"] += hops * wants[node]
                book["us"] += us * wants[node]
        if (row, node) in seen:
            continue
        seen.add((row, node))
        for target in _next(design, row, node, source):
            order += 1
            arrival = us + latency.between_us(node, target)
            heapq.heappush(arrivals, (arrival, row, order, target, hops + 1, node))
    return book


def _next(design: Design, row: int, node: int, source: int) -> list[int]:
    trees = design.trees
    channel = int(design.entries.channel[row])
    members = trees.members.row(channel).tolist()
    edges = range(trees.indptr[channel], trees.indptr[channel + 1])
    if trees.spread is Spread.DIRECT:
        return [member for member in members if member != node] if source < 0 else []
    if trees.spread is Spread.THROUGH:
        root = int(trees.root[channel])
        if node == root:
            return [member for member in members if member not in (root, source)]
        return [root] if source < 0 else []
    if trees.spread is Spread.ROOTED:
        return [int(trees.node[edge]) for edge in edges if trees.parent[edge] == node]
    if trees.spread is Spread.FLOOD:
        return [peer for peer in design.overlay.undirected.row(node).tolist() if peer in members and peer != source]
    assert design.entries.targets is not None
    around: dict[int, list[int]] = {}
    for edge in edges:
        around.setdefault(int(trees.node[edge]), []).append(int(trees.parent[edge]))
        around.setdefault(int(trees.parent[edge]), []).append(int(trees.node[edge]))
    targets = set(design.entries.targets.row(row).tolist())
    return [peer for peer in around.get(node, []) if peer != source and _leads_to(around, peer, node, targets)]


def _leads_to(around: dict[int, list[int]], node: int, source: int, targets: set[int]) -> bool:
    return node in targets or any(
        _leads_to(around, peer, node, targets) for peer in around.get(node, []) if peer != source
    )
