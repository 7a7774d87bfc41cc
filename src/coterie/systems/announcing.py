"""The lower tier of systems whose nodes tell each other what they want: `mesh` tells all, `star` its hub, `homes` the
topic's home.

A node announces the first subscriber of a topic and the last one's leaving to whoever it reports to, and keeps what was
announced to it. Every heartbeat carries a digest of all that its sender announced, so a word that was lost, or a memory
that went with a crash, shows at the next one: who finds the digest different from what it keeps asks for the whole
interest. Nothing is forgotten when a peer cannot be reached; it is greeted until it answers, and the digests tell what
has changed meanwhile. All of it is state, none of it history: neither order nor repetition of messages matters in the
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import ClassVar

from coterie.model import Slice, Topic
from coterie.protocol.events import Timer
from coterie.protocol.node import OverlayNode
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import topic_key
from coterie.trace import Traffic

SOON_S, AGAIN_S = 0.5, 5.0  # until a peer that could not be reached is greeted again: first, then always
PART_BYTES = 1 << 18  # of topics in one message; frames have a limit


class Presence(SystemMessage, frozen=True):
    """I am here, and what I announced to you sums up to this; `asks`: say the same of yourself."""

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE
    digest: int
    asks: bool = False


class Announcement(SystemMessage, frozen=True):
    """Somebody here wants this topic now, or nobody any more."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topic: Topic
    is_wanted: bool


class AskInterest(SystemMessage, frozen=True):
    """I keep something else of you than you announced: tell me all."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION


class TellInterest(SystemMessage, frozen=True):
    """All that is wanted here, or a part of it; the first one replaces what you kept."""

    traffic: ClassVar[Traffic] = Traffic.SUBSCRIPTION
    topics: tuple[Topic, ...]
    is_first: bool


ANNOUNCING_MESSAGES: tuple[type[SystemMessage], ...] = (Presence, Announcement, AskInterest, TellInterest)


class TopicSet:
    """A set of topics in the order they came, and its digest: the exclusive or of their keys."""

    __slots__ = ("digest", "topics")

    def __init__(self) -> None:
        self.topics: dict[Topic, None] = {}
        self.digest = 0

    def put(self, topic: Topic, is_wanted: bool) -> bool:
        """True if that changed anything."""
        if (topic in self.topics) == is_wanted:
            return False
        if is_wanted:
            self.topics[topic] = None
        else:
            del self.topics[topic]
        self.digest ^= topic_key(topic)
        return True


NOTHING = TopicSet()  # what a peer is told that is told nothing; never changed


class AnnouncingNode(OverlayNode):
    """Keeps `peers` alive, tells `reports_to` what is wanted here, and knows in `wanted_by` who wants what there.

    Who is told what may be another matter: `announce` and `told_to` are to be overridden together.
    """

    def __init__(self, address: int, heartbeat_s: float, random: Random) -> None:
        super().__init__(address, random)
        self._heartbeat_s = heartbeat_s
        self.peers: tuple[int, ...] = ()
        self.reports_to: tuple[int, ...] = ()
        self.own = TopicSet()
        self.told: dict[int, TopicSet] = {}  # peer -> what it wants
        self.wanted_by: dict[Topic, dict[int, None]] = {}
        self._lost: dict[int, None] = {}
        self._entries: tuple[tuple[Topic, int], ...] | None = ()  # all of `wanted_by`, until something changes

    @property
    def entries(self) -> tuple[tuple[Topic, int], ...]:
        """(topic, peer) for all that is known of others; drivers look every second, so it is kept."""
        if self._entries is None:
            self._entries = tuple((topic, peer) for topic, peers in self.wanted_by.items() for peer in peers)
        return self._entries

    # --- hooks of the driver ---

    def on_start(self, slice: Slice) -> None:
        self.peers = tuple(neighbour.node for neighbour in slice.neighbours)
        for peer in [peer for peer in self.told if peer not in self.peers]:
            self._replace(peer)
            del self.told[peer]
        self._lost = {}
        self._greet(self.peers, asks=True)
        self.set_timer("alive", self._heartbeat_s)

    def on_subscribe(self, topic: Topic) -> None:
        if self.own.put(topic, True):
            self.announce(topic, True)

    def on_unsubscribe(self, topic: Topic) -> None:
        if self.own.put(topic, False):
            self.announce(topic, False)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if source not in self.peers:
            return  # it follows a plan that this node does not know yet, or no longer
        self._lost.pop(source, None)
        if isinstance(message, Presence):
            kept = self.told.get(source)
            if message.digest != (0 if kept is None else kept.digest):
                self.send(source, AskInterest())
            if message.asks:
                self._greet((source,), asks=False)
        elif isinstance(message, Announcement):
            self._note(source, message.topic, message.is_wanted)
        elif isinstance(message, AskInterest):
            for number, part in enumerate(parts_of(self.told_to(source))):
                self.send(source, TellInterest(part, number == 0))
        elif isinstance(message, TellInterest):
            if message.is_first:
                self._replace(source)
            for topic in message.topics:
                self._note(source, topic, True)

    def on_timer(self, timer: Timer) -> None:
        if timer == "alive":
            self._greet(self.peers, asks=False)
            self.set_timer("alive", self._heartbeat_s)
        elif timer == "again" and self._lost:
            self._greet(tuple(self._lost), asks=True)
            self.set_timer("again", AGAIN_S)

    def on_peer_lost(self, peer: int) -> None:
        if peer in self.peers and peer not in self._lost:
            if not self._lost:
                self.set_timer("again", SOON_S)
            self._lost[peer] = None

    # --- who is told what ---

    def announce(self, topic: Topic, is_wanted: bool) -> None:
        """The first subscriber of a topic came, or the last one left."""
        self.send_all(self.reports_to, Announcement(topic, is_wanted))

    def told_to(self, peer: int) -> TopicSet:
        """All that was announced to this peer and is still wanted."""
        return self.own if peer in self.reports_to else NOTHING

    # --- inside ---

    def _greet(self, peers: tuple[int, ...], asks: bool) -> None:
        """Heartbeats and greetings alike, each with the digest of what that peer should know."""
        by_digest: dict[int, list[int]] = {}
        for peer in peers:
            by_digest.setdefault(self.told_to(peer).digest, []).append(peer)
        for digest, some in by_digest.items():
            self.send_all(some, Presence(digest, asks))

    def _note(self, peer: int, topic: Topic, is_wanted: bool) -> None:
        if not self.told.setdefault(peer, TopicSet()).put(topic, is_wanted):
            return
        self._entries = None
        if is_wanted:
            self.wanted_by.setdefault(topic, {})[peer] = None
        else:
            del self.wanted_by[topic][peer]
            if not self.wanted_by[topic]:
                del self.wanted_by[topic]

    def _replace(self, peer: int) -> None:
        """Forget what the peer wanted."""
        for topic in list(self.told[peer].topics) if peer in self.told else ():
            self._note(peer, topic, False)


def parts_of(wanted: TopicSet) -> Iterator[tuple[Topic, ...]]:
    """A whole interest in messages of a bounded size; an empty one is told, too."""
    part: list[Topic] = []
    size = 0
    for topic in wanted.topics:
        if size > PART_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(topic)
        size += len(topic) if isinstance(topic, str) else 8
    yield tuple(part)
