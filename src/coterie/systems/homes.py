"""Homes: every topic has a home broker. Events go there, and from there one copy to each interested broker.

Nodes tell what they want to the topic's home alone, so an announcement is one message where a mesh sends one to every
node, and only the home keeps in mind who wants the topic. The price is a hop for whatever is published elsewhere. A
plan puts the home where most of the topic's subscribers are; about topics that no plan names, and with `at="hash"`
about all, nodes agree by a hash of the topic's name. Left out: homes that move by themselves as interests do (a new
plan moves them).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.accounting.changes import node_wishes
from coterie.accounting.price import local_audience
from coterie.errors import ConfigError
from coterie.model import Channels, Entries, Overlay, Placement, Slice, Spread, Topic, Trees, Workload
from coterie.model.ledger import HEARTBEAT_S
from coterie.model.relation import Index
from coterie.protocol.events import Event, EventMessage
from coterie.protocol.node import NodeState
from coterie.protocol.seen import Seen
from coterie.protocol.system import Parameters, Stages, System, beats_on_links, check_count, check_period
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import splitmix64, splitmix64_array, topic_key, topic_keys
from coterie.systems.announcing import (
    ANNOUNCING_MESSAGES,
    NOTHING,
    Announcement,
    AnnouncingNode,
    Presence,
    TellInterest,
    TopicSet,
)
from coterie.systems.flooding import full_mesh
from coterie.systems.recent import Recent
from coterie.trace import Traffic

WHERE = ("interest", "hash")
TOPICS_AT_ONCE = 4096
KNOWN_MAX = 65_536  # homes of topics that no plan names, kept so that they are not looked for with every event


class HomesParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a plan chooses homes, and how often links are kept alive."""

    at: str = "interest"  # where most of the topic's subscribers are, or "hash"
    link_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a link
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice

    def __post_init__(self) -> None:
        if self.at not in WHERE:
            raise ConfigError("at", self.at, f"one of {', '.join(WHERE)}")
        check_period("link_heartbeat_s", self.link_heartbeat_s)
        check_count("seen_capacity", self.seen_capacity)


class Homeward(EventMessage, frozen=True):
    """An event on its way to the home of its topic."""

    traffic: ClassVar[Traffic] = Traffic.EVENT


class FromHome(EventMessage, frozen=True):
    """An event for a node that wants it (or may want it, while nobody knows who does)."""

    traffic: ClassVar[Traffic] = Traffic.EVENT


# --- bulk form ---


def hashed_homes(keys: NDArray[np.uint64], node_count: int) -> Index:
    """The node of the smallest number that key and node make together: `hashed_home` of all of them."""
    nodes = splitmix64_array(np.arange(node_count, dtype=np.uint64))
    homes = np.zeros(len(keys), np.int32)
    for first in range(0, len(keys), TOPICS_AT_ONCE):
        some = slice(first, first + TOPICS_AT_ONCE)
        homes[some] = np.argmin(splitmix64_array(keys[some, None] ^ nodes), axis=1)
    return homes


def homes_of(workload: Workload, placement: Placement, parameters: HomesParameters) -> Index:
    """Of every topic: where most deliveries are; if nobody wants it, where most is published; else by hash.

    Copies are the same wherever in the audience the home is: it need not be sent what it wants itself.
    """
    homes = np.full(workload.topic_count, -1, np.int32)
    if parameters.at == "interest":
        publications = workload.publications
        source = placement.node_of[publications.publisher]
        _most(homes, publications.topic, source, publications.rate, workload.node_count)
        audience, deliveries = local_audience(workload, placement.node_of)
        _most(homes, audience.rows, audience.columns, deliveries, workload.node_count)
    unknown = np.flatnonzero(homes < 0)
    homes[unknown] = hashed_homes(topic_keys(workload.topic_count)[unknown], workload.node_count)
    return homes


def _most(homes: Index, topic: Index, node: Index, amount: NDArray[np.float64], node_count: int) -> None:
    """Put every topic that occurs at the node with most of it; the lowest node of several."""
    key = topic.astype(np.int64) * node_count + node
    pairs, at = np.unique(key, return_inverse=True)
    total = np.bincount(at, amount, len(pairs))
    by_topic, by_node = np.divmod(pairs, node_count)
    order = np.lexsort([by_node, -total, by_topic])
    first = np.concatenate([[True], np.diff(by_topic[order]) > 0]) if len(order) else np.zeros(0, bool)
    homes[by_topic[order][first]] = by_node[order][first]


