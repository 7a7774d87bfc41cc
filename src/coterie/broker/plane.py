"""The node of one system at work inside a broker: its orders are carried out, counted, and not judged.

Copies are judged as in the simulator, by what the node did with them; the same columns come out.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from coterie.accounting.tally import Tally
from coterie.broker.cascades import Cascades
from coterie.broker.detours import Detours
from coterie.broker.frames import MESSAGE, TRACKED_MESSAGE, frame
from coterie.broker.links import PeerLinks
from coterie.broker.turn import Turn
from coterie.model.plan import Slice, Topic
from coterie.protocol.events import (
    CancelTimer,
    Deliver,
    Discard,
    Effective,
    Event,
    EventMessage,
    Input,
    PeerLost,
    Pending,
    Received,
    Send,
    SetTimer,
    Started,
    Subscribed,
    Timer,
    TimerFired,
    Unsubscribed,
)
from coterie.protocol.node import NodeState
from coterie.protocol.seen import Seen
from coterie.protocol.system import Parameters, System, node_random
from coterie.protocol.wire import SystemMessage
from coterie.trace import Traffic

HAD_CAPACITY = 65_536
TAGS = 256
FRAME_BYTES = 5  # a frame's length and kind
BUILDING = frozenset((Traffic.SUBSCRIPTION, Traffic.OVERLAY, Traffic.CLUSTERING, Traffic.RECONFIGURATION))


PLANE_TIMER, LOSE_TIMER = "plane", "lose"
SETTLED = "settled"  # a plane timer that is none of its node's


class LocalReceiver(Protocol):
    """Who takes what the local subscribers should have; it came over so many hops and is booked in this tally."""

    def take_event(self, event: Event, hops: int, tally: Tally) -> None: ...


class Plane:
    """Runs the node of one system.

    The `generation` of its plan stands in front of its messages, as one byte, so that two plans can be at work beside
    each other (see `planes`).
    """

    def __init__(
        self,
        system: System,
        parameters: Parameters,
        slice: Slice,
        seed: int,
        generation: int,
        links: PeerLinks,
        cascades: Cascades,
        detours: Detours,
        receiver: LocalReceiver,
        turn: Turn,
    ) -> None:
        self.system = system
        self.slice = slice
        self.generation = generation
        self.tag = bytes((generation % TAGS,))
        self.is_started = False
        self.built_s = 0.0  # when it last sent something that builds structures
        self.tally = Tally()
        self.sent: Counter[Traffic] = Counter()
        self.sent_bytes: Counter[Traffic] = Counter()
        self.wanting: dict[Topic, None] = {}
        self._codec = system.codec()
        self.pending: dict[Topic, None] = {}  # wanted, and not effective yet
        self.is_in_use = False
        self._links, self._cascades, self._detours = links, cascades, detours
        self._receiver, self._turn = receiver, turn
        self._origin_s = turn.now_s
        self._timers: dict[Timer, None] = {}
        self._had = Seen(HAD_CAPACITY)
        self._node = system.node(slice.node, parameters, node_random(seed, slice.node + (1 << 32)))
        self._is_stopped = False

    @property
    def is_attached(self) -> bool:
        """Whether it is part of the network; a leaf is when it has a host."""
        return True

    @property
    def address(self) -> int:
        return self.slice.node

    def state(self) -> NodeState:
        return self._node.state()

    # --- facts ---

    def start(self) -> None:
        self.is_started = True
        self._origin_s = self._turn.now_s
        self.built_s = self._turn.now_s
        self.step(Started(self.slice))

    def subscribe(self, topic: Topic) -> None:
        if topic not in self.wanting:
            self.wanting[topic] = None
            if self.system.settles_s:
                self._note_progress(Pending(topic))
                self._turn.set_timer((PLANE_TIMER, self.generation, SETTLED, str(topic)), self.system.settles_s)
            self.step(Subscribed(topic))

    def unsubscribe(self, topic: Topic) -> None:
        if self.wanting.pop(topic, 0) is None:
            self.step(Unsubscribed(topic))
            self._settle(topic)

    def lose(self, peer: int) -> None:
        self.step(PeerLost(peer))

    def receive(self, source: int, body: bytes) -> bool:
        """A frame with one of the system's messages behind the tag: whether it carries an event.

        RemoteProtocolError if it is none.
        """
        message = self._codec.decode(body[1:], f"node {source}")
        received = Received(source, message)
        if not isinstance(message, EventMessage):
            self.step(received)
            return False
        identifier = message.event.id
        had = identifier in self._had
        self.step(received)
        if message.traffic is Traffic.INBOUND:
            column = "inbound"
        elif had:
            column = "duplicate"
        elif identifier not in self._had:
            column = "relayed"
        else:
            column = "wanted" if message.event.topic in self.wanting else "filtered"
        self.tally.add_copy(column, len(body) + FRAME_BYTES)
        return True

    def step(self, event: Input) -> None:
        if self._is_stopped:
            return
        for effect in self._node.step(event, self._turn.now_s - self._origin_s):
            if isinstance(effect, Send):
                self._send(effect.to, effect.message)
            elif isinstance(effect, Deliver):
                self._had.add(effect.event.id)
                self._receiver.take_event(effect.event, effect.hops, self.tally)
            elif isinstance(effect, Discard):
                self._had.add(effect.event.id)
            elif isinstance(effect, SetTimer):
                self._set_timer(effect)
            elif isinstance(effect, CancelTimer):
                self._cancel(effect.timer)
            else:
                self._note_progress(effect)

    def enter_use(self) -> None:
        """Events are published by this plane from now on; what is not effective in it needs a detour."""
        self.is_in_use = True
        for topic in self.pending:
            self._detours.pend(str(topic), self.system.settles_s > 0)

    def _settle(self, topic: Topic) -> None:
        if self.pending.pop(topic, 0) is None and self.is_in_use:
            self._detours.settle(str(topic))

    # --- orders ---

    def _note_progress(self, effect: Pending | Effective) -> None:
        if isinstance(effect, Effective):
            self._settle(effect.topic)
            return
        self.pending[effect.topic] = None
        if self.is_in_use:
            self._detours.pend(str(effect.topic), self.system.settles_s > 0)

    def _send(self, targets: tuple[int, ...], message: SystemMessage) -> None:
        body = self.tag + self._codec.encode(message)
        traffic = message.traffic
        if traffic in BUILDING:
            self.built_s = self._turn.now_s
        is_event = isinstance(message, EventMessage)
        self.sent[traffic] += len(targets)
        self.sent_bytes[traffic] += len(targets) * (len(body) + FRAME_BYTES)
        if is_event or self._cascades.current is None:
            data = frame(MESSAGE, body)
            for target in targets:
                if not self._links.send(target, data, is_event):
                    self._unsent(target)
                    if is_event:
                        self._links.shed[target] = None
            return
        for target in targets:
            number = self._cascades.number_for(target)
            assert number is not None
            if not self._links.send(target, frame(TRACKED_MESSAGE, body, number)):
                self._cascades.done(target, number)
                self._unsent(target)

    def _unsent(self, target: int) -> None:
        """Not now, for the node is in the middle of a step."""
        if not self._links.is_connected(target):
            self._turn.set_timer((LOSE_TIMER, self.generation, target), 0.0)

    def _set_timer(self, wanted: SetTimer) -> None:
        self._timers[wanted.timer] = None
        self._turn.set_timer(self._named(wanted.timer), wanted.delay_s)

    def _named(self, timer: Timer) -> Timer:
        """The broker's name for a timer of the node."""
        if isinstance(timer, str):
            return (PLANE_TIMER, self.generation, "one", timer)
        return (PLANE_TIMER, self.generation, "many", *timer)

    def on_timer(self, name: tuple[str | int, ...]) -> None:
        """`name` is what is left of the broker's name behind the generation."""
        if name[0] == SETTLED:
            self._settle(str(name[1]))
            return
        timer: Timer = str(name[1]) if name[0] == "one" else name[1:]
        if self._timers.pop(timer, 0) is None:
            self.step(TimerFired(timer))

    def _cancel(self, timer: Timer) -> None:
        if self._timers.pop(timer, 0) is None:
            self._turn.cancel_timer(self._named(timer))

    def stop(self) -> None:
        self._is_stopped = True
        for timer in list(self._timers):
            self._cancel(timer)
