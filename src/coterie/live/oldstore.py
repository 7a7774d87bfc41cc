"""Stores of earlier formats (1 and 2): everything in them as writes, bodies once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from coterie.broker.carried import encode_carried
from coterie.broker.writes import (
    DELIVERIES,
    INCOMING,
    LOG,
    MESSAGES,
    META,
    RETAINED,
    SESSIONS,
    SUBSCRIPTIONS,
    DeliveryRow,
    SessionRow,
    StoreWrite,
)
from coterie.errors import InputError
from coterie.mqtt.packets import Will
from coterie.mqtt.publish import Message
from coterie.mqtt.session import Delivery

FORMATS = (1, 2)
TABLES = ("meta", "sessions", "subscriptions", "deliveries", "incoming", "retained", "log", "seen")
_pack = msgspec.msgpack.Encoder().encode
_delivery = msgspec.msgpack.Decoder(Delivery).decode
_message = msgspec.msgpack.Decoder(Message).decode
_will = msgspec.msgpack.Decoder(Will).decode


def migrate(db: sqlite3.Connection, path: str) -> list[StoreWrite]:
    """What an old store in this database holds; its tables are gone afterwards. Nothing if there is none."""
    tables = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
    if "sessions" not in tables:
        return []
    columns = [row[1] for row in db.execute("pragma table_info(sessions)")]
    stated = db.execute("select value from meta where key = 'format'").fetchone()
    if (stated[0] if stated else 2 if "owner" in columns else 1) not in FORMATS:
        raise InputError(path, "was written by another version; move it away to start afresh")
    try:
        writes = [*_sessions(db, "owner" in columns), *_deliveries(db), *_log(db), *_rest(db)]
    except msgspec.MsgspecError as error:
        raise InputError(path, f"holds what no version wrote: {error}") from None
    for name in TABLES:
        db.execute(f"drop table if exists {name}")
    return writes


def _sessions(db: sqlite3.Connection, has_owner: bool) -> Iterator[StoreWrite]:
    owner = "owner" if has_owner else "null"
    for client, expiry_s, will, will_due_s, expires_at_s, user in db.execute(
        f"select client, expiry_s, will, will_due_s, expires_at_s, {owner} from sessions"
    ):
        row = SessionRow(expiry_s, None if will is None else _will(will), will_due_s, expires_at_s, user)
        yield SESSIONS, client, _pack(row)
    for client, topic_filter, body in db.execute("select client, filter, body from subscriptions"):
        yield SUBSCRIPTIONS, (client, topic_filter), body
    for client, packet_id in db.execute("select client, packet from incoming"):
        yield INCOMING, (client, packet_id), b""


def _deliveries(db: sqlite3.Connection) -> Iterator[StoreWrite]:
    unnamed = 0  # messages of a node without a network had no identifier; small numbers were never given
    for client, sequence, body in db.execute("select client, sequence, body from deliveries"):
        one = _delivery(body)
        identifier = one.message.id
        if not identifier:
            unnamed = identifier = unnamed + 1
        yield MESSAGES, identifier, encode_carried(identifier, one.message, 1)
        row = DeliveryRow(identifier, one.qos, one.retain, one.identifiers, one.packet_id, one.state)
        yield DELIVERIES, (client, sequence), _pack(row)


def _log(db: sqlite3.Connection) -> Iterator[StoreWrite]:
    for identifier, topic, body in db.execute("select id, topic, body from log"):
        yield LOG, identifier, topic.encode()
        yield MESSAGES, identifier, body


def _rest(db: sqlite3.Connection) -> Iterator[StoreWrite]:
    for topic, stamp, body in db.execute("select topic, stamp, body from retained"):
        carried = None if body is None else encode_carried(stamp, _message(body), 1)
        yield RETAINED, topic, _pack((stamp, carried))
    for key, value in db.execute("select key, value from meta where key <> 'format'"):
        yield META, key, _pack(value)
