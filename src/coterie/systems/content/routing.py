"""A strategy as the coordinator installs it: trees over broker addresses, and for every topic the links it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coterie.model import Relation, Topic
from coterie.model.graph import BrokerGraph
from coterie.substrate.filters import Document, Filter
from coterie.substrate.steiner import Terrain
from coterie.systems.content.demand import Demand
from coterie.systems.content.filtering import FilteredTree, Matcher, filter_of, topic_of
from coterie.systems.content.messages import Entry, TreePlace
from coterie.systems.content.parameters import ContentParameters
from coterie.systems.content.stages import learn
from coterie.systems.content.strategy import Strategy, cheapest_group

Sampled = tuple[int, Topic, Document, int]  # publisher's broker, topic, attributes, bytes
SIZE_BYTES_MAX = 1 << 24
HEAD_BYTES = 64  # what a document costs beside its payload: a document without any weighs 1

SAMPLES_MIN = 30  # with fewer documents in the window, what subscriptions say is the better guide


def topic_order(topics: Iterable[Topic]) -> list[Topic]:
    """Numbers first: the order in which a workload has them."""
    return sorted(topics, key=lambda topic: (isinstance(topic, str), topic))


@dataclass(frozen=True, eq=False)
class Outlook:
    """What the coordinator knows at one moment: the brokers, their links, their topics, and a sample of documents."""

    addresses: tuple[int, ...]
    terrain: Terrain
    topics: tuple[Topic, ...]
    demand: Demand

    @classmethod
    def of(
        cls,
        neighbours: Mapping[int, Mapping[int, float]],
        wanted: Mapping[int, Iterable[Topic]],
        samples: Sequence[Sampled],
        unit: str,
    ) -> Outlook:
        addresses = tuple(sorted(neighbours))
        place = {address: index for index, address in enumerate(addresses)}
        ends = [
            (place[one], place[other], cost)
            for one in addresses
            for other, cost in neighbours[one].items()
            if other in place
        ]
        graph = BrokerGraph.of(len(addresses), *(np.array([end[at] for end in ends]) for at in range(3)))
        topics = tuple(topic_order({topic for address in addresses for topic in wanted[address]}))
        number = {topic: index for index, topic in enumerate(topics)}
        pairs = [(number[topic], place[address]) for address in addresses for topic in wanted[address]]
        hosts = Relation.from_pairs(*_columns(pairs), len(topics), len(addresses))
        useful = [
            (place[node], classes, HEAD_BYTES + min(max(size_bytes, 0), SIZE_BYTES_MAX))
            for (node, _, _, size_bytes), classes in zip(samples, _classes(samples, number), strict=True)
            if node in place and classes
        ]
        return cls(addresses, Terrain(graph), topics, _demand(hosts, useful, unit))

    def class_of(self, address: int, topic: Topic, unit: str) -> int:
        return self.addresses.index(address) if unit == "node" else self.topics.index(topic)


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [one for one, _ in pairs], [other for _, other in pairs]


def _classes(samples: Sequence[Sampled], number: Mapping[Topic, int]) -> list[list[int]]:
    """For every sampled document the topics and filters it is wanted by."""
    filters = {index: one for topic, index in number.items() if (one := filter_of(topic)) is not None}
    matcher, numbers = Matcher(list(filters.values())), list(filters)
    found = []
    for _, topic, attributes, _ in samples:
        index = number.get(topic, -1)
        plain = [] if index < 0 or index in filters else [index]
        found.append(plain + [numbers[at] for at in matcher.matching(attributes)])
    return found


def _demand(hosts: Relation, samples: Sequence[tuple[int, Sequence[int], int]], unit: str) -> Demand:
    """Sampled documents, or each topic once from an unknown publisher while there are too few samples."""
    if len(samples) >= SAMPLES_MIN:
        publisher = np.array([node for node, _, _ in samples], np.int32)
        classes = [classes for _, classes, _ in samples]
        weight = np.array([size_bytes for _, _, size_bytes in samples], np.float64) / HEAD_BYTES
    else:
        publisher = np.full(hosts.row_count, -1, np.int32)
        classes = [[one] for one in range(hosts.row_count)]
        weight = np.ones(len(classes))
    matches = Relation.from_rows(classes, hosts.row_count)
    if unit == "node":
        nodes = [np.unique(np.concatenate([hosts.row(one) for one in row])) for row in classes]
        matches = Relation.from_rows(nodes, hosts.column_count)
        return Demand(Relation.identity(hosts.column_count), matches, publisher, weight)
    return Demand(hosts, matches, publisher, weight)


class Installed:
    """One version of the strategy over addresses: trees, the group of every (broker, topic), and the tables."""

    def __init__(self, version: int, outlook: Outlook, parameters: ContentParameters) -> None:
        self.version = version
        self.unit = parameters.unit
        self.outlook = outlook
        self.strategy: Strategy = learn(outlook.terrain, outlook.demand, parameters, seed=0)
        self.parents: list[dict[int, int]] = []  # group -> node -> parent, parents before children
        self.children: list[dict[int, list[int]]] = []
        for tree in self.strategy.trees:
            parent = {self._address(node): self._address(int(tree.parent[node])) for node in tree.order.tolist()}
            children: dict[int, list[int]] = {node: [] for node in parent}
            for node, above in parent.items():
                if above >= 0:
                    children[above].append(node)
            self.parents.append(parent)
            self.children.append(children)
        keys = outlook.addresses if self.unit == "node" else outlook.topics
        self._group: dict[int | Topic, int] = dict(zip(keys, self.strategy.label.tolist(), strict=True))

    def _address(self, node: int) -> int:
        return self.outlook.addresses[node] if node >= 0 else -1

    def cost(self, outlook: Outlook) -> float:
        """cost(R) on another sample of the same brokers and subscriptions."""
        return self.strategy.cost(outlook.terrain, outlook.demand)

    def relabelled(self, outlook: Outlook) -> Strategy:
        """The same trees for the subscriptions of another moment."""
        keys = outlook.addresses if self.unit == "node" else outlook.topics
        return Strategy(np.array([self._group.get(key, -1) for key in keys], np.int32), self.strategy.trees)

    def group_of(self, address: int, topic: Topic, outlook: Outlook) -> int:
        """The group of a subscription; a new one joins the group where it adds least (section VI)."""
        key: int | Topic = address if self.unit == "node" else topic
        if self._group.get(key, -1) < 0:
            if outlook.addresses != self.outlook.addresses:
                return 0  # the brokers are changing: a new version is on its way and will place it
            which = outlook.class_of(address, topic, self.unit)
            known = self.relabelled(outlook)
            self._group[key] = cheapest_group(outlook.terrain, outlook.demand, known, which)
        return self._group[key]

    def branch(self, group: int, node: int) -> TreePlace:
        return TreePlace(group, self.parents[group][node], tuple(self.children[group][node]))

    def entries(self, group: int, topic: Topic, hosts: Sequence[int]) -> dict[int, Entry]:
        """For every node the tree links beyond which a host lies; nodes with neither link nor host are left out."""
        parent = self.parents[group]
        below = dict.fromkeys(parent, 0)
        is_host = set(hosts)
        for host in hosts:
            below[host] += 1
        for node in reversed(parent):
            if parent[node] >= 0:
                below[parent[node]] += below[node]
        table: dict[int, Entry] = {}
        for node, above in parent.items():
            onward = [child for child in self.children[group][node] if below[child]]
            if above >= 0 and below[node] < len(hosts):
                onward.insert(0, above)
            if onward or node in is_host:
                table[node] = Entry(group, topic, tuple(onward), node in is_host)
        return table

    def filter_entries(self, group: int, wanted: Mapping[int, Sequence[Filter]]) -> dict[int, list[Entry]]:
        """For every node one entry per conjunction wanted beyond a link of the group's tree, covered and merged."""
        place = {address: index for index, address in enumerate(self.outlook.addresses)}
        tree = FilteredTree(
            self.strategy.trees[group], {place[address]: filters for address, filters in wanted.items()}
        )
        table: dict[int, list[Entry]] = {}
        for node, beyond in tree.links.items():
            links: dict[str, list[int]] = {}
            for neighbour, filters in beyond.items():
                for parts in filters.conjunctions:
                    links.setdefault(topic_of(parts), []).append(self._address(neighbour))
            here = [topic_of(parts) for parts in tree.wanted[node].conjunctions] if node in tree.wanted else []
            table[self._address(node)] = [
                Entry(group, topic, tuple(links.get(topic, ())), topic in here)
                for topic in dict.fromkeys([*links, *here])
            ]
        return table
