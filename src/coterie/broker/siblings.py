"""The processes of one machine: what each of them wants, told to the others, and whether all of that is known.

They share a *board*: a rising number for each, which all see at once. Whoever is about to want something more raises
its number first, then tells its siblings, and grants it last. So who reads exactly the numbers that it has been told
knows everything that was granted anywhere on this machine at that moment: what no sibling wants then need neither be
kept nor sent anywhere, without a lease and without a clock. Who reads another number is in doubt: it keeps what it
takes in its log, sends it to all siblings, and they know what they want of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from coterie.broker.links import PeerLinks
from coterie.broker.said import SiblingWants
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.mqtt.index import SubscriptionIndex
from coterie.mqtt.packets import Subscription
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions
from coterie.mqtt.topics import split_shared

PLAIN, LASTING, SHARED = range(3)  # what a wish asks for: nothing more, that it is kept, that it goes by turns
GONE = -1
WANTS_MAX = 2_000  # in a message
NUMBER_BYTES = 8
NEVER = b"\xff" * NUMBER_BYTES


class WishBoard(Protocol):
    """See the module; the driver provides it, for all processes of a machine, each with its own place on it."""

    def all(self) -> bytes:
        """The numbers of all, 8 bytes each, the lowest first, as they are right now."""
        ...

    def advance(self) -> int:
        """Raise this process's number by one; when it returns, the others see it."""
        ...


def kind_of(session: Session, topic_filter: str) -> int:
    """What a session's wish asks for. One that is on its way here will last."""
    if split_shared(topic_filter)[0]:
        return SHARED
    return LASTING if session.expiry_s or session.journal is not None or session.collected is not None else PLAIN


class Siblings:
    """See the module. `others` are the other processes of this machine; `is_direct`: there are no other nodes."""

    def __init__(
        self, node: int, machine: tuple[int, ...], board: WishBoard, links: PeerLinks, talk: Talk, sessions: Sessions,
        turn: Turn,
    ) -> None:  # fmt: skip
        self.others = tuple(one for one in machine if one != node)
        self.is_sure = False
        self.is_direct = True
        self._machine, self._slot, self._board = machine, machine.index(node), board
        self._links, self._talk, self._index, self._turn = links, talk, sessions.index, turn
        self._mine: dict[str, int] = {}
        self._news: dict[str, int] = {}
        self._number = 0
        self._is_by_itself = True
        self._has_lasting = False
        self._strangers: set[int] = set()  # siblings that know of other nodes
        self._lasting: set[int] = set()  # siblings that have sessions that last
        self._told = [NEVER] * len(machine)
        self._expected = b""
        self._of: dict[int, dict[str, int]] = {one: {} for one in self.others}
        self._wanted: SubscriptionIndex[int] = SubscriptionIndex()

    def start(self) -> None:
        """In a new life: what others were told in the last one holds no longer."""
        self._advance()

    # --- what is wanted here ---

    def enter(self, topic_filter: str, kind: int) -> None:
        """Somebody here wants it from now on; it is told with the next `tell`. What asked for more once, does until
        nobody wants it."""
        if not topic_filter.startswith("$") and kind > self._mine.get(topic_filter, GONE):
            self._mine[topic_filter] = self._news[topic_filter] = kind
            self._advance()

    def leave(self, topic_filter: str) -> None:
        """The last one has given it up."""
        if self._mine.pop(topic_filter, None) is not None:
            self._news[topic_filter] = GONE
            self._advance()

    def lasts(self, session: Session) -> None:
        """It outlives its connection from now on: no way that was found before holds."""
        for one in session.subscriptions:
            self.enter(split_shared(one)[1], kind_of(session, one))
        self._index.version += 1
        self.tell()

    def note_lasting(self, is_used: bool) -> None:
        """Whether sessions that last are here, or were in this life."""
        if is_used and not self._has_lasting:
            self._has_lasting = True
            self._tell_myself()

    def _tell_myself(self) -> None:
        self._advance()
        for peer in self.others:
            if self._links.is_connected(peer):
                self._tell(peer, (), False)

    def tell(self) -> None:
        """What is new; part of the cascade that is under way, so that SUBACK waits for it."""
        if self._news:
            news, self._news = self._news, {}
            for peer in self.others:
                if self._links.is_connected(peer):
                    self._tell(peer, news.items(), False)

    def tell_all(self, peer: int) -> None:
        """To a sibling that is there again: all of it."""
        if peer in self._of:
            self._tell(peer, self._mine.items(), True)

    def _tell(self, peer: int, wants: Iterable[tuple[str, int]], is_whole: bool) -> None:
        rest = tuple(wants)
        while True:
            part, rest = rest[:WANTS_MAX], rest[WANTS_MAX:]
            number = 0 if rest else self._number  # nothing is certain before the last part
            self._talk.tell(peer, SiblingWants(number, part, is_whole, self._is_by_itself, self._has_lasting))
            is_whole = False
            if not rest:
                return

    def _advance(self) -> None:
        self._number = self._board.advance()
        self._note(self._slot, self._number)

    # --- what they want ---

    def hear(self, peer: int, said: SiblingWants) -> None:
        if peer not in self._of:
            return
        known = self._of[peer]
        if said.is_whole:
            for topic_filter in known:
                self._wanted.unsubscribe(peer, topic_filter)
            known.clear()
        for topic_filter, kind in said.wants:
            if kind == GONE:
                if known.pop(topic_filter, None) is not None:
                    self._wanted.unsubscribe(peer, topic_filter)
            else:
                known[topic_filter] = kind
                self._wanted.subscribe(peer, Subscription(topic_filter, kind))
        (self._strangers.discard if said.is_by_itself else self._strangers.add)(peer)
        (self._lasting.add if said.has_lasting else self._lasting.discard)(peer)
        self._index.version += 1  # no route holds any longer
        self.is_direct = self._is_by_itself and not self._strangers
        if said.number:
            self._note(self._machine.index(peer), said.number)

    def _note(self, slot: int, number: int) -> None:
        self._told[slot] = number.to_bytes(NUMBER_BYTES, "little")
        self._expected = b"".join(self._told)

    def set_members(self) -> None:
        """Those who belong to the network may be others than before. Who left wants nothing, whatever it was told."""
        peers = self._links.peers
        is_by_itself = all(peer in self._of for peer in peers)
        for slot, peer in enumerate(self._machine):
            if peer in self._of and peer not in peers:
                self.hear(peer, SiblingWants(0, (), True, True, False))
                self._told[slot] = self._board.all()[slot * NUMBER_BYTES : (slot + 1) * NUMBER_BYTES]
        self._expected = b"".join(self._told)
        if is_by_itself != self._is_by_itself:
            self._is_by_itself = is_by_itself
            self.is_direct = is_by_itself and not self._strangers
            self._index.version += 1
            self._tell_myself()

    def look(self) -> bool:
        """Whether what they want is known, all of it, at this moment; behind the last byte of what is to be judged."""
        self.is_sure = self._board.all() == self._expected
        return self.is_sure

    def have_nothing(self) -> bool:
        """Whether for certain no session is anywhere else that lasts."""
        return self.is_direct and not self._lasting and self.look()

    def wanting(self, topic: str) -> tuple[tuple[int, ...], int]:
        """Who wants a topic, as far as they have told, and the most that one of them asks for."""
        receivers = self._wanted.matches(topic).receivers
        return tuple(one.receiver for one in receivers), max((one.qos for one in receivers), default=PLAIN)

    def in_question(self, topic: str) -> tuple[int, ...]:
        """Who wants it, or may."""
        return self.wanting(topic)[0] if self.look() else self.others