def through_the_homes(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: HomesParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    publications = workload.publications
    homes = homes_of(workload, placement, parameters)
    members = workload.node_interests(placement.node_of).transposed
    is_away = members.columns != homes[members.rows]
    away, topic = members.columns[is_away], members.rows[is_away]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(topic, minlength=channels.count))]).astype(np.int64)
    trees = Trees(Spread.THROUGH, members, homes, indptr, away, homes[topic], has_homes=parameters.at == "interest")
    return trees, Entries.at_publisher(placement.node_of[publications.publisher], publications.topic)


def told_to_the_home(workload: Workload, placement: Placement, overlay: Overlay, parameters: HomesParameters) -> float:
    """Every wish for one topic goes to its home, if that is elsewhere; a wildcard's to all nodes: any may be a home."""
    wishes = node_wishes(workload, placement.node_of)
    homes = homes_of(workload, placement, parameters)
    if workload.wishes is None:
        return float(np.count_nonzero(homes[wishes.columns] != wishes.rows))
    matches = workload.wishes.matches
    is_plain = matches.lengths[wishes.columns] == 1
    topic = matches.columns[matches.indptr[wishes.columns[is_plain]]]
    away = np.count_nonzero(homes[topic] != wishes.rows[is_plain])
    return float(away + np.count_nonzero(~is_plain) * (workload.node_count - 1))


# --- protocol ---


def hashed_home(topic: Topic, nodes: Iterable[int]) -> int:
    """All who know the same nodes agree on it, and one node's going moves only what was there."""
    key = topic_key(topic)
    return min(nodes, key=lambda node: (splitmix64(key ^ splitmix64(node)), node))


