"""What a node must not forget: sessions, retained messages, its log of publications, and which events it has had.

One SQLite file. Everything that happens in a loop turn gathers in lists and is written in one transaction by `commit`,
before any output of that turn leaves the node; so whatever a client or a peer has been told survives kill -9.
`sync = "full"` makes it survive a power cut as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from coterie.broker.carried import TIME_BITS, TIME_MASK
from coterie.errors import InputError
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import Subscription, Will
from coterie.mqtt.publish import Message
from coterie.mqtt.session import Delivery, Session, SessionState

SCHEMA = """
create table if not exists meta (key text primary key, value) without rowid;
create table if not exists sessions (client text primary key, expiry_s, will, will_due_s, expires_at_s, owner text)
    without rowid;
create table if not exists subscriptions (client text, filter text, body blob, primary key (client, filter))
    without rowid;
create table if not exists deliveries (client text, sequence integer, body blob, primary key (client, sequence))
    without rowid;
create table if not exists incoming (client text, packet integer, primary key (client, packet)) without rowid;
create table if not exists retained (topic text primary key, stamp integer, body blob) without rowid;
create table if not exists log (id integer primary key, topic text, body blob);
create table if not exists seen (id integer primary key);
"""
FORMAT = 2
STEPS = {1: ("alter table sessions add column owner text",)}  # what brings a store of that format to the next

_pack = msgspec.msgpack.Encoder().encode
_delivery = msgspec.msgpack.Decoder(Delivery).decode
_message = msgspec.msgpack.Decoder(Message).decode
_subscription = msgspec.msgpack.Decoder(Subscription).decode
_will = msgspec.msgpack.Decoder(Will).decode


class SessionJournal(list[tuple[str, Any]]):
    """Stands where a session keeps its journal and passes entries on with the client's name."""

    def __init__(self, client: str, entries: list[tuple[str, str, Any]]) -> None:
        super().__init__()
        self._client = client
        self._entries = entries

    def append(self, entry: tuple[str, Any]) -> None:
        self._entries.append((self._client, entry[0], entry[1]))


