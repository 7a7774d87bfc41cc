"""A node that no plan names: it hangs on a node of the plan, its host, which wants and publishes for it.

So plans for fewer nodes go on working, whatever their system. What the leaf wants is pending until the host says that
it is served; a host that is lost is replaced at once, and what was missed meanwhile is found by comparing logs, as
after any loss. When a plan names the leaf, that plan is built beside this as beside any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from coterie.broker.cascades import Cascades
from coterie.broker.detours import Detours
from coterie.broker.frames import CONTROL, encode_control, frame
from coterie.broker.keeperlists import rendezvous
from coterie.broker.links import PeerLinks
from coterie.broker.members import is_beside
from coterie.broker.plane import FRAME_BYTES, LocalReceiver, Plane
from coterie.broker.said import (
    AboutLeaves,
    HangOn,
    Hosted,
    LeafDrops,
    LeafEvent,
    LeafPlanned,
    LeafServed,
    LeafWants,
)
from coterie.broker.turn import Turn
from coterie.model.plan import Slice, Topic
from coterie.protocol.events import (
    Effect,
    Event,
    Input,
    PeerLost,
    Published,
    SetTimer,
    Started,
    Subscribed,
    TimerFired,
    Unsubscribed,
)
from coterie.protocol.node import NodeState
from coterie.protocol.system import Parameters, Stages, System
from coterie.protocol.wire import SystemMessage
from coterie.trace import Traffic

TOPICS_PER_FRAME = 1000
LOOK_S = 0.3
ANSWER_S = 2.0
SEEK = "seek"


class _Idle:
    """A leaf has no protocol of its own."""

    def step(self, event: Input, now_s: float) -> list[Effect]:
        return []

    def state(self) -> NodeState:
        return NodeState()


class LeafSilence(SystemMessage, frozen=True):
    """Nobody says it: what leaves and hosts say is not the systems'."""

    traffic = Traffic.OVERLAY


def _no_node(address: int, parameters: Any, random: Random) -> _Idle:
    return _Idle()


def _no_stage(*_: Any) -> Any:
    raise NotImplementedError


LEAF = System(
    "leaf", "a leaf of another system", "", Parameters, Stages(_no_stage, _no_stage), _no_node, (LeafSilence,)
)


def leaf_slice(node: int) -> Slice:
    """What a node is told that no plan names."""
    return Slice(version=0, system=LEAF.name, node=node)