class HomesNode(AnnouncingNode):
    """Tells the home of each topic what is wanted here, sends it what is published here; passes on what it is home to.

    When a home cannot be reached its topics are at home with the next node by hash, and everybody tells it. A home
    passes an event on to those who want it if it is sure to know them: it has what each node says it announced, and
    if it stands in for another one, all have had the time to find that out. Until then it passes it on to all.
    """

    def __init__(self, address: int, parameters: HomesParameters, random: Random) -> None:
        super().__init__(address, parameters.link_heartbeat_s, random)
        self._seen = Seen(parameters.seen_capacity)
        self._filed: dict[int, TopicSet] = {}  # home -> what was announced to it
        self._filed_at: dict[Topic, int] = {}  # what is wanted here -> its home
        self._planned: dict[Topic, int] = {}
        self._hashed: dict[Topic, int] = {}
        self._nodes: tuple[int, ...] = (address,)
        self._away_s: dict[int, float] = {}  # nodes that cannot be reached, since when
        self._unheard: dict[int, None] = {}  # nodes of whom it is not sure what they announced here
        self._recent = Recent[Homeward]()

    def on_start(self, slice: Slice) -> None:
        self._planned = {topic: part.node for part in slice.homes for topic in part.topics}
        self._nodes = tuple(sorted((self.address, *(neighbour.node for neighbour in slice.neighbours))))
        self._hashed.clear()
        self._away_s = {}
        self._unheard = dict.fromkeys(node for node in self._nodes if node != self.address)
        self._filed = {home: filed for home, filed in self._filed.items() if home in self._nodes}
        self._file_all(is_told=False)
        super().on_start(slice)

    # --- homes ---

    def home_of(self, topic: Topic) -> int:
        """The home, or who stands in for it."""
        home = self._first_home(topic)
        if home not in self._away_s:
            return home
        return hashed_home(topic, (node for node in self._nodes if node not in self._away_s))

    def _first_home(self, topic: Topic) -> int:
        home = self._planned.get(topic)
        if home is None:
            home = self._hashed.get(topic)
        if home is None:
            if len(self._hashed) >= KNOWN_MAX:
                self._hashed.clear()
            home = self._hashed[topic] = hashed_home(topic, self._nodes)
        return home

    def _file_all(self, is_told: bool = True) -> None:
        """Every wish with the home its topic has now; a greeting that comes next may tell it, too."""
        for topic in self.own.topics:
            home, before = self.home_of(topic), self._filed_at.get(topic)
            if home != before:
                if before is not None:
                    self._file(before, topic, False, is_told)
                self._file(home, topic, True, is_told)

    def _file(self, home: int, topic: Topic, is_wanted: bool, is_told: bool = True) -> None:
        if is_wanted:
            self._filed_at[topic] = home
        else:
            self._filed_at.pop(topic, None)
        if home == self.address:
            return
        self._filed.setdefault(home, TopicSet()).put(topic, is_wanted)
        if is_told and home not in self._away_s:
            self.send(home, Announcement(topic, is_wanted))

    def announce(self, topic: Topic, is_wanted: bool) -> None:
        self._file(self.home_of(topic) if is_wanted else self._filed_at[topic], topic, is_wanted)

    def told_to(self, peer: int) -> TopicSet:
        return self._filed.get(peer, NOTHING)

    def on_peer_lost(self, peer: int) -> None:
        super().on_peer_lost(peer)
        for message in self._recent.take(peer, self.now_s):
            self._to_all(message.event, peer, hops=1)
        if peer in self.peers and peer not in self._away_s:
            self._away_s[peer] = self.now_s
            self._unheard.pop(peer, None)
            self._file_all()

    # --- events ---

    def on_publish(self, event: Event) -> None:
        self._take(event, hops=0)
        home = self.home_of(event.topic)
        if home == self.address:
            self._pass_on(event, self.address, hops=1)
        else:
            message = Homeward(event, 1)
            self._recent.add(home, message, self.now_s)
            self.send(home, message)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if source in self._away_s:
            del self._away_s[source]
            self._unheard[source] = None
            self._file_all()
        if isinstance(message, Homeward):
            if self._take(message.event, message.hops):
                self._pass_on(message.event, source, message.hops + 1)
        elif isinstance(message, FromHome):
            self._take(message.event, message.hops, is_last=True)
        else:
            super().on_receive(source, message)
            if isinstance(message, TellInterest) or (
                isinstance(message, Presence) and self.told.get(source, NOTHING).digest == message.digest
            ):
                self._unheard.pop(source, None)

    def _pass_on(self, event: Event, source: int, hops: int) -> None:
        if self._is_sure(event.topic):
            onwards = (peer for peer in self.wanted_by.get(event.topic, ()) if peer != source)
            self.send_all(onwards, FromHome(event, hops))
        else:
            self._to_all(event, source, hops)

    def _is_sure(self, topic: Topic) -> bool:
        """Everybody greets everybody once per heartbeat: after two of them all know that a home is away."""
        if self._unheard or self.home_of(topic) != self.address:
            return False
        away_s = self._away_s.get(self._first_home(topic))
        return away_s is None or self.now_s - away_s > 2 * self._heartbeat_s

    def _to_all(self, event: Event, but: int, hops: int) -> None:
        up = (peer for peer in self.peers if peer != but and peer not in self._away_s)
        self.send_all(up, FromHome(event, hops))

    def _take(self, event: Event, hops: int, is_last: bool = False) -> bool:
        """False if it was here before."""
        if not self._seen.add(event.id):
            return False
        if event.topic in self.own.topics:
            self.deliver(event, hops)
        elif is_last:
            self.discard(event)
        return True

    def state(self) -> NodeState:
        return NodeState(
            links=self.peers,
            parents=tuple((topic, home) for topic, home in self._filed_at.items() if home != self.address),
            children=self.entries,
            memberships=tuple(self.own.topics),
        )


SYSTEM = System(
    name="homes",
    title="A home broker per topic: announced to it alone, passed on by it",
    paper="(what partitioned brokers do)",
    parameters=HomesParameters,
    stages=Stages(
        overlay=full_mesh,
        trees=through_the_homes,
        announcements=told_to_the_home,
        upkeep=beats_on_links,
    ),
    node=HomesNode,
    messages=(Homeward, FromHome, *ANNOUNCING_MESSAGES),
)
