"""Events that survive loss and crashes on any tree-based system: keep, acknowledge, offer again.

How it works. A broker keeps every event it has had for `retention_s`. On the way down a child acknowledges an event
when everybody below it has; on the way to the root each hop acknowledges when the root has said that its whole tree has
it (and at least one broker besides the root). Whoever misses an acknowledgement asks with an `Offer` of identifiers;
only what the other one lacks is sent again, so a network without faults carries no second copy. When an edge is made or
made again both its ends offer what they keep: an event that anybody on a tree still keeps comes to everybody on it,
whoever is its root by then. A broker that falls off a tree with something unacknowledged brings it to the root anew.

Bounds: at most `capacity` events and `retention_s`; per event no more than the broker's neighbours on its tree.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Protocol

from coterie.model.ledger import HEARTBEAT_S
from coterie.model.plan import Topic
from coterie.protocol.events import Event, EventMessage, Timer
from coterie.protocol.node import OverlayNode
from coterie.protocol.wire import SystemMessage
from coterie.trace import Traffic

ACKNOWLEDGE_S = 0.5  # acknowledgements wait so long for each other
GATHER_S = 0.5  # edges are made in waves; one offer serves them all
HOLD_S = 4 * HEARTBEAT_S  # so long those below a child that was lost may need to find a new way to the root
TICK_S = 0.05  # what is due at nearly the same time is done together
DOUBLINGS_MAX = 3  # of the time between two offers
OFFERED_MAX = 256  # identifiers in one message

RETRY: Timer = "retry events"
ACKNOWLEDGE: Timer = "acknowledge events"


class Offer(SystemMessage, frozen=True):
    """I keep these events; and you? `to_root`: they have yet to reach the root, else they belong to a tree of ours."""

    traffic: ClassVar[Traffic] = Traffic.ACKNOWLEDGEMENT
    to_root: bool
    events: tuple[int, ...]


class Status(SystemMessage, frozen=True):
    """`lacks`: send me these; `holds`: I keep these; `done`: and so does everybody I was to bring them to."""

    traffic: ClassVar[Traffic] = Traffic.ACKNOWLEDGEMENT
    to_root: bool
    lacks: tuple[int, ...] = ()
    holds: tuple[int, ...] = ()
    done: tuple[int, ...] = ()


class Replay(EventMessage, frozen=True):
    """An event that was asked for; published about `age_s` ago."""

    traffic: ClassVar[Traffic] = Traffic.EVENT
    to_root: bool = False
    age_s: float = 0.0


RELIABLE_MESSAGES: tuple[type[SystemMessage], ...] = (Offer, Status, Replay)


class Forest(Protocol):
    """What the keeper must know of a system's trees, as they are at the moment."""

    def children_of(self, topic: Topic) -> Collection[int]: ...

    def parent_of(self, topic: Topic) -> int | None: ...

    def next_to_root(self, topic: Topic) -> int | None:
        """None: we are the root."""

    def has_spread(self, event_id: int) -> bool:
        """Whether the event has been delivered and passed on down the tree here."""

    def spread_as_root(self, event: Event, hops: int, age_s: float) -> None: ...


class HeldEvent:
    """One event and who still has to say that it is safe."""

    __slots__ = (
        "above",
        "attempts",
        "behind",
        "born_s",
        "event",
        "hold_s",
        "hops",
        "is_confirmed",
        "is_shared",
        "is_wanted",
        "kept_s",
        "next_s",
        "rising",
        "to_root",
        "waiting",
    )

    def __init__(self, event: Event, hops: int, now_s: float, age_s: float) -> None:
        self.event = event
        self.hops = hops
        self.born_s = now_s - age_s
        self.kept_s = now_s
        self.waiting: dict[int, None] = {}  # children that have not acknowledged
        self.rising: dict[int, None] = {}  # a parent that may lack it
        self.above: dict[int, None] = {}  # who is told when everybody below has it
        self.behind: dict[int, None] = {}  # who is told when the root has confirmed
        self.to_root = False
        self.is_confirmed = False
        self.is_shared = False  # a child has it too
        self.is_wanted = False
        self.hold_s = 0.0  # until then not everybody below can be accounted for
        self.attempts = 0
        self.next_s = 0.0

    @property
    def can_vouch(self) -> bool:
        """A relay with nobody below is about to leave the tree and take the event with it."""
        return self.is_wanted or self.is_shared


