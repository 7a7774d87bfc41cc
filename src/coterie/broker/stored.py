"""Sessions as rows: what they report of themselves becomes writes, and rows become sessions again.

A message that waits for several clients is kept once: its row is written with the first delivery that refers to it and
goes with the last. What was begun and done within a turn is never written. A delivery that is done need not be
forgotten at once (a client may see a message again after a crash, as MQTT allows): such writes ride on the next batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from coterie.broker.arrivals import had_of
from coterie.broker.carried import decode_carried, encode_carried
from coterie.broker.turn import Turn
from coterie.broker.writes import (
    DELIVERIES,
    INCOMING,
    MESSAGES,
    SESSIONS,
    SUBSCRIPTIONS,
    DeliveryRow,
    Key,
    Saved,
    SessionRow,
    StoreWrite,
)
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import Subscription
from coterie.mqtt.publish import Message
from coterie.mqtt.session import Delivery, Session, SessionState

_pack = msgspec.msgpack.Encoder().encode
_delivery = msgspec.msgpack.Decoder(DeliveryRow).decode
_session = msgspec.msgpack.Decoder(SessionRow).decode
_subscription = msgspec.msgpack.Decoder(Subscription).decode
Entry = tuple[str, str, Any]  # client, kind, value


class SessionReports(list[tuple[str, Any]]):
    """Stands where a session keeps its journal and passes entries on with the client's name."""

    def __init__(self, client: str, stored: StoredSessions) -> None:
        super().__init__()
        self._client, self._stored = client, stored

    def append(self, entry: tuple[str, Any]) -> None:
        kind, value = entry
        stored = self._stored
        stored.entries.append((self._client, kind, value))
        if kind != "done":
            stored.has_news = True


class _Rows:
    """What the store has of one client."""

    __slots__ = ("deliveries", "filters", "packets")

    def __init__(self) -> None:
        self.deliveries: dict[int, int] = {}  # sequence -> message
        self.filters: dict[str, None] = {}
        self.packets: dict[int, None] = {}


