"""A node on planned topic-clusters over any other system's node, which it drives like a driver would.

How it works. To the node below, a cluster is one more topic: this node subscribes it to the channels of its cover
instead of to topics, and publishes every event into its topic and into each cluster with it, under a number of its own
per channel, since layers drop a number they have seen. What surfaces from any channel passes the local filter once. On
the wire the event stays visible: messages of the layer below that carry one travel in an envelope with the real event.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from random import Random
from typing import Any

import msgspec

from coterie.model import Slice, Topic
from coterie.protocol.events import (
    Deliver,
    Discard,
    Event,
    EventMessage,
    Input,
    PeerLost,
    Planned,
    Published,
    Received,
    Send,
    Started,
    Subscribed,
    Timer,
    TimerFired,
    Unsubscribed,
)
from coterie.protocol.node import Node, NodeState, OverlayNode
from coterie.protocol.seen import Seen
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import splitmix64, topic_key
from coterie.systems.tamara.wanting import PlannedWishes
from coterie.trace import Traffic

LINGER_S = 120.0  # nodes may learn of a new plan so far apart; until then both plans' channels are served
LINGER = ("clusters", "linger")
SEEN_CAPACITY = 4096

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Event).decode


def numbered(event: Event, channel: Topic) -> Event:
    """The event as the layer below carries it in a channel; the real one is its payload."""
    return Event(splitmix64(event.id ^ splitmix64(topic_key(channel))), channel, _encode(event))


class Envelopes:
    """Messages with an event of the layer below, closed for the wire and opened again."""

    def __init__(self, messages: Iterable[type[SystemMessage]]) -> None:
        kinds: dict[Traffic, list[Any]] = {}
        for message in messages:
            if issubclass(message, EventMessage):
                kinds.setdefault(message.traffic, []).append(message)
        self._of: dict[Traffic, Any] = {traffic: _envelope(traffic, some) for traffic, some in kinds.items()}
        self.messages: tuple[type[SystemMessage], ...] = tuple(self._of.values())

    def close(self, message: SystemMessage) -> SystemMessage:
        if not isinstance(message, EventMessage):
            return message
        inside = msgspec.structs.replace(message, event=Event(message.event.id, message.event.topic))
        envelope: SystemMessage = self._of[message.traffic](_decode(message.event.payload), message.hops, inside)
        return envelope

    def open(self, envelope: SystemMessage) -> SystemMessage:
        if not isinstance(envelope, self.messages):
            return envelope
        opened: Any = envelope
        inside: EventMessage = opened.message
        event = Event(inside.event.id, inside.event.topic, _encode(opened.event))
        return msgspec.structs.replace(inside, event=event)


def _envelope(traffic: Traffic, kinds: list[Any]) -> Any:
    """The type of envelopes around these messages, so that decoding checks what is inside, too."""
    inside: Any = reduce(or_, kinds)
    name = "InChannel" if traffic is Traffic.EVENT else "ToChannel"
    return msgspec.defstruct(
        name, [("message", inside)], bases=(EventMessage,), namespace={"traffic": traffic}, module=__name__, frozen=True
    )


class LayeredNode(PlannedWishes, OverlayNode):
    """Interests above, channels below."""

    def __init__(self, address: int, below: Node, envelopes: Envelopes, random: Random) -> None:
        super().__init__(address, random)
        self._below = below
        self._envelopes = envelopes
        self._wanted: dict[Topic, None] = {}
        self._assigned: dict[Topic, tuple[Topic, ...]] = {}  # clusters to use while one of their topics is wanted
        self._carriers: dict[Topic, tuple[Topic, ...]] = {}  # topic -> clusters with it
        self._carried_before: dict[Topic, tuple[Topic, ...]] = {}  # the same of the last plan, while it lingers
        self._joined: dict[Topic, None] = {}
        self._had = Seen(SEEN_CAPACITY)
        self._hops = 0  # of the copy in hand

    # --- the plan ---

    def on_start(self, slice: Slice) -> None:
        self._learn(slice)
        self._tell(Started(msgspec.structs.replace(slice, channels=())))

    def on_plan(self, slice: Slice) -> None:
        """New channels at once, old ones until everybody knows the plan."""
        self._carried_before = self._carriers
        self._learn(slice)
        self._tell(Planned(msgspec.structs.replace(slice, channels=())))
        self._enter_channels()
        self.set_timer(LINGER, LINGER_S)

    def _learn(self, slice: Slice) -> None:
        self._assigned = {part.channel: part.topics for part in slice.channels if part.is_member}
        carriers: dict[Topic, list[Topic]] = {}
        for part in slice.channels:
            for topic in part.topics:
                carriers.setdefault(topic, []).append(part.channel)
        self._carriers = {topic: tuple(clusters) for topic, clusters in carriers.items()}

    # --- interest ---

    def _enter_channels(self) -> None:
        for channel in self._needed():
            if channel not in self._joined:
                self._joined[channel] = None
                self._tell(Subscribed(channel))

    def _leave_channels(self) -> None:
        if self._carried_before:
            return  # a plan is being taken up: all is left when it has lingered
        needed = self._needed()
        for channel in [channel for channel in self._joined if channel not in needed]:
            del self._joined[channel]
            self._tell(Unsubscribed(channel))

    # --- events ---

    def on_publish(self, event: Event) -> None:
        self._hops = 0
        clusters = (*self._carriers.get(event.topic, ()), *self._carried_before.get(event.topic, ()))
        for channel in dict.fromkeys((event.topic, *clusters)):
            self._tell(Published(numbered(event, channel)))

    def on_receive(self, source: int, message: SystemMessage) -> None:
        self._hops = message.hops if isinstance(message, EventMessage) else 0
        self._tell(Received(source, self._envelopes.open(message)))

    def on_timer(self, timer: Timer) -> None:
        if timer == LINGER:
            self._carried_before = {}
            self._leave_channels()
        else:
            self._tell(TimerFired(timer))

    def on_peer_lost(self, peer: int) -> None:
        self._tell(PeerLost(peer))

    def _tell(self, fact: Input) -> None:
        """Step the node below and do what it orders, in our terms."""
        for effect in self._below.step(fact, self.now_s):
            if isinstance(effect, Send):
                self._effects.append(Send(effect.to, self._envelopes.close(effect.message)))
            elif isinstance(effect, Deliver):
                self._filter(effect.event, effect.hops)
            elif isinstance(effect, Discard):
                self._filter(effect.event, self._hops)
            else:
                self._effects.append(effect)

    def _filter(self, carried: Event, hops: int) -> None:
        """Whatever channel it came by, wanted or not below: the first copy is judged by its real topic."""
        event = _decode(carried.payload)
        if self._had.add(event.id):
            if event.topic in self._wanted:
                self.deliver(event, hops)
            else:
                self.discard(event)

    def state(self) -> NodeState:
        return self._below.state()
