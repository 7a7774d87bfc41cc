"""A client goes to another node and misses nothing: what came for it meanwhile is handed over.

The node it left (*there*) keeps its session for a while and goes on collecting for it; the node where it arrives
(*here*) knows from there that it comes. Without a clean start its session follows by `takeover`, and that is all. With
one, the client subscribes here as any MQTT client does that is told that there is no session. Once those subscriptions
have taken effect in the network, here claims what there has collected, delivers what it has not delivered itself, and
there ends the session. A message is known by its publication's identifier. Only QoS 1 and 2 are collected.
"""

from __future__ import annotations

from coterie.broker.carried import decode_carried, encode_carried, origin_of
from coterie.broker.delivering import Delivering, RecentEvents
from coterie.broker.frames import ClaimSession, Handed, Moves, SentOff, Taken
from coterie.broker.interest import InterestBook
from coterie.broker.recovery import Recovery
from coterie.broker.talk import Talk, in_parts
from coterie.broker.turn import Turn
from coterie.mqtt.packets import Subscribe
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions
from coterie.mqtt.topics import filter_matches, split_shared

LINGER_S = 60  # how long there waits for here, and here for the client
SETTLE_S = 0.5  # after the last SUBACK; clients may subscribe in several packets
ASK_AGAIN_S = 3.0
WORD_S = 3.0  # how much later than a client the word may come that it was sent here
LOOK_S = 3.0  # after the last arrival: trees should be complete by then
HANDED_BYTES = 256 << 10


class Arrival:
    """A client that is expected here, or has come."""

    def __init__(self, there: int, until_s: float) -> None:
        self.there = there
        self.left_us = 0  # when it was last served there; 0: not known
        self.until_s = until_s
        self.since_s: dict[str, float] = {}  # filter -> when it was subscribed to here
        self.claim_s: float | None = None
        self.handed: set[int] = set()  # what came from there already


