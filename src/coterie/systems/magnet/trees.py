"""A node of top-down trees on a clockwise ring, kept equal to the greedy paths from the topics' homes.

How it works. From its parent a node learns the tree's root and its own `reach`: it is responsible for all offsets
(clockwise distances from the root) from its own up to that, and a greedy path from the root to a target leads through
it exactly if it is responsible for the target. A join travels towards the topic's home until it meets somebody
responsible for the new member; from there grafts follow the greedy path down, and each says to its receiver what it is
responsible for. When links change, responsibilities change: parents tell their children, and drop those that they are
not responsible for any more, who join again. Offsets grow from parent to child, so nobody becomes its own ancestor.
Nobody is cut off because others come. Who is dropped gets events as before until it has another parent; and it leaves
only when something has come by both: till then older events may be on their way by the longer one, and newer ones wait.

Algorithm 2 grafts where the next hop towards the member is a child already. That is not enough: a node whose
longest links end before the member has such a child without being on the way from the root to the member.
"""

from __future__ import annotations

from bisect import bisect_right
from random import Random

from coterie.model import Slice, Topic
from coterie.protocol.events import Timer
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import MASK, clockwise, topic_key
from coterie.substrate.oscar import OscarRouter
from coterie.substrate.router import Contact, RingRouter
from coterie.systems.group_multicast import HOPS_MAX, Branch, Multicast
from coterie.systems.key_routing import AskState, Ping, TellState
from coterie.systems.magnet.parameters import RingParameters
from coterie.systems.magnet.rings import planned_shape
from coterie.systems.magnet.walking import WalkingNode
from coterie.systems.magnet.wire import (
    CONTROL,
    SKEWED,
    Bound,
    ChildAlive,
    Drop,
    Follow,
    Graft,
    TreeJoin,
    TreeLeave,
)

SILENT_HEARTBEATS = 3.5  # a child not heard of for so long is dropped
OVERLAP_S = 0.5  # how long the parent before is kept if nothing comes by both: longer than an event is on its way
HELD_MAX = 1000  # events
CHANGE = "change"  # the timer of that


class Child:
    """What a parent has told a child, and when it last heard of it. `is_leaving`: it gets events still, and is to get
    another parent."""

    __slots__ = ("heard_s", "is_leaving", "reach", "root", "stamp")

    def __init__(self, root: int, reach: int, heard_s: float, stamp: int) -> None:
        self.root = root
        self.reach = reach
        self.heard_s = heard_s
        self.stamp = stamp  # of our last graft: the child may have left an earlier one while this was on its way
        self.is_leaving = False


class RangedBranch(Branch):
    """A branch, and the range of offsets from the root it is responsible for; for none once its parent has dropped it,
    which goes on sending until there is another. `former` is the parent before, which is not left yet."""

    __slots__ = ("former", "former_stamp", "held", "is_dropped", "reach", "root", "stamp")
    children: dict[int, Child]

    def __init__(self, topic: Topic) -> None:
        super().__init__(topic)
        self.root: int | None = None  # its place on the ring; None until the first graft
        self.reach = 0
        self.stamp = -1  # of the parent's last graft
        self.is_dropped = False
        self.former: int | None = None
        self.former_stamp = -1
        self.held: dict[int, Multicast] = {}  # came by the parent, and not by the former one yet


