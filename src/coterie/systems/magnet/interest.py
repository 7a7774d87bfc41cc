"""A Magnet node whose trees begin with a subscriber and prefer interested nodes: fewer relays over the same links.

How it works. A node asks its links on the skewed ring what they want, and they tell it again when that changes. For a
topic only some links count: those that want it, and those before the first of these, so that there is always a way
forward. Trees follow greedy paths over the links that count. Two paths through a node still part for good, so their
union is a tree; and a node that believes something outdated of a link still builds a tree, with more relays.

A home sits anywhere on the ring; the way from there to the first subscriber would be relays. So the home of a topic it
does not want has one link for it, to the first subscriber clockwise, and the tree goes on from that. Joins of those
in front of the first reach the home, for nobody else is responsible for them, and the first one becomes the second. A
first that loses its interest gives up its branch, and so does a relay that loses its parent: those below join again.
"""

from __future__ import annotations

from random import Random

from coterie.model import Slice, Topic
from coterie.protocol.events import Timer
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import clockwise, topic_key
from coterie.substrate.router import Contact
from coterie.systems.magnet.node import MagnetNode
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.trees import RangedBranch
from coterie.systems.magnet.wire import AskLikes, Graft, TreeJoin, TreeLeave, Wants

LIKES_DELAY_S = 0.5  # interests change in waves; one message tells them all
ASKERS_MAX = 4096


class InterestNode(MagnetNode):
    """Knows what its links want."""

    def __init__(self, address: int, parameters: MagnetParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._likes: dict[int, frozenset[Topic]] = {}  # of links on the skewed ring
        self._askers: dict[int, None] = {}  # who wants to know what we want
        self._firsts: dict[Topic, Contact] = {}  # of topics that have their home here: whom the tree begins with
        self._is_first_of: dict[Topic, None] = {}  # topics whose trees begin here

    def tree_links(self, topic: Topic) -> list[Contact]:
        if self._is_bare_home(topic):
            return [self._firsts[topic]] if topic in self._firsts else []
        links = self.ring.links()
        counting: list[Contact] = []
        has_liked = False
        for contact in links:
            is_liked = topic in self._likes.get(contact[0], ())
            if is_liked or not has_liked:
                counting.append(contact)
            has_liked = has_liked or is_liked
        return counting

    def on_start(self, slice: Slice) -> None:
        self._likes = {}
        self._firsts = {}
        self._is_first_of = {}
        super().on_start(slice)
        self._ask_likes()

    def on_subscribe(self, topic: Topic) -> None:
        super().on_subscribe(topic)
        self.set_timer("likes", LIKES_DELAY_S)
        self._look_again(topic)

    def on_unsubscribe(self, topic: Topic) -> None:
        super().on_unsubscribe(topic)
        self.set_timer("likes", LIKES_DELAY_S)
        self._firsts.pop(topic, None)
        self._look_again(topic)
        branch = self._groups.get(topic)
        if branch is not None and topic in self._is_first_of:
            if branch.parent is not None:  # others join meanwhile, and one of them is the first then
                self.send(branch.parent, TreeLeave(topic, branch.stamp, is_soon=True))
            self._dissolve(topic, branch)
        self._is_first_of.pop(topic, None)

    def on_timer(self, timer: Timer) -> None:
        if timer == "likes":
            self.send_all(self._askers, Wants(self.interest()))
            return
        super().on_timer(timer)
        if timer == "links":
            self._ask_likes()

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, AskLikes):
            self._askers[source] = None
            if len(self._askers) > ASKERS_MAX:
                del self._askers[next(iter(self._askers))]
            self.send(source, Wants(self.interest()))
        elif isinstance(message, Wants):
            self._learn_likes(source, frozenset(message.topics))
        else:
            super().on_receive(source, message)

    def on_neighbour_lost(self, peer: int) -> None:
        self._likes.pop(peer, None)
        self._askers.pop(peer, None)
        super().on_neighbour_lost(peer)

    # --- where trees begin ---

    def _is_bare_home(self, topic: Topic) -> bool:
        """Whether the topic's home is here, and nobody here wants it."""
        if self.root_hop(topic_key(topic)) is not None:
            return False
        branch = self._groups.get(topic)
        return branch is None or not branch.is_member

    def _is_first(self, topic: Topic) -> bool:
        return self._is_bare_home(topic)

    def _join(self, topic: Topic, branch: RangedBranch) -> None:
        """Only subscribers join: a tree must not begin with a relay."""
        if branch.is_member or self.root_hop(branch.key) is None:
            super()._join(topic, branch)
        else:
            self._dissolve(topic, branch)

    def _dissolve(self, topic: Topic, branch: RangedBranch) -> None:
        """Whoever is below joins again, and is served until then; nobody joins here."""
        branch.is_dropped = True
        for peer, child in branch.children.items():
            self._let_go(topic, peer, child)
        self._prune(topic, branch)

    def _graft(self, topic: Topic, branch: RangedBranch, member: int, position: int) -> None:
        if self._is_bare_home(topic):
            own = self.ring.position
            first = self._firsts.get(topic)
            child = None if first is None else branch.children.get(first[0])
            is_there = child is not None and not child.is_leaving
            if first is None or not is_there or clockwise(own, position) <= clockwise(own, first[1]):
                self._firsts[topic] = (member, position)
                self._review(topic, branch)
        else:
            self._firsts.pop(topic, None)
        super()._graft(topic, branch, member, position)

    def _on_graft(self, source: int, message: Graft) -> None:
        branch = self._groups.get(message.topic)
        self._is_first_of.pop(message.topic, None)
        if message.is_first:
            if branch is None or not branch.is_member:
                # Our leaving and this have crossed; whoever it was for needs another way.
                self.send(source, TreeLeave(message.topic, message.stamp))
                if message.member != self.address:
                    self.send(source, TreeJoin(message.topic, message.member, message.position, False, 1))
                return
            self._is_first_of[message.topic] = None
        super()._on_graft(source, message)

    def _look_again(self, topic: Topic) -> None:
        """The home's links for a topic are others when it wants it itself."""
        branch = self._groups.get(topic)
        if branch is not None and self.root_hop(branch.key) is None:
            self._review(topic, branch)
            self._prune(topic, branch)

    # --- what links want ---

    def _ask_likes(self) -> None:
        """Of links we know nothing of yet; what we knew of others is forgotten."""
        links = [peer for peer, _ in self.ring.links()]
        self._likes = {peer: self._likes[peer] for peer in links if peer in self._likes}
        self.send_all((peer for peer in links if peer not in self._likes), AskLikes())

    def _learn_likes(self, peer: int, topics: frozenset[Topic]) -> None:
        changed = topics ^ self._likes.get(peer, frozenset())
        self._likes[peer] = topics
        for topic, branch in list(self._groups.items()):
            if topic in changed:
                self._review(topic, branch)
                self._prune(topic, branch)
