"""The driver's book: who wants what, what was published, what arrived; checked and counted as it happens.

Everything here is known from outside the nodes, so a system cannot flatter itself: a copy is judged by what the node
did with it (delivered, discarded, passed on), a delivery by what was owed when the event was published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from coterie.accounting.tally import Tally
from coterie.errors import RunError
from coterie.model.plan import Topic
from coterie.protocol.events import Event
from coterie.trace import Traffic


@dataclass(frozen=True)
class EventSize:
    """Bytes of one copy between nodes, and of one delivery to a client."""

    of_copy: float = 0.0
    to_client: float = 0.0


@dataclass
class BookedEvent:
    """One event in the book: when it was published, who is still owed it, who has it, what went wrong on its way."""

    event: Event
    time_us: int
    owed: dict[int, int]  # node -> local subscribers that were interested when it was published
    had: bytearray  # per node: 1 once delivered or discarded there
    size: EventSize
    drops: list[tuple[int, int, str]] = field(default_factory=list)  # (source, target, cause)


@dataclass(frozen=True)
class Missing:
    """A delivery that was owed and never made, and why."""

    event: int
    topic: Topic
    node: int
    reason: str


class Book:
    """Counts and checks. `check` methods raise RunError at the step that breaks a promise."""

    def __init__(self, node_count: int) -> None:
        self.node_count = node_count
        self.tally = Tally()
        self.load = [0.0] * node_count  # messages a node took, handed out, sent and received
        self.sent: Counter[Traffic] = Counter()
        self.wanting: list[dict[Topic, int]] = [{} for _ in range(node_count)]  # node -> topic -> local subscribers
        self.audience: dict[Topic, dict[int, int]] = {}  # topic -> node -> local subscribers
        self.events: dict[int, BookedEvent] = {}
        # Whether a subscription is one to an event, where that is not for its topic's sake (filters on content).
        self.selects: Callable[[Topic, Event], bool] | None = None
        self._of_topic: dict[Topic, list[BookedEvent]] = {}

    # --- interest ---

    def subscribe(self, node: int, topic: Topic) -> bool:
        """True if this is the node's first subscriber of the topic."""
        count = self.wanting[node].get(topic, 0) + 1
        self.wanting[node][topic] = count
        self.audience.setdefault(topic, {})[node] = count
        return count == 1

    def unsubscribe(self, node: int, topic: Topic) -> bool:
        """True if that was the node's last one. Who leaves is owed nothing any more."""
        count = self.wanting[node].get(topic, 0) - 1
        assert count >= 0, f"node {node} has no subscriber of {topic} to lose"
        if count:
            self.wanting[node][topic] = self.audience[topic][node] = count
            return False
        del self.wanting[node][topic]
        del self.audience[topic][node]
        for published in self._of_topic.get(topic, ()) if self.selects is None else self.events.values():
            if not published.had[node] and not self._is_wanted(node, published.event):
                self.tally.owed -= published.owed.pop(node, 0)
        return True

    def _is_wanted(self, node: int, event: Event) -> bool:
        if self.selects is None:
            return event.topic in self.wanting[node]
        return any(self.selects(topic, event) for topic in self.wanting[node])

    def _audience(self, event: Event) -> dict[int, int]:
        """Node -> its subscribers that are interested."""
        if self.selects is None:
            return dict(self.audience.get(event.topic, {}))
        found: dict[int, int] = {}
        for topic, nodes in self.audience.items():
            if self.selects(topic, event):
                for node, count in nodes.items():
                    found[node] = found.get(node, 0) + count
        return found

    # --- events ---

    def publish(self, node: int, event: Event, time_us: int, size: EventSize) -> None:
        owed = self._audience(event)
        published = BookedEvent(event, time_us, owed, bytearray(self.node_count), size)
        self.load[node] += 1
        self.events[event.id] = published
        self._of_topic.setdefault(event.topic, []).append(published)
        self.tally.owed += sum(owed.values())

    def deliver(self, node: int, event: Event, hops: int, time_us: int) -> None:
        published = self.events.get(event.id)
        if published is None:
            raise RunError(f"node {node} delivered event {event.id}, which nobody published")
        if not self._is_wanted(node, event):
            raise RunError(f"node {node} delivered event {event.id} on topic {event.topic}, which it does not want")
        if published.had[node]:
            raise RunError(f"node {node} delivered event {event.id} on topic {event.topic} twice")
        published.had[node] = 1
        weight = published.owed.pop(node, 0)
        if weight:
            self.tally.add_delivery(hops, time_us - published.time_us, weight)
            self.tally.volume["delivered"] += weight * published.size.to_client
            self.load[node] += weight

    def discard(self, node: int, event: Event) -> None:
        published = self.events.get(event.id)
        if published is None:
            raise RunError(f"node {node} discarded event {event.id}, which nobody published")
        published.had[node] = 1

    def drop(self, event: Event, source: int, target: int, cause: str) -> None:
        published = self.events.get(event.id)
        if published is not None and len(published.drops) < 1000:
            published.drops.append((source, target, cause))

    def forget_node(self, node: int) -> None:
        """The node lost its memory: it may deliver again what it had delivered before it crashed."""
        for published in self.events.values():
            published.had[node] = 0

    def take_tally(self) -> Tally:
        """What was counted so far; counting begins anew."""
        tally = self.tally
        tally.load = np.array(self.load)
        self.tally, self.load = Tally(), [0.0] * self.node_count
        return tally

    def missing(self) -> list[Missing]:
        """Everything owed and not delivered, each with the reason."""
        return [
            Missing(published.event.id, published.event.topic, node, self._reason(published, node))
            for published in self.events.values()
            for node in sorted(published.owed)
        ]

    def _reason(self, published: BookedEvent, node: int) -> str:
        direct = [drop for drop in published.drops if drop[1] == node]
        if direct:
            source, target, cause = direct[0]
            return f"{cause} on the way from node {source} to node {target}"
        if published.drops:
            source, target, cause = published.drops[0]
            return f"{cause} upstream, from node {source} to node {target}"
        return "no structure led to the node when the event was published (it was being repaired)"
