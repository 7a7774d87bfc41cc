"""Routing by filters instead of topics: every tree link knows, covered and merged, what is wanted beyond it.

A subscription whose topic begins with `?` is a filter: "?price > 3 and symbol prefix N". What it is matched against is
the published event: the fields of its payload where that is a JSON object, the keywords where it is a list of texts,
and its topic as `topic`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from coterie.errors import InputError
from coterie.model import Topic
from coterie.protocol.events import Event
from coterie.substrate.filterindex import FilterIndex
from coterie.substrate.filters import Conjunction, Document, Filter, Value, merge, parse, write
from coterie.substrate.lowstretch import RootedTree
from coterie.systems.content.messages import Entry

MARK = "?"
INDEXED_MIN = 64  # conjunctions from which on an index is faster than looking at each
ATTRIBUTES_MAX = 256  # of a document; what is beyond is not looked at
NOTHING = Filter(())


@lru_cache(maxsize=4096)
def filter_of(topic: Topic) -> Filter | None:
    """The filter that a topic is; None for a plain topic, also one that looks like a filter and is none."""
    if not isinstance(topic, str) or not topic.startswith(MARK):
        return None
    try:
        return parse(topic[len(MARK) :])
    except InputError:
        return None


def topic_of(parts: Conjunction) -> str:
    return MARK + write(parts)


def attributes_of(event: Event) -> Document:
    """The document that an event is."""
    found: dict[str, Value] = {"topic": str(event.topic)}
    try:
        body = msgspec.json.decode(event.payload) if event.payload[:1] in (b"{", b"[") else None
    except msgspec.DecodeError:
        return found
    if isinstance(body, list):
        found |= {word: 1.0 for word in body[:ATTRIBUTES_MAX] if isinstance(word, str)}
    elif isinstance(body, dict):
        for key, value in islice(body.items(), ATTRIBUTES_MAX):
            if _is_value(value):
                found[key] = value if isinstance(value, str) else float(value)
    return found


def _is_value(value: object) -> bool:
    return isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 2**1000)


def selects(topic: Topic, event: Event) -> bool:
    """Whether a subscription to this topic, or with this filter, is one to the event."""
    wanted = filter_of(topic)
    return topic == event.topic if wanted is None else wanted.matches(attributes_of(event))


class Matcher:
    """Which of some filters match a document: by an index if there are many."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
        self._index = FilterIndex(filters) if len(filters) >= INDEXED_MIN else None

    def matching(self, document: Document) -> list[int]:
        """Their places, ascending."""
        if self._index is None:
            return [at for at, wanted in enumerate(self._filters) if wanted.matches(document)]
        return self._index.match(document).tolist()  # type: ignore[no-any-return]


class Gates:
    """What a broker passes on by filters: for every conjunction wanted beyond links of a group's tree, those links."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, Topic], Entry] = {}
        self._known: tuple[Matcher, list[Entry]] | None = None  # made when it is asked for

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def apply(self, entry: Entry) -> None:
        self._known = None
        if entry.is_empty:
            self._entries.pop((entry.group, entry.topic), None)
        else:
            self._entries[entry.group, entry.topic] = entry

    def links(self, document: Document) -> dict[int, dict[int, None]]:
        """Group -> links beyond which somebody wants the document."""
        if self._known is None:
            entries = list(self)
            self._known = Matcher([filter_of(entry.topic) or NOTHING for entry in entries]), entries
        matcher, entries = self._known
        found: dict[int, dict[int, None]] = {}
        for at in matcher.matching(document):
            found.setdefault(entries[at].group, {}).update(dict.fromkeys(entries[at].links))
        return found


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