class TreeNode(WalkingNode[RangedBranch]):
    """One ring for everything: the strawman. Magnet replaces the ring that leads to homes and adds membership."""

    def __init__(self, address: int, parameters: RingParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._shape = parameters.shape
        self._planned: Slice | None = None
        self._stamp = 0

    # --- rings ---

    def make_router(self, position: int) -> RingRouter:
        assert self._planned is not None
        is_joining = bool(self._planned.settings.get("join"))
        shape = self._shape if is_joining else planned_shape(self._shape, len(self._planned.neighbours))
        return OscarRouter(self.address, position, shape)

    @property
    def ring(self) -> OscarRouter:
        """The ring that trees follow."""
        assert isinstance(self.router, OscarRouter)
        return self.router

    def tree_links(self, topic: Topic) -> list[Contact]:
        """The links that this topic's tree may follow from here, by clockwise distance."""
        return self.ring.links()

    def successors(self) -> dict[int, int]:
        """Our successor on each ring -> the rings, as bits."""
        return {peer: SKEWED | CONTROL for peer, _ in self.ring.successors()[:1]}

    def in_between(self, peer: int, position: int, rings: int) -> list[Contact]:
        """Our predecessors on these rings, if they are closer than this peer who believes that it is ours."""
        return closer_predecessor(self.ring, peer, position)

    def state_of(self, peer: int, position: int) -> list[Contact]:
        return self.router.state_for(position)

    # --- hooks ---

    def on_start(self, slice: Slice) -> None:
        wanted = self._uproot()
        self._planned = slice
        super().on_start(slice)
        for topic in wanted:
            self._want(topic)

    def on_subscribe(self, topic: Topic) -> None:
        self._want(topic)

    def on_timer(self, timer: Timer) -> None:
        if timer[0] == CHANGE:
            branch = self._groups.get(timer[1])
            if branch is not None:
                self._end_change(timer[1], branch)
        else:
            super().on_timer(timer)

    def on_neighbour_lost(self, peer: int) -> None:
        for topic, branch in list(self._groups.items()):
            if branch.former == peer:
                self._end_change(topic, branch)
        super().on_neighbour_lost(peer)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, TreeJoin):
            self._on_join(source, message)
        elif isinstance(message, Graft | Bound | TreeLeave | Drop | ChildAlive):
            self._on_tree_message(source, message)
        elif isinstance(message, Follow):
            self._hear(source, message.position)
            closer = self.in_between(source, message.position, message.rings)
            if closer:
                self.send(source, TellState(tuple(closer)))
                self.send(source, Ping(self.router.position))  # or it does not know that we have moved
        elif isinstance(message, AskState):
            self._hear(source, message.position)
            known = (contact for contact in self.state_of(source, message.position) if contact[0] != source)
            self.send(source, TellState(tuple(known)))
        else:
            super().on_receive(source, message)

    def _tend(self, topic: Topic, branch: RangedBranch) -> None:
        is_root = self._is_root(topic, branch)
        if not is_root and (branch.parent is None or branch.is_dropped):
            self._join(topic, branch)
        self._review(topic, branch)
        self._prune(topic, branch)
        if branch.parent is not None and branch.root is not None and not branch.is_dropped:
            self.send(branch.parent, ChildAlive(topic, branch.root, branch.reach))

    def _on_parent_lost(self, topic: Topic, branch: RangedBranch) -> None:
        if branch.is_member or branch.children:
            self._join(topic, branch)

    def _ping(self, peers: list[int]) -> None:
        following = self.successors()
        self.send_all((peer for peer in peers if peer not in following), Ping(self.router.position))
        for peer, rings in following.items():
            if peer in peers:
                self.send(peer, Follow(self.router.position, rings))

    # --- joining (Algorithm 2) ---

    def _want(self, topic: Topic) -> None:
        branch = self._groups.get(topic)
        if branch is None:
            branch = self._groups[topic] = RangedBranch(topic)
            branch.is_member = True
            self._join(topic, branch)
        elif not branch.is_member:
            branch.is_member = True
            if branch.is_dropped:  # as a relay
                self._join(topic, branch)

    def _join(self, topic: Topic, branch: RangedBranch) -> None:
        """Phase 1: to somebody who may be on the tree, else towards its home."""
        towards = self.root_hop(branch.key)
        if towards is None:
            self._is_root(topic, branch)
        else:
            start = self.join_start(topic)
            is_climbing = start is not None
            request = TreeJoin(topic, self.address, self.ring.position, is_climbing, 1)
            self.send(towards if start is None else start, request)

    def join_start(self, topic: Topic) -> int | None:
        """Somebody known to be on the topic's tree, or None."""
        return None

    def _on_join(self, source: int, message: TreeJoin) -> None:
        """Phase 2: up the tree, or towards its home, until somebody is responsible for the member.

        A member whose own branch has come off meets its descendants on the way: climbing would lead back to it. Two who
        each take the other for nearer to the home do not agree yet: between them it would go to and fro.
        """
        if message.hops > HOPS_MAX:
            return
        topic = message.topic
        branch = self._groups.get(topic)
        towards = self.root_hop(topic_key(topic))
        if towards is None:
            if branch is None:
                branch = self._groups[topic] = RangedBranch(topic)
            self._is_root(topic, branch)
        is_on_tree = branch is not None and not branch.is_dropped
        if branch is not None and is_on_tree and self._is_responsible(branch, message.position):
            self._graft(topic, branch, message.member, message.position)
            self._prune(topic, branch)
        elif towards is not None:
            parent = branch.parent if branch is not None and is_on_tree else None
            is_climbing = message.is_climbing and parent not in (None, message.member)
            if not message.is_climbing and towards == source:
                return
            following = TreeJoin(topic, message.member, message.position, is_climbing, message.hops + 1)
            self.send(parent if is_climbing and parent is not None else towards, following)

    def _graft(self, topic: Topic, branch: RangedBranch, member: int, position: int) -> None:
        """Phase 3: the next hop of the greedy path becomes our child and passes it on."""
        own = self.ring.position
        left = clockwise(own, position)
        ahead = [contact for contact in self.tree_links(topic) if clockwise(own, contact[1]) <= left]
        if not ahead or branch.root is None:
            return  # the ring does not know the member yet; it will ask again
        towards, place = ahead[-1]
        reach = self._reach_of(topic, branch, place)
        self._stamp += 1
        branch.children[towards] = Child(branch.root, reach, self.now_s, self._stamp)
        is_first = self._is_first(topic)
        self.send(towards, Graft(topic, branch.root, reach, member, position, own, self._stamp, is_first))

    def _is_first(self, topic: Topic) -> bool:
        """Whether the child that we graft now is the one that the tree begins with."""
        return False

    # --- what parents and children say ---

    def _on_tree_message(self, source: int, message: Graft | Bound | TreeLeave | Drop | ChildAlive) -> None:
        topic = message.topic
        branch = self._groups.get(topic)
        if isinstance(message, Graft):
            self._on_graft(source, message)
        elif isinstance(message, ChildAlive):
            self._on_alive(source, message)
        elif isinstance(message, Bound):
            if branch is None or source not in (branch.parent, branch.former):
                self.send(source, TreeLeave(topic, -1))
            elif source == branch.parent:
                self._take_place(topic, branch, message.root, message.reach)
                self._prune(topic, branch)
        elif isinstance(message, TreeLeave) and branch is not None:
            child = branch.children.get(source)
            if child is not None and (message.stamp < 0 or message.stamp >= child.stamp):
                if message.is_soon:
                    child.is_leaving = True
                    return
                del branch.children[source]
                self._prune(topic, branch)
        elif isinstance(message, Drop) and branch is not None and branch.parent == source:
            branch.is_dropped = True
            self._prune(topic, branch)
            if topic in self._groups:
                self._join(topic, branch)

    def _on_graft(self, source: int, message: Graft) -> None:
        topic = message.topic
        if self.root_hop(topic_key(topic)) is None:
            self.send(source, TreeLeave(topic, message.stamp))  # whoever sent this does not know that the home is here
            return
        if clockwise(message.root, self.ring.position) <= clockwise(message.root, message.place):
            # Nor where we are: a child before its parent, and grafts could go round in circles.
            self.send(source, TreeLeave(topic, message.stamp))
            self.send(source, Ping(self.router.position))
            return
        branch = self._groups.get(topic)
        if branch is None:
            branch = self._groups[topic] = RangedBranch(topic)
        if branch.parent is not None and branch.parent != source:
            self._begin_change(topic, branch)
        branch.parent, branch.stamp, branch.is_dropped = source, message.stamp, False
        branch.children.pop(source, None)
        self._take_place(topic, branch, message.root, message.reach)
        if message.member != self.address and self._is_responsible(branch, message.position):
            self._graft(topic, branch, message.member, message.position)
        self._prune(topic, branch)

    def _on_alive(self, source: int, message: ChildAlive) -> None:
        branch = self._groups.get(message.topic)
        child = None if branch is None else branch.children.get(source)
        if child is None or child.is_leaving:
            self.send(source, Drop(message.topic))
            return
        child.heard_s = self.now_s
        if (child.root, child.reach) != (message.root, message.reach):
            self.send(source, Bound(message.topic, child.root, child.reach))

    # --- from one parent to the next ---

    def _begin_change(self, topic: Topic, branch: RangedBranch) -> None:
        self._end_change(topic, branch)  # of the one before
        branch.former, branch.former_stamp = branch.parent, branch.stamp
        self.set_timer((CHANGE, topic), OVERLAP_S)

    def _end_change(self, topic: Topic, branch: RangedBranch) -> None:
        former, held = branch.former, branch.held
        if former is None:
            return
        branch.former, branch.held = None, {}
        self.cancel_timer((CHANGE, topic))
        if former != branch.parent:
            self.send(former, TreeLeave(topic, branch.former_stamp))
        for message in held.values():
            if self._seen.add(message.event.id):
                self._spread(message.event, message.hops, branch, branch.parent)

    def _from_parent(self, source: int, message: Multicast) -> None:
        """What both send comes in the same order by both: what was before that has come as well then."""
        topic, identifier = message.event.topic, message.event.id
        branch = self._groups.get(topic)
        if branch is None or branch.former is None or source not in (branch.parent, branch.former):
            super()._from_parent(source, message)
        elif source == branch.former and identifier not in branch.held:
            if self._seen.add(identifier):
                self._spread(message.event, message.hops, branch, source)
        elif source == branch.former or identifier in self._seen or len(branch.held) == HELD_MAX:
            branch.held.setdefault(identifier, message)
            self._end_change(topic, branch)
        else:
            branch.held[identifier] = message

    def _prune(self, topic: Topic, branch: RangedBranch) -> None:
        super()._prune(topic, branch)
        if self._groups.get(topic) is not branch:
            self._end_change(topic, branch)

    # --- responsibility ---

    def _is_root(self, topic: Topic, branch: RangedBranch) -> bool:
        """Whether the topic's home is here; if so, make sure that its tree begins here."""
        if self.root_hop(branch.key) is not None:
            return False
        if branch.parent is not None:
            self._leave(branch.parent, topic, branch)
            branch.parent = None
        branch.is_dropped = False
        self._end_change(topic, branch)
        self._take_place(topic, branch, self.ring.position, MASK)
        return True

    def _take_place(self, topic: Topic, branch: RangedBranch, root: int, reach: int) -> None:
        if (branch.root, branch.reach) != (root, reach):
            branch.root, branch.reach = root, reach
            self._review(topic, branch)

    def _is_responsible(self, branch: RangedBranch, position: int) -> bool:
        """For a target other than ourselves."""
        if branch.root is None:
            return False
        return clockwise(branch.root, self.ring.position) < clockwise(branch.root, position) <= branch.reach

    def _reach_of(self, topic: Topic, branch: RangedBranch, place: int) -> int:
        """How far a child there reaches: to where our next link takes over, but not further than ourselves."""
        assert branch.root is not None
        own = self.ring.position
        ahead = [clockwise(own, position) for _, position in self.tree_links(topic)]
        following = bisect_right(ahead, clockwise(own, place))
        if following == len(ahead):
            return branch.reach
        return min(branch.reach, clockwise(branch.root, own) + ahead[following] - 1)

    def _review(self, topic: Topic, branch: RangedBranch) -> None:
        """After links or our own place may have changed: tell children what changed for them, drop who is not ours."""
        is_late_s = self.now_s - SILENT_HEARTBEATS * self._tree_heartbeat_s
        places = dict(self.tree_links(topic))
        for peer, child in list(branch.children.items()):
            place = places.get(peer)
            if child.heard_s < is_late_s:
                del branch.children[peer]
                self.send(peer, Drop(topic))
                continue
            if place is None or child.is_leaving or not self._is_responsible(branch, place):
                self._let_go(topic, peer, child)
                continue
            assert branch.root is not None
            reach = self._reach_of(topic, branch, place)
            if (child.root, child.reach) != (branch.root, reach):
                child.root, child.reach = branch.root, reach
                self.send(peer, Bound(topic, branch.root, reach))

    def _let_go(self, topic: Topic, peer: int, child: Child) -> None:
        """It is to join elsewhere, and leaves when it has."""
        if not child.is_leaving:
            child.is_leaving, child.heard_s = True, self.now_s
            self.send(peer, Drop(topic))

    def _leave(self, parent: int, topic: Topic, branch: RangedBranch | None) -> None:
        self.send(parent, TreeLeave(topic, -1 if branch is None else branch.stamp))

    def _uproot(self) -> list[Topic]:
        """Leave every tree and let go of all children; the topics that are still wanted."""
        wanted = [topic for topic, branch in self._groups.items() if branch.is_member]
        for topic, branch in self._groups.items():
            if branch.parent is not None:
                self._leave(branch.parent, topic, branch)
            self.send_all(branch.children, Drop(topic))
        self._groups = {}
        return wanted


def closer_predecessor(router: RingRouter, peer: int, position: int) -> list[Contact]:
    """Our predecessor on this ring, unless it is that peer or lies behind it."""
    for contact in router.predecessors()[:1]:
        if contact[0] != peer and clockwise(contact[1], router.position) < clockwise(position, router.position):
            return [contact]
    return []
