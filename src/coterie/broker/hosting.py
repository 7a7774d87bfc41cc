"""A node of a plan as host of leaves (`leaf`): it wants what they want, and publishes what they publish."""

from __future__ import annotations

from coterie.broker.carried import decode_carried
from coterie.broker.cascades import Cascades
from coterie.broker.delivering import Delivering
from coterie.broker.detours import Detours
from coterie.broker.frames import Detoured
from coterie.broker.leaf import LeafPlane
from coterie.broker.leafbook import LeafBook
from coterie.broker.planes import ControlPlanes
from coterie.broker.said import (
    AboutLeaves,
    HangOn,
    Hosted,
    LeafDrops,
    LeafEvent,
    LeafPlanned,
    LeafServed,
    LeafWants,
)
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.protocol.events import Event, Published
from coterie.protocol.seen import Seen


class Hosting:
    """See the module. What hosts say to a leaf goes to the plane that it is."""

    def __init__(
        self, planes: ControlPlanes, book: LeafBook, delivering: Delivering, cascades: Cascades, detours: Detours,
        talk: Talk, turn: Turn,
    ) -> None:  # fmt: skip
        self.is_closed = False
        self._around = Seen()
        self._planes, self._book, self._delivering = planes, book, delivering
        self._cascades, self._detours, self._talk, self._turn = cascades, detours, talk, turn

    @property
    def leaves(self) -> list[int]:
        return list(self._book.topics_of)

    def hear(self, peer: int, said: AboutLeaves) -> None:
        if isinstance(said, HangOn):
            self._take_in(peer)
        elif peer not in self._book.topics_of:
            if isinstance(said, LeafWants):  # it believes in a host that has forgotten it
                self._talk.tell(peer, Hosted(False))
            planes = [plane for plane in self._planes.running() if isinstance(plane, LeafPlane)]
            if not planes and said == Hosted(True):  # a plan names this node by now
                self._talk.tell(peer, LeafDrops(()))
            for plane in planes:
                plane.hear(peer, said)
        else:
            self._serve(peer, said)

    def _take_in(self, leaf: int) -> None:
        is_host = not self.is_closed and not isinstance(self._planes.in_use, LeafPlane)
        self.lost(leaf)
        if is_host:
            self._book.enter(leaf)
        self._talk.tell(leaf, Hosted(is_host))

    def _serve(self, leaf: int, said: AboutLeaves) -> None:
        match said:
            case LeafWants():
                self._want(leaf, said.topics)
            case LeafDrops(()):
                self.lost(leaf)
            case LeafDrops():
                for topic in said.topics:
                    if self._book.remove(leaf, topic):
                        self._planes.release(topic)
            case LeafPlanned():
                self._book.plan(leaf, said.generation)
            case LeafEvent():
                self._publish(leaf, said)
            case _:
                pass

    def _want(self, leaf: int, topics: tuple[str, ...]) -> None:
        def served() -> None:
            self._detours.when_served(topics, told)

        def told() -> None:
            if leaf in self._book.topics_of:
                self._talk.tell(leaf, LeafServed(topics))

        outer = self._cascades.current
        cascade = self._cascades.begin(served, self._turn.now_s)
        for topic in topics:
            self._book.add(leaf, topic)
            self._planes.hold(topic)
        self._cascades.end(cascade)
        self._cascades.current = outer

    def _publish(self, leaf: int, said: LeafEvent) -> None:
        event, book, plane = Event(said.id, said.topic, said.payload), self._book, self._planes.in_use
        if not book.own.add(event.id):
            return
        plane.step(Published(event))
        book.pass_on(event, said.hops, -1, but=leaf)
        if event.topic in book.local:
            self._delivering.take_event(event, said.hops, plane.tally)

    def detoured(self, said: Detoured) -> None:
        """A copy that came around the plan; leaves know what they want of it. Once each: while plans change, a leaf may
        be a host of its host."""
        if self._book.topics_of and self._around.add(decode_carried(said.body).id):
            for leaf in self._book.topics_of:
                self._talk.tell(leaf, said)

    def reached(self, peer: int) -> None:
        for plane in self._planes.running():
            if isinstance(plane, LeafPlane):
                plane.reached(peer)

    def lost(self, leaf: int) -> None:
        for topic in self._book.leave(leaf):
            self._planes.release(topic)

    def close(self) -> None:
        """This node is leaving: whoever hangs on it looks for another host."""
        self.is_closed = True
        for leaf in self.leaves:
            self._talk.tell(leaf, Hosted(False))
            self.lost(leaf)
