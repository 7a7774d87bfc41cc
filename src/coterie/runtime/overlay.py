"""Driver 2: one node of a system on a real clock and real links. It carries out orders, counts, and judges nothing.

Copies are judged as in the simulator, by what the node did with them; the same columns come out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from coterie.accounting.tally import Tally
from coterie.broker.frames import MESSAGE, TRACKED_MESSAGE, frame
from coterie.model.plan import Slice, Topic
from coterie.protocol.events import (
    Deliver,
    Discard,
    Effect,
    Event,
    EventMessage,
    Input,
    PeerLost,
    Published,
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
from coterie.protocol.wire import Message
from coterie.runtime.cascades import Cascades
from coterie.runtime.links import Links
from coterie.trace import Traffic

HAD_CAPACITY = 65_536
FRAME_BYTES = 6  # a frame's length and kind, and the tag of the plan
BUILDING = frozenset((Traffic.SUBSCRIPTION, Traffic.OVERLAY, Traffic.CLUSTERING, Traffic.RECONFIGURATION))


class Overlay:
    """Runs the node of one system; `on_deliver(event, hops, tally)` gets what the local subscribers should have.

    `tag` stands in front of its messages, so that two plans can be at work beside each other (see `planes`).
    """

    def __init__(
        self,
        system: System,
        parameters: Parameters,
        slice: Slice,
        seed: int,
        links: Links,
        cascades: Cascades,
        on_deliver: Callable[[Event, int, Tally], None],
        tag: int = 0,
    ) -> None:
        self.system = system
        self.slice = slice
        self.tag = bytes((tag,))
        self.is_started = False
        self.built_s = 0.0  # when it last sent something that builds structures
        self.tally = Tally()
        self.sent: Counter[Traffic] = Counter()
        self.sent_bytes: Counter[Traffic] = Counter()
        self.wanting: dict[Topic, None] = {}
        self._codec = system.codec()
        self._links = links
        self._cascades = cascades
        self._on_deliver = on_deliver
        self._loop = asyncio.get_running_loop()
        self._origin_s = self._loop.time()
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._had = Seen(HAD_CAPACITY)
        self._node = system.node(slice.node, parameters, node_random(seed, slice.node + (1 << 32)))
        self._is_stopped = False
        self.on_turn: Callable[[], None] = lambda: None
        self.on_event_unsent: Callable[[int], None] = lambda peer: None

    @property
    def address(self) -> int:
        return self.slice.node

    def state(self) -> NodeState:
        return self._node.state()

    # --- facts ---

    def start(self) -> None:
        self.is_started = True
        self.built_s = self._loop.time()
        self.step(Started(self.slice))

    def subscribe(self, topic: Topic) -> None:
        if topic not in self.wanting:
            self.wanting[topic] = None
            self.step(Subscribed(topic))

    def unsubscribe(self, topic: Topic) -> None:
        if self.wanting.pop(topic, 0) is None:
            self.step(Unsubscribed(topic))

    def publish(self, event: Event) -> None:
        self.step(Published(event))

    def lose(self, peer: int) -> None:
        self.step(PeerLost(peer))

    def receive(self, source: int, body: bytes) -> None:
        """A frame with one of the system's messages; RemoteProtocolError if it is none."""
        message = self._codec.decode(body, f"node {source}")
        received = Received(source, message)
        if not isinstance(message, EventMessage):
            self.step(received)
            return
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

    def step(self, event: Input) -> None:
        if self._is_stopped:
            return
        for effect in self._node.step(event, self._loop.time() - self._origin_s):
            self._apply(effect)

    # --- orders ---

    def _apply(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._send(effect.to, effect.message)
        elif isinstance(effect, Deliver):
            self._had.add(effect.event.id)
            self._on_deliver(effect.event, effect.hops, self.tally)
        elif isinstance(effect, Discard):
            self._had.add(effect.event.id)
        elif isinstance(effect, SetTimer):
            self._cancel(effect.timer)
            self._timers[effect.timer] = self._loop.call_later(effect.delay_s, self._fire, effect.timer)
        else:
            self._cancel(effect.timer)

    def _send(self, targets: tuple[int, ...], message: Message) -> None:
        body = self.tag + self._codec.encode(message)
        traffic = message.traffic
        if traffic in BUILDING:
            self.built_s = self._loop.time()
        is_event = isinstance(message, EventMessage)
        self.sent[traffic] += len(targets)
        self.sent_bytes[traffic] += len(targets) * (len(body) + FRAME_BYTES - 1)
        if is_event or self._cascades.current is None:
            data = frame(MESSAGE, body)
            for target in targets:
                if not self._links.send(target, data, is_event):
                    self._unsent(target)
                    if is_event:
                        self.on_event_unsent(target)
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
            self._loop.call_soon(self.lose, target)

    def _fire(self, timer: Timer) -> None:
        self._timers.pop(timer, None)
        self.step(TimerFired(timer))
        self.on_turn()

    def _cancel(self, timer: Timer) -> None:
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def stop(self) -> None:
        self._is_stopped = True
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
