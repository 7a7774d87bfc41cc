"""The broker: reports what it wants, routes documents by the tables it is given, and may be the coordinator too."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random

from coterie.model import Slice, Topic
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.events import Event, Timer
from coterie.protocol.node import NodeState, OverlayNode
from coterie.protocol.seen import Seen
from coterie.protocol.wire import SystemMessage
from coterie.substrate.filters import Filter
from coterie.systems.content.coordinator import RETRY_S, Coordinator
from coterie.systems.content.filtering import Gates, attributes_of, filter_of
from coterie.systems.content.messages import (
    Amend,
    AskReport,
    BrokerHere,
    BrokerReport,
    Document,
    DocumentSample,
    Entry,
    Install,
    Known,
    LinkAlive,
    Ready,
    Suspect,
    TreePlace,
    UseVersion,
)
from coterie.systems.content.parameters import ContentParameters

REPORT_S = 0.02  # subscriptions that arrive together make one report
WAITING_MAX = 256  # documents published before the first tables came


class RoutingTables:
    """One version's tables at one broker: (topic or filter, group) -> links, and the broker's place in every tree."""

    def __init__(self, install: Install) -> None:
        self.revision = install.revision
        self.branches: tuple[TreePlace, ...] = install.branches
        self.entries: dict[Topic, dict[int, Entry]] = {}
        self.gates = Gates()
        self.apply(install.entries)

    def apply(self, entries: tuple[Entry, ...]) -> None:
        for entry in entries:
            if filter_of(entry.topic) is not None:
                self.gates.apply(entry)
            elif not entry.is_empty:
                self.entries.setdefault(entry.topic, {})[entry.group] = entry
            elif entry.topic in self.entries:
                self.entries[entry.topic].pop(entry.group, None)
                if not self.entries[entry.topic]:
                    del self.entries[entry.topic]

    def links(self, event: Event) -> dict[int, dict[int, None]]:
        """Group -> links for the event: those of its topic, and those beyond which a filter matches it."""
        found = {entry.group: dict.fromkeys(entry.links) for entry in self.entries.get(event.topic, {}).values()}
        if self.gates:
            for group, links in self.gates.links(attributes_of(event)).items():
                found.setdefault(group, {}).update(links)
        return found

    def links_in(self, group: int, event: Event) -> Iterable[int]:
        """The same for one group."""
        if self.gates:
            return self.links(event).get(group, {})
        entry = self.entries.get(event.topic, {}).get(group)
        return () if entry is None else entry.links

    def hosted(self) -> set[int]:
        """Groups with a subscriber here."""
        plain = [entry for groups in self.entries.values() for entry in groups.values()]
        return {entry.group for entry in (*plain, *self.gates) if entry.is_host}


class ContentNode(OverlayNode):
    """A broker of the given network."""

    def __init__(self, address: int, parameters: ContentParameters, random: Random) -> None:
        super().__init__(address, random)
        self._parameters = parameters
        self._heartbeat_s = parameters.link_heartbeat_s
        self._life = random.getrandbits(31)
        self._number = 0  # of the last report
        self._neighbours: tuple[int, ...] = ()
        self._costs: tuple[float, ...] = ()  # of the links to them, where they are not all 1
        self._topics: dict[Topic, None] = {}
        self._pending: dict[Topic, int] = {}  # the report that is the first to name it
        self._filters: dict[Topic, Filter] = {}  # those of the topics that are filters
        self._tables: dict[int, RoutingTables] = {}  # the version in force, the one before, the one to come
        self._active = -1
        self._waiting: deque[Event] = deque(maxlen=WAITING_MAX)
        self._seen = Seen(parameters.seen_capacity)
        self._passed = Seen(parameters.seen_capacity)
        self._suspected_s: dict[int, float] = {}
        self._desk: Coordinator | None = None
        if address == parameters.coordinator:
            self._desk = Coordinator(
                parameters,
                self._send_from_desk,
                lambda name, delay_s: self.set_timer(("desk", name), delay_s),
            )

    # --- life ---

    def on_start(self, slice: Slice) -> None:
        self._neighbours = tuple(neighbour.node for neighbour in slice.neighbours)
        costs = tuple(neighbour.cost for neighbour in slice.neighbours)
        self._costs = () if all(cost == 1.0 for cost in costs) else costs
        self.set_timer("report", REPORT_S)
        self.set_timer("alive", self._heartbeat_s)
        self.set_timer("here", HEARTBEAT_S)

    def on_subscribe(self, topic: Topic) -> None:
        self._topics[topic] = None
        wanted = filter_of(topic)
        if wanted is not None:
            self._filters[topic] = wanted
        self._pending[topic] = self._number + 1
        self.pend(topic)
        self.set_timer("report", REPORT_S)

    def on_unsubscribe(self, topic: Topic) -> None:
        self._topics.pop(topic, None)
        self._pending.pop(topic, None)
        self._filters.pop(topic, None)
        self.set_timer("report", REPORT_S)

    def on_timer(self, timer: Timer) -> None:
        if timer == "report":
            self._number += 1
            self._report()
        elif timer == "report again":
            self._report()
        elif timer == "alive":
            self.send_all(self._neighbours, LinkAlive())
            self.set_timer("alive", self._heartbeat_s)
        elif timer == "here":
            self._tell_coordinator(BrokerHere(self._life, self._active))
            if self._desk is not None:
                self._desk.on_alarm("interval", self.now_s)
            self.set_timer("here", HEARTBEAT_S)
        elif self._desk is not None and isinstance(timer, tuple):
            self._desk.on_alarm(str(timer[1]), self.now_s)

    def on_peer_lost(self, peer: int) -> None:
        if self._desk is not None:
            self._desk.lose(peer)
        elif peer in self._neighbours and self.now_s - self._suspected_s.get(peer, -HEARTBEAT_S) >= HEARTBEAT_S:
            self._suspected_s[peer] = self.now_s
            self._tell_coordinator(Suspect(peer))

    # --- talking to the coordinator, who may be here ---

    def _tell_coordinator(self, message: SystemMessage) -> None:
        if self._desk is not None:
            self._desk.receive(self.address, message, self.now_s)
        else:
            self.send(self._parameters.coordinator, message)

    def _send_from_desk(self, to: int, message: SystemMessage) -> None:
        if to == self.address:
            self._follow(message)
        else:
            self.send(to, message)

    def _report(self) -> None:
        newest = max(self._tables, default=-1)
        self.set_timer("report again", RETRY_S)
        topics = tuple(self._topics)
        self._tell_coordinator(BrokerReport(self._life, self._number, newest, self._neighbours, topics, self._costs))

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, Document):
            self._pass_on(source, message)
        elif isinstance(message, LinkAlive):
            self._suspected_s.pop(source, None)
        elif isinstance(message, BrokerReport | BrokerHere | Ready | Suspect | DocumentSample):
            if self._desk is not None:
                self._desk.receive(source, message, self.now_s)
        elif source == self._parameters.coordinator:
            self._follow(message)

    def _follow(self, message: SystemMessage) -> None:
        """What the coordinator orders."""
        if isinstance(message, Known):
            if message.number == self._number:
                self.cancel_timer("report again")
            for topic in [topic for topic, number in self._pending.items() if number <= message.number]:
                del self._pending[topic]
                self.settle(topic)
        elif isinstance(message, AskReport):
            self._number += 1
            self._report()
        elif isinstance(message, Install):
            self._install(message)
        elif isinstance(message, Amend):
            tables = self._tables.get(message.version)
            if tables is not None:
                if message.revision > tables.revision:
                    tables.revision = message.revision
                    tables.apply(message.entries)
                self._tell_coordinator(Ready(message.version, tables.revision))
        elif isinstance(message, UseVersion) and message.version in self._tables and message.version > self._active:
            previous, self._active = self._active, message.version
            self._tables = {version: kept for version, kept in self._tables.items() if version >= previous}
            self._tell_coordinator(BrokerHere(self._life, self._active))
            while self._waiting:
                self._publish(self._waiting.popleft())

    def _install(self, install: Install) -> None:
        known = self._tables.get(install.version)
        if install.version < self._active and known is None:
            return
        if known is None or install.revision > known.revision:
            # Of versions that never came into force only the newest can.
            kept = [version for version in self._tables if version <= self._active or version > install.version]
            self._tables = {version: self._tables[version] for version in kept} | {
                install.version: RoutingTables(install)
            }
        self._tell_coordinator(Ready(install.version, self._tables[install.version].revision))

    # --- documents ---

    def on_publish(self, event: Event) -> None:
        self._take(event, 0)
        tables = self._tables.get(self._active)
        if self.random.random() < self._parameters.sampling:
            attributes = attributes_of(event) if tables is not None and tables.gates else {}
            self._tell_coordinator(DocumentSample(event.topic, dict(attributes), len(event.payload)))
        if tables is None:
            self._waiting.append(event)
        else:
            self._publish(event)

    def _publish(self, event: Event) -> None:
        """Matching at the publisher's broker: one copy on every tree with a matching subscription."""
        for group, links in self._tables[self._active].links(event).items():
            self._passed.add(self._key(event, self._active, group))
            self.send_all(links, Document(event, 1, self._active, group))

    def _pass_on(self, source: int, document: Document) -> None:
        event = document.event
        self._take(event, document.hops)
        tables = self._tables.get(document.version)
        if tables is None or not self._passed.add(self._key(event, document.version, document.group)):
            return
        links = tables.links_in(document.group, event)
        onward = Document(event, document.hops + 1, document.version, document.group)
        self.send_all((link for link in links if link != source), onward)

    def _key(self, event: Event, version: int, group: int) -> int:
        return (event.id << 64) | (version << 32) | group

    def _take(self, event: Event, hops: int) -> None:
        if self._wants(event) and self._seen.add(event.id):
            self.deliver(event, hops)

    def _wants(self, event: Event) -> bool:
        if event.topic in self._topics and event.topic not in self._filters:
            return True
        document = attributes_of(event) if self._filters else {}
        return any(wanted.matches(document) for wanted in self._filters.values())

    def state(self) -> NodeState:
        tables = self._tables.get(self._active)
        branches = () if tables is None else tables.branches
        hosted = set() if tables is None else tables.hosted()
        return NodeState(
            links=self._neighbours,
            parents=tuple((branch.group, branch.parent) for branch in branches if branch.parent >= 0),
            children=tuple((branch.group, child) for branch in branches for child in branch.children),
            memberships=tuple(sorted(hosted)),
        )