class Moving:
    """Both ends of moves. It is told what clients do and what other nodes say."""

    def __init__(
        self, sessions: Sessions, delivering: Delivering, recovery: Recovery, book: InterestBook, recent: RecentEvents,
        talk: Talk, turn: Turn,
    ) -> None:  # fmt: skip
        self.moved_count = 0
        self.handed_count = 0
        self.leaving: dict[str, float] = {}  # client -> until when its session waits to be claimed
        self._arriving: dict[str, Arrival] = {}
        self._look_us = 0  # since when logs should be compared, and when to ask for it
        self._look_s = 0.0
        self._sessions, self._delivering, self._recovery, self._book = sessions, delivering, recovery, book
        self._recent, self._talk, self._turn = recent, talk, turn

    @property
    def is_busy(self) -> bool:
        return bool(self._arriving or self.leaving or self._look_us)

    def hear(self, source: int, said: Moves) -> None:
        """What another node says."""
        match said:
            case SentOff():
                self.expect(source, said)
            case ClaimSession():
                self.on_claim(source, said)
            case Handed():
                self.on_handed(source, said)
            case Taken():
                self.on_taken(said)

    # --- there ---

    def send_off(self, session: Session, to: int) -> None:
        """Before its client is sent away: keep the session for as long as it may take, and say who comes."""
        session.expiry_s = max(session.expiry_s, LINGER_S)
        self.leaving[session.client_id] = self._turn.now_s + LINGER_S
        self.moved_count += 1
        self._talk.tell(to, SentOff(session.client_id, self._turn.now_us))

    def returned(self, client: str) -> None:
        """It came back, or another node has it: nothing is to be claimed any more."""
        self.leaving.pop(client, None)

    def on_claim(self, source: int, said: ClaimSession) -> None:
        session = self._sessions.of.get(said.client)
        if session is not None and session.owner != said.owner:
            return
        waiting = [] if session is None or session.is_online else session.undelivered()
        rows = ((qos, encode_carried(message.id, message, 1)) for qos, message in waiting)
        *parts, last = [*in_parts(rows, HANDED_BYTES)] or [()]
        for part in parts:
            self._talk.tell(source, Handed(said.client, part, False))
        # While logs are being compared more may come for it: here asks again.
        is_last = not self._recovery.is_catching_up or said.client not in self.leaving
        self._talk.tell(source, Handed(said.client, last, is_last))

    def on_taken(self, said: Taken) -> None:
        session = self._sessions.of.get(said.client)
        if session is not None and not session.is_online and said.client in self.leaving:
            session.will = session.will_due_s = None
            self._sessions.end_session(session, self._turn.now_s)
        if said.client in self.leaving:
            self.leaving[said.client] = self._turn.now_s  # until the next look: who moved is not gone for the journal

    # --- here ---

    def expect(self, source: int, said: SentOff) -> None:
        session = self._sessions.of.get(said.client)
        if said.client not in self._arriving and session is not None and session.is_online:
            return  # it was quicker than the word of it, and its session came with it
        arrival = self._arriving.setdefault(said.client, Arrival(source, 0.0))
        self._recent.watch(True)
        arrival.there, arrival.left_us, arrival.until_s = source, said.left_us, self._turn.now_s + LINGER_S
        if arrival.since_s:
            self._book.want_since(arrival.since_s, arrival.left_us)
            arrival.claim_s = self._turn.now_s + SETTLE_S

    def welcome(self, client: str) -> None:
        """It follows redirects: perhaps it was sent here, and the word of that is slower than it was itself."""
        self._arriving.setdefault(client, Arrival(-1, self._turn.now_s + WORD_S))
        self._recent.watch(True)

    def followed(self, client: str) -> None:
        """Its session is here, with all that was kept for it: nothing is left to be claimed."""
        self._arriving.pop(client, None)
        self._recent.watch(bool(self._arriving))

    def is_arriving(self, client: str) -> bool:
        """What was kept for it elsewhere has not come yet."""
        return client in self._arriving

    def subscribing(self, client: str, packet: Subscribe, results: tuple[tuple[int, bool], ...]) -> None:
        arrival = self._arriving.get(client)
        if arrival is not None:
            granted = [one for one, (reason, _) in zip(packet.subscriptions, results, strict=True) if reason < 0x80]
            arrival.since_s.update(dict.fromkeys([one.filter for one in granted], self._turn.now_s))
            if arrival.left_us:
                self._book.want_since(arrival.since_s, arrival.left_us)

    def subscribed(self, client: str) -> None:
        """SUBACK: from now on everything comes here as well."""
        arrival = self._arriving.get(client)
        if arrival is not None and arrival.there >= 0:
            arrival.claim_s = self._turn.now_s + SETTLE_S

    def on_handed(self, source: int, said: Handed) -> None:
        arrival = self._arriving.get(said.client)
        session = self._sessions.of.get(said.client)
        if arrival is None or session is None:
            return
        for qos, body in said.messages:
            carried = decode_carried(body)
            is_wanted = any(filter_matches(split_shared(one)[1], carried.topic) for one in session.subscriptions)
            if not is_wanted or carried.id in arrival.handed or self._was_delivered(carried.id, carried.topic, arrival):
                continue
            self.handed_count += 1
            is_ours = origin_of(carried.id) == self._book.node
            if self._delivering.ordering.is_held(carried.topic, carried.id):
                pass  # it is here already and comes when what is before it has come
            elif not is_ours and not self._delivering.ordering.is_had(carried.topic, carried.id):
                self._delivering.take_copy(body)  # others here should have had it too
            else:
                self._hand_on(session, carried.message(), qos)
            arrival.handed.add(carried.id)
        if said.is_last:
            del self._arriving[said.client]
            self._recent.watch(bool(self._arriving))
            self._talk.tell(source, Taken(said.client))
            # Where trees are still being changed for the client's sake something may go astray: look at the logs, once
            # for all who come about now, and once for all nodes they come to.
            self._look_us = min(self._look_us or arrival.left_us, arrival.left_us)
            self._look_s = self._turn.now_s + LOOK_S + 0.1 * (self._book.node % 32)

    def _was_delivered(self, identifier: int, topic: str, arrival: Arrival) -> bool:
        when_s = self._recent.when_s(identifier)
        if when_s is None:
            return False
        return any(
            since_s <= when_s and filter_matches(split_shared(one)[1], topic)
            for one, since_s in arrival.since_s.items()
        )

    def _hand_on(self, session: Session, message: Message, qos: int) -> None:
        if not session.output:
            self._sessions.dirty.append(session)
        session.deliver(SharedPublish(message), qos, False, (), self._turn.now_s)

    def on_time(self) -> None:
        """ClaimSession what is due, ask again where no answer came, forget who did not come."""
        now_s = self._turn.now_s
        if self._look_us and self._look_s <= now_s:
            self._recovery.look_again(self._look_us, LOOK_S)
            self._look_us = 0
        if not self._arriving and not self.leaving:
            return
        for client, arrival in list(self._arriving.items()):
            if arrival.until_s <= now_s:
                del self._arriving[client]
            elif arrival.claim_s is not None and arrival.claim_s <= now_s:
                arrival.claim_s = now_s + ASK_AGAIN_S
                session = self._sessions.of.get(client)
                self._talk.tell(arrival.there, ClaimSession(client, None if session is None else session.owner))
        known = self._sessions.of
        for client in [one for one, until_s in self.leaving.items() if until_s <= now_s or one not in known]:
            del self.leaving[client]
        self._recent.watch(bool(self._arriving))
