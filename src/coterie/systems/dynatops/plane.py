"""One control plane of a broker: its place on the ring and its part of every topic routing tree.

Whoever wants a topic sends a Join towards the topic's key. The root answers with a Graft that travels down the greedy
path to the member and makes every broker on it a child of the one before, so a tree is the union of the paths from its
root. Who has neither subscribers nor children prunes itself. Edges carry epochs, so that a Prune that crosses a newer
Graft does no harm. Once per interval the root says down the tree that it stands; who does not hear it dissolves its
part, and whoever wants the topic joins again.
"""

from __future__ import annotations

from coterie.model.plan import Topic
from coterie.protocol.events import Event, EventMessage
from coterie.protocol.node import OverlayNode
from coterie.protocol.seen import Seen
from coterie.substrate.chord import ChordRouter
from coterie.substrate.identifiers import topic_key
from coterie.systems.dynatops.messages import (
    TREE_HOPS_MAX,
    Dissolve,
    EdgeAlive,
    Inbound,
    Prune,
    RootJoin,
    TreeGraft,
    TreeMulticast,
)
from coterie.systems.dynatops.parameters import DynatopsParameters
from coterie.systems.reliable_events import Keeper, Replay

SILENT_HEARTBEATS = 2.5  # a root not heard of for so long is lost
IDLE_S = 10.0  # how long an edge nobody needs may wait for the Graft that explains it


class TreeBranch:
    """What a broker knows of one tree it is on."""

    __slots__ = ("children", "epoch", "heard_s", "key", "parent")

    def __init__(self, topic: Topic, now_s: float) -> None:
        self.key = topic_key(topic)
        self.parent: int | None = None
        self.epoch = -1  # of the edge from the parent
        self.children: dict[int, int] = {}  # child -> epoch of the edge
        self.heard_s = now_s


