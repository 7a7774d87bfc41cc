"""Driver 1: thousands of nodes in virtual time from one seed.

Time is whole microseconds. The heap holds message batches (one entry for all receivers that a message reaches at the
same moment), timers and planned actions; entries of the same moment keep the order in which they were made. All
randomness comes from the seed, and nothing iterates over a set, so the same seed gives the same trace anywhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random

from coterie.errors import RunError
from coterie.model.latency import MICROSECONDS, Latency
from coterie.model.plan import Slice, Topic
from coterie.protocol.events import (
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Event,
    EventMessage,
    Input,
    PeerLost,
    Planned,
    Published,
    Received,
    Send,
    SetTimer,
    Started,
    Stopping,
    Subscribed,
    Timer,
    TimerFired,
    Unsubscribed,
)
from coterie.protocol.node import Node
from coterie.protocol.system import Parameters, System, node_random
from coterie.protocol.wire import SystemMessage
from coterie.sim.book import Book, EventSize
from coterie.sim.faults import Crash, Fault, Heal, Partition, Restart, Slow, Stop, Weather
from coterie.sim.network import Network
from coterie.trace import TraceEvent, Tracer, Traffic

KEEPALIVES = frozenset(
    {
        Traffic.TREE_KEEPALIVE,
        Traffic.LINK_KEEPALIVE,
        Traffic.ASSOCIATION,
        Traffic.MEMBERSHIP,
        Traffic.ACKNOWLEDGEMENT,
        Traffic.EVENT,
        Traffic.INBOUND,
    }
)

MESSAGES, TIMER, ACTION = 0, 1, 2
NO_SIZE = EventSize()


class Simulation:
    """A network of nodes of one system; `start` it, `subscribe`, `publish`, `inject` faults, `run_until`, `settle`."""

    def __init__(
        self,
        system: System,
        parameters: Parameters,
        slices: Sequence[Slice],
        seed: int,
        latency: Latency | None = None,
        tracer: Tracer | None = None,
        through_wire: bool = False,
        link_costs: Mapping[tuple[int, int], float] | None = None,
        zone_of: Sequence[int] | None = None,
    ) -> None:
        self.system = system
        self.parameters = parameters
        self.seed = seed
        self.slices = list(slices)
        self.network = Network(latency or Latency.constant(), Random(seed))
        self.book = Book(len(self.slices))
        self.now_us = 0
        self.event_count = 0  # inputs handed to nodes: what the simulator's speed is measured in
        self.last_control_us = 0
        self.nodes: list[Node | None] = [None] * len(self.slices)
        self._lives = [0] * len(self.slices)
        self._tracer = tracer
        self._codec = system.codec() if through_wire else None
        self._link_costs = link_costs or {}  # (source, target) -> cost, where the network is given
        self._zone_of = zone_of
        self._heap: list[tuple[int, int, int, object, object, object]] = []
        self._order = count()
        self._event_ids = count()
        self._timers: list[dict[Timer, int]] = [{} for _ in self.slices]
        self._timer_ids = count()

    @property
    def now_s(self) -> float:
        return self.now_us / MICROSECONDS

    @property
    def node_count(self) -> int:
        return len(self.slices)

    def is_up(self, node: int) -> bool:
        return self.nodes[node] is not None

    # --- what happens to the network ---

    def start(self) -> None:
        for node in range(self.node_count):
            self.start_node(node)

    def start_node(self, node: int) -> None:
        self._lives[node] += 1
        random = node_random(self.seed, node + self._lives[node] * 2**32)
        self.nodes[node] = self.system.node(node, self.parameters, random)
        self._timers[node] = {}
        self._trace("started", node)
        self._step(node, Started(self.slices[node]))

    def plan(self, node: int, slice: Slice) -> None:
        self.slices[node] = slice
        if self.is_up(node):
            self._step(node, Planned(slice))

    def subscribe(self, node: int, topic: Topic) -> None:
        if self.book.subscribe(node, topic) and self.is_up(node):
            self._trace("subscribed", node, topic=topic)
            self._step(node, Subscribed(topic))

    def unsubscribe(self, node: int, topic: Topic) -> None:
        if self.book.unsubscribe(node, topic) and self.is_up(node):
            self._trace("unsubscribed", node, topic=topic)
            self._step(node, Unsubscribed(topic))

    def publish(self, node: int, topic: Topic, payload: bytes = b"", size: EventSize = NO_SIZE) -> Event | None:
        """None if the publisher's node is down: such an event is never accepted, so nobody is owed it."""
        if not self.is_up(node):
            return None
        event = Event(next(self._event_ids), topic, payload)
        self.book.publish(node, event, self.now_us, size)
        self._trace("published", node, topic=topic, event=event.id)
        self._step(node, Published(event))
        return event

    def at(self, time_s: float, action: Callable[[], object]) -> None:
        self._push(round(time_s * MICROSECONDS), ACTION, action)

    def inject(self, fault: Fault) -> None:
        self.at(fault.time_s, lambda: self._break(fault))

    def _break(self, fault: Fault) -> None:
        self._trace("fault", getattr(fault, "node", -1), detail=str(fault))
        match fault:
            case Crash(node=node):
                self._remove(node)
            case Stop(node=node):
                if self.is_up(node):
                    self._step(node, Stopping())
                self._remove(node)
            case Restart(node=node):
                self.start_node(node)
                for topic in list(self.book.wanting[node]):
                    self._step(node, Subscribed(topic))
            case Partition(nodes=nodes):
                self.network.island = dict.fromkeys(nodes, 1)
            case Heal():
                self.network.island = {}
            case Weather(loss=loss, duplication=duplication, jitter_s=jitter_s):
                self.network.loss, self.network.duplication = loss, duplication
                self.network.jitter_us = round(jitter_s * MICROSECONDS)
            case Slow(node=node, factor=factor):
                self.network.slow.pop(node, None)
                if factor != 1.0:
                    self.network.slow[node] = factor

    def _remove(self, node: int) -> None:
        self.nodes[node] = None
        self._timers[node] = {}
        self.book.forget_node(node)

    # --- time ---

    def run_until(self, time_s: float) -> None:
        """Handle everything up to and including this moment."""
        until_us = round(time_s * MICROSECONDS)
        heap = self._heap
        while heap and heap[0][0] <= until_us:
            self.now_us, _, kind, first, second, third = heapq.heappop(heap)
            if kind == MESSAGES:
                self._arrive(first, second, third)  # type: ignore[arg-type]
            elif kind == TIMER:
                self._fire(first, second, third)  # type: ignore[arg-type]
            else:
                first()  # type: ignore[operator]
        self.now_us = max(self.now_us, until_us)

    def settle(self, quiet_s: float, limit_s: float) -> None:
        """Run until no control message was sent for `quiet_s`; RunError if that takes longer than `limit_s`."""
        end_us = self.now_us + round(limit_s * MICROSECONDS)
        quiet_us = round(quiet_s * MICROSECONDS)
        self.last_control_us = self.now_us
        while self.now_us < self.last_control_us + quiet_us:
            self.run_until((self.last_control_us + quiet_us) / MICROSECONDS)
            if self.now_us > end_us:
                raise RunError(
                    f"{self.system.name} is still changing its structures after {limit_s:g} s (seed {self.seed})"
                )

    # --- the loop's inside ---

    def _push(self, time_us: int, kind: int, first: object, second: object = None, third: object = None) -> None:
        heapq.heappush(self._heap, (time_us, next(self._order), kind, first, second, third))

    def _step(self, node: int, event: Input) -> None:
        target = self.nodes[node]
        assert target is not None
        self.event_count += 1
        for effect in target.step(event, self.now_us / MICROSECONDS):
            self._apply(node, effect)

    def _apply(self, node: int, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._send(node, effect.to, effect.message)
        elif isinstance(effect, Deliver):
            event = effect.event
            self.book.deliver(node, event, effect.hops, self.now_us)
            if self._tracer:
                self._trace("delivered", node, topic=event.topic, event=event.id)
        elif isinstance(effect, Discard):
            self.book.discard(node, effect.event)
        elif isinstance(effect, SetTimer):
            timer_id = next(self._timer_ids)
            self._timers[node][effect.timer] = timer_id
            self._push(self.now_us + round(effect.delay_s * MICROSECONDS), TIMER, node, effect.timer, timer_id)
        elif isinstance(effect, CancelTimer):
            self._timers[node].pop(effect.timer, None)

    def _send(self, source: int, targets: tuple[int, ...], message: SystemMessage) -> None:
        traffic = message.traffic
        self.book.sent[traffic] += len(targets)
        if traffic not in KEEPALIVES:
            self.last_control_us = self.now_us
        elif isinstance(message, EventMessage):
            self.book.load[source] += len(targets)
        if self._codec is not None:
            message = self._codec.decode(self._codec.encode(message))
        if self._tracer:
            for target in targets:
                self._trace("sent", source, target, message)
        if self.network.is_uniform:
            self._push(self.now_us + self.network.latency.base_us, MESSAGES, targets, source, message)
        else:
            self._send_one_by_one(source, targets, message)

    def _send_one_by_one(self, source: int, targets: tuple[int, ...], message: SystemMessage) -> None:
        network = self.network
        for target in targets:
            if network.is_cut(source, target):
                self._dropped(source, target, message, "cut off by a partition")
                self._push(self.now_us + network.detect_us, ACTION, lambda target=target: self._lose(source, target))
                continue
            delays_us = network.arrivals_us(source, target)
            if not delays_us:
                self._dropped(source, target, message, "lost by the network")
            for delay_us in delays_us:
                self._push(self.now_us + delay_us, MESSAGES, (target,), source, message)

    def _arrive(self, targets: tuple[int, ...], source: int, message: SystemMessage) -> None:
        traffic = message.traffic
        received = Received(source, message)
        carries_event = traffic is Traffic.EVENT or traffic is Traffic.INBOUND
        now_s = self.now_us / MICROSECONDS
        nodes = self.nodes
        apply = self._apply
        self.event_count += len(targets)
        for target in targets:
            node = nodes[target]
            if node is None:
                self._dropped(source, target, message, "the node was down")
                self._push(
                    self.now_us + self.network.detect_us, ACTION, lambda target=target: self._lose(source, target)
                )
            elif carries_event:
                self._arrive_event(target, node, received, now_s)
            else:
                for effect in node.step(received, now_s):
                    apply(target, effect)

    def _arrive_event(self, target: int, node: Node, received: Received, now_s: float) -> None:
        """Judge a copy by what the node did with it."""
        message = received.message
        assert isinstance(message, EventMessage)
        published = self.book.events.get(message.event.id)
        if published is None:
            raise RunError(f"node {received.source} sent event {message.event.id}, which nobody published")
        tally = self.book.tally
        if self._link_costs:
            tally.link_cost += self._link_costs.get((received.source, target), 0.0)
        if self._zone_of is not None and self._zone_of[received.source] != self._zone_of[target]:
            tally.crossing += (1.0, published.size.of_copy)
        self.book.load[target] += 1
        had = published.had[target]
        for effect in node.step(received, now_s):
            self._apply(target, effect)
        if message.traffic is Traffic.INBOUND:
            column = "inbound"
        elif had:
            column = "duplicate"
        elif not published.had[target]:
            column = "relayed"
        else:
            column = "wanted" if message.event.topic in self.book.wanting[target] else "filtered"
        tally.add_copy(column, published.size.of_copy)

    def _fire(self, node: int, timer: Timer, timer_id: int) -> None:
        if self._timers[node].get(timer) != timer_id:
            return
        del self._timers[node][timer]
        self._step(node, TimerFired(timer))

    def _lose(self, node: int, peer: int) -> None:
        if self.is_up(node):
            self._trace("peer lost", node, peer)
            self._step(node, PeerLost(peer))

    def _dropped(self, source: int, target: int, message: SystemMessage, cause: str) -> None:
        if isinstance(message, EventMessage):
            self.book.drop(message.event, source, target, cause)
        if self._tracer:
            self._trace("dropped", source, target, message, detail=cause)

    def _trace(
        self,
        what: str,
        node: int,
        peer: int = -1,
        message: SystemMessage | None = None,
        topic: Topic = -1,
        event: int = -1,
        detail: str = "",
    ) -> None:
        if self._tracer is None:
            return
        traffic = ""
        if message is not None:
            traffic, detail = message.traffic.value, detail or type(message).__name__
            if isinstance(message, EventMessage):
                topic, event = message.event.topic, message.event.id
        self._tracer(TraceEvent(self.now_us, node, what, peer, traffic, topic, event, detail))
