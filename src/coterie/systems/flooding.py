"""Flooding, the worked example: one channel, every node linked to every other, every event sent to everybody.

It is what a fleet does before anyone thinks about interest, the baseline of everything else, and the shortest module of
its kind: read it first. Left out: nothing; there is nothing to repair, since every node knows every other.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

import numpy as np

from coterie.model import Channels, Entries, Overlay, Placement, Relation, Slice, Spread, Topic, Trees, Workload
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.events import Event, EventMessage, Timer
from coterie.protocol.node import NodeState, OverlayNode
from coterie.protocol.seen import Seen
from coterie.protocol.system import Parameters, Stages, System, beats_on_links, check_period
from coterie.protocol.wire import SystemMessage
from coterie.trace import Traffic


class FloodingParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often links are kept alive."""

    link_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a link
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice

    def __post_init__(self) -> None:
        check_period("link_heartbeat_s", self.link_heartbeat_s)


class Flood(EventMessage, frozen=True):
    """An event, straight from where it was published."""

    traffic: ClassVar[Traffic] = Traffic.EVENT


class Alive(SystemMessage, frozen=True):
    """I am still here."""

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE


def one_channel(workload: Workload, placement: Placement, parameters: FloodingParameters, seed: int) -> Channels:
    return Channels.one_for_all(workload.topic_count)


def full_mesh(
    workload: Workload, placement: Placement, channels: Channels, parameters: FloodingParameters, seed: int
) -> Overlay:
    return Overlay.complete(workload.node_count)


def to_all(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: FloodingParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    members = Relation.from_rows([range(workload.node_count)], workload.node_count)
    publications = workload.publications
    the_channel = np.zeros(publications.count, np.int32)
    entries = Entries.at_publisher(placement.node_of[publications.publisher], the_channel)
    return Trees.without_edges(Spread.DIRECT, members), entries


class FloodingNode(OverlayNode):
    """Sends every event to everybody and drops what nobody here asked for."""

    def __init__(self, address: int, parameters: FloodingParameters, random: Random) -> None:
        super().__init__(address, random)
        self._heartbeat_s = parameters.link_heartbeat_s
        self._peers: tuple[int, ...] = ()
        self._topics: set[Topic] = set()
        self._seen = Seen(parameters.seen_capacity)

    def on_start(self, slice: Slice) -> None:
        self._peers = tuple(neighbour.node for neighbour in slice.neighbours)
        self.set_timer("alive", self._heartbeat_s)

    def on_subscribe(self, topic: Topic) -> None:
        self._topics.add(topic)

    def on_unsubscribe(self, topic: Topic) -> None:
        self._topics.discard(topic)

    def on_publish(self, event: Event) -> None:
        self._take(event, hops=0)
        self.send_all(self._peers, Flood(event, 1))

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, Flood):
            self._take(message.event, message.hops)

    def on_timer(self, timer: Timer) -> None:
        self.send_all(self._peers, Alive())
        self.set_timer("alive", self._heartbeat_s)

    def _take(self, event: Event, hops: int) -> None:
        if not self._seen.add(event.id):
            return
        if event.topic in self._topics:
            self.deliver(event, hops)
        else:
            self.discard(event)

    def state(self) -> NodeState:
        return NodeState(links=self._peers, memberships=(0,))


SYSTEM = System(
    name="flooding",
    title="Flooding over a full mesh",
    paper="(baseline)",
    parameters=FloodingParameters,
    stages=Stages(
        channels=one_channel,
        overlay=full_mesh,
        trees=to_all,
        upkeep=beats_on_links,
    ),
    node=FloodingNode,
    messages=(Flood, Alive),
)
