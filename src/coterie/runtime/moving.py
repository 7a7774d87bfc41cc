"""A client goes to another node and misses nothing: what came for it meanwhile is handed over.

The node it left (*there*) keeps its session for a while and goes on collecting for it; the node where it arrives
(*here*) knows from there that it comes, or asks around for a session it has never seen (`Seek`). The client subscribes
here as any MQTT client does that is told that there is no session. Once those subscriptions have taken effect in the
network, here claims what there has collected, delivers what it has not delivered itself, and there ends the session. A
message is known by its publication's identifier. Only QoS 1 and 2 are collected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coterie.broker.carried import decode_carried, encode_carried, microseconds
from coterie.broker.frames import Claim, Handed, Moved, Moves, Seek, Taken
from coterie.mqtt.packets import Subscribe
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.session import Session
from coterie.mqtt.topics import filter_matches, split_shared
from coterie.protocol.seen import Seen

if TYPE_CHECKING:
    from coterie.runtime.network import Network
    from coterie.runtime.nodebroker import NodeBroker

LINGER_S = 60  # how long there waits for here, and here for the client
SETTLE_S = 0.5  # after the last SUBACK; clients may subscribe in several packets
ASK_AGAIN_S = 3.0
WORD_S = 3.0  # how much later than a client the word may come that it was sent here
LOOK_S = 3.0  # after the last arrival: trees should be complete by then
RECENT_MAX = 200_000
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
    """Both ends of moves. The server tells it what clients do, the network what other nodes say."""

    def __init__(self, broker: NodeBroker, network: Network, now_s: Callable[[], float]) -> None:
        self.moved_count = 0
        self.handed_count = 0
        self.leaving: dict[str, float] = {}  # client -> until when its session waits to be claimed
        self._arriving: dict[str, Arrival] = {}
        self._recent: dict[int, float] = {}  # event -> when it was delivered here, while somebody is arriving
        self._asked = Seen(4096)
        self._look_us = 0  # since when logs should be compared, and when to ask for it
        self._look_s = 0.0
        self._broker, self._network, self._now_s = broker, network, now_s

    def hear(self, source: int, said: Moves) -> bool:
        """What another node says; True if it should be passed on."""
        match said:
            case Seek():
                return self.on_seek(source, said)
            case Moved():
                self.expect(source, said)
            case Claim():
                self.on_claim(source, said)
            case Handed():
                self.on_handed(source, said)
            case Taken():
                self.on_taken(said)
        return False

    # --- there ---

    def send_off(self, session: Session, to: int) -> None:
        """Before its client is sent away: keep the session for as long as it may take, and say who comes."""
        session.expiry_s = max(session.expiry_s, LINGER_S)
        self.leaving[session.client_id] = self._now_s() + LINGER_S
        self.moved_count += 1
        self._network.tell(to, Moved(session.client_id, microseconds(self._now_s())))

    def returned(self, client: str) -> None:
        """It came back, or another node has it: nothing is to be claimed any more."""
        self.leaving.pop(client, None)

    def on_seek(self, source: int, said: Seek) -> bool:
        """True if the question should be passed on."""
        if not self._asked.add(said.number):
            return False
        session = self._broker.sessions.get(said.client)
        if session is None or said.node == self._network.node or session.owner != said.owner:
            return True  # another user's session is not theirs to take
        if session.connection is not None:
            self._broker.take_away(session, self._now_s())
        self.send_off(session, said.node)
        return False

    def on_claim(self, source: int, said: Claim) -> None:
        session = self._broker.sessions.get(said.client)
        if session is not None and session.owner != said.owner:
            return
        messages: list[tuple[int, bytes]] = []
        size = 0
        if session is not None and not session.is_online:
            for qos, message in session.undelivered():
                body = encode_carried(message.id, message, 1)
                messages.append((qos, body))
                size += len(body)
                if size > HANDED_BYTES:
                    self._network.tell(source, Handed(said.client, tuple(messages), False))
                    messages, size = [], 0
        # While logs are being compared more may come for it: here asks again.
        is_last = not self._network.recovery.is_catching_up or said.client not in self.leaving
        self._network.tell(source, Handed(said.client, tuple(messages), is_last))

    def on_taken(self, said: Taken) -> None:
        session = self._broker.sessions.get(said.client)
        if session is not None and not session.is_online and said.client in self.leaving:
            session.will = session.will_due_s = None
            self._broker.end_session(session, self._now_s())
        self.leaving.pop(said.client, None)

    # --- here ---

    def expect(self, source: int, said: Moved) -> None:
        arrival = self._arriving.setdefault(said.client, Arrival(source, 0.0))
        arrival.there, arrival.left_us, arrival.until_s = source, said.left_us, self._now_s() + LINGER_S
        if arrival.since_s:
            self._network.want_since(arrival.since_s, arrival.left_us)
            arrival.claim_s = self._now_s() + SETTLE_S

    def welcome(self, client: str) -> None:
        """It follows redirects: perhaps it was sent here, and the word of that is slower than it was itself."""
        self._arriving.setdefault(client, Arrival(-1, self._now_s() + WORD_S))

    def is_arriving(self, client: str) -> bool:
        """What was kept for it elsewhere has not come yet."""
        return client in self._arriving

    def seek(self, client: str, owner: str | None = None) -> None:
        """A client says it had a session; whoever has it shall say so."""
        if client not in self._arriving:
            self._arriving[client] = Arrival(-1, self._now_s() + LINGER_S)
            number = self._network.new_stamp()
            self._asked.add(number)
            self._network.flood(Seek(self._network.node, number, client, owner))

    def subscribing(self, client: str, packet: Subscribe, results: list[tuple[int, bool]]) -> None:
        arrival = self._arriving.get(client)
        if arrival is not None:
            granted = [one for one, (reason, _) in zip(packet.subscriptions, results, strict=True) if reason < 0x80]
            arrival.since_s.update(dict.fromkeys([one.filter for one in granted], self._now_s()))
            if arrival.left_us:
                self._network.want_since(arrival.since_s, arrival.left_us)

    def subscribed(self, client: str) -> None:
        """SUBACK: from now on everything comes here as well."""
        arrival = self._arriving.get(client)
        if arrival is not None and arrival.there >= 0:
            arrival.claim_s = self._now_s() + SETTLE_S

    def note(self, identifier: int) -> None:
        """An event was delivered to the local subscribers."""
        if self._arriving:
            if len(self._recent) >= RECENT_MAX:
                del self._recent[next(iter(self._recent))]
            self._recent[identifier] = self._now_s()

    def on_handed(self, source: int, said: Handed) -> None:
        arrival = self._arriving.get(said.client)
        session = self._broker.sessions.get(said.client)
        if arrival is None or session is None:
            return
        for qos, body in said.messages:
            carried = decode_carried(body)
            is_wanted = any(filter_matches(split_shared(one)[1], carried.topic) for one in session.subscriptions)
            if not is_wanted or carried.id in arrival.handed or self._was_delivered(carried.id, carried.topic, arrival):
                continue
            self.handed_count += 1
            if self._network.misses(carried.topic, carried.id):
                self._network.take_copy(body)  # others here should have had it too
            else:
                self._network.seen.add(carried.id)  # so that recovery does not bring it once more
                self._hand_on(session, carried.message(), qos)
            arrival.handed.add(carried.id)
        if said.is_last:
            del self._arriving[said.client]
            if not self._arriving:
                self._recent.clear()
            self._network.tell(source, Taken(said.client))
            # Where trees are still being changed for the client's sake something may go astray: look at the logs, once
            # for all who come about now, and once for all nodes they come to.
            self._look_us = min(self._look_us or arrival.left_us, arrival.left_us)
            self._look_s = self._now_s() + LOOK_S + 0.1 * (self._network.node % 32)

    def _was_delivered(self, identifier: int, topic: str, arrival: Arrival) -> bool:
        when_s = self._recent.get(identifier)
        if when_s is None:
            return False
        return any(
            since_s <= when_s and filter_matches(split_shared(one)[1], topic)
            for one, since_s in arrival.since_s.items()
        )

    def _hand_on(self, session: Session, message: Message, qos: int) -> None:
        if not session.output:
            self._broker.dirty.append(session)
        session.deliver(SharedPublish(message), qos, False, (), self._now_s())

    def on_time(self) -> None:
        """Claim what is due, ask again where no answer came, forget who did not come."""
        now_s = self._now_s()
        if self._look_us and self._look_s <= now_s:
            self._network.recovery.look_again(self._look_us, LOOK_S)
            self._look_us = 0
        if not self._arriving and not self.leaving:
            return
        for client, arrival in list(self._arriving.items()):
            if arrival.until_s <= now_s:
                del self._arriving[client]
            elif arrival.claim_s is not None and arrival.claim_s <= now_s:
                arrival.claim_s = now_s + ASK_AGAIN_S
                session = self._broker.sessions.get(client)
                self._network.tell(arrival.there, Claim(client, None if session is None else session.owner))
        for client in [client for client, until_s in self.leaving.items() if until_s <= now_s]:
            del self.leaving[client]
        if not self._arriving:
            self._recent.clear()
