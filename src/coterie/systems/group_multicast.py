"""The middle tier of Scribe and Magnet: a tree per topic, events to its root and from there down the branches.

How trees grow and are repaired is what the systems differ in. What they share is here: a node is on the trees of the
topics it wants and of those it relays; events are routed to the node that the topic's key belongs to and go down from
there, at most once through every node; whoever gets a copy from somebody who is not its parent says so.
"""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar, Generic, TypeVar

from coterie.model import Slice, Topic
from coterie.protocol.events import Event, EventMessage, Timer
from coterie.protocol.node import NodeState
from coterie.protocol.seen import Seen
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import topic_key
from coterie.systems.key_routing import RingNode
from coterie.trace import Traffic

TREES = "trees"  # the timer of their heartbeats
HOPS_MAX = 128  # while rings are repaired a message could go round in circles


class ToRoot(EventMessage, frozen=True, tag="Publish"):
    """On its way to the root."""

    traffic: ClassVar[Traffic] = Traffic.INBOUND


class Multicast(EventMessage, frozen=True):
    """On its way down the tree."""

    traffic: ClassVar[Traffic] = Traffic.EVENT


class Branch:
    """What a node knows of one tree it is on."""

    __slots__ = ("children", "is_member", "key", "parent")

    def __init__(self, topic: Topic) -> None:
        self.key = topic_key(topic)
        self.parent: int | None = None
        self.children: dict[int, Any] = {}
        self.is_member = False


OwnBranch = TypeVar("OwnBranch", bound=Branch)


class GroupNode(RingNode, Generic[OwnBranch]):
    """On a tree for each topic. Subclasses say how a node gets there, and how it leaves a parent."""

    def __init__(
        self, address: int, link_heartbeat_s: float, tree_heartbeat_s: float, seen_capacity: int, random: Random
    ) -> None:
        super().__init__(address, link_heartbeat_s, random)
        self._tree_heartbeat_s = tree_heartbeat_s
        self._groups: dict[Topic, OwnBranch] = {}
        self._seen = Seen(seen_capacity)

    def root_hop(self, key: int) -> int | None:
        """The next node on the way to the root of the topic with this key; None if that is here."""
        return self.router.next_hop(key)

    def _leave(self, parent: int, topic: Topic, branch: OwnBranch | None) -> None:
        """Tell a parent (or who takes itself for one, then without a branch) that we are not its child."""
        raise NotImplementedError

    def _tend(self, topic: Topic, branch: OwnBranch) -> None:
        """What is done for a tree at every heartbeat."""
        raise NotImplementedError

    def _on_parent_lost(self, topic: Topic, branch: OwnBranch) -> None:
        """Look for another parent, if one is needed."""
        raise NotImplementedError

    # --- hooks ---

    def on_start(self, slice: Slice) -> None:
        super().on_start(slice)
        self.set_timer(TREES, self._tree_heartbeat_s)

    def on_timer(self, timer: Timer) -> None:
        if timer != TREES:
            super().on_timer(timer)
            return
        for topic, branch in list(self._groups.items()):
            self._tend(topic, branch)
        self.set_timer(TREES, self._tree_heartbeat_s)

    def on_neighbour_lost(self, peer: int) -> None:
        for topic, branch in list(self._groups.items()):
            branch.children.pop(peer, None)
            if branch.parent == peer:
                branch.parent = None
                self._on_parent_lost(topic, branch)
            self._prune(topic, branch)

    def on_unsubscribe(self, topic: Topic) -> None:
        branch = self._groups.get(topic)
        if branch is not None:
            branch.is_member = False
            self._prune(topic, branch)

    def on_publish(self, event: Event) -> None:
        self._towards_root(event, hops=0)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, Multicast):
            self._from_parent(source, message)
        elif isinstance(message, ToRoot):
            self._towards_root(message.event, message.hops)
        else:
            super().on_receive(source, message)

    # --- trees ---

    def _prune(self, topic: Topic, branch: OwnBranch) -> None:
        """Leave the tree if nobody here or below needs it."""
        if branch.is_member or branch.children or self._groups.get(topic) is not branch:
            return
        if branch.parent is not None:
            self._leave(branch.parent, topic, branch)
            branch.parent = None
        del self._groups[topic]

    # --- events ---

    def _towards_root(self, event: Event, hops: int) -> None:
        towards = self.root_hop(topic_key(event.topic))
        if towards is not None:
            if hops < HOPS_MAX:
                self.send(towards, ToRoot(event, hops + 1))
        elif self._seen.add(event.id):
            branch = self._groups.get(event.topic)
            if branch is not None:
                self._spread(event, hops, branch, source=None)

    def _from_parent(self, source: int, message: Multicast) -> None:
        event = message.event
        branch = self._groups.get(event.topic)
        if branch is None or branch.parent != source:
            self._leave(source, event.topic, None)
        if branch is not None and self._seen.add(event.id):
            self._spread(event, message.hops, branch, source)

    def _spread(self, event: Event, hops: int, branch: OwnBranch, source: int | None) -> None:
        if branch.is_member:
            self.deliver(event, hops)
        self.send_all((child for child in branch.children if child != source), Multicast(event, hops + 1))

    def state(self) -> NodeState:
        branches = self._groups.items()
        return NodeState(
            links=tuple(self.router.announce_targets()),
            parents=tuple((topic, branch.parent) for topic, branch in branches if branch.parent is not None),
            children=tuple((topic, child) for topic, branch in branches for child in branch.children),
            memberships=tuple(topic for topic, branch in branches if branch.is_member),
        )
