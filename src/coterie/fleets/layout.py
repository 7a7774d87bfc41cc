"""What a plan wants of a fleet, in names: who sits where, what each broker wants, who publishes what, which links.

This is all that targets see of a plan. `read_layout` takes it from a published plan; whoever plans by other means
(admission, a test) makes one by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from coterie.errors import ConfigError, InputError
from coterie.fleets.fleet import BrokerFleet
from coterie.model import Design, Relation
from coterie.mqtt.topics import filter_matches, has_wildcard, split_shared
from coterie.plans.plan import Plan
from coterie.plans.store import PlanStore
from coterie.plans.tables import OUTSIDE, PUBLISHES, WISHES, column_of


@dataclass(frozen=True, eq=False)
class FleetLayout:
    """A plan in the words of a fleet."""

    brokers: tuple[str, ...]
    home: Mapping[str, str]  # client -> broker
    wishes: Mapping[str, tuple[str, ...]]  # client -> filters
    publishes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # client -> topic -> events per second
    links: tuple[tuple[str, str], ...] | None = None  # None: every broker may be linked to every other
    topics: tuple[str, ...] = ()
    published_at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # topic -> brokers, for want of clients
    outside_at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the same, of people with no name
    hub: str = ""  # of the plan, where it is a star
    version: int = 0
    system: str = ""
    is_in_order: bool = (
        False  # the plan names no brokers: its nodes are taken for the fleet file's, one after the other
    )

    @cached_property
    def filters(self) -> dict[str, tuple[str, ...]]:
        """Broker -> the filters its clients want, sorted; a shared filter is the filter that is shared."""
        wanted: dict[str, dict[str, None]] = {broker: {} for broker in self.brokers}
        for client, broker in self.home.items():
            for one in self.wishes.get(client, ()):
                wanted[broker][split_shared(one)[1]] = None
        return {broker: tuple(sorted(some)) for broker, some in wanted.items()}

    @cached_property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """Topic -> the brokers it is published at, sorted."""
        found: dict[str, dict[str, None]] = {}
        for topic, brokers in (*self.published_at.items(), *self.outside_at.items()):
            found.setdefault(topic, {}).update(dict.fromkeys(brokers))
        for client, topics in self.publishes.items():
            for topic in topics:
                found.setdefault(topic, {})[self.home[client]] = None
        return {topic: tuple(sorted(some)) for topic, some in sorted(found.items())}

    @cached_property
    def known_topics(self) -> tuple[str, ...]:
        """Every topic name that somebody publishes or asks for, sorted."""
        asked = (one for filters in self.filters.values() for one in filters if not is_wild(one))
        return tuple(sorted({*self.topics, *self.sources, *asked}))

    @cached_property
    def _matchers(self) -> dict[str, Filters]:
        return {broker: Filters(some) for broker, some in self.filters.items()}

    def wants(self, broker: str, topic: str) -> bool:
        return self._matchers[broker].match(topic)

    def readers(self, topic: str) -> tuple[str, ...]:
        """The brokers that want a topic, in the order of the fleet."""
        return tuple(broker for broker in self.brokers if self.wants(broker, topic))

    @cached_property
    def loads(self) -> dict[str, int]:
        """Broker -> clients placed there."""
        counted = dict.fromkeys(self.brokers, 0)
        for broker in self.home.values():
            counted[broker] += 1
        return counted

    def moved(self, home: Mapping[str, str]) -> FleetLayout:
        """The same wishes with clients elsewhere: what the fleet is like before, say."""
        return replace(self, home=dict(home), published_at={} if self.publishes else self.published_at)


class Filters:
    """A set of filters, of MQTT or of NATS, that is asked about many topics."""

    def __init__(self, filters: Iterable[str]) -> None:
        some = tuple(filters)
        self._names = frozenset(one for one in some if not is_wild(one))
        self._wild = tuple(one for one in some if has_wildcard(one))
        self._subjects = tuple(_levels(one) for one in some if is_wild(one) and not has_wildcard(one))
        self._known: dict[str, bool] = {}

    def match(self, topic: str) -> bool:
        found = self._known.get(topic)
        if found is None:
            found = topic in self._names or any(filter_matches(one, topic) for one in self._wild)
            found = found or any(filter_matches(one, topic.replace(".", "/")) for one in self._subjects)
            self._known[topic] = found
        return found


def is_wild(one: str) -> bool:
    """Whether a filter may match several names: `+` and `#` of MQTT, or `*` and `>` as words of a NATS subject."""
    return has_wildcard(one) or ("/" not in one and any(word in ("*", ">") for word in one.split(".")))


def _levels(subject: str) -> str:
    """A NATS subject as an MQTT filter; `>` stands for one word at least."""
    words = {"*": "+", ">": "+/#"}
    return "/".join(words.get(word, word) for word in subject.split("."))


def read_layout(plan: Path, fleet: BrokerFleet, version: int | None = None) -> FleetLayout:
    """A plan of a plan folder (the current one unless a version is given), with the fleet's names for its nodes."""
    return layout_of(PlanStore.at(plan).load(version), fleet)