class Store:
    """See the module. Reads happen at the start and while recovering; the hot path only appends to lists."""

    def __init__(self, path: Path, sync: str = "normal") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("pragma journal_mode = wal")
            self._db.execute(f"pragma synchronous = {'full' if sync == 'full' else 'normal'}")
            self._db.executescript(SCHEMA)
            found = self._migrate()
        except sqlite3.Error as error:
            raise InputError(str(path), f"is not a usable store: {error}") from None
        if found != FORMAT:
            raise InputError(str(path), "was written by another version; move it away to start afresh")
        self.sessions: list[tuple[str, str, Any]] = []  # (client, kind, value), in order
        self.retained: list[tuple[str, int, Message | None]] = []
        self.log: list[tuple[int, str, bytes]] = []
        self.seen: list[tuple[int]] = []
        self._metas: dict[str, Any] = {"format": FORMAT}
        self.log_bytes = self._one("select coalesce(sum(length(body)), 0) from log")

    def _migrate(self) -> int:
        """Bring a store of an earlier format to this one, all of it or nothing; returns the format it has then."""
        columns = [row[1] for row in self._db.execute("pragma table_info(sessions)")]
        found: int = self.meta("format", FORMAT if "owner" in columns else 1)
        while found in STEPS:
            self._db.execute("begin immediate")
            for statement in STEPS[found]:
                self._db.execute(statement)
            found += 1
            self._db.execute("insert or replace into meta values ('format', ?)", (found,))
            self._db.execute("commit")
        return found

    def close(self) -> None:
        self.commit()
        self._db.close()

    # --- writing ---

    def set_meta(self, key: str, value: Any) -> None:
        self._metas[key] = value

    def commit(self) -> bool:
        """Write what has gathered; False if there was nothing."""
        if not (self.sessions or self.log or self.seen or self.retained or self._metas):
            return False
        db = self._db
        db.execute("begin immediate")
        if self.log:
            db.executemany("insert or replace into log values (?, ?, ?)", self.log)
            self.log_bytes += sum(len(body) for _, _, body in self.log)
            self.log.clear()
        if self.seen:
            db.executemany("insert or ignore into seen values (?)", self.seen)
            self.seen.clear()
        if self.retained:
            self._write_retained()
        if self.sessions:
            self._write_sessions()
        if self._metas:
            db.executemany("insert or replace into meta values (?, ?)", list(self._metas.items()))
            self._metas.clear()
        db.execute("commit")
        return True

    def _write_retained(self) -> None:
        last = {topic: (stamp, message) for topic, stamp, message in self.retained}
        self.retained.clear()
        # A removed one stays as an empty row, so that an older message of it does not come back from elsewhere.
        rows = [(topic, stamp, None if one is None else _pack(one)) for topic, (stamp, one) in last.items()]
        self._db.executemany("insert or replace into retained values (?, ?, ?)", rows)

    def _write_sessions(self) -> None:
        """Runs of equal kinds go in one statement each; most turns hold deliveries and their ends only."""
        entries = self.sessions
        start = 0
        for stop in range(1, len(entries) + 1):
            if stop == len(entries) or entries[stop][1] != entries[start][1]:
                self._write_run(entries[start][1], entries[start:stop])
                start = stop
        entries.clear()

    def _write_run(self, kind: str, run: list[tuple[str, str, Any]]) -> None:
        db = self._db
        match kind:
            case "delivery" | "progress":
                rows = [(client, one.sequence, _pack(one)) for client, _, one in run]
                db.executemany("insert or replace into deliveries values (?, ?, ?)", rows)
            case "done":
                pairs = [(client, value) for client, _, value in run]
                db.executemany("delete from deliveries where client = ? and sequence = ?", pairs)
            case "incoming":
                db.executemany("insert or ignore into incoming values (?, ?)", [(who, value) for who, _, value in run])
            case "released":
                db.executemany(
                    "delete from incoming where client = ? and packet = ?", [(who, value) for who, _, value in run]
                )
            case "subscribe":
                rows = [(client, one.filter, _pack(one)) for client, _, one in run]
                db.executemany("insert or replace into subscriptions values (?, ?, ?)", rows)
            case "unsubscribe":
                pairs = [(client, value) for client, _, value in run]
                db.executemany("delete from subscriptions where client = ? and filter = ?", pairs)
            case "session":
                for client, _, (expiry_s, will, will_due_s, expires_at_s, owner) in run:
                    packed = None if will is None else _pack(will)
                    row = (client, expiry_s, packed, will_due_s, expires_at_s, owner)
                    db.execute("insert or replace into sessions values (?, ?, ?, ?, ?, ?)", row)
            case "ended":
                for client, _, _ in run:
                    for table in ("sessions", "subscriptions", "deliveries", "incoming"):
                        db.execute(f"delete from {table} where client = ?", (client,))

    # --- reading ---

    def _one(self, query: str, *values: Any) -> Any:
        row = self._db.execute(query, values).fetchone()
        return None if row is None else row[0]

    def meta(self, key: str, default: Any = None) -> Any:
        value = self._one("select value from meta where key = ?", key)
        return default if value is None else value

    def load_sessions(self, options: ServerOptions) -> Iterator[Session]:
        """Every session as it was at the last commit, offline."""
        select = self._db.execute
        columns = "client, expiry_s, will, will_due_s, expires_at_s, owner"
        for client, expiry_s, will, will_due_s, expires_at_s, owner in select(
            f"select {columns} from sessions"
        ).fetchall():
            owned = (client,)
            filters = select("select body from subscriptions where client = ?", owned).fetchall()
            rows = select("select body from deliveries where client = ? order by sequence", owned).fetchall()
            deliveries = tuple(_delivery(body) for (body,) in rows)
            packets = select("select packet from incoming where client = ?", owned).fetchall()
            state = SessionState(
                client,
                expiry_s,
                tuple(_subscription(body) for (body,) in filters),
                deliveries,
                tuple(packet for (packet,) in packets),
                max((one.packet_id for one in deliveries), default=0),
                max((one.sequence for one in deliveries), default=0),
                None if will is None else _will(will),
                will_due_s,
                expires_at_s,
                owner,
            )
            yield Session.restore(msgspec.to_builtins(state, builtin_types=(bytes,)), options)

    def load_retained(self) -> Iterator[tuple[str, int, Message | None]]:
        for topic, stamp, body in self._db.execute("select topic, stamp, body from retained").fetchall():
            yield topic, stamp, None if body is None else _message(body)

    def log_between(self, first: int, last: int) -> list[tuple[int, str]]:
        """Identifier and topic of own publications, in order."""
        query = "select id, topic from log where id between ? and ? order by id"
        return self._db.execute(query, (first, last)).fetchall()

    def log_bodies(self, identifiers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        for identifier in identifiers:
            body = self._one("select body from log where id = ?", identifier)
            if body is not None:
                yield identifier, body

    def last_id(self) -> int:
        return self._one("select max(id) from log") or 0

    def has_seen(self, identifier: int) -> bool:
        return self._one("select 1 from seen where id = ?", identifier) is not None

    def recent_seen(self, count: int) -> list[int]:
        query = f"select id from seen order by id & {TIME_MASK} desc limit ?"
        return [row[0] for row in self._db.execute(query, (count,))]

    def trim(self, nodes: Iterable[int], before_us: int, log_bytes_max: int) -> int:
        """Forget log and seen from before a moment, and the oldest of a log that is too large; returns events lost."""
        db = self._db
        for node in nodes:
            bounds = (node << TIME_BITS, node << TIME_BITS | before_us)
            db.execute("delete from log where id between ? and ?", bounds)
            db.execute("delete from seen where id between ? and ?", bounds)
        self.log_bytes = self._one("select coalesce(sum(length(body)), 0) from log")
        dropped = 0
        while self.log_bytes > log_bytes_max:
            gone = db.execute("delete from log where id in (select id from log order by id limit 1000)").rowcount
            dropped += gone
            self.log_bytes = self._one("select coalesce(sum(length(body)), 0) from log")
        return dropped

    def trim_retained(self, before: int) -> list[str]:
        """Forget removals from before this stamp; returns their topics."""
        query = "select topic from retained where body is null and stamp & ? < ?"
        gone = [row[0] for row in self._db.execute(query, (TIME_MASK, before)).fetchall()]
        self._db.executemany("delete from retained where topic = ?", [(topic,) for topic in gone])
        return gone
