"""What a host remembers of its leaves: nodes that no plan names yet, which get what they want through it."""

from __future__ import annotations

from coterie.accounting.tally import Tally
from coterie.broker.frames import CONTROL, encode_control, frame
from coterie.broker.links import PeerLinks
from coterie.broker.plane import LocalReceiver
from coterie.broker.said import LeafEvent
from coterie.model.plan import Topic
from coterie.protocol.events import Event
from coterie.protocol.seen import Seen

OWN_MAX = 65_536


class LeafBook:
    """Who hangs on this node and wants what; `local` is what is wanted here for its own sake."""

    def __init__(self, links: PeerLinks) -> None:
        self.local: dict[Topic, None] = {}
        self.topics_of: dict[int, dict[Topic, None]] = {}
        self.leaves_of: dict[Topic, dict[int, None]] = {}
        self.own = Seen(OWN_MAX)  # what was published here for leaves: no news if it comes back
        self._planned: dict[int, dict[int, None]] = {}  # leaf -> generations that name it
        self._links = links

    def enter(self, leaf: int) -> None:
        self.topics_of[leaf], self._planned[leaf] = {}, {}

    def add(self, leaf: int, topic: Topic) -> None:
        self.topics_of[leaf][topic] = None
        self.leaves_of.setdefault(topic, {})[leaf] = None

    def plan(self, leaf: int, generation: int) -> None:
        self._planned[leaf][generation] = None

    def remove(self, leaf: int, topic: Topic) -> bool:
        """True if nobody wants the topic any more."""
        if self.topics_of[leaf].pop(topic, 0) is not None:
            return False
        leaves = self.leaves_of[topic]
        del leaves[leaf]
        if not leaves:
            del self.leaves_of[topic]
        return not leaves and topic not in self.local

    def leave(self, leaf: int) -> list[Topic]:
        """The leaf is gone; returns what nobody wants any more."""
        lonely = [topic for topic in list(self.topics_of.get(leaf, ())) if self.remove(leaf, topic)]
        self.topics_of.pop(leaf, None)
        self._planned.pop(leaf, None)
        return lonely

    def pass_on(self, event: Event, hops: int, generation: int, but: int = -1) -> None:
        """To the leaves that want it, unless the plan it came by names them."""
        leaves = self.leaves_of.get(event.topic)
        if not leaves:
            return
        data = frame(CONTROL, encode_control(LeafEvent(event.id, str(event.topic), event.payload, hops)))
        for leaf in leaves:
            is_told = leaf != but and generation not in self._planned[leaf]
            if is_told and not self._links.send(leaf, data, is_event=True):
                self._links.shed[leaf] = None


class PassingOn:
    """Takes what a plan delivers at a host: for its leaves, and for its own clients."""

    def __init__(self, generation: int, receiver: LocalReceiver, book: LeafBook) -> None:
        self._generation, self._receiver, self._book = generation, receiver, book

    def take_event(self, event: Event, hops: int, tally: Tally) -> None:
        book = self._book
        if not book.topics_of:
            self._receiver.take_event(event, hops, tally)
        elif event.id not in book.own:
            book.pass_on(event, hops, self._generation)
            if event.topic in book.local:
                self._receiver.take_event(event, hops, tally)
