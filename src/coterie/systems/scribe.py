"""Scribe over Pastry: one multicast tree per topic, the union of its subscribers' routes to the topic's root.

Castro, Druschel, Kermarrec, Rowstron, 2002; the baseline of Tamara and Magnet's strawman. Whoever wants a topic sends a
join towards the topic's key; every node it passes becomes a forwarder, and the first that is one already stops it. Left
out: proximity in the choice of table entries, and Scribe's access control.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

from coterie.errors import ConfigError
from coterie.model import Channels, Entries, Overlay, Placement, Topic, Trees, Workload
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.system import Parameters, Stages, System, beats_on_trees_and_links, check_count, check_period
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import node_positions, topic_keys
from coterie.substrate.pastry import DIGIT_BITS, LEAVES, PastryRing, PastryRouter
from coterie.substrate.trees import bottom_up_trees, entries
from coterie.systems.group_multicast import Branch, GroupNode, Multicast, ToRoot
from coterie.systems.key_routing import KEY_ROUTING_MESSAGES
from coterie.trace import Traffic

SILENT_HEARTBEATS = 3.5  # a parent not heard of for so long is asked again


class ScribeParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pastry's b and L, and how often structures are kept alive."""

    digit_bits: int = DIGIT_BITS  # bits of a digit of ids: more make shorter ways, larger tables (b, Pastry 2.1)
    leaves: int = LEAVES  # nearest nodes on the ring that a node knows (|L|, Pastry section 2.1)
    tree_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a tree edge
    link_heartbeat_s: float = HEARTBEAT_S  # seconds between two heartbeats on a link
    seen_capacity: int = 4096  # events a node remembers, so that none is delivered twice

    def __post_init__(self) -> None:
        if self.digit_bits not in (1, 2, 4, 8):
            raise ConfigError("digit_bits", self.digit_bits, "1, 2, 4 or 8")
        if self.leaves < 2 or self.leaves % 2:
            raise ConfigError("leaves", self.leaves, "an even number, at least 2")
        check_period("tree_heartbeat_s", self.tree_heartbeat_s)
        check_period("link_heartbeat_s", self.link_heartbeat_s)
        check_count("seen_capacity", self.seen_capacity)


# --- wire ---


class Join(SystemMessage, frozen=True):
    """I want this topic's events from you."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topic: Topic


class Leave(SystemMessage, frozen=True):
    """No longer."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topic: Topic


class TreeAlive(SystemMessage, frozen=True):
    """I am still your parent in this topic's tree."""

    traffic: ClassVar[Traffic] = Traffic.TREE_KEEPALIVE
    topic: Topic


# --- bulk form ---


def pastry_overlay(
    workload: Workload, placement: Placement, channels: Channels, parameters: ScribeParameters, seed: int
) -> Overlay:
    positions = node_positions(workload.node_count, seed)
    return PastryRing.of(positions, parameters.digit_bits, parameters.leaves).overlay


def reverse_paths(
    workload: Workload,
    placement: Placement,
    channels: Channels,
    overlay: Overlay,
    parameters: ScribeParameters,
    seed: int,
) -> tuple[Trees, Entries]:
    assert overlay.positions is not None
    ring = PastryRing.of(overlay.positions, parameters.digit_bits, parameters.leaves)
    keys = topic_keys(workload.topic_count)
    members = workload.node_interests(placement.node_of).transposed
    publications = workload.publications
    publisher_node = placement.node_of[publications.publisher]
    return bottom_up_trees(ring, keys, members), entries(ring, publisher_node, publications.topic, keys)


# --- protocol ---


class GroupBranch(Branch):
    """A branch, and when its parent was last heard of."""

    __slots__ = ("heard_s",)

    def __init__(self, topic: Topic, now_s: float) -> None:
        super().__init__(topic)
        self.heard_s = now_s


class ScribeNode(GroupNode[GroupBranch]):
    """Joins towards the root, forwards what comes from the parent, repairs by joining again."""

    def __init__(self, address: int, parameters: ScribeParameters, random: Random) -> None:
        super().__init__(
            address, parameters.link_heartbeat_s, parameters.tree_heartbeat_s, parameters.seen_capacity, random
        )
        self._parameters = parameters

    def make_router(self, position: int) -> PastryRouter:
        return PastryRouter(self.address, position, self._parameters.digit_bits, self._parameters.leaves)

    def on_subscribe(self, topic: Topic) -> None:
        self._on_tree(topic).is_member = True

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, TreeAlive):
            group = self._groups.get(message.topic)
            if group is None or group.parent != source:
                self.send(source, Leave(message.topic))
            else:
                group.heard_s = self.now_s
        elif isinstance(message, Join):
            self._on_tree(message.topic).children[source] = None
        elif isinstance(message, Leave):
            group = self._groups.get(message.topic)
            if group is not None:
                group.children.pop(source, None)
                self._prune(message.topic, group)
        else:
            super().on_receive(source, message)

    # --- trees ---

    def _tend(self, topic: Topic, group: GroupBranch) -> None:
        self._aim(topic, group)
        self.send_all(group.children, TreeAlive(topic))

    def _on_parent_lost(self, topic: Topic, group: GroupBranch) -> None:
        self._aim(topic, group)

    def _on_tree(self, topic: Topic) -> GroupBranch:
        """The group of this topic, joined if this node was not on the tree yet."""
        group = self._groups.get(topic)
        if group is None:
            group = self._groups[topic] = GroupBranch(topic, self.now_s)
            self._aim(topic, group)
        return group

    def _aim(self, topic: Topic, group: GroupBranch) -> None:
        """Make the next hop towards the root the parent, and ask again a parent that has been silent for too long."""
        towards = self.router.next_hop(group.key)
        is_silent = self.now_s - group.heard_s > SILENT_HEARTBEATS * self._tree_heartbeat_s
        if towards == group.parent and not (is_silent and towards is not None):
            return
        if group.parent is not None and group.parent != towards:
            self.send(group.parent, Leave(topic))
        group.parent = towards
        group.heard_s = self.now_s
        if towards is not None:
            group.children.pop(towards, None)
            self.send(towards, Join(topic))

    def _leave(self, parent: int, topic: Topic, branch: GroupBranch | None) -> None:
        self.send(parent, Leave(topic))


SYSTEM = System(
    name="scribe",
    title="Scribe: a tree per topic over Pastry",
    paper="Castro et al., 2002 (baseline)",
    parameters=ScribeParameters,
    stages=Stages(
        overlay=pastry_overlay,
        trees=reverse_paths,
        upkeep=beats_on_trees_and_links,
    ),
    node=ScribeNode,
    messages=(Join, Leave, ToRoot, Multicast, TreeAlive, *KEY_ROUTING_MESSAGES),
)