class Keeper:
    """Keeps one broker's events. `node` lends its verbs; `forest` answers questions about the trees."""

    def __init__(self, node: OverlayNode, forest: Forest, retry_s: float, retention_s: float, capacity: int) -> None:
        self._node = node
        self._forest = forest
        self._retry_s = retry_s
        self._retention_s = retention_s
        self._capacity = capacity
        self._kept: dict[int, HeldEvent] = {}  # oldest first
        self._of_topic: dict[Topic, dict[int, HeldEvent]] = {}
        self._open: dict[int, HeldEvent] = {}  # not yet acknowledged by everybody
        self._due_s = float("inf")
        self._statuses: dict[tuple[int, bool], dict[int, str]] = {}  # (peer, to_root) -> event -> what to say of it

    def __len__(self) -> int:
        return len(self._kept)

    # --- what the system tells ---

    def carry(self, event: Event, hops: int, source: int | None, age_s: float = 0.0) -> bool:
        """An event on its way to the root is here, or was published here; False if it has been here before."""
        kept = self._keep(event, hops, age_s)
        is_new = not kept.to_root
        kept.to_root = True
        if source is not None:
            kept.behind[source] = None
            if not is_new:
                self._say(source, True, event.id, "holds")
        self._reopen(kept, self._retry_s)
        return is_new

    def spread(
        self, event: Event, hops: int, source: int | None, children: Collection[int], age_s: float, is_wanted: bool
    ) -> None:
        """The event was passed on to these children for the first time; `is_wanted`: and delivered here."""
        kept = self._keep(event, hops, age_s)
        kept.is_wanted = is_wanted
        kept.waiting.update(dict.fromkeys(children))
        parent = self._forest.parent_of(event.topic)
        if source is not None and source in self._forest.children_of(event.topic):
            self._say(source, False, event.id, "holds")
        elif source is not None:
            kept.above[source] = None
        if parent is not None and source is not None and parent != source:
            kept.rising[parent] = None
        self._reopen(kept, self._retry_s)

    def again(self, event_id: int, source: int) -> None:
        """A copy of an event that had been spread here already."""
        self._answer_tree(source, event_id)

    def gained_child(self, topic: Topic, child: int, back_s: float) -> None:
        """An edge was made, for somebody who wants the events of the last `back_s` seconds."""
        from_s = self._node.now_s - back_s
        for kept in self._of_topic.get(topic, {}).values():
            if kept.born_s >= from_s and self._forest.has_spread(kept.event.id):
                kept.waiting[child] = None
                self._reopen(kept, GATHER_S)

    def gained_parent(self, topic: Topic, parent: int) -> None:
        for kept in self._of_topic.get(topic, {}).values():
            if self._forest.has_spread(kept.event.id):  # what is only carried to the root comes back down from there
                kept.rising[parent] = None
                self._reopen(kept, GATHER_S)

    def fell_off(self, topic: Topic) -> None:
        """The broker is no longer on the topic's tree: what is not safe goes to the root."""
        for kept in self._of_topic.get(topic, {}).values():
            if kept.waiting or kept.hold_s > self._node.now_s:
                kept.to_root = True
                kept.is_confirmed = False
                self._reopen(kept, GATHER_S)

    def replanted(self) -> None:
        """All trees are other trees now: offer everything along their edges."""
        for topic in self._of_topic:
            parent = self._forest.parent_of(topic)
            for child in self._forest.children_of(topic):
                self.gained_child(topic, child, self._retention_s)
            if parent is not None:
                self.gained_parent(topic, parent)

    def lost(self, peer: int) -> None:
        """Whoever is below a lost child has yet to find a new parent; till then nothing is acknowledged."""
        for kept in list(self._open.values()):
            if peer in kept.waiting:
                del kept.waiting[peer]
                kept.hold_s = self._node.now_s + HOLD_S
            kept.rising.pop(peer, None)
            if kept.to_root and not kept.is_confirmed:
                self._reopen(kept, GATHER_S)

    # --- messages and timers ---

    def on_message(self, source: int, message: Offer | Status) -> None:
        if isinstance(message, Offer):
            for event_id in message.events:
                if message.to_root:
                    self._answer_inbound(source, event_id)
                else:
                    self._answer_tree(source, event_id)
        else:
            self._on_status(source, message)

    def on_timer(self, timer: Timer) -> None:
        if timer == RETRY:
            self._retry()
        else:
            self._send_statuses()

    def _answer_tree(self, source: int, event_id: int) -> None:
        kept = self._kept.get(event_id)
        if not self._forest.has_spread(event_id):
            self._say(source, False, event_id, "lacks")
        elif kept is None or (kept.can_vouch and self._is_below(kept)):
            self._say(source, False, event_id, "done")
        else:
            self._say(source, False, event_id, "holds")
            if source not in self._forest.children_of(kept.event.topic):
                kept.above[source] = None

    def _answer_inbound(self, source: int, event_id: int) -> None:
        kept = self._kept.get(event_id)
        if kept is None:
            self._say(source, True, event_id, "done" if self._forest.has_spread(event_id) else "lacks")
            return
        if not kept.to_root:
            kept.to_root = True
            self._reopen(kept, GATHER_S)
        if kept.is_confirmed:
            self._say(source, True, event_id, "done")
        else:
            kept.behind[source] = None
            self._say(source, True, event_id, "holds")

    def _on_status(self, source: int, message: Status) -> None:
        now_s = self._node.now_s
        for event_id in message.lacks:
            kept = self._kept.get(event_id)
            if kept is not None:
                age_s = now_s - kept.born_s
                self._node.send(source, Replay(kept.event, kept.hops + 1, message.to_root, age_s))
                if event_id in self._open:
                    self._reopen(kept, self._retry_s)
        for event_id in message.holds:
            kept = self._kept.get(event_id)
            if kept is not None and message.to_root:
                kept.next_s = (
                    now_s + HEARTBEAT_S
                )  # in good hands; it may take long until there is anybody below the root
            elif kept is not None:
                kept.rising.pop(source, None)
                self._settle(kept)
        for event_id in message.done:
            kept = self._kept.get(event_id)
            if kept is not None:
                self._acknowledged(kept, source, message.to_root)

    def _acknowledged(self, kept: HeldEvent, source: int, to_root: bool) -> None:
        if to_root:
            kept.is_confirmed = True
        else:
            kept.rising.pop(source, None)
            if source in kept.waiting:
                del kept.waiting[source]
                kept.is_shared = True
        self._settle(kept)

    # --- keeping ---

    def _keep(self, event: Event, hops: int, age_s: float) -> HeldEvent:
        kept = self._kept.get(event.id)
        if kept is None:
            kept = self._kept[event.id] = HeldEvent(event, hops, self._node.now_s, age_s)
            self._of_topic.setdefault(event.topic, {})[event.id] = kept
            self._forget_old()
        return kept

    def _forget_old(self) -> None:
        oldest_s = self._node.now_s - self._retention_s
        while self._kept:
            event_id, kept = next(iter(self._kept.items()))
            if kept.kept_s >= oldest_s and len(self._kept) <= self._capacity:
                return
            del self._kept[event_id]
            self._open.pop(event_id, None)
            siblings = self._of_topic[kept.event.topic]
            del siblings[event_id]
            if not siblings:
                del self._of_topic[kept.event.topic]

    def _is_below(self, kept: HeldEvent) -> bool:
        """Everybody below has it."""
        return not kept.waiting and kept.hold_s <= self._node.now_s

    def _settle(self, kept: HeldEvent) -> None:
        """Pass on the acknowledgements that have become possible; close what needs nothing more."""
        event_id = kept.event.id
        is_below = self._is_below(kept)
        if is_below and kept.can_vouch:
            for peer in kept.above:
                self._say(peer, False, event_id, "done")
            kept.above = {}
        if kept.to_root and is_below and kept.is_shared and self._forest.next_to_root(kept.event.topic) is None:
            kept.is_confirmed = True
        if kept.is_confirmed:
            for peer in kept.behind:
                self._say(peer, True, event_id, "done")
            kept.behind = {}
        if is_below and not kept.rising and (kept.is_confirmed or not kept.to_root):
            self._open.pop(event_id, None)

    def _reopen(self, kept: HeldEvent, delay_s: float) -> None:
        kept.attempts = 0
        kept.next_s = self._node.now_s + delay_s
        self._open[kept.event.id] = kept
        self._settle(kept)
        if kept.event.id in self._open:
            self._wake(kept.next_s)

    def _wake(self, due_s: float) -> None:
        if due_s < self._due_s:
            self._due_s = due_s
            self._node.set_timer(RETRY, max(due_s - self._node.now_s, TICK_S))

    # --- asking again ---

    def _retry(self) -> None:
        self._due_s = float("inf")
        self._forget_old()
        now_s = self._node.now_s
        offers: dict[tuple[int, bool], list[int]] = {}
        for event_id, kept in list(self._open.items()):
            self._prune(kept)
            if kept.next_s <= now_s + TICK_S:
                self._offer(event_id, kept, offers)
                kept.attempts += 1
                kept.next_s = now_s + self._retry_s * 2 ** min(kept.attempts, DOUBLINGS_MAX)
            self._settle(kept)
        for (peer, to_root), events in offers.items():
            for first in range(0, len(events), OFFERED_MAX):
                self._node.send(peer, Offer(to_root, tuple(events[first : first + OFFERED_MAX])))
        if self._open:
            self._wake(min(kept.next_s for kept in self._open.values()))

    def _prune(self, kept: HeldEvent) -> None:
        """Who has left our part of the tree is served by its new parent."""
        children = self._forest.children_of(kept.event.topic)
        parent = self._forest.parent_of(kept.event.topic)
        kept.waiting = {peer: None for peer in kept.waiting if peer in children}
        kept.rising = {peer: None for peer in kept.rising if peer == parent}

    def _offer(self, event_id: int, kept: HeldEvent, offers: dict[tuple[int, bool], list[int]]) -> None:
        for peer in (*kept.waiting, *kept.rising):
            offers.setdefault((peer, False), []).append(event_id)
        if kept.to_root and not kept.is_confirmed:
            towards = self._forest.next_to_root(kept.event.topic)
            if towards is not None:
                offers.setdefault((towards, True), []).append(event_id)
            elif not self._forest.has_spread(event_id):
                self._forest.spread_as_root(kept.event, kept.hops, self._node.now_s - kept.born_s)

    def _say(self, peer: int, to_root: bool, event_id: int, what: str) -> None:
        if not self._statuses:
            self._node.set_timer(ACKNOWLEDGE, ACKNOWLEDGE_S)
        self._statuses.setdefault((peer, to_root), {})[event_id] = what  # the last word counts

    def _send_statuses(self) -> None:
        for (peer, to_root), said in self._statuses.items():
            groups: dict[str, list[int]] = {"lacks": [], "holds": [], "done": []}
            for event_id, what in said.items():
                groups[what].append(event_id)
            status = Status(to_root, tuple(groups["lacks"]), tuple(groups["holds"]), tuple(groups["done"]))
            self._node.send(peer, status)
        self._statuses = {}
