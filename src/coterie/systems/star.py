"""Star, what fleets of bridged brokers do: everything goes to a hub, which passes it on to the others.

The shape of mosquitto with bridges. `crossing` says what the hub passes on: "all", every topic to every spoke (a line
`topic # both` in each bridge: what its manual shows and most operators have, so the default), or "wanted", to each
spoke only what somebody there wants (an access list at the hub, or a line per topic, kept up to date). A spoke sends
everything to the hub in either case: it cannot know who wants it elsewhere. Left out: what a bridge does about topics
it renames, and the messages it keeps while the hub is away (the broker's recovery does that).
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coterie.accounting.changes import node_wishes
from coterie.errors import ConfigError
from coterie.model import Channels, Entries, Overlay, Placement, Relation, Slice, Spread, Topic, Trees, Workload
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.events import Event, EventMessage
from coterie.protocol.node import NodeState
from coterie.protocol.seen import Seen
from coterie.protocol.system import Parameters, Stages, System, beats_on_links, check_count, check_period
from coterie.protocol.wire import SystemMessage
from coterie.systems.announcing import ANNOUNCING_MESSAGES, AnnouncingNode
from coterie.trace import Traffic

CROSSINGS = ("all", "wanted")
FEWEST_COPIES = -1
AT_CENTER = 1  # the hub's position; everybody else's is 0


class StarParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which node is the hub (-1: the one that makes the fewest copies), what it passes on, how links are kept alive."""

    hub: int = 0  # the node in the middle; -1: the one that makes the fewest copies
    crossing: str = "all"  # what leaves a broker for the hub: everything; or "wanted": what somebody elsewhere wants
    link_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a link
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice

    def __post_init__(self) -> None:
        if self.hub < FEWEST_COPIES:
            raise ConfigError("hub", self.hub, "a node, or -1 for the one that makes the fewest copies")
        if self.crossing not in CROSSINGS:
            raise ConfigError("crossing", self.crossing, f"one of {', '.join(CROSSINGS)}")
        check_period("link_heartbeat_s", self.link_heartbeat_s)
        check_count("seen_capacity", self.seen_capacity)


class Bridged(EventMessage, frozen=True):
    """An event on its way to the hub, or from there to a spoke."""

    traffic: ClassVar[Traffic] = Traffic.EVENT


# --- bulk form ---


def bridged_topics(workload: Workload, placement: Placement, parameters: StarParameters, seed: int) -> Channels:
    if parameters.crossing == "all":
        return Channels.one_for_all(workload.topic_count)
    return Channels.one_per_topic(workload.topic_count)


def hub_and_spokes(
    workload: Workload, placement: Placement, channels: Channels, parameters: StarParameters, seed: int
) -> Overlay:
    hub, count = parameters.hub, workload.node_count
    if hub >= count:
        raise ConfigError("hub", hub, f"a node from 0 to {count - 1}, or -1 for the one that makes the fewest copies")
    if hub == FEWEST_COPIES:
        hub = best_hub(workload, placement, parameters)
    everyone = np.arange(count)
    spokes = everyone[everyone != hub]
    center = np.full(len(spokes), hub)
    pairs = np.concatenate([center, spokes]), np.concatenate([spokes, center])
    return Overlay(
        Relation.from_pairs(*pairs, count, count), positions=np.where(everyone == hub, AT_CENTER, 0).astype(np.uint64)
    )


def best_hub(workload: Workload, placement: Placement, parameters: StarParameters) -> int:
    return 0 if parameters.crossing == "all" else int(np.argmax(had_anyway(workload, placement)))  # all: no difference


def had_anyway(workload: Workload, placement: Placement) -> NDArray[np.float64]:
    """Of every node: events per second that it has without being sent a copy for others' sake.

    What is published there need not be sent there, and what it wants comes anyway.
    """
    publications = workload.publications
    home = placement.node_of[publications.publisher]
    published = np.bincount(home, publications.rate, workload.node_count)
    interests = workload.node_interests(placement.node_of)
    wanted = np.bincount(interests.rows, workload.rates[interests.columns], workload.node_count)
    pairs = interests.rows.astype(np.int64) * workload.topic_count + interests.columns
    is_at_home = np.isin(home.astype(np.int64) * workload.topic_count + publications.topic, pairs)
    at_home = np.bincount(home[is_at_home], publications.rate[is_at_home], workload.node_count)
    return np.asarray(published + wanted - at_home, np.float64)


