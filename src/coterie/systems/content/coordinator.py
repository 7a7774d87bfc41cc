"""The coordinator of section VI: knows brokers, subscriptions and a sample of documents, and installs strategies.

How it works. Brokers report their links and topics and say every interval that they are there. Whenever the set of
brokers changes, and periodically if a new strategy would save more than the threshold, it computes one, installs it on
every broker beside the old one, and tells all to switch when all are ready; documents carry the version they were
published by, so nothing is lost in between. Subscriptions that come and go amend the tables of the version in force.
Everything it sends is repeated until it is acknowledged; a broker that cannot be reached is left out of the next
version. If it restarts, it asks the brokers again; meanwhile they go on as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from coterie.model import Topic
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.wire import SystemMessage
from coterie.substrate.filters import Filter
from coterie.systems.content.filtering import filter_of
from coterie.systems.content.messages import (
    Amend,
    AskReport,
    BrokerHere,
    BrokerReport,
    DocumentSample,
    Entry,
    Install,
    Known,
    Ready,
    Suspect,
    UseVersion,
)
from coterie.systems.content.parameters import ContentParameters
from coterie.systems.content.routing import Installed, Outlook, Sampled, topic_order

REBUILD_S = 2.0  # news that arrive together make one new version
RETRY_S = 5.0
SILENCE_S = 3.5 * HEARTBEAT_S

Table = dict[tuple[int, Topic], Entry]


def link_costs(neighbours: tuple[int, ...], costs: tuple[float, ...]) -> dict[int, float]:
    """As reported, or 1 each if that makes no sense."""
    is_sound = len(costs) == len(neighbours) and all(0 < cost < inf for cost in costs)
    return dict(zip(neighbours, costs if is_sound else [1.0] * len(neighbours), strict=True))


@dataclass
class Member:
    """One broker as the coordinator knows it."""

    life: int
    number: int
    neighbours: dict[int, float]  # with the cost of the link
    topics: dict[Topic, None]
    heard_s: float
    is_up: bool = True
    version: int = -1  # applied
    revision: int = 0  # applied, of that version
    used: int = -1  # the version it publishes by
    asked: int = -1  # the report that waits for an answer
    unsent: dict[tuple[int, Topic], tuple[int, Entry]] = field(default_factory=dict)  # with its revision


class Coordinator:
    """Gets messages and moments, gives messages and alarms; `send` and `alarm` are its node's verbs."""

    def __init__(
        self,
        parameters: ContentParameters,
        send: Callable[[int, SystemMessage], None],
        alarm: Callable[[str, float], None],
    ) -> None:
        self._parameters = parameters
        self._send = send
        self._alarm = alarm
        self.brokers: dict[int, Member] = {}
        self.active: Installed | None = None
        self.candidate: Installed | None = None
        self._tables: dict[int, dict[int, Table]] = {}  # version -> broker -> entries
        self._revision = 0
        self._newest = -1
        self._samples: deque[tuple[float, Sampled]] = deque(maxlen=parameters.window_max)
        self._is_rebuilding = False
        alarm("review", parameters.review_s)
        alarm("retry", RETRY_S)

    # --- what brokers say ---

    def receive(self, source: int, message: SystemMessage, now_s: float) -> None:
        if isinstance(message, BrokerReport):
            self._report(source, message, now_s)
        elif isinstance(message, BrokerHere):
            self._here(source, message, now_s)
        elif isinstance(message, Ready):
            self._ready(source, message)
        elif isinstance(message, Suspect):
            self.lose(message.peer)
        elif isinstance(message, DocumentSample) and source in self.brokers:
            self._samples.append((now_s, (source, message.topic, message.attributes, message.size_bytes)))

    def _report(self, source: int, report: BrokerReport, now_s: float) -> None:
        known = self.brokers.get(source)
        if known is not None and known.life == report.life and report.number <= known.number and known.is_up:
            known.heard_s = now_s
            known.asked = known.number
            self._answer()
            return
        self._newest = max(self._newest, report.version)
        topics = dict.fromkeys(topic_order(report.topics))
        fresh = Member(report.life, report.number, link_costs(report.neighbours, report.costs), topics, now_s)
        self.brokers[source] = fresh
        if known is None or not known.is_up or known.neighbours != fresh.neighbours:
            self._rebuild_soon()
        elif known.life != report.life:
            self._install_on(source)
        else:
            fresh.version, fresh.revision, fresh.unsent = known.version, known.revision, known.unsent
            fresh.used = known.used
        fresh.asked = report.number
        if known is not None:
            changed = [topic for topic in {**known.topics, **topics} if (topic in known.topics) != (topic in topics)]
            self._amend(topic_order(changed), now_s)
        self._answer()

    def _answer(self) -> None:
        """Tell those who reported that everybody routes by it, once that is so.

        While a version is being computed or installed it is not: the one in force may lack what was asked for.
        """
        if self.active is None or self.candidate is not None or self._is_rebuilding:
            return
        version = self.active.version
        if any(one.is_up and (one.used != version or one.unsent) for one in self.brokers.values()):
            return
        for address in sorted(self.brokers):
            broker = self.brokers[address]
            if broker.asked >= 0:
                number, broker.asked = broker.asked, -1
                self._send(address, Known(number))

    def _here(self, source: int, here: BrokerHere, now_s: float) -> None:
        known = self.brokers.get(source)
        if known is None or not known.is_up or known.life != here.life:
            self._send(source, AskReport())
            return
        known.heard_s = now_s
        known.used = here.version
        self._answer()
        if self.active is not None and here.version != self.active.version and known.version >= self.active.version:
            self._send(source, UseVersion(self.active.version))

    def _ready(self, source: int, ready: Ready) -> None:
        known = self.brokers.get(source)
        if known is None or (ready.version, ready.revision) <= (known.version, known.revision):
            return
        known.version, known.revision = ready.version, ready.revision
        known.unsent = {key: entry for key, entry in known.unsent.items() if entry[0] > ready.revision}
        if self.candidate is not None and ready.version == self.candidate.version:
            self._switch_if_ready()
        self._answer()

    def lose(self, peer: int) -> None:
        """The broker is out of reach: the next version does without it."""
        known = self.brokers.get(peer)
        if known is not None and known.is_up:
            known.is_up = False
            self._rebuild_soon()

    # --- moments ---

    def on_alarm(self, name: str, now_s: float) -> None:
        if name == "rebuild":
            self._is_rebuilding = False
            self._propose(self._outlook(now_s))
        elif name == "retry":
            self._retry()
            self._alarm("retry", RETRY_S)
        elif name == "review":
            self._forget_silent(now_s)
            self._review(now_s)
            self._alarm("review", self._parameters.review_s)
        elif name == "interval":
            self._forget_silent(now_s)

    def _forget_silent(self, now_s: float) -> None:
        for address in sorted(self.brokers):
            if now_s - self.brokers[address].heard_s > SILENCE_S:
                self.lose(address)

    def _rebuild_soon(self) -> None:
        if not self._is_rebuilding:
            self._is_rebuilding = True
            self._alarm("rebuild", REBUILD_S)

    def _outlook(self, now_s: float) -> Outlook:
        while self._samples and self._samples[0][0] < now_s - self._parameters.window_s:
            self._samples.popleft()
        up = {address: broker for address, broker in self.brokers.items() if broker.is_up}
        return Outlook.of(
            {address: broker.neighbours for address, broker in up.items()},
            {address: tuple(broker.topics) for address, broker in up.items()},
            [sampled for _, sampled in self._samples],
            self._parameters.unit,
        )

    def _review(self, now_s: float) -> None:
        """Install what saves more than the threshold on the documents of the window."""
        if self.active is None or self.candidate is not None or self._is_rebuilding or not self._samples:
            return
        outlook = self._outlook(now_s)
        if outlook.addresses != self.active.outlook.addresses:
            return
        for address in outlook.addresses:
            for topic in self.brokers[address].topics:
                self.active.group_of(address, topic, outlook)
        proposal = Installed(self._newest + 1, outlook, self._parameters)
        current = self.active.relabelled(outlook).cost(outlook.terrain, outlook.demand)
        if current > 0 and (current - proposal.cost(outlook)) / current > self._parameters.threshold:
            self._install(proposal)

    # --- installing ---

    def _propose(self, outlook: Outlook) -> None:
        if outlook.addresses:
            self._install(Installed(self._newest + 1, outlook, self._parameters))

    def _install(self, proposal: Installed) -> None:
        self._newest = proposal.version
        self.candidate = proposal
        outlook = proposal.outlook
        tables: dict[int, Table] = {address: {} for address in outlook.addresses}
        for topic in outlook.topics:
            for (address, group), entry in self._entries(proposal, topic, outlook).items():
                tables[address][group, topic] = entry
        for address, table in self._filter_tables(proposal, outlook).items():
            tables[address] |= table
        kept = [] if self.active is None else [self.active.version]
        self._tables = {version: self._tables[version] for version in kept} | {proposal.version: tables}
        for address in outlook.addresses:
            self.brokers[address].unsent = {}
            self._install_on(address)

    def _entries(self, installed: Installed, topic: Topic, outlook: Outlook) -> dict[tuple[int, int], Entry]:
        """(broker, group) -> the entry for one plain topic."""
        if filter_of(topic) is not None:
            return {}
        hosts: dict[int, list[int]] = {}
        for address in installed.outlook.addresses:
            if topic in self.brokers[address].topics and self.brokers[address].is_up:
                hosts.setdefault(installed.group_of(address, topic, outlook), []).append(address)
        return {
            (address, group): entry
            for group, members in sorted(hosts.items())
            for address, entry in installed.entries(group, topic, members).items()
        }

    def _filter_tables(self, installed: Installed, outlook: Outlook) -> dict[int, Table]:
        """Broker -> its entries for filters, which depend on each other: what is covered or merged has none."""
        wanted: dict[int, dict[int, list[Filter]]] = {}
        for address in installed.outlook.addresses:
            broker = self.brokers[address]
            for topic in broker.topics if broker.is_up else ():
                one = filter_of(topic)
                if one is not None:
                    group = installed.group_of(address, topic, outlook)
                    wanted.setdefault(group, {}).setdefault(address, []).append(one)
        tables: dict[int, Table] = {}
        for group, hosts in sorted(wanted.items()):
            for address, entries in installed.filter_entries(group, hosts).items():
                tables.setdefault(address, {}).update({(group, entry.topic): entry for entry in entries})
        return tables

    def _install_on(self, address: int) -> None:
        """Give the broker every version it may meet; the newest is the one it must acknowledge."""
        for installed in (self.active, self.candidate):
            if installed is None or address not in self._tables[installed.version]:
                continue
            table = self._tables[installed.version][address]
            branches = tuple(installed.branch(group, address) for group in range(len(installed.parents)))
            self._send(address, Install(installed.version, self._revision, branches, tuple(table.values())))
            if installed is self.active:
                self._send(address, UseVersion(installed.version))

    def _switch_if_ready(self) -> None:
        candidate = self.candidate
        assert candidate is not None
        for address in candidate.outlook.addresses:
            if self.brokers[address].is_up and self.brokers[address].version < candidate.version:
                return
        self.active, self.candidate = candidate, None
        self._tables = {candidate.version: self._tables[candidate.version]}
        for address in candidate.outlook.addresses:
            self._send(address, UseVersion(candidate.version))

    def _amend(self, topics: list[Topic], now_s: float) -> None:
        """Bring the tables of every version up to date with what brokers want now."""
        if not topics:
            return
        self._revision += 1
        outlook: Outlook | None = None
        for installed in (self.active, self.candidate):
            if installed is None:
                continue
            outlook = outlook or self._outlook(now_s)
            for topic in topics:
                self._amend_topic(installed, topic, outlook)
            if any(filter_of(topic) is not None for topic in topics):
                self._amend_filters(installed, outlook)
        for address in sorted(self.brokers):
            self._send_amendments(address)

    def _amend_topic(self, installed: Installed, topic: Topic, outlook: Outlook) -> None:
        if filter_of(topic) is not None:
            return
        wanted = self._entries(installed, topic, outlook)
        for address in self._tables[installed.version]:
            for group in range(len(installed.parents)):
                entry = wanted.get((address, group), Entry(group, topic, (), False))
                self._set_entry(installed, address, entry)

    def _amend_filters(self, installed: Installed, outlook: Outlook) -> None:
        wanted = self._filter_tables(installed, outlook)
        for address, table in self._tables[installed.version].items():
            fresh = wanted.get(address, {})
            gone = [key for key in table if key not in fresh and filter_of(key[1]) is not None]
            for group, topic in gone:
                self._set_entry(installed, address, Entry(group, topic, (), False))
            for entry in fresh.values():
                self._set_entry(installed, address, entry)

    def _set_entry(self, installed: Installed, address: int, entry: Entry) -> None:
        """Put an entry into a broker's table of this version, and tell the broker if that changes anything."""
        table, key = self._tables[installed.version][address], (entry.group, entry.topic)
        if table.get(key, Entry(*key, (), False)) == entry:
            return
        table[key] = entry
        if entry.is_empty:
            del table[key]
        if installed is (self.candidate or self.active):
            self.brokers[address].unsent[key] = self._revision, entry

    def _send_amendments(self, address: int) -> None:
        """What the newest version's tables changed; the version before it is about to be replaced."""
        broker = self.brokers[address]
        newest = self.candidate or self.active
        if newest is None or not broker.unsent or not broker.is_up:
            return
        if broker.version < newest.version:
            self._install_on(address)
            return
        entries = tuple(entry for _, entry in broker.unsent.values())
        self._send(address, Amend(newest.version, self._revision, entries))

    def _retry(self) -> None:
        newest = self.candidate or self.active
        if newest is None:
            return
        for address in sorted(self.brokers):
            broker = self.brokers[address]
            if not broker.is_up or address not in self._tables[newest.version]:
                continue
            if broker.version < newest.version:
                self._install_on(address)
            else:
                self._send_amendments(address)
        if self.candidate is not None:
            self._switch_if_ready()
