"""A tree of brokers per topic over few links: no copy comes twice, and none passes through more brokers than it must.

Links are the plan's; where the plan leaves them open, greedy merging chooses few that keep the brokers interested in a
topic together. A topic's tree grows from its readers, nearest first, and then takes in the brokers that publish it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from coterie.fleets.layout import Filters, FleetLayout
from coterie.model import Relation

Pair = tuple[str, str]


@dataclass(frozen=True)
class Tree:
    """The links of one topic, and the directions events take on them."""

    links: tuple[Pair, ...]
    carries: tuple[Pair, ...]  # (from, to): somebody beyond `to` wants what somebody before `from` publishes


def links_of(wanted: FleetLayout) -> tuple[Pair, ...]:
    """The links to use: the plan's, or few that serve every topic's brokers among themselves."""
    if wanted.links is not None:
        return wanted.links
    from coterie.systems.spidercast.greedy import greedy_merge  # half a second that most commands need not wait for
    from coterie.systems.spidercast.system import with_contacts

    number = {broker: at for at, broker in enumerate(wanted.brokers)}
    topics = wanted.known_topics
    rows, columns = [], []
    for column, topic in enumerate(topics):
        for broker in dict.fromkeys((*wanted.readers(topic), *wanted.sources.get(topic, ()))):
            rows.append(number[broker])
            columns.append(column)
    interests = Relation.from_pairs(rows, columns, len(wanted.brokers), len(topics))
    merged = with_contacts(greedy_merge(interests, 0), 0) if rows else Relation.identity(len(wanted.brokers))
    pairs = {(min(one, other), max(one, other)) for one, other in zip(merged.rows, merged.columns, strict=True)}
    return tuple((wanted.brokers[one], wanted.brokers[other]) for one, other in sorted(pairs) if one != other)


def trees_per_topic(wanted: FleetLayout, prefixes: tuple[str, ...] = ()) -> dict[str, Tree]:
    """Topic (or prefix) -> its tree. Topics below a prefix ride on the prefix's tree, which reaches every broker."""
    near = neighbours(links_of(wanted))
    covered = Filters(prefixes)
    found = {prefix: spanning(near, wanted.brokers, wanted.brokers) for prefix in prefixes}
    for topic in wanted.known_topics:
        readers = wanted.readers(topic)
        if covered.match(topic) or not readers:
            continue
        tree = spanning(near, readers, wanted.sources.get(topic, wanted.brokers if not wanted.sources else ()))
        if tree.links:
            found[topic] = tree
    return found


def neighbours(links: tuple[Pair, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for one, other in links:
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {broker: tuple(sorted(some)) for broker, some in sorted(found.items())}


def spanning(near: Mapping[str, tuple[str, ...]], readers: tuple[str, ...], sources: tuple[str, ...]) -> Tree:
    """A tree that joins all readers and sources."""
    inside: dict[str, None] = {readers[0]: None}
    links: list[Pair] = []
    for group in (readers, sources):
        missing = [broker for broker in group if broker not in inside]
        while missing:
            path = _nearest(near, inside, set(missing))
            if path is None:
                break  # a plan whose links leave somebody out; `--check` says so
            links += [(min(pair), max(pair)) for pair in pairwise(path)]
            inside |= dict.fromkeys(path)
            missing = [broker for broker in missing if broker not in inside]
    return Tree(tuple(sorted(links)), _directions(links, set(readers), set(sources)))


def _nearest(near: Mapping[str, tuple[str, ...]], inside: Mapping[str, None], missing: set[str]) -> list[str] | None:
    """The shortest path from the tree to somebody it misses."""
    before: dict[str, str | None] = dict.fromkeys(inside)
    waiting = deque(inside)
    while waiting:
        at = waiting.popleft()
        if at in missing:
            path = [at]
            while (step := before[path[-1]]) is not None:
                path.append(step)
            return path[::-1]
        for other in near.get(at, ()):
            if other not in before:
                before[other] = at
                waiting.append(other)
    return None


def _directions(links: list[Pair], readers: set[str], sources: set[str]) -> tuple[Pair, ...]:
    """Each link in the directions that are of use: a source on this side, a reader on the other."""
    near = neighbours(tuple(links))
    useful = []
    for link in sorted(links):
        for here, there in (link, link[::-1]):
            beyond = _side(near, there, here)
            behind = _side(near, here, there)
            if beyond & readers and behind & sources:
                useful.append((here, there))
    return tuple(useful)


def _side(near: Mapping[str, tuple[str, ...]], start: str, without: str) -> set[str]:
    """What hangs together with `start` when the link to `without` is cut."""
    found, waiting = {start}, [start]
    while waiting:
        at = waiting.pop()
        for other in near.get(at, ()):
            if other not in found and (at, other) != (start, without):
                found.add(other)
                waiting.append(other)
    return found
