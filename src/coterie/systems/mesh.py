"""Mesh, what clusters of brokers do: every node linked to every other, one copy to each interested one.

The shape of NATS, EMQX and VerneMQ. Every node tells every other which topics its clients want, so whoever publishes
knows where to send: for a given placement nobody sends fewer copies. The price is in links and in announcements: both
grow with the nodes squared, and every node keeps in mind what all others want. Left out: what those brokers do against
that (gateways between clusters, interest-only modes, accounts).
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

from coterie.accounting.changes import node_wishes
from coterie.model import Channels, Entries, Overlay, Placement, Slice, Spread, Trees, Workload
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.events import Event, EventMessage
from coterie.protocol.node import NodeState
from coterie.protocol.seen import Seen
from coterie.protocol.system import Parameters, Stages, System, beats_on_links, check_count, check_period
from coterie.protocol.wire import SystemMessage
from coterie.systems.announcing import ANNOUNCING_MESSAGES, AnnouncingNode
from coterie.systems.flooding import full_mesh
from coterie.trace import Traffic


class MeshParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often links are kept alive."""

    link_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a link
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice

    def __post_init__(self) -> None:
        check_period("link_heartbeat_s", self.link_heartbeat_s)
        check_count("seen_capacity", self.seen_capacity)


class Routed(EventMessage, frozen=True):
    """An event, straight from where it was published to a node that wants it."""

    traffic: ClassVar[Traffic] = Traffic.EVENT


def to_the_interested(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: MeshParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    members = workload.node_interests(placement.node_of).transposed
    publications = workload.publications
    entries = Entries.at_publisher(placement.node_of[publications.publisher], publications.topic)
    return Trees.without_edges(Spread.DIRECT, members, is_announced=True), entries


def told_to_all(workload: Workload, placement: Placement, overlay: Overlay, parameters: MeshParameters) -> float:
    """Every wish of every node goes to all the others."""
    return float(node_wishes(workload, placement.node_of).pair_count * (workload.node_count - 1))


class MeshNode(AnnouncingNode):
    """Tells everybody what is wanted here, sends everybody what they want."""

    def __init__(self, address: int, parameters: MeshParameters, random: Random) -> None:
        super().__init__(address, parameters.link_heartbeat_s, random)
        self._seen = Seen(parameters.seen_capacity)

    def on_start(self, slice: Slice) -> None:
        self.reports_to = tuple(neighbour.node for neighbour in slice.neighbours)
        super().on_start(slice)

    def on_publish(self, event: Event) -> None:
        self._take(event, hops=0)
        self.send_all(self.wanted_by.get(event.topic, ()), Routed(event, 1))

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, Routed):
            self._take(message.event, message.hops)
        else:
            super().on_receive(source, message)

    def _take(self, event: Event, hops: int) -> None:
        if not self._seen.add(event.id):
            return
        if event.topic in self.own.topics:
            self.deliver(event, hops)
        else:
            self.discard(event)  # the sender has not heard yet that nobody wants it any more

    def state(self) -> NodeState:
        return NodeState(links=self.peers, children=self.entries, memberships=tuple(self.own.topics))


SYSTEM = System(
    name="mesh",
    title="Full mesh, one copy to each interested broker (NATS, EMQX, VerneMQ)",
    paper="(what people run)",
    parameters=MeshParameters,
    stages=Stages(
        overlay=full_mesh,
        trees=to_the_interested,
        announcements=told_to_all,
        upkeep=beats_on_links,
    ),
    node=MeshNode,
    messages=(Routed, *ANNOUNCING_MESSAGES),
)
