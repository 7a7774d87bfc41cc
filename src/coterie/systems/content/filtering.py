"""Routing by filters instead of topics: every tree link knows, covered and merged, what is wanted beyond it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coterie.substrate.filters import Document, Filter, merge
from coterie.substrate.lowstretch import RootedTree

NOTHING = Filter(())


class FilteredTree:
    """One group's tree with the filters of its subscribers, host(s) -> filters."""

    def __init__(self, tree: RootedTree, wanted: Mapping[int, Sequence[Filter]]) -> None:
        order, parent = tree.order.tolist(), tree.parent.tolist()
        self.wanted = {node: merge(filters) for node, filters in wanted.items()}
        children: dict[int, list[int]] = {node: [] for node in order}
        for node in order:
            if parent[node] >= 0:
                children[parent[node]].append(node)
        below: dict[int, Filter] = {}
        for node in reversed(order):
            below[node] = merge([self.wanted.get(node, NOTHING), *(below[child] for child in children[node])])
        self.links: dict[int, dict[int, Filter]] = {node: {} for node in order}  # node -> neighbour -> wanted there
        for node in order:
            above = parent[node]
            outside = [self.wanted.get(node, NOTHING), self.links[node].get(above, NOTHING)]
            for child in children[node]:
                siblings = [below[other] for other in children[node] if other != child]
                self.links[child][node] = merge([*outside, *siblings])
                self.links[node][child] = below[child]

    def matches(self, document: Document) -> bool:
        """Whether anybody of the group wants it: what the publisher's broker asks first."""
        return any(wanted.matches(document) for wanted in self.wanted.values())

    def route(self, document: Document, publisher: int) -> tuple[list[int], int]:
        """Brokers with a matching filter that get the document, and the number of links it crosses."""
        reached, crossed = [], 0
        waiting = [(publisher, -1)]
        while waiting:
            node, source = waiting.pop()
            if self.wanted.get(node, NOTHING).matches(document):
                reached.append(node)
            for neighbour, beyond in self.links[node].items():
                if neighbour != source and beyond.matches(document):
                    crossed += 1
                    waiting.append((neighbour, node))
        return sorted(reached), crossed


@dataclass(frozen=True)
class Delivery:
    """What became of one document: who got it, how often somebody got it again, and how many links it crossed."""

    reached: tuple[int, ...]
    duplicates: int
    crossed: int


class FilterRouter:
    """A version of the strategy: disjoint groups of (host, filter), each on its own tree."""

    def __init__(self, trees: Sequence[RootedTree], groups: Sequence[Mapping[int, Sequence[Filter]]]) -> None:
        self.trees = [FilteredTree(tree, wanted) for tree, wanted in zip(trees, groups, strict=True)]

    def publish(self, document: Document, publisher: int) -> Delivery:
        """One copy on the tree of every group it matches."""
        routes = [tree.route(document, publisher) for tree in self.trees if tree.matches(document)]
        arrivals = [node for reached, _ in routes for node in reached]
        reached = tuple(sorted(set(arrivals)))
        return Delivery(reached, len(arrivals) - len(reached), sum(crossed for _, crossed in routes))
