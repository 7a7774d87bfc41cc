"""Zones: a layer over other systems. What goes to several nodes of another zone goes there once, then on inside.

The system below says who gets a copy; of those in one other zone a relay gets it, with the list of the others, and
hands it on. Traffic between zones is what clouds charge for, so this is what a fleet over several zones saves without
learning anything and without moving anybody. The relay is one of those who want the event, chosen by topic and sender:
events keep their order, and topics spread over all nodes. A relay that cannot be reached is passed over, and what went
to it in the last seconds goes to its charges directly. Fits systems whose event messages carry an event and its hops
and nothing else: mesh, star, homes, flooding. Left out: announcements still go to whom the system below tells them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, ClassVar

import msgspec
import numpy as np

from coterie.errors import ConfigError
from coterie.model import Channels, Entries, Overlay, Placement, Relation, Slice, Topic, Trees, Workload
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.events import (
    Effect,
    Event,
    EventMessage,
    Input,
    PeerLost,
    Planned,
    Received,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from coterie.protocol.node import Node, NodeState
from coterie.protocol.system import Stages, System
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import splitmix64, topic_key
from coterie.systems.recent import Recent
from coterie.trace import Traffic

ZONED = "+zones"  # behind the name of the system below
BEAT = ("zones", "alive")
EVENT_FIELDS = ("event", "hops")


class PassOn(EventMessage, frozen=True):
    """An event for the relay and, from it, for others of its zone; `kind` numbers the message of the layer below."""

    traffic: ClassVar[Traffic] = Traffic.EVENT
    kind: int
    to: tuple[int, ...]


class InZone(SystemMessage, frozen=True):
    """I am still here: on links inside a zone that the system below does not have."""

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE


# --- bulk form ---


@dataclass(frozen=True)
class ZonedStages(Stages):
    """Those of the layer below; trees with relays, links with zones."""

    below: Stages = field(kw_only=True)


def with_zones(overlay: Overlay, zone_of: Any) -> Overlay:
    """The links below, and where they are not all there are, those inside the zones that relays need."""
    if zone_of is None:
        return overlay
    if overlay.is_complete:
        return replace(overlay, zone_of=zone_of)
    count = overlay.node_count
    one, other = np.nonzero(zone_of[:, None] == zone_of[None, :])
    apart = one != other
    one, other = one[apart], other[apart]
    known = np.isin(one * count + other, overlay.links.rows.astype(np.int64) * count + overlay.links.columns)
    beside = Relation.from_pairs(one[~known], other[~known], count, count)
    rows, columns = (
        np.concatenate([overlay.links.rows, beside.rows]),
        np.concatenate([overlay.links.columns, beside.columns]),
    )
    return replace(overlay, links=Relation.from_pairs(rows, columns, count, count), zone_of=zone_of, beside=beside)


def has_zones(workload: Workload) -> bool:
    return workload.zone_of is not None and int(workload.zone_of.max(initial=0)) > 0


# --- protocol ---


def relay_score(topic: Topic, sender: int, node: int) -> int:
    """Who has the lowest is the relay; kernels.pricing.handing.relay_score says the same."""
    return splitmix64(topic_key(topic) ^ splitmix64((sender << 32) | node))


class ZonedNode:
    """Drives the node below like a driver would, and sends its copies once per zone."""

    def __init__(self, address: int, below: Node, kinds: tuple[type[SystemMessage], ...], heartbeat_s: float) -> None:
        self.address = address
        self._below = below
        self._kinds = kinds
        self._heartbeat_s = heartbeat_s
        self._zone = 0
        self._zone_of: dict[int, int] = {}
        self._beside: tuple[int, ...] = ()
        self._lost_s: dict[int, float] = {}  # relays that could not be reached, until they are heard or tried again
        self._recent = Recent[PassOn]()

    def step(self, event: Input, now_s: float) -> list[Effect]:
        if isinstance(event, Received):
            self._lost_s.pop(event.source, None)
            if isinstance(event.message, PassOn):
                return self._pass_on(event.source, event.message, now_s)
            if isinstance(event.message, InZone):
                return []
        elif isinstance(event, Started | Planned):
            event = type(event)(self._learn(event.slice))
            below = self._below.step(event, now_s)
            return [*self._by_zone(below, now_s), *([SetTimer(BEAT, self._heartbeat_s)] if self._beside else [])]
        elif isinstance(event, TimerFired) and event.timer == BEAT:
            return [Send(self._beside, InZone()), SetTimer(BEAT, self._heartbeat_s)] if self._beside else []
        elif isinstance(event, PeerLost):
            return [*self._around(event.peer, now_s), *self._by_zone(self._below.step(event, now_s), now_s)]
        return self._by_zone(self._below.step(event, now_s), now_s)

    def _learn(self, slice: Slice) -> Slice:
        """What the node below is told: its own neighbours."""
        self._zone = slice.zone
        self._zone_of = {neighbour.node: neighbour.zone for neighbour in slice.neighbours}
        self._beside = tuple(neighbour.node for neighbour in slice.neighbours if neighbour.is_beside)
        own = tuple(neighbour for neighbour in slice.neighbours if not neighbour.is_beside)
        return msgspec.structs.replace(slice, neighbours=own)

    # --- copies ---

    def _by_zone(self, effects: list[Effect], now_s: float) -> list[Effect]:
        done: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and len(effect.to) > 1 and isinstance(effect.message, EventMessage):
                done += self._split(effect.to, effect.message, now_s)
            else:
                done.append(effect)
        return done

    def _split(self, to: tuple[int, ...], message: EventMessage, now_s: float) -> list[Effect]:
        """Straight to the own zone and to who is alone in its zone, through a relay to the rest."""
        by_zone: dict[int, list[int]] = {}
        for node in to:
            by_zone.setdefault(self._zone_of.get(node, self._zone), []).append(node)
        plain = by_zone.pop(self._zone, [])
        relayed: list[Effect] = []
        for nodes in by_zone.values():
            relay = self._relay(message.event, nodes, now_s) if len(nodes) > 1 else None
            if relay is None:
                plain += nodes
                continue
            others = tuple(node for node in nodes if node != relay)
            passed = PassOn(message.event, message.hops, self._kinds.index(type(message)), others)
            self._recent.add(relay, passed, now_s)
            relayed.append(Send((relay,), passed))
        return [Send(tuple(plain), message), *relayed] if plain else relayed

    def _relay(self, event: Event, nodes: list[int], now_s: float) -> int | None:
        """None if none of them was to be reached lately."""
        up = [node for node in nodes if now_s - self._lost_s.get(node, -self._heartbeat_s) >= self._heartbeat_s]
        return min(up, key=lambda node: relay_score(event.topic, self.address, node), default=None)

    def _pass_on(self, source: int, message: PassOn, now_s: float) -> list[Effect]:
        """Here as if it had come straight from the sender; the others get what they would have got."""
        inside: Any = self._kinds[message.kind]
        own = self._by_zone(self._below.step(Received(source, inside(message.event, message.hops)), now_s), now_s)
        return [*own, Send(message.to, inside(message.event, message.hops + 1))]

    def _around(self, relay: int, now_s: float) -> list[Effect]:
        """What went to a relay that is gone, to its charges directly; who has it already will know it."""
        self._lost_s[relay] = now_s
        lost = self._recent.take(relay, now_s)
        return [Send(one.to, self._kinds[one.kind](one.event, one.hops)) for one in lost]

    def state(self) -> NodeState:
        seen = self._below.state()
        return msgspec.structs.replace(seen, links=tuple(dict.fromkeys((*seen.links, *self._beside))))


def zoned(below: System) -> System:
    """Zone relays over this system; its parameters stay its own."""
    kinds = tuple(message for message in below.messages if issubclass(message, EventMessage))
    if any(kind.__struct_fields__ != EVENT_FIELDS or kind.traffic is not Traffic.EVENT for kind in kinds):
        raise ConfigError("system below", below.name, "one whose copies go straight: mesh, homes, star or flooding")
    stages = below.stages

    def overlay(workload: Workload, placement: Placement, channels: Channels, parameters: Any, seed: int) -> Overlay:
        return with_zones(stages.overlay(workload, placement, channels, parameters, seed), workload.zone_of)

    def trees(
        workload: Workload, placement: Placement, channels: Channels, overlay: Overlay, parameters: Any, seed: int
    ) -> tuple[Trees, Entries]:
        found, entries = stages.trees(workload, placement, channels, overlay, parameters, seed)
        return replace(found, has_relays=True), entries

    return System(
        name=below.name + ZONED,
        title=f"{below.title}; one copy per zone, passed on inside",
        paper=below.paper,
        parameters=below.parameters,
        stages=ZonedStages(
            placement=stages.placement,
            channels=stages.channels,
            overlay=overlay,
            trees=trees,
            upkeep=stages.upkeep,
            announcements=stages.announcements,
            imbalance=stages.imbalance,
            in_blocks=stages.in_blocks,
            below=stages,
        ),
        node=_node_over(below, kinds),
        messages=(*below.messages, PassOn, InZone),
        fits=lambda workload: below.fits(workload) and has_zones(workload),
    )


def _node_over(below: System, kinds: tuple[type[SystemMessage], ...]) -> Callable[[int, Any, Random], Node]:
    def node(address: int, parameters: Any, random: Random) -> Node:
        heartbeat_s = getattr(parameters, "link_heartbeat_s", HEARTBEAT_S)
        return ZonedNode(address, below.node(address, parameters, random), kinds, heartbeat_s)

    return node
