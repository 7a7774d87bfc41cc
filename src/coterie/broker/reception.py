"""Where a new client should go: to the node where what it first asks for is wanted already, if there is room.

Nodes tell each other what is wanted at them, how many clients they have and how much they deliver (`Wanting`). No plan
is needed, and nobody is asked: the node a client comes to decides alone, by what it has heard. No I/O, no clock. The
rule is the one of `kernels.placement.admission` with every wish worth the same; a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Literal

from coterie.broker.frames import Wanting
from coterie.mqtt.topics import filter_covers, has_wildcard, split_shared

Heard = Literal["new", "old", "gap"]


@dataclass(frozen=True)
class EntryRules:
    """How many times the mean a node may have: clients, and deliveries per second (wishes where nothing is sent)."""

    connections: float = 1.2
    messages: float = 1.5


@dataclass
class Household:
    """One node as far as it is known: its figures and the filters wanted there, wildcards apart."""

    version: int = 0
    connections: int = 0
    wishes: int = 0
    messages_per_s: float = 0.0
    topics: dict[str, None] = field(default_factory=dict)
    wildcards: dict[str, None] = field(default_factory=dict)

    def put(self, topic_filter: str) -> None:
        (self.wildcards if has_wildcard(topic_filter) else self.topics)[topic_filter] = None

    def drop(self, topic_filter: str) -> None:
        (self.wildcards if has_wildcard(topic_filter) else self.topics).pop(topic_filter, None)

    def wants(self, topic_filter: str) -> bool:
        """Whether all that the filter matches comes here already."""
        if topic_filter in self.topics or topic_filter in self.wildcards:
            return True
        return any(filter_covers(one, topic_filter) for one in self.wildcards)

    def filters(self) -> tuple[str, ...]:
        return (*self.topics, *self.wildcards)


@dataclass(frozen=True)
class Direction:
    """Where a client should go (perhaps where it is), how many of its wishes are new there and here, and why."""

    node: int
    new_there: int
    new_here: int
    reason: str


def bare(filters: Iterable[str]) -> list[str]:
    """What the filters want of the network: groups' names and the node's own topics aside, each once."""
    wanted = (split_shared(one)[1] for one in filters)
    return list(dict.fromkeys(one for one in wanted if not one.startswith("$")))


class Reception:
    """What is known of all nodes, this one included, and the decision."""

    def __init__(self, node: int, rules: EntryRules) -> None:
        self.node, self.rules = node, rules
        self.own = Household()
        self.others: dict[int, Household] = {}

    # --- what nodes say ---

    def hear(self, said: Wanting) -> Heard:
        """Take another node's word; `gap` if one before it is missing, so that all must be asked for."""
        if said.node == self.node:
            return "old"
        known = self.others.get(said.node)
        before = 0 if known is None else known.version
        is_more = said.is_part and said.version == before
        if said.version <= before and not is_more:
            return "old"
        if not (said.is_whole or is_more or said.version == before + 1):
            return "gap"
        if known is None or (said.is_whole and not said.is_part):
            known = self.others[said.node] = Household()
        is_known = is_more and all(one in known.topics or one in known.wildcards for one in said.added)
        for one in said.removed:
            known.drop(one)
        for one in said.added:
            known.put(one)
        known.version, known.connections, known.wishes = said.version, said.connections, said.wishes
        known.messages_per_s = said.messages_per_s
        return "old" if is_known else "new"

    def sent(self, node: int, filters: Collection[str]) -> None:
        """A client is on its way there: it counts at once, until the node says how it is."""
        there = self.others[node]
        there.connections += 1
        there.wishes += len(filters)
        for one in filters:
            there.put(one)

    # --- the decision ---

    def direct(self, filters: Collection[str], is_open: Callable[[int], bool] = lambda node: True) -> Direction:
        """For a client that is here and not counted yet. `filters` are bare; `is_open`: nodes it can be sent to."""
        people, load, weight = self._limits(len(filters))

        def is_full(one: Household) -> bool:
            return one.connections + 1 > people or (bool(filters) and self._load(one) + weight > load)

        new_here, must_go = _new(self.own, filters), is_full(self.own)
        best: tuple[int, int, int] | None = None
        for node, there in sorted(self.others.items()):
            if is_full(there) or not is_open(node):
                continue
            new = _new(there, filters)
            if (must_go or new < new_here) and (best is None or (new, there.connections) < best[:2]):
                best = (new, there.connections, node)
        if best is None:
            return Direction(self.node, new_here, new_here, "nowhere better" if new_here else "wanted here")
        return Direction(best[2], best[0], new_here, "wanted there" if best[0] < new_here else "full here")

    def _limits(self, asked: int) -> tuple[float, float, float]:
        """What a node may hold once one more client is there, in clients and in load, and the load it brings."""
        nodes = [self.own, *self.others.values()]
        wishes, load = sum(one.wishes for one in nodes), sum(self._load(one) for one in nodes)
        weight = asked * (load / wishes if load and wishes else 1.0)
        people = (sum(one.connections for one in nodes) + 1) / len(nodes)
        return (
            max(self.rules.connections * people, ceil(people)),
            self.rules.messages * (load + weight) / len(nodes),
            weight,
        )

    def _load(self, one: Household) -> float:
        """Deliveries per second; wishes as long as nothing is delivered anywhere."""
        is_measured = self.own.messages_per_s > 0 or any(known.messages_per_s > 0 for known in self.others.values())
        return one.messages_per_s if is_measured else float(one.wishes)


def _new(there: Household, filters: Collection[str]) -> int:
    return sum(not there.wants(one) for one in filters)