class RingPlane:
    """Trees over one router. `wants`, `seen` and `keeper` belong to the broker and are shared by its planes."""

    def __init__(
        self,
        node: OverlayNode,
        version: int,
        router: ChordRouter,
        wants: dict[Topic, float],
        seen: Seen,
        parameters: DynatopsParameters,
        keeper: Keeper | None = None,
    ) -> None:
        self._node = node
        self.version = version
        self.router = router
        self._wants = wants
        self._seen = seen
        self._retry_s = parameters.retry_s
        self._heartbeat_s = parameters.tree_heartbeat_s
        self._keeper = keeper
        self.branches: dict[Topic, TreeBranch] = {}
        self.joining: dict[Topic, int] = {}  # topics asked for and not yet reached, with attempts made
        self.is_open = True  # follows the subscriptions; a plane under construction does not yet
        self._epoch = 0

    # --- coming and going ---

    def enter(self, topic: Topic) -> None:
        """Get onto the tree, unless we are there."""
        branch = self.branches.get(topic)
        if branch is not None and (branch.parent is not None or self.is_root(branch)):
            return
        if topic not in self.joining:
            self.joining[topic] = 0
            self._ask(topic)

    def leave(self, topic: Topic) -> None:
        """Nobody here wants it any more."""
        if topic not in self.branches:
            self.forget_join(topic)
        self._prune_if_idle(topic)

    def retry(self, topic: Topic) -> None:
        if topic in self.joining:
            self._ask(topic)

    def is_root(self, branch: TreeBranch) -> bool:
        return self.router.next_hop(branch.key) is None

    def needs(self, topic: Topic) -> bool:
        branch = self.branches.get(topic)
        return topic in self._wants or (branch is not None and bool(branch.children))

    def forget_join(self, topic: Topic) -> None:
        if self.joining.pop(topic, None) is not None:
            self._node.cancel_timer(("join", self.version, topic))

    def _ask(self, topic: Topic) -> None:
        towards = self.router.next_hop(topic_key(topic))
        if towards is None:
            branch = self._branch(topic)
            self._cut_from_parent(topic, branch)
            self.forget_join(topic)
            return
        attempts = self.joining[topic]
        self.joining[topic] = attempts + 1
        back_s = self._node.now_s - self._wants.get(topic, 0.0)
        self._node.send(towards, RootJoin(self.version, topic, self._node.address, self.router.position, back_s))
        self._node.set_timer(("join", self.version, topic), min(self._retry_s * 2**attempts, self._heartbeat_s))

    def _branch(self, topic: Topic) -> TreeBranch:
        branch = self.branches.get(topic)
        if branch is None:
            branch = self.branches[topic] = TreeBranch(topic, self._node.now_s)
        return branch

    def _cut_from_parent(self, topic: Topic, branch: TreeBranch) -> None:
        if branch.parent is not None:
            self._node.send(branch.parent, Prune(self.version, topic, branch.epoch))
            branch.parent, branch.epoch = None, -1

    def _prune_if_idle(self, topic: Topic) -> None:
        branch = self.branches.get(topic)
        if branch is not None and not branch.children and topic not in self._wants:
            self._cut_from_parent(topic, branch)
            self.forget_join(topic)
            del self.branches[topic]

    def next_epoch(self) -> int:
        self._epoch = max(self._epoch + 1, round(self._node.now_s * 1e6))  # rises through restarts too
        return self._epoch

    # --- messages about trees ---

    def on_join(self, message: RootJoin) -> None:
        towards = self.router.next_hop(topic_key(message.topic))
        if towards is not None:
            if message.hops < TREE_HOPS_MAX:
                hops = message.hops + 1
                onward = RootJoin(self.version, message.topic, message.member, message.position, message.back_s, hops)
                self._node.send(towards, onward)
            return
        branch = self._branch(message.topic)
        self._cut_from_parent(message.topic, branch)
        self._lead_on(branch, message, hops=1)
        self._prune_if_idle(message.topic)

    def on_graft(self, source: int, message: TreeGraft) -> None:
        topic = message.topic
        branch = self._branch(topic)
        self._offered(topic, branch, source, message.epoch)
        if message.member != self._node.address and message.hops < TREE_HOPS_MAX:
            self._lead_on(branch, message, message.hops + 1)
        self._prune_if_idle(topic)

    def _lead_on(self, branch: TreeBranch, message: RootJoin | TreeGraft, hops: int) -> None:
        """The next edge of the path to the member."""
        topic, member, position, back_s = message.topic, message.member, message.position, message.back_s
        child = self.router.next_hop(position)
        if child is None or child == branch.parent:
            return
        epoch = branch.children[child] = self.next_epoch()
        self._node.send(child, TreeGraft(self.version, topic, member, position, epoch, back_s, hops))
        if self._keeper is not None:
            self._keeper.gained_child(topic, child, back_s)

    def _offered(self, topic: Topic, branch: TreeBranch, source: int, epoch: int) -> None:
        """Somebody says it is our parent: of two parents the newer edge counts."""
        is_new_edge = epoch > branch.epoch
        if source == branch.parent:
            branch.epoch = max(branch.epoch, epoch)
        elif epoch > branch.epoch:
            self._cut_from_parent(topic, branch)
            branch.parent, branch.epoch = source, epoch
            branch.children.pop(source, None)
        else:
            self._node.send(source, Prune(self.version, topic, epoch))
            return
        branch.heard_s = self._node.now_s
        self.forget_join(topic)
        if is_new_edge and self._keeper is not None:
            self._keeper.gained_parent(topic, source)

    def adopted_by(self, source: int, topic: Topic, epoch: int) -> None:
        """The parent's word in a handover (step 3.1)."""
        self._offered(topic, self._branch(topic), source, epoch)

    def add_child(self, topic: Topic, child: int) -> int:
        """An edge taken over from another plane; its epoch."""
        epoch = self._branch(topic).children[child] = self.next_epoch()
        return epoch

    def on_prune(self, source: int, message: Prune) -> None:
        branch = self.branches.get(message.topic)
        if branch is not None and branch.children.get(source, message.epoch + 1) <= message.epoch:
            del branch.children[source]
            self._prune_if_idle(message.topic)

    def on_dissolve(self, source: int, message: Dissolve) -> None:
        branch = self.branches.get(message.topic)
        if branch is not None and branch.parent == source:
            self.dissolve(message.topic)

    def dissolve(self, topic: Topic) -> None:
        """Give the branch up; whoever wants the topic, here and below, joins again."""
        if self._keeper is not None:
            self._keeper.fell_off(topic)
        branch = self.branches.pop(topic)
        self._node.send_all(branch.children, Dissolve(self.version, topic))
        if branch.parent is not None:
            self._node.send(branch.parent, Prune(self.version, topic, branch.epoch))
        if topic in self._wants:
            self.enter(topic)
        else:
            self.forget_join(topic)

    # --- keeping alive ---

    def beat(self) -> None:
        """Once per heartbeat: roots speak, and who has not heard of its root gives up."""
        silent_s = SILENT_HEARTBEATS * self._heartbeat_s
        for topic, branch in list(self.branches.items()):
            if self.is_root(branch):
                self._cut_from_parent(topic, branch)
                self._pass_on(topic, branch, hops=1)
            elif (branch.parent is None and topic not in self.joining) or self._node.now_s - branch.heard_s > silent_s:
                self.dissolve(topic)

    def on_tree_alive(self, source: int, message: EdgeAlive) -> None:
        if message.hops >= TREE_HOPS_MAX:
            return
        topic = message.topic
        is_new = topic not in self.branches
        branch = self._branch(topic)
        self._offered(topic, branch, source, message.epoch)
        if is_new and topic not in self._wants:
            # Perhaps the Graft of this edge is still under way: wait before sending it back.
            self._node.set_timer(("idle", self.version, topic), IDLE_S)
        if branch.parent == source:
            self._pass_on(topic, branch, message.hops + 1)

    def on_idle(self, topic: Topic) -> None:
        self._prune_if_idle(topic)

    def _pass_on(self, topic: Topic, branch: TreeBranch, hops: int) -> None:
        for child, epoch in branch.children.items():
            self._node.send(child, EdgeAlive(self.version, topic, epoch, hops))

    def on_lost(self, peer: int) -> None:
        for topic, branch in list(self.branches.items()):
            branch.children.pop(peer, None)
            if branch.parent == peer:
                branch.parent, branch.epoch = None, -1
                self.dissolve(topic)
            else:
                self._prune_if_idle(topic)

    # --- events ---

    def towards_root(self, event: Event, hops: int, source: int | None = None, age_s: float = 0.0) -> None:
        if self._keeper is not None and not self._keeper.carry(event, hops, source, age_s):
            return
        towards = self.router.next_hop(topic_key(event.topic))
        if towards is not None:
            if hops < TREE_HOPS_MAX:
                self._node.send(towards, Inbound(event, hops + 1, self.version))
        else:
            self.spread(event, hops, None, age_s)

    def spread(self, event: Event, hops: int, source: int | None, age_s: float = 0.0) -> None:
        """Deliver and pass on down the tree, once."""
        keeper = self._keeper
        if not self._seen.add(event.id):
            if keeper is not None and source is not None:
                keeper.again(event.id, source)
            return
        is_wanted = self._node.now_s - age_s >= self._wants.get(event.topic, float("inf"))
        if is_wanted:
            self._node.deliver(event, hops)
        branch = self.branches.get(event.topic)
        children = [] if branch is None else [child for child in branch.children if child != source]
        copy: EventMessage = TreeMulticast(event, hops + 1, self.version)
        if age_s:
            copy = Replay(event, hops + 1, False, age_s)
        self._node.send_all(children, copy)
        if keeper is not None:
            keeper.spread(event, hops, source, children, age_s, is_wanted)
