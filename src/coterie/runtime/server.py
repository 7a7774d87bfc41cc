"""The broker of a node at work: chunks in, facts carried out, one commit and one write per connection a loop turn.

The order within a turn is the promise: what clients and peers are told leaves after what it depends on is committed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable

from coterie.mqtt.connection import Connection, Ended, Fact, State
from coterie.mqtt.fanout import fan_out, fan_out_run, run_of
from coterie.mqtt.index import Match
from coterie.mqtt.packets import MQTT_5, Connect, Publish, Subscribe, Unsubscribe
from coterie.mqtt.publish import Message, SharedPublish, message_of
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.session import Session
from coterie.runtime.access import Access
from coterie.runtime.admitting import Admitting
from coterie.runtime.arriving import Arriving
from coterie.runtime.counts import Counts
from coterie.runtime.journal import Journal
from coterie.runtime.listeners import ClientLink
from coterie.runtime.logins import Waiter
from coterie.runtime.moving import Moving
from coterie.runtime.network import Network
from coterie.runtime.nodebroker import NodeBroker
from coterie.runtime.placement import Placement
from coterie.runtime.store import SessionJournal, Store

TICK_S = 0.2


class Server:
    """See the module."""

    def __init__(
        self, broker: NodeBroker, network: Network, store: Store, access: Access, journal: Journal | None,
        counts: Counts, wall_s: Callable[[], float], connections_max: int, write_buffer_bytes_max: int,
        arriving: Arriving,
    ) -> None:  # fmt: skip
        self.broker, self.network, self.store, self.access = broker, network, store, access
        self.journal, self.counts, self.wall_s = journal, counts, wall_s
        self.write_buffer_bytes_max = write_buffer_bytes_max
        self.clients: dict[ClientLink, None] = {}
        self.stamps: dict[str, int] = {}  # topic -> when its retained message was published
        self.log: Callable[[str], None] = lambda text: None
        self.on_failure: Callable[[str], None] = lambda reason: None
        self.placement: Placement | None = None
        self.admitting: Admitting | None = None
        self.admit = self.subscribe  # what is done with a SUBSCRIBE
        self.moving = Moving(broker, network, wall_s)
        self.arriving = arriving
        self.gate = arriving.gate
        self.connections_max = connections_max
        self._loop = asyncio.get_running_loop()
        self._touched: dict[ClientLink, None] = {}
        self._is_scheduled = False
        self._is_stopped = False
        self._hook()

    def _hook(self) -> None:
        broker, network = self.broker, self.network
        broker.new_identifier, broker.in_turn, broker.on_local = network.new_stamp, self._in_turn, self._on_local
        broker.retained.journal = []
        broker.watched.on_last = network.unwant
        broker.watched.on_added = self._on_added
        broker.watched.on_removed = self._on_removed
        broker.watched.on_groups = lambda: network.share(tuple(sorted(broker.watched.groups.values())))
        network.on_message = self._from_network
        network.on_retained = self._retained_elsewhere
        network.all_retained = self._all_retained
        network.is_wanted = self._is_wanted
        network.retained_stamp = lambda topic: self.stamps.get(topic, 0)
        network.on_move = self.moving.hear
        network.on_turn = self.schedule

    def restore(self) -> None:
        """Take back what the store kept: sessions work again at once, as if their clients had just gone."""
        for topic, stamp, message in self.store.load_retained():
            self.stamps[topic] = stamp
            if message is not None:
                self.broker.retained.set(message)
        retained = self.broker.retained.journal
        assert retained is not None
        retained.clear()
        now_s = self.wall_s()
        for session in self.store.load_sessions(self.broker.options):
            session.journal = SessionJournal(session.client_id, self.store.sessions)
            if session.expires_at_s is None and session.will_due_s is None:  # its client was connected then
                session.detach(now_s, with_will=True)
            self.broker.restore(session, now_s)
        wanted = list(self.broker.watched.filters())
        for topic_filter in wanted:
            self.network.want(topic_filter, is_old=True)
        if self.admitting is not None:
            self.admitting.changed(added=wanted)

    def start(self) -> None:
        self._tick()

    # --- sockets ---

    def opened(self, client: ClientLink) -> None:
        if len(self.clients) >= self.connections_max or self._is_stopped:
            self.counts.connections_refused += 1
            assert client.transport is not None
            client.is_closing = True
            client.transport.abort()
            return
        self.counts.connections_taken += 1
        self.gate.opened(client.host)
        client.publishes = self.gate.new_client(self.wall_s())
        self.clients[client] = None
        client.connection = self.broker.open(self.wall_s(), client.host)
        client.connection.owner = client

    def lost(self, client: ClientLink) -> None:
        if client in self.clients:
            del self.clients[client]
            self.gate.closed(client.host)
        self._touched.pop(client, None)
        client.is_closing = True
        client.transport = None
        session = None if client.connection is None else client.connection.session
        if session is not None and session.connection in (None, client.connection) and self.placement is not None:
            self.placement.gone(session.client_id)
        if client.connection is not None and client.connection.state is not State.CLOSED:
            self.broker.lost(client.connection, self.wall_s())
        if self.admitting is not None and session is not None and session.connection is None:
            self.admitting.gone(session.client_id)
        self.schedule()

    def congested(self, client: ClientLink, is_congested: bool) -> None:
        if client.connection is not None:
            client.connection.set_congested(is_congested, self.wall_s())
            self._touch(client)

    def serve(self, client: ClientLink, data: bytes) -> None:
        connection = client.connection
        assert connection is not None
        now_s = self.wall_s()
        self.counts.bytes_in += len(data)
        facts = connection.receive(data, now_s)
        if facts:
            self._carry_out(client, connection, facts, now_s)
        self._touch(client)

    # --- facts ---

    def _carry_out(self, client: ClientLink, connection: Connection, facts: list[Fact], now_s: float) -> None:
        index = 0
        while index < len(facts):
            fact = facts[index]
            if type(fact) is Publish:
                run = run_of(facts, index) if fact.frame else None
                index += 1 if run is None else len(run)
                if self.gate.watches_publishes and not self.gate.publish(
                    client.publishes, 1 if run is None else len(run), now_s
                ):
                    self.counts.publishes_limited += 1
                    self.throw_out(client, connection, Reason.MESSAGE_RATE_TOO_HIGH)
                    return
                if run is not None:
                    self._publish_run(connection, run, now_s)
                elif not self._publish(connection, fact, now_s):
                    self.throw_out(client, connection, Reason.QUOTA_EXCEEDED)
                    return
                continue
            index += 1
            match fact:
                case Connect():
                    self._decide(client, connection, fact)
                case Subscribe():
                    self.admit(client, connection, fact)
                case Unsubscribe():
                    self.broker.unsubscribe(connection, fact)
                case Ended():
                    self._ended(client, connection, fact, now_s)

    def _publish_run(self, connection: Connection, run: list[Publish], now_s: float) -> None:
        """Plain QoS 0 messages of one topic in a row: the shortest way."""
        session = connection.session
        assert session is not None
        topic, count = run[0].topic, len(run)
        self.counts.messages_in += count
        if self.access.publish(session, topic) is not Reason.SUCCESS:
            self.counts.published_refused += count
            return
        broker, network = self.broker, self.network
        match = broker.index.matches(topic)
        if self.journal is not None:
            self.journal.published(now_s, session.client_id, topic, len(run[0].payload), count)
        if match.groups and not network.is_alone:  # each message has its turn
            for publish in run:
                self.counts.messages_out += broker.deliver(
                    message_of(publish, now_s, session.client_id), now_s, session
                )
            return
        self.counts.messages_out += fan_out_run(run, connection.version, match, session, broker.dirty, now_s)
        if not network.is_alone:
            self.counts.events_out += count
            for publish in run:
                network.publish(message_of(publish, now_s, session.client_id))

    def _expire(self, client: ClientLink, connection: Connection) -> None:
        """What the client showed holds no longer; it has to show something new."""
        if connection.state is State.OPEN and not client.is_closing:
            self.throw_out(client, connection, Reason.NOT_AUTHORIZED)

    def throw_out(self, client: ClientLink, connection: Connection, reason: Reason) -> None:
        ended = self.broker.disconnect(connection, reason, self.wall_s())
        self._touch(client)
        self._close(client, ended.linger)

    def _publish(self, connection: Connection, packet: Publish, now_s: float) -> bool:
        """False if there is no room and no way to say so: MQTT 3.1.1 knows no answer but the acknowledgement."""
        session = connection.session
        assert session is not None
        self.counts.messages_in += 1
        reason = self.access.publish(session, packet.topic)
        message = message_of(packet, now_s, session.client_id)
        if reason is Reason.SUCCESS and (packet.retain or (packet.qos and self.broker.budget.is_full)):
            reason = self._room(message)
        if reason is Reason.SUCCESS:
            self.counts.messages_out += self.broker.deliver(message, now_s, session)
            if self.journal is not None:
                self.journal.published(now_s, session.client_id, packet.topic, len(packet.payload))
        else:
            self.counts.published_refused += 1
            if reason is Reason.QUOTA_EXCEEDED and packet.qos and connection.version < MQTT_5:
                return False
        connection.acknowledge(packet, reason)
        return True

    def _room(self, message: Message) -> Reason:
        """Whether what a message asks to be kept can be kept; who cannot be acknowledged is told so."""
        if message.retain and not self.broker.retained.has_room(message):
            self.counts.retained_refused += 1
            return Reason.QUOTA_EXCEEDED
        if message.qos and self.broker.budget.is_full:
            self.counts.stored_refused += 1
            return Reason.QUOTA_EXCEEDED
        return Reason.SUCCESS

    def _on_local(self, message: Message, identifier: int) -> None:
        """A message entered the network here (a client's or a will); local receivers have it already."""
        if message.qos:
            self.moving.note(identifier)
        if message.retain:
            self.stamps[message.topic] = identifier
        if not self.network.is_alone:
            self.counts.events_out += 1
            self.network.publish(message, identifier)

    def send_to(self, connection: Connection, client: ClientLink, server: str) -> None:
        reason, now_s = Reason.USE_ANOTHER_SERVER, self.wall_s()
        ended = self.broker.disconnect(connection, reason, now_s, server_reference=server, with_will=False)
        self._touch(client)
        self._close(client, ended.linger)

    def subscribe(self, client: ClientLink, connection: Connection, packet: Subscribe) -> None:
        """Enter the subscriptions, spread the interest that is new, and answer when it has taken effect."""
        broker, network = self.broker, self.network
        first: list[str] = []
        results: list[tuple[int, bool]] = []

        def change() -> None:
            broker.watched.on_first = first.append
            results.extend(broker.subscribe(connection, packet))
            self.counts.subscriptions_refused += sum(reason >= 0x80 for reason, _ in results)
            for topic_filter in first:
                network.want(topic_filter)
            if self.admitting is not None:
                self.admitting.changed(added=first)
            if connection.session is not None:
                self.moving.subscribing(connection.session.client_id, packet, results)

        def confirm() -> None:
            broker.confirm(connection, packet, tuple(results), self.wall_s())
            if connection.session is not None:
                self.moving.subscribed(connection.session.client_id)
            self._touch(client)

        network.spread(change, confirm)

    def _ended(self, client: ClientLink, connection: Connection, fact: Ended, now_s: float) -> None:
        if fact.linger:
            self.counts.protocol_errors += 1
        self.broker.ended(connection, fact, now_s)
        self._close(client, fact.linger)

    def _close(self, client: ClientLink, linger: bool) -> None:
        self.schedule()
        self._loop.call_soon(self._finish, client, linger)

    def _finish(self, client: ClientLink, linger: bool) -> None:
        self.turn()  # its last words, and what they depend on
        client.finish(linger)

    # --- connecting ---

    def _decide(self, client: ClientLink, connection: Connection, packet: Connect) -> None:
        def answer(verdict: Ruling) -> None:
            self._answer(client, connection, packet, verdict)
            self._touch(client)

        self.arriving.decide(packet, client.host, client.certified, Waiter(lambda: client.is_closing, answer))

    def _answer(self, client: ClientLink, connection: Connection, packet: Connect, verdict: Ruling) -> None:
        now_s = self.wall_s()
        verdict = self.broker.claim(packet, verdict)  # before anything is moved on behalf of somebody else
        if verdict.reason is Reason.SUCCESS and self.placement is not None:
            server = self.placement.redirect(packet)
            session = self.broker.sessions.get(packet.client_id)
            if server and session is not None:
                self.moving.send_off(session, self.placement.of[packet.client_id])
            if server:
                verdict = Ruling(Reason.USE_ANOTHER_SERVER, server, "your topics live there")
        is_known = packet.client_id in self.broker.sessions
        ended = self.broker.connect(connection, packet, verdict, now_s)
        if ended is not None:
            self.counts.connections_refused += 1
            self._close(client, ended.linger)
            return
        session = connection.session
        assert session is not None
        if verdict.until_s is not None:
            self._loop.call_later(max(0.0, verdict.until_s - now_s), self._expire, client, connection)
        self.moving.returned(session.client_id)
        is_sought = not (is_known or packet.clean_start or self.network.is_alone) and session.expiry_s > 0
        if is_sought:
            self.moving.seek(session.client_id, session.owner)
        follows = self.placement is not None and self.placement.accepted(packet, session.client_id)
        if follows:
            self.moving.welcome(session.client_id)
        if self.admitting is not None:
            is_planned = self.placement is not None and session.client_id in self.placement.of
            is_new = (packet.clean_start or not is_known) and not is_sought and not is_planned
            self.admitting.came(session.client_id, is_new, follows)
        if session.journal is None and session.expiry_s:
            session.journal = SessionJournal(session.client_id, self.store.sessions)
            kept = (session.expiry_s, session.will, None, None, session.owner)
            self.store.sessions.append((session.client_id, "session", kept))
        # What the client sent behind its CONNECT waits in the decoder.
        facts = connection.receive(b"", now_s)
        if facts:
            self._carry_out(client, connection, facts, now_s)

    def move_clients(self) -> None:
        """Send a few of those who follow to where the plan wants them."""
        for name, server in self.placement.next_moves(self._is_calm) if self.placement is not None else ():
            session = self.broker.sessions.get(name)
            connection = None if session is None else session.connection
            if session is None or connection is None or not isinstance(connection.owner, ClientLink):
                continue
            assert self.placement is not None
            self.moving.send_off(session, self.placement.of[name])
            self.send_to(connection, connection.owner, server)

    def _is_calm(self, client: str) -> bool:
        """Nothing is on its way to the client: whatever it gets at the other node, it has not had here."""
        session = self.broker.sessions.get(client)
        return session is None or not (session.inflight_count or self.moving.is_arriving(client))

    # --- what comes from elsewhere ---

    def _from_network(self, identifier: int, message: Message) -> int:
        broker = self.broker
        match = self._in_turn(broker.index.matches(message.topic), identifier)
        delivered = fan_out(SharedPublish(message, match.encoded), match, None, broker.dirty, self.wall_s())
        if message.qos:
            self.moving.note(identifier)
        self.counts.events_in += 1
        self.counts.messages_out += delivered
        return delivered

    def _in_turn(self, match: Match[Session], identifier: int) -> Match[Session]:
        """Without the shared subscriptions whose turn is at another node."""
        if not match.groups or self.network.is_alone:
            return match
        names, is_turn = self.broker.watched.groups, self.network.is_turn
        mine = tuple(one for one in match.groups if one not in names or is_turn(names[one], identifier))
        return match if len(mine) == len(match.groups) else Match(match.topic, match.receivers, mine)

    def _retained_elsewhere(self, stamp: int, message: Message) -> None:
        """The last word on a topic is the one with the greatest stamp, everywhere."""
        if stamp > self.stamps.get(message.topic, 0):
            self.stamps[message.topic] = stamp
            self.broker.retained.set(message)
            if not message.payload:
                self.store.retained.append((message.topic, stamp, None))

    def _all_retained(self) -> list[tuple[int, Message]]:
        return [
            (self.stamps.get(one.topic, 1), one) for one in self.broker.retained if not one.topic.startswith("$")
        ]  # fmt: skip

    def _is_wanted(self, topic: str) -> bool:
        match = self.broker.index.matches(topic)
        return bool(match.groups) or any(receiver.qos for receiver in match.receivers)

    def publish_here(self, topic: str, payload: bytes, retain: bool = True) -> None:
        """The node's own figures ($SYS): to local subscribers only."""
        message = Message(topic, payload, 0, retain)
        self.broker.retained.set(message)
        match = self.broker.index.matches(topic)
        fan_out(SharedPublish(message, match.encoded), match, None, self.broker.dirty, self.wall_s())

    def _on_added(self, session: Session, topic_filter: str) -> None:
        if self.journal is not None:
            self.journal.subscribed(self.wall_s(), session.client_id, topic_filter)

    def _on_removed(self, session: Session, topic_filter: str) -> None:
        if self.journal is not None and session.client_id not in self.moving.leaving:  # who moved is not gone
            self.journal.unsubscribed(self.wall_s(), session.client_id, topic_filter)

    # --- the turn ---

    def _touch(self, client: ClientLink) -> None:
        self._touched[client] = None
        self.schedule()

    def schedule(self) -> None:
        """Everything that is ready in this iteration of the loop runs first; then one commit, then the writes."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self.turn)

    def turn(self) -> None:
        self._is_scheduled = False
        self._note_retained()
        try:
            self.counts.commits += self.store.commit()
        except sqlite3.Error as error:
            # Nothing leaves that depends on what could not be written; the node ends rather than break its word.
            self.on_failure(f"the store cannot be written: {error}")
            return
        for session in self.broker.flush():
            connection = session.connection
            if connection is not None and isinstance(connection.owner, ClientLink):
                self._write(connection.owner, connection)
        touched, self._touched = self._touched, {}
        for client in touched:
            if client.connection is not None:
                self._write(client, client.connection)
        for connection, ended in self.broker.take_closing():
            if isinstance(connection.owner, ClientLink):
                self._write(connection.owner, connection)
                connection.owner.finish(ended.linger)
        self.network.links.flush()

    def _write(self, client: ClientLink, connection: Connection) -> None:
        if connection.output:
            if client.transport is None or client.is_closing:
                connection.output.clear()
            else:
                self.counts.bytes_out += client.write(connection.output)

    def _note_retained(self) -> None:
        changes = self.broker.retained.journal
        if changes:
            for topic, message in changes:
                if not topic.startswith("$"):
                    self.store.retained.append((topic, self.stamps.get(topic, 1), message))
            changes.clear()

    def _tick(self) -> None:
        if not self._is_stopped:
            self.broker.on_time(self.wall_s())
            self.moving.on_time()
            if self.admitting is not None:
                self.admitting.on_time()
            self.schedule()
            self._loop.call_later(TICK_S, self._tick)

    async def stop(self) -> None:
        """Tell MQTT 5 clients, write what is left, close."""
        self._is_stopped = True
        for client in list(self.clients):
            if client.connection is not None and client.connection.state is State.OPEN:
                ended = self.broker.disconnect(client.connection, Reason.SERVER_SHUTTING_DOWN, self.wall_s())
                self._touch(client)
                self._loop.call_soon(self._finish, client, ended.linger)
            elif client.transport is not None:
                client.transport.abort()
        await asyncio.sleep(0.05)
        self.turn()
        self.arriving.stop()