def hub_of(overlay: Overlay) -> int:
    assert overlay.positions is not None
    return int(np.argmax(overlay.positions))


def through_the_hub(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: StarParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    hub, publications = hub_of(overlay), workload.publications
    home = placement.node_of[publications.publisher]
    nothing = np.zeros(0, np.int32)
    if parameters.crossing == "all":
        everyone = Relation.from_rows([range(workload.node_count)], workload.node_count)
        trees = Trees(Spread.THROUGH, everyone, np.array([hub], np.int32), np.zeros(2, np.int64), nothing, nothing)
        return trees, Entries.at_publisher(home, np.zeros(publications.count, np.int32))
    members = workload.node_interests(placement.node_of).transposed
    is_spoke = members.columns != hub
    spokes = members.columns[is_spoke]
    counts = np.bincount(members.rows[is_spoke], minlength=channels.count)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    root = np.full(channels.count, hub, np.int32)
    trees = Trees(Spread.THROUGH, members, root, indptr, spokes, np.full(len(spokes), hub, np.int32))
    return trees, Entries.at_publisher(home, publications.topic)


def told_to_the_hub(workload: Workload, placement: Placement, overlay: Overlay, parameters: StarParameters) -> float:
    """Every wish of every spoke, where the hub must know them."""
    wishes = node_wishes(workload, placement.node_of)
    return float(wishes.pair_count - wishes.lengths[hub_of(overlay)]) if parameters.crossing == "wanted" else 0.0


# --- protocol ---


class StarNode(AnnouncingNode):
    """A spoke hands everything to the hub; the hub hands it on to the others. Nothing is passed on by anybody else,
    so nothing can go round in circles."""

    def __init__(self, address: int, parameters: StarParameters, random: Random) -> None:
        super().__init__(address, parameters.link_heartbeat_s, random)
        self._parameters = parameters
        self._is_hub = True
        self._seen = Seen(parameters.seen_capacity)

    def on_start(self, slice: Slice) -> None:
        self._is_hub = slice.position == AT_CENTER
        is_heard = self._is_pruned and not self._is_hub
        self.reports_to = tuple(neighbour.node for neighbour in slice.neighbours) if is_heard else ()
        super().on_start(slice)

    @property
    def _is_pruned(self) -> bool:
        return self._parameters.crossing == "wanted"

    def on_publish(self, event: Event) -> None:
        self._take(event, hops=0, source=self.address)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, Bridged):
            self._take(message.event, message.hops, source)
        else:
            super().on_receive(source, message)

    def _take(self, event: Event, hops: int, source: int) -> None:
        if not self._seen.add(event.id):
            return
        if event.topic in self.own.topics:
            self.deliver(event, hops)
        elif not self._is_hub:
            self.discard(event)
        if self._is_hub:
            onwards = (peer for peer in self._spokes_for(event.topic) if peer != source)
            self.send_all(onwards, Bridged(event, hops + 1))
        elif source == self.address:
            self.send_all(self.peers, Bridged(event, hops + 1))

    def _spokes_for(self, topic: Topic) -> tuple[int, ...]:
        return tuple(self.wanted_by.get(topic, ())) if self._is_pruned else self.peers

    def state(self) -> NodeState:
        if not self._is_pruned:
            return NodeState(links=self.peers, memberships=(0,))
        return NodeState(
            links=self.peers,
            parents=tuple((topic, hub) for topic in self.own.topics for hub in self.reports_to),
            children=self.entries,
            memberships=tuple(self.own.topics),
        )


SYSTEM = System(
    name="star",
    title="A hub and bridges (mosquitto)",
    paper="(what people run)",
    parameters=StarParameters,
    stages=Stages(
        channels=bridged_topics,
        overlay=hub_and_spokes,
        trees=through_the_hub,
        announcements=told_to_the_hub,
        upkeep=beats_on_links,
    ),
    node=StarNode,
    messages=(Bridged, *ANNOUNCING_MESSAGES),
)
