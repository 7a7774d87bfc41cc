"""Which topics cross which link, and how many copies that makes: the same rule for plans, predictions and checks.

A fleet's links are directed here: `(from, to) -> filters`. An event goes along every link that lets its topic pass,
except back; brokers of a real fleet do the same, so what is computed from a plan is what their counters show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from coterie.fleets.export.target import LinkShape
from coterie.fleets.layout import Filters, FleetLayout
from coterie.fleets.trees import Tree, trees_per_topic

Crossings = Mapping[tuple[str, str], tuple[str, ...]]
ALL = ("#",)


def crossings_of(shape: LinkShape, wanted: FleetLayout, hub: str, prefixes: Iterable[str] = ()) -> Crossings:
    """What may cross each link once a plan of this shape is in force; placement alone: a mesh by interest."""
    extra = tuple(prefixes)
    brokers = wanted.brokers
    if shape in (LinkShape.STAR, LinkShape.ONE_TREE):
        spokes = [broker for broker in brokers if broker != hub]
        down = {(hub, broker): tuple(sorted({*wanted.filters[broker], *extra})) for broker in spokes}
        return {**down, **{(broker, hub): ALL for broker in spokes}}
    if shape is LinkShape.TREE_PER_TOPIC:
        return crossings_of_trees(trees_per_topic(wanted, extra))
    return {
        (source, broker): tuple(sorted({*wanted.filters[broker], *extra}))
        for source in brokers
        for broker in brokers
        if source != broker
    }


def flooded(brokers: Iterable[str], hub: str) -> Crossings:
    """A star of `# both` bridges, as people have it."""
    spokes = [broker for broker in brokers if broker != hub]
    return {pair: ALL for broker in spokes for pair in ((hub, broker), (broker, hub))}


def crossings_of_trees(trees: Mapping[str, Tree]) -> Crossings:
    found: dict[tuple[str, str], list[str]] = {}
    for topic, tree in trees.items():
        for pair in tree.carries:
            found.setdefault(pair, []).append(topic)
    return {pair: tuple(sorted(topics)) for pair, topics in sorted(found.items())}


class Copies:
    """How many copies between brokers an event makes, by where it enters and its topic."""

    def __init__(self, crossings: Crossings, is_mesh: bool = False) -> None:
        self._out: dict[str, list[tuple[str, Filters]]] = {}
        for (source, target), filters in crossings.items():
            self._out.setdefault(source, []).append((target, Filters(filters)))
        self._is_mesh = is_mesh  # brokers of a mesh never pass on what a broker sent them
        self.of = cache(self._of)

    def _of(self, broker: str, topic: str) -> int:
        first = [(target, broker) for target, filters in self._out.get(broker, ()) if filters.match(topic)]
        if self._is_mesh:
            return len(first)
        copies, waiting = 0, first
        while waiting:
            at, came = waiting.pop()
            copies += 1
            if copies > 10_000:
                raise RecursionError(f"topic {topic!r} loops between brokers")
            for target, filters in self._out.get(at, ()):
                if target != came and filters.match(topic):
                    waiting.append((target, at))
        return copies