def layout_of(plan: Plan, fleet: BrokerFleet) -> FleetLayout:
    """A plan in the fleet's names."""
    design, topics = plan.design, plan.topics
    brokers = _brokers(plan, fleet)
    home = {client: brokers[node] for client, node in plan.placement.items()}
    return FleetLayout(
        brokers=fleet.names,
        home=home,
        wishes=_wishes(plan, topics),
        publishes=_publishes(plan, home),
        outside_at=_outside_at(plan, brokers),
        published_at=_published_at(design, brokers, topics),
        hub=_hub(design, brokers),
        links=_links(design, brokers),
        topics=tuple(topics),
        version=plan.version,
        system=design.system,
        is_in_order=plan.nodes is None,
    )


def _brokers(plan: Plan, fleet: BrokerFleet) -> tuple[str, ...]:
    """Node -> the broker's name in the fleet file."""
    if plan.nodes is None:
        if plan.node_count != len(fleet.broker):
            raise ConfigError(
                "plan", f"{plan.node_count} nodes without names", f"a plan for the fleet's {len(fleet.broker)} brokers"
            )
        return fleet.names
    if strangers := sorted(set(plan.nodes) - set(fleet.names)):
        raise ConfigError("plan", strangers[0], f"brokers of {fleet.source}: {', '.join(fleet.names)}")
    return tuple(plan.nodes)


def _wishes(plan: Plan, topics: list[str]) -> dict[str, tuple[str, ...]]:
    """The wishes that held to the end, where the plan says it; else all of them."""
    table = plan.table(WISHES)
    if table is None:
        raise InputError(plan.source, "does not say who wants what (wishes.parquet is missing); plan again")
    held: list[bool] = table["is_later"].to_pylist() if "is_later" in table.column_names else []
    found: dict[str, list[str]] = {}
    said = (column_of(table, name, plan.source) for name in ("client", "filter"))
    for row, (client, one) in enumerate(zip(*said, strict=True)):
        if not any(held) or held[row]:
            found.setdefault(_named(client, plan.clients, plan.source), []).append(_named(one, topics, plan.source))
    return {client: tuple(sorted(some)) for client, some in sorted(found.items())}


def _named(value: str | int, names: list[str], source: str) -> str:
    """Tables may count or name."""
    if isinstance(value, str):
        return value
    if not 0 <= value < len(names):
        raise InputError(source, f"holds number {value}, which has no name")
    return names[value]


def _publishes(plan: Plan, home: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Who publishes what, where the plan says it."""
    found: dict[str, dict[str, float]] = {}
    for client, topic, rate in _published(plan):
        if client in home:
            found.setdefault(client, {})[topic] = rate
    return found


def _outside_at(plan: Plan, brokers: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Topic -> the broker where those enter whom the log does not name: nobody to be placed, but a source."""
    node = plan.outside_node
    return {} if node is None else {topic: (brokers[node],) for who, topic, _ in _published(plan) if who == OUTSIDE}


def _published(plan: Plan) -> Iterator[tuple[str, str, float]]:
    table = plan.table(PUBLISHES)
    if table is not None:
        columns = (column_of(table, name, plan.source) for name in ("client", "topic", "rate"))
        yield from zip(*columns, strict=True)


def _published_at(design: Design, brokers: tuple[str, ...], topics: list[str]) -> dict[str, tuple[str, ...]]:
    """Topic -> brokers where it enters, where the design has a channel per topic; otherwise it cannot be told."""
    if design.channels.topics != Relation.identity(len(topics)) or not design.entries.count:
        return {}
    entries = design.entries
    first = entries.hops[entries.indptr[:-1]]
    found: dict[str, dict[str, None]] = {}
    for channel, node, after in zip(entries.channel.tolist(), first.tolist(), entries.after.tolist(), strict=True):
        if after < 0:
            found.setdefault(topics[channel], {})[brokers[node]] = None
    return {topic: tuple(sorted(some)) for topic, some in sorted(found.items())}


def _hub(design: Design, brokers: tuple[str, ...]) -> str:
    """The broker that all others are linked to and that alone has more than one link."""
    if design.overlay.is_complete or design.node_count < 3:
        return ""
    degrees = design.overlay.degrees.tolist()
    center = degrees.index(max(degrees))
    others = [degree for node, degree in enumerate(degrees) if node != center]
    return brokers[center] if degrees[center] == len(others) and set(others) == {1} else ""


def _links(design: Design, brokers: tuple[str, ...]) -> tuple[tuple[str, str], ...] | None:
    if design.overlay.is_complete:
        return None
    both = design.overlay.undirected
    below = both.rows < both.columns
    pairs = np.stack([both.rows[below], both.columns[below]], axis=1).tolist()
    return tuple((brokers[one], brokers[other]) for one, other in pairs)
