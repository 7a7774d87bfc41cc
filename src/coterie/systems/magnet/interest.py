"""A Magnet node whose trees prefer interested nodes: fewer relays over the same ring and the same links.

How it works. A node asks its links on the skewed ring what they want, and they tell it again when that changes. For a
topic only some links count: those that want it, and those before the first of these, so that there is always a way
forward. Trees follow greedy paths over the links that count. Two paths through a node still part for good, so their
union is a tree; and a node that believes something outdated of a link still builds a tree, with more relays.
"""

from __future__ import annotations

from random import Random

from coterie.model import Slice, Topic
from coterie.protocol.events import Timer
from coterie.protocol.wire import Message
from coterie.substrate.router import Contact
from coterie.systems.magnet.node import MagnetNode
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.wire import AskLikes, Likes

LIKES_DELAY_S = 0.5  # interests change in waves; one message tells them all
ASKERS_MAX = 4096


class InterestNode(MagnetNode):
    """Knows what its links want."""

    def __init__(self, address: int, parameters: MagnetParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._likes: dict[int, frozenset[Topic]] = {}  # of links on the skewed ring
        self._askers: dict[int, None] = {}  # who wants to know what we want

    def tree_links(self, topic: Topic) -> list[Contact]:
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
        super().on_start(slice)
        self._ask_likes()

    def on_subscribe(self, topic: Topic) -> None:
        super().on_subscribe(topic)
        self.set_timer("likes", LIKES_DELAY_S)

    def on_unsubscribe(self, topic: Topic) -> None:
        super().on_unsubscribe(topic)
        self.set_timer("likes", LIKES_DELAY_S)

    def on_timer(self, timer: Timer) -> None:
        if timer == "likes":
            self.send_all(self._askers, Likes(self.interest()))
            return
        super().on_timer(timer)
        if timer == "links":
            self._ask_likes()

    def on_receive(self, source: int, message: Message) -> None:
        if isinstance(message, AskLikes):
            self._askers[source] = None
            if len(self._askers) > ASKERS_MAX:
                del self._askers[next(iter(self._askers))]
            self.send(source, Likes(self.interest()))
        elif isinstance(message, Likes):
            self._learn_likes(source, frozenset(message.topics))
        else:
            super().on_receive(source, message)

    def on_neighbour_lost(self, peer: int) -> None:
        self._likes.pop(peer, None)
        self._askers.pop(peer, None)
        super().on_neighbour_lost(peer)

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