class LeafPlane(Plane):
    """See the module. `host` is -1 while there is none."""

    def __init__(
        self, slice: Slice, generation: int, links: PeerLinks, cascades: Cascades, detours: Detours,
        receiver: LocalReceiver, turn: Turn,
    ) -> None:  # fmt: skip
        super().__init__(
            LEAF, Parameters(), slice, 0, generation, links, cascades, detours, receiver, turn
        )  # fmt: skip
        self.host = -1
        self._asked, self._asked_s = -1, 0.0
        self._refused: dict[int, None] = {}
        self._planned: dict[int, None] = {}

    @property
    def is_attached(self) -> bool:
        return self.host >= 0

    def state(self) -> NodeState:
        return NodeState(links=tuple(peer for peer in (self.host, self._asked) if peer >= 0))

    def step(self, event: Input) -> None:
        if self._is_stopped:
            return
        match event:
            case Started():
                self._seek()
            case Subscribed():
                self._pend(event.topic)
                self._tell(LeafWants((str(event.topic),)))
            case Unsubscribed():
                self._tell(LeafDrops((str(event.topic),)))
            case Published():
                self._publish(event.event)
            case PeerLost():
                self.lost(event.peer)
            case TimerFired():
                self._seek()
            case _:
                pass

    def receive(self, source: int, body: bytes) -> bool:
        """From somebody who goes by a plan that this node is not in."""
        return False

    def _pend(self, topic: Topic) -> None:
        self.pending[topic] = None
        if self.is_in_use:
            self._detours.pend(str(topic))

    def _publish(self, event: Event) -> None:
        said = LeafEvent(event.id, str(event.topic), event.payload, 1)
        data = encode_control(said)
        self.sent[Traffic.EVENT] += 1
        self.sent_bytes[Traffic.EVENT] += len(data) + FRAME_BYTES
        if not self._links.send(self.host, frame(CONTROL, data), is_event=True):
            waiting = self.host if self.host >= 0 else next(iter(self._links.peers), -1)
            if waiting >= 0:
                self._links.shed[waiting] = None  # once somebody is there, logs are compared

    def _tell(self, said: AboutLeaves, peer: int = -1) -> None:
        peer = self.host if peer < 0 else peer
        if peer >= 0:
            self._links.send(peer, frame(CONTROL, encode_control(said)))

    # --- the host ---

    def reached(self, peer: int) -> None:
        if self.host < 0 and self._asked < 0 and self.is_started:
            self._seek()

    def lost(self, peer: int) -> None:
        self._refused.pop(peer, None)
        if peer == self.host:
            self.host = -1
            self._links.shed[peer] = None  # what it did not pass on any more is looked for
            for topic in self.wanting:
                self._pend(topic)
        if peer == self._asked:
            self._asked = -1
        if self.host < 0:
            self._seek()

    def _seek(self) -> None:
        """Ask somebody who is there; dial if nobody is."""
        if self._is_stopped or self.host >= 0:
            return
        now_s, links = self._turn.now_s, self._links
        if self._asked >= 0 and now_s - self._asked_s > ANSWER_S:
            self._refused[self._asked] = None
            self._asked = -1
        if self._asked < 0:
            order = rendezvous(self.slice.node, dict.fromkeys(links.peers, ""))
            order.sort(key=lambda peer: not is_beside(peer, self.slice.node))
            free = [peer for peer in order if peer not in self._refused]
            if not free:
                self._refused.clear()
            chosen = next((peer for peer in free if links.is_connected(peer)), -1)
            if chosen >= 0:
                self._asked, self._asked_s = chosen, now_s
                self._tell(HangOn(), chosen)
            else:
                links.want(free)
        self._set_timer(SetTimer(SEEK, LOOK_S))

    def planned(self, generation: int) -> None:
        """A plan names this node from now on."""
        self._planned[generation] = None
        self._tell(LeafPlanned(generation))

    def hear(self, peer: int, said: AboutLeaves) -> None:
        match said:
            case Hosted():
                self._on_hosted(peer, said.is_host)
            case LeafServed() if peer == self.host:
                for topic in said.topics:
                    self._settle(topic)
            case LeafEvent():
                event = Event(said.id, said.topic, said.payload)
                is_had = event.id in self._had
                self._had.add(event.id)
                self.tally.add_copy("duplicate" if is_had else "wanted", len(said.payload) + FRAME_BYTES)
                self._receiver.take_event(event, said.hops + 1, self.tally)
            case _:
                pass

    def _on_hosted(self, peer: int, is_host: bool) -> None:
        if not is_host:
            self._refused[peer] = None
            if peer == self.host:
                self.lost(peer)
                self._refused[peer] = None
            elif peer == self._asked:
                self._asked = -1
                self._seek()
            return
        if peer != self._asked:
            return
        self.host, self._asked = peer, -1
        self._refused.clear()
        for generation in self._planned:
            self._tell(LeafPlanned(generation))
        for topics in _chunks(str(topic) for topic in self.wanting):
            self._tell(LeafWants(topics))

    def stop(self) -> None:
        if not self._is_stopped:
            for topics in _chunks(str(topic) for topic in self.wanting):
                self._tell(LeafDrops(topics))
            self._tell(LeafDrops(()))  # it hangs there no longer
        super().stop()


def _chunks(topics: Iterable[str]) -> list[tuple[str, ...]]:
    listed = list(topics)
    return [tuple(listed[start : start + TOPICS_PER_FRAME]) for start in range(0, len(listed), TOPICS_PER_FRAME)]