class StoredSessions:
    """See the module. `is_logged` messages are kept by the log as well and do not go with their last delivery."""

    def __init__(self, turn: Turn) -> None:
        self.references: dict[int, int] = {}  # message -> deliveries that refer to it
        self.logged_from = 1 << 63  # messages of this node from here on are in its log
        self.logged_to = 0
        self._turn = turn
        self.entries: list[Entry] = []  # reported and not looked at yet
        self.has_news = False  # some of them must be written with this turn
        self._rows: dict[str, _Rows] = {}
        self.later: list[StoreWrite] = []  # waits for company
        self.is_used = False  # whether there is one, or was

    def keep(self, session: Session) -> None:
        """From now on what happens to it is written down."""
        self.is_used = True
        session.journal = SessionReports(session.client_id, self)
        session.report()

    def adopt(self, session: Session) -> None:
        """One that comes from another node, with all that it has."""
        self.keep(session)
        session.report_all()

    # --- out ---

    def end_turn(self, is_pressing: bool = False) -> None:
        """Put what was reported among the writes of this turn. What is only done waits for company."""
        if self.entries:
            self.has_news = False
            self._take_entries()
        writes = self._turn.writes
        if self.later and (writes or is_pressing or len(self.later) > 10_000):
            writes[:0] = self.later
            self.later = []

    def _take_entries(self) -> None:
        entries, self.entries = self.entries, []
        new: dict[tuple[str, int], Delivery] = {}
        for client, kind, value in entries:
            if kind == "delivery" or kind == "progress":
                new[client, value.sequence] = value
            elif kind == "done":
                if not new or new.pop((client, value), None) is None or value in self._of(client).deliveries:
                    self._done(client, value)
            elif kind == "ended":
                for key in [key for key in new if key[0] == client]:
                    del new[key]
                self._end(client)
            else:
                self._small(client, kind, value)
        for key, delivery in new.items():
            self._put(key, delivery)

    def _of(self, client: str) -> _Rows:
        rows = self._rows.get(client)
        if rows is None:
            rows = self._rows[client] = _Rows()
        return rows

    def _put(self, key: tuple[str, int], delivery: Delivery) -> None:
        client, sequence = key
        writes, message = self._turn.writes, delivery.message
        deliveries = self._of(client).deliveries
        if sequence not in deliveries:
            deliveries[sequence] = message.id
            count = self.references.get(message.id, 0)
            self.references[message.id] = count + 1
            if not count and not self._is_logged(message.id):
                writes.append((MESSAGES, message.id, encode_carried(message.id, message, 1)))
        row = message.id, delivery.qos, delivery.retain, delivery.identifiers, delivery.packet_id, delivery.state
        writes.append((DELIVERIES, key, _pack(row)))  # a `DeliveryRow`

    def _done(self, client: str, sequence: int) -> None:
        rows = self._rows.get(client)
        message = None if rows is None else rows.deliveries.pop(sequence, None)
        if message is not None:
            self.later.append((DELIVERIES, (client, sequence), None))
            self._release(message)

    def _release(self, message: int) -> None:
        count = self.references[message] - 1
        if count:
            self.references[message] = count
            return
        del self.references[message]
        if not self._is_logged(message):
            self.later.append((MESSAGES, message, None))

    def _is_logged(self, message: int) -> bool:
        return self.logged_from <= message <= self.logged_to

    def _end(self, client: str) -> None:
        rows = self._rows.pop(client, None) or _Rows()
        for sequence in list(rows.deliveries):
            self.later.append((DELIVERIES, (client, sequence), None))
            self._release(rows.deliveries[sequence])
        gone: list[tuple[str, Key]] = [(SUBSCRIPTIONS, (client, one)) for one in rows.filters]
        gone += [(INCOMING, (client, one)) for one in rows.packets]
        for table, key in [*gone, (SESSIONS, client)]:
            self._turn.writes.append((table, key, None))

    def _small(self, client: str, kind: str, value: Any) -> None:
        rows, write = self._of(client), self._turn.write
        match kind:
            case "incoming":
                rows.packets[value] = None
                write(INCOMING, (client, value), b"")
            case "released":
                rows.packets.pop(value, None)
                write(INCOMING, (client, value), None)
            case "subscribe":
                rows.filters[value.filter] = None
                write(SUBSCRIPTIONS, (client, value.filter), _pack(value))
            case "unsubscribe":
                rows.filters.pop(value, None)
                write(SUBSCRIPTIONS, (client, value), None)
            case "session":
                write(SESSIONS, client, _pack(SessionRow(*value)))

    # --- in ---

    def load(self, saved: Saved, options: ServerOptions) -> Iterator[Session]:
        """Every session as it was kept, offline, reporting again."""
        messages: dict[int, Message] = {}
        bodies = dict(saved.rows(MESSAGES))
        waiting: dict[str, dict[int, Delivery]] = {}
        for key, value in saved.rows(DELIVERIES):
            assert isinstance(key, tuple)
            client, sequence, row = str(key[0]), int(key[1]), _delivery(value)
            if row.message not in messages and row.message in bodies:
                messages[row.message] = decode_carried(bodies[row.message]).message()
            if row.message in messages:
                waiting.setdefault(client, {})[sequence] = Delivery(
                    sequence, messages[row.message], row.qos, row.retain, row.identifiers, row.packet_id, row.state
                )
                self._of(client).deliveries[sequence] = row.message
                self.references[row.message] = self.references.get(row.message, 0) + 1
        filters = self._load_small(saved)
        for key, value in saved.rows(SESSIONS):
            yield self._restored(str(key), _session(value), waiting.get(str(key), {}), filters, options)

    def _load_small(self, saved: Saved) -> dict[str, list[Subscription]]:
        filters: dict[str, list[Subscription]] = {}
        for key, value in saved.rows(SUBSCRIPTIONS):
            assert isinstance(key, tuple)
            self._of(str(key[0])).filters[str(key[1])] = None
            filters.setdefault(str(key[0]), []).append(_subscription(value))
        for key, _ in saved.rows(INCOMING):
            assert isinstance(key, tuple)
            self._of(str(key[0])).packets[int(key[1])] = None
        return filters

    def _restored(
        self, client: str, row: SessionRow, waiting: dict[int, Delivery], filters: dict[str, list[Subscription]],
        options: ServerOptions,
    ) -> Session:  # fmt: skip
        deliveries = tuple(waiting[sequence] for sequence in sorted(waiting))
        state = SessionState(
            client, row.expiry_s, tuple(sorted(filters.get(client, []), key=lambda one: one.filter)), deliveries,
            tuple(self._of(client).packets), max((one.packet_id for one in deliveries), default=0),
            max((one.sequence for one in deliveries), default=0), row.will, row.will_due_s, row.expires_at_s, row.owner,
            row.owed,
        )  # fmt: skip
        session = Session.of(state, options)
        session.epoch, session.past = row.epoch, had_of(row.past)
        session.journal, self.is_used = SessionReports(client, self), True
        return session
