"""The clients of a node, from their first byte to their last: connecting, subscribing, leaving.

A CONNECT is decided by limits first, then by what is known, then by whoever checks passwords (`Prove`). A SUBSCRIBE is
answered when the interest has taken effect in the network. What is written to a connection leaves when the turn ends:
at once if nothing of it can depend on what has to be kept, else behind the batch.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from coterie.broker.access import Access
from coterie.broker.admitting import Admitting
from coterie.broker.cascades import Cascades
from coterie.broker.counts import Counts
from coterie.broker.credentials import Check
from coterie.broker.crossing import Crossings
from coterie.broker.departures import Departures
from coterie.broker.detours import Detours
from coterie.broker.facts import Opened
from coterie.broker.following import Following
from coterie.broker.keeping import Keeping
from coterie.broker.limits import Gate, address_of
from coterie.broker.lines import ClientLine, Fresh
from coterie.broker.moving import Moving
from coterie.broker.orders import Close, Order, Prove, Write
from coterie.broker.placement import Placing
from coterie.broker.pressure import Pressure
from coterie.broker.publishing import Publishing
from coterie.broker.quests import REFUSALS, Outcome
from coterie.broker.siblings import Siblings
from coterie.broker.spreading import SpreadingFilters
from coterie.broker.stored import StoredSessions
from coterie.broker.takeover import Takeover
from coterie.broker.turn import Turn
from coterie.mqtt.connection import Connection, Ended, Fact, Stage
from coterie.mqtt.packets import Connect, Publish, Subscribe, Unsubscribe
from coterie.mqtt.publish import PublishRun
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.sessions import Sessions
from coterie.mqtt.topics import split_shared

PROOF_TIMER = "proof"
NO_SERIAL = 1 << 62
BRIDGE_PREFIX = "$bridge-"  # client identifiers of the node's own bridges
WRONG = (Reason.BAD_USER_NAME_OR_PASSWORD, Reason.NOT_AUTHORIZED)


class Clients:
    """See the module. `fresh`, by line: where a machine has other processes."""

    def __init__(
        self, sessions: Sessions, access: Access, gate: Gate, stored: StoredSessions, publishing: Publishing,
        following: Following, cascades: Cascades, moving: Moving, placing: Placing, admitting: Admitting | None,
        detours: Detours, pressure: Pressure, keeping: Keeping | None, takeover: Takeover, counts: Counts,
        is_alone: bool, connections_max: int, siblings: Siblings | None, crossing: Crossings | None, turn: Turn,
    ) -> None:  # fmt: skip
        self.lines: dict[int, ClientLine] = {}
        self.fresh: dict[int, Fresh] = {}
        self.connections_max = connections_max
        self.is_stopping = False
        self.turned_away: Ruling | None = None  # what everybody is told who wants to come in
        self._sessions, self._access, self._gate, self._stored = sessions, access, gate, stored
        self._publishing, self._following, self._cascades = publishing, following, cascades
        self._moving, self._placing, self._counts, self._is_alone, self._turn = (
            moving, placing, counts, is_alone, turn,
        )  # fmt: skip
        self._admitting, self._detours, self._pressure = admitting, detours, pressure
        self._spreading = SpreadingFilters()
        self.departures = Departures(turn)
        self.touched: list[Connection] = []  # they may have something to write
        self.ending: list[tuple[Connection, bool]] = []  # and whether it lingers
        self._keeping, self._takeover, self._siblings, self._crossing = keeping, takeover, siblings, crossing
        self.kept: deque[tuple[int, int, Order]] = deque()  # what waits for copies: serial and batch of each

    # --- lines ---

    def on_opened(self, opened: Opened) -> None:
        line = opened.line
        if len(self.lines) >= self.connections_max or self.is_stopping:
            self._counts.connections_refused += 1
            self._turn.orders.append(Close(line))
            return
        self._counts.connections_taken += 1
        self.enter(opened)

    def enter(self, opened: Opened) -> None:
        self._gate.opened(opened.host)
        connection = self._sessions.open(self._turn.now_s, opened.host)
        connection.line = opened.line
        self.lines[opened.line] = ClientLine(opened, connection, self._gate.new_client(self._turn.now_s))

    def on_closed(self, line: int) -> None:
        client = self.lines.pop(line, None)
        if client is None:
            return
        self.fresh.pop(line, None)
        self._gate.closed(client.host)
        self._pressure.forget(line)
        connection, session = client.connection, client.connection.session
        if session is not None and session.connection in (None, connection):
            self._placing.gone(session.client_id)
        if connection.stage is not Stage.CLOSED:
            self._sessions.lost(connection, self._turn.now_s)
        if self._admitting is not None and session is not None and session.connection is None:
            self._admitting.gone(session.client_id)

    def on_choked(self, line: int, is_choked: bool) -> None:
        client = self.lines.get(line)
        if client is not None:
            client.connection.set_congested(is_choked, self._turn.now_s)
            session = client.connection.session
            if not is_choked and session is not None and session.owed:
                self._sessions.answer(session, self._turn.now_s)
            self.touched.append(client.connection)

    def on_bytes(self, line: int, data: bytes) -> bool:
        """Whether there was more in it than messages and acknowledgements."""
        client = self.lines.get(line)
        if client is None or client.is_closing:
            return False
        connection, publishing, watches = client.connection, self._publishing, self._gate.watches_publishes
        self._counts.bytes_in += len(data)
        facts = connection.receive(data, self._turn.now_s)
        if self._siblings is not None:
            self._siblings.look()
        has_more = False
        for fact in facts:
            if type(fact) is PublishRun:
                if watches and not self._may_publish(client, fact.count):
                    break
                publishing.take_run(connection, fact)
            elif type(fact) is Publish:
                if watches and not self._may_publish(client, 1):
                    break
                if not publishing.take(connection, fact):
                    self.throw_out(connection, Reason.QUOTA_EXCEEDED)
                    break
            else:
                has_more = True
                self._carry_out(client, connection, fact)
        if connection.output:
            self.touched.append(connection)
        pressure = self._pressure
        if facts and (pressure.budget.is_pressed or pressure.links.is_pressed or pressure.is_disk_slow):
            pressure.hold(connection)
        return has_more or client.is_closing

    def _carry_out(self, client: ClientLine, connection: Connection, fact: Fact) -> None:
        match fact:
            case Connect():
                self._on_connect(client, fact)
            case Subscribe():
                self._admit(connection, fact)
            case Unsubscribe():
                self._sessions.unsubscribe(connection, fact)
                self._following.follow()
            case Ended():
                self._on_ended(connection, fact)

    def _may_publish(self, client: ClientLine, count: int) -> bool:
        """False if the connection is over with it."""
        if self._gate.publish(client.publishes, count, self._turn.now_s):
            return True
        self._counts.publishes_limited += 1
        self.throw_out(client.connection, Reason.MESSAGE_RATE_TOO_HIGH)
        return False

    # --- connecting ---

    def _on_connect(self, client: ClientLine, packet: Connect) -> None:
        now_s, line = self._turn.now_s, client.connection.line
        client.connect = packet
        reason = self._gate.connect(client.host, now_s)
        if reason is not Reason.SUCCESS:
            self._counts.connects_limited += 1
            self._answer(client, Ruling(reason, detail="too many from your address"))
            return
        if packet.client_id.startswith(BRIDGE_PREFIX) and not client.is_inner:
            self._answer(client, Ruling(Reason.CLIENT_ID_NOT_VALID, detail="the client identifier is a bridge's"))
            return
        asked = self._access.ask(packet, client.host, client.certified, client.is_inner)
        if isinstance(asked, Check):
            may_try = self._gate.may_fail(now_s)
            self._turn.orders.append(Prove(line, asked, address_of(client.host), may_try))
        else:
            self.on_proven(line, asked)

    def on_proven(self, line: int, ruling: Ruling) -> None:
        client = self.lines.get(line)
        if client is None or client.connect is None or client.is_closing:
            return
        if ruling.reason in WRONG:
            self._counts.logins_failed += 1
            self._gate.failed(client.host, self._turn.now_s)
        elif ruling.reason is Reason.SERVER_BUSY:
            self._counts.logins_busy += 1
        self._answer(client, ruling)
        self.touched.append(client.connection)

    def _answer(self, client: ClientLine, ruling: Ruling) -> None:
        connection, packet = client.connection, client.connect
        assert packet is not None
        client.connect = None
        if self.turned_away is not None and ruling.reason is Reason.SUCCESS:
            ruling = self.turned_away
        ruling = self._sessions.claim(packet, ruling)  # before anything is moved on behalf of somebody else
        if ruling.reason is Reason.SUCCESS:
            ruling = self._redirected(packet, ruling)
        if ruling.reason is Reason.SUCCESS and self._takeover.must_seek(packet):
            client.connect = packet
            self._takeover.seek(packet.client_id, ruling.user, partial(self._found, connection.line, ruling))
            return
        self._let_in(client, packet, ruling)

    def _found(self, line: int, ruling: Ruling, outcome: Outcome) -> None:
        """Its session is here, or it has none; or that cannot be said."""
        client = self.lines.get(line)
        if client is None or client.connect is None or client.is_closing:
            return
        packet, client.connect = client.connect, None
        if outcome in REFUSALS:
            reason, detail = REFUSALS[outcome]
            ruling = Ruling(reason, detail=detail)
        self._let_in(client, packet, ruling)
        self.touched.append(client.connection)

    def _let_in(self, client: ClientLine, packet: Connect, ruling: Ruling) -> None:
        connection, now_s = client.connection, self._turn.now_s
        is_known = packet.client_id in self._sessions.of
        ended = self._sessions.connect(connection, packet, ruling, now_s)
        if ended is not None:
            self._counts.connections_refused += 1
            self.end(connection, ended.linger)
            return
        self.welcome(connection, packet, ruling, is_known)
        if self._siblings is not None and client.is_movable and connection.is_between:
            self.fresh[connection.line] = Fresh(packet, ruling)
        # What the client sent behind its CONNECT waits in the decoder.
        self.on_bytes(connection.line, b"")

    def _redirected(self, packet: Connect, ruling: Ruling) -> Ruling:
        server = self._placing.redirect(packet)
        if not server:
            return ruling
        session = self._sessions.of.get(packet.client_id)
        if session is not None:
            self._moving.send_off(session, self._placing.of[packet.client_id])
        self.departures.note(packet.client_id, server, self._placing.why)
        return Ruling(Reason.USE_ANOTHER_SERVER, server, "your topics live there")

    def welcome(self, connection: Connection, packet: Connect, ruling: Ruling, is_known: bool) -> None:
        session = connection.session
        assert session is not None
        if ruling.until_s is not None:
            self._turn.set_timer((PROOF_TIMER, connection.line), max(0.0, ruling.until_s - self._turn.now_s))
        self._moving.returned(session.client_id)
        is_elsewhere = self._siblings is None or not self._siblings.have_nothing()
        if packet.clean_start and packet.client_id and not self._is_alone and is_elsewhere:
            self._takeover.begun_afresh(packet.client_id, session.owner)
        follows = self._placing.accepted(packet, session.client_id)
        if is_known and not packet.clean_start:
            self._moving.followed(session.client_id)
        elif follows:
            self._moving.welcome(session.client_id)
        if self._admitting is not None:
            is_planned = session.client_id in self._placing.of
            is_new = (packet.clean_start or not is_known) and not is_planned
            self._admitting.came(session.client_id, is_new, follows)
        if session.journal is None and session.expiry_s:
            self._stored.keep(session)
            if self._siblings is not None:
                self._siblings.lasts(session)

    def on_proof_over(self, line: int) -> None:
        """What the client showed holds no longer; it has to show something new."""
        client = self.lines.get(line)
        if client is not None and client.connection.stage is Stage.OPEN:
            self.throw_out(client.connection, Reason.NOT_AUTHORIZED)

    # --- subscribing ---

    def _admit(self, connection: Connection, packet: Subscribe) -> None:
        """A new client's first wishes say where it belongs; what it may not have says nothing."""
        session = connection.session
        if self._admitting is None or session is None:
            self._on_subscribe(connection, packet)
            return
        subscribe = self._access.subscribe
        allowed = [one.filter for one in packet.subscriptions if subscribe(session, one) is Reason.SUCCESS]
        self._admitting.subscribing(session.client_id, allowed, partial(self._on_subscribe, connection, packet))
        self.send_on()

    def send_on(self) -> None:
        """Those who belong elsewhere; nothing was promised to them yet, so nothing of them is kept."""
        assert self._admitting is not None
        for name, server in self._admitting.take_sending():
            session = self._sessions.of.get(name)
            if session is not None and session.connection is not None:
                session.expiry_s = 0
                self.send_away(session.connection, server, "admission: what it asked for first is wanted there")

    def _on_subscribe(self, connection: Connection, packet: Subscribe) -> None:
        """Enter the subscriptions, spread the interest that is new, and answer when it has taken effect."""
        session = connection.session
        results: tuple[tuple[int, bool], ...] = ()

        def served() -> None:
            """The messages it caused are over; what its system has not finished yet has a detour or gets one."""
            granted = zip(packet.subscriptions, results, strict=True)
            channels = [split_shared(one.filter)[1] for one, (reason, _) in granted if reason < 0x80]
            self._detours.when_served(channels, confirm)

        def confirm() -> None:
            self._sessions.confirm(connection, packet, results, self._turn.now_s)
            if session is not None:
                self._moving.subscribed(session.client_id)
                if self._keeping is not None and session.expiry_s:  # written in an earlier turn, if it took a while
                    connection.held_serial = max(connection.held_serial, self._keeping.flush())
            if connection.output:
                self.touched.append(connection)

        filters = [split_shared(one.filter)[1] for one in packet.subscriptions]
        cascade = self._cascades.begin(self._spreading.begin(filters, served), self._turn.now_s)
        results = self._sessions.subscribe(connection, packet)
        self._counts.subscriptions_refused += sum(reason >= 0x80 for reason, _ in results)
        self._following.follow()
        if session is not None:
            self._moving.subscribing(session.client_id, packet, results)
        self._cascades.end(cascade)

    # --- ending ---

    def _on_ended(self, connection: Connection, fact: Ended) -> None:
        if fact.linger:
            self._counts.protocol_errors += 1
        self._sessions.ended(connection, fact, self._turn.now_s)
        self.end(connection, fact.linger)

    def send_away(
        self, connection: Connection, server: str, why: str, reason: Reason = Reason.USE_ANOTHER_SERVER
    ) -> None:  # fmt: skip
        """To another node; it is remembered why."""
        if connection.session is not None:
            self.departures.note(connection.session.client_id, server, why)
        self.throw_out(connection, reason, server, with_will=False)

    def throw_out(self, connection: Connection, reason: Reason, server: str = "", with_will: bool = True) -> None:
        ended = self._sessions.disconnect(
            connection, reason, self._turn.now_s, server_reference=server, with_will=with_will
        )  # fmt: skip
        self.end(connection, ended.linger)

    def end(self, connection: Connection, linger: bool) -> None:
        client = self.lines.get(connection.line)
        if client is not None and not client.is_closing:
            client.is_closing = True
            self.ending.append((connection, linger))

    def move(self) -> None:
        """Send a few of those who follow to where the plan wants them."""
        for name, server in self._placing.next_moves(self._is_calm):
            session = self._sessions.of.get(name)
            if session is not None and session.connection is not None:
                self._moving.send_off(session, self._placing.of[name])
                self.send_away(session.connection, server, self._placing.why)

    def _is_calm(self, client: str) -> bool:
        """Nothing is on its way to the client: whatever it gets at the other node, it has not had here."""
        session = self._sessions.of.get(client)
        return session is None or not (session.inflight_count or self._moving.is_arriving(client))

    def review(self, changed: frozenset[str]) -> None:
        """Rights bite at once: what is not allowed any more is taken back, and whoever that concerns comes again."""
        self._sessions.index.version += 1  # no route holds any longer
        for session in list(self._sessions.of.values()):
            session.rights = None
            refused = self._sessions.review(session)
            connection = session.connection
            client = None if connection is None else self.lines.get(connection.line)
            if connection is None or client is None:
                continue
            if refused or session.owner in changed or not self._access.may_stay(session.owner, client.host):
                self.throw_out(connection, Reason.NOT_AUTHORIZED)
        self._following.follow()

    def stop(self) -> None:
        """Tell MQTT 5 clients, and close."""
        self.is_stopping = True
        for client in list(self.lines.values()):
            if client.connection.stage is Stage.OPEN:
                self.throw_out(client.connection, Reason.SERVER_SHUTTING_DOWN)
            else:
                self.end(client.connection, False)

    # --- the end of a turn ---

    def end_turn(
        self, free: list[Order], held: list[Order], persisted: int, batch: int, has_writes: bool
    ) -> None:  # fmt: skip
        """Add what may leave now, and what waits for `batch`.

        What depends on the writes also waits until they are kept elsewhere, and so does what comes behind it.
        """
        sessions = self._sessions
        if sessions.closing:
            for connection, ended in sessions.closing:
                self.end(connection, ended.linger)
            sessions.closing.clear()
        speaking, self.touched = self.touched, []
        for session in sessions.dirty:
            if session.connection is not None:
                speaking.append(session.connection)
        sessions.dirty.clear()
        for connection, _ in self.ending:
            speaking.append(connection)
        size, safe, serial = 0, NO_SERIAL, 0
        if self._keeping is not None:
            serial = self._keeping.flush() if has_writes and any(one.waits for one in speaking) else 0
            safe = self._safe()
        for connection in speaking:
            chunks = connection.output.copy()
            if not chunks:  # it stood here twice
                continue
            connection.output.clear()
            size += len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
            if (serial > safe and connection.waits) or connection.held_serial > safe:
                self._hold(connection, Write(connection.line, chunks), serial, batch if has_writes else 0)
            elif connection.held_batch > persisted or (has_writes and _depends(connection)):
                connection.held_batch = batch
                held.append(Write(connection.line, chunks))
            else:
                connection.held_serial = 0
                free.append(Write(connection.line, chunks))
            connection.waits = False
        self._counts.bytes_out += size
        if self.ending:
            for connection, linger in self.ending:
                order = Close(connection.line, linger)
                if connection.held_serial > safe:
                    self._hold(connection, order, serial, 0)
                else:
                    (held if connection.held_batch > persisted else free).append(order)
            self.ending.clear()

    # --- what waits for copies ---

    def _safe(self) -> int:
        """Up to which serial nothing waits; a node that stops has no time."""
        if self._keeping is None or self.is_stopping:
            return NO_SERIAL
        return self._keeping.safe if self._crossing is None else self._crossing.safe

    def _hold(self, connection: Connection, order: Order, serial: int, batch: int) -> None:
        last_serial, last_batch, _ = self.kept[-1] if self.kept else (0, 0, order)
        connection.held_serial = max(last_serial, serial, connection.held_serial)
        connection.held_batch = max(last_batch, batch, connection.held_batch)
        self.kept.append((connection.held_serial, connection.held_batch, order))

    def let_go(self, persisted: int) -> None:
        """What is kept as it should be by now, in the order in which it was to leave."""
        kept, safe, orders = self.kept, self._safe(), self._turn.orders
        while kept and kept[0][0] <= safe and kept[0][1] <= persisted:
            orders.append(kept.popleft()[2])


def _depends(connection: Connection) -> bool:
    """Whether what it is told may be true only with this turn's writes."""
    session = connection.session
    return connection.waits or (session is not None and session.journal is not None)
