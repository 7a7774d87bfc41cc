"""Slow and obvious versions of what the kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from coterie.model import Relation


def random_interests(nodes: int, topics: int, seed: int, wanted: float = 0.35) -> Relation:
    node, topic = np.nonzero(np.random.default_rng(seed).random((nodes, topics)) < wanted)
    return Relation.from_pairs(node, topic, nodes, topics)


def random_links(nodes: int, seed: int, share: float = 0.25) -> Relation:
    draw = np.random.default_rng(seed)
    one, other = np.nonzero(np.triu(draw.random((nodes, nodes)) < share, 1))
    return Relation.from_pairs(np.concatenate([one, other]), np.concatenate([other, one]), nodes, nodes)


def distances(members: list[int], links: Relation, source: int) -> dict[int, int]:
    """Hops from `source` to every member it reaches through members."""
    inside = set(members)
    found = {source: 0}
    queue = [source]
    for node in queue:
        for peer in links.row(node).tolist():
            if peer in inside and peer not in found:
                found[peer] = found[node] + 1
                queue.append(peer)
    return found


def component_count(members: list[int], links: Relation) -> int:
    left, count = set(members), 0
    while left:
        count += 1
        left -= set(distances(members, links, min(left)))
    return count


def diameter(members: list[int], links: Relation) -> int:
    return max((max(distances(members, links, node).values()) for node in members), default=0)


def mean_distance(members: list[int], links: Relation) -> float:
    hops = [count for node in members for count in distances(members, links, node).values() if count]
    return sum(hops) / max(len(hops), 1)


def cut_vertices(members: list[int], links: Relation) -> int:
    """Members without whom the others fall into more pieces than before."""
    before = component_count(members, links)
    isolated = {node for node in members if len(distances(members, links, node)) == 1}
    return sum(
        component_count([other for other in members if other != node], links) > before
        for node in members
        if node not in isolated
    )


def top_intersection(interests: Relation, depth: int) -> float:
    rows = [set(interests.row(node).tolist()) for node in range(interests.row_count)]
    means = []
    for node, own in enumerate(rows):
        shared = [
            100 * len(own & other) / min(len(own), len(other))
            for index, other in enumerate(rows)
            if index != node and own & other
        ]
        means.append(sum(sorted(shared, reverse=True)[:depth]) / depth)
    return sum(means) / len(means)


def neighbour_counts(interests: Relation, links: Relation) -> list[tuple[int, int]]:
    """For every interest of every node: how many neighbours share it, and how many others there are who do."""
    by_topic = interests.transposed
    counts = []
    for node in range(interests.row_count):
        near = set(links.row(node).tolist())
        for topic in interests.row(node).tolist():
            members = set(by_topic.row(topic).tolist()) - {node}
            counts.append((len(near & members), len(members)))
    return counts


def covers(interests: Relation, links: Relation, coverage: int) -> bool:
    """Every node has `coverage` neighbours for each of its topics, or all other members."""
    return all(near >= min(coverage, others) for near, others in neighbour_counts(interests, links))


def bare_count(interests: Relation, links: Relation, coverage: int) -> int:
    """Interests with `coverage` neighbours at most although there are more who share them."""
    return sum(near <= coverage < others for near, others in neighbour_counts(interests, links))


def fewest_links(interests: Relation, is_enough: Callable[[Relation], bool]) -> int:
    """Exhaustive: the fewest links that are enough (tiny instances only)."""
    nodes = interests.row_count
    pairs = list(combinations(range(nodes), 2))
    for size in range(len(pairs) + 1):
        for chosen in combinations(pairs, size):
            both = [*chosen, *((other, one) for one, other in chosen)]
            if is_enough(Relation.from_pairs([a for a, _ in both], [b for _, b in both], nodes, nodes)):
                return size
    raise AssertionError("a complete graph is enough for everything")


def connects(interests: Relation, links: Relation) -> bool:
    by_topic = interests.transposed
    return all(component_count(by_topic.row(topic).tolist(), links) <= 1 for topic in range(by_topic.row_count))
