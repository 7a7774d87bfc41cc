"""The store: what was committed is there after the process is gone, exactly."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from coterie.broker.carried import TIME_BITS
from coterie.errors import InputError
from coterie.mqtt.options import ServerOptions
from coterie.mqtt.packets import Subscription, Will
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.session import Session
from coterie.runtime.recovery import SeenEvents
from coterie.runtime.store import FORMAT, SessionJournal, Store

OPTIONS = ServerOptions()


def session_with(store: Store) -> Session:
    session = Session("ann", OPTIONS)
    session.owner = "user of ann"
    session.expiry_s = 100
    session.journal = SessionJournal("ann", store.sessions)
    store.sessions.append(("ann", "session", (100, Will("gone", b"w"), None, None, session.owner)))
    session.subscribe(Subscription("a/#", 1, identifier=4))
    session.subscribe(Subscription("b", 2))
    session.unsubscribe("b")
    for number in range(3):
        session.deliver(SharedPublish(Message("a/x", b"%d" % number, 1)), 1, False, (4,), 0.0)
    session.on_incoming(7)
    session.on_incoming(8)
    session.on_released(7)
    return session


def test_a_session_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    before = session_with(store)
    assert store.commit()
    assert not store.commit()
    # No close: this is what a kill -9 leaves behind.
    (after,) = Store(tmp_path / "s.sqlite").load_sessions(OPTIONS)
    expected = before.export() | {
        "will": {"topic": "gone", "payload": b"w", "qos": 0, "retain": False, "properties": {}}
    }
    assert after.export() == expected


def test_a_store_of_0_1_is_taken_over_and_a_later_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "create table meta (key text primary key, value) without rowid;"
            "create table sessions (client text primary key, expiry_s, will, will_due_s, expires_at_s) without rowid;"
            "insert into meta values ('format', 1);"
            "insert into sessions values ('ann', 100, null, null, 5.0);"
        )
    for _ in range(2):
        store = Store(path)
        (session,) = store.load_sessions(OPTIONS)
        assert (session.client_id, session.expires_at_s, session.owner) == ("ann", 5.0, None)
        assert store.meta("format") == FORMAT
        store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("update meta set value = ? where key = 'format'", (FORMAT + 1,))
        db.commit()
    with pytest.raises(InputError, match="another version"):
        Store(path)


def test_an_ended_session_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    session_with(store).end()
    store.commit()
    again = Store(tmp_path / "s.sqlite")
    assert list(again.load_sessions(OPTIONS)) == []
    for table in ("subscriptions", "deliveries", "incoming"):
        assert again._one(f"select count(*) from {table}") == 0


def test_retained_log_and_seen(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    store.retained += [("a", 1, Message("a", b"1", retain=True)), ("b", 2, Message("b", b"2", retain=True))]
    store.retained.append(("b", 3, None))
    node = 5 << TIME_BITS
    store.log += [(node | time_us, f"t{time_us}", b"body%d" % time_us) for time_us in (10, 20, 30)]
    store.seen += [(1,), (2,), (2,)]
    store.set_meta("alive_us", 77)
    store.commit()
    again = Store(tmp_path / "s.sqlite")
    kept = {topic: (stamp, message and message.payload) for topic, stamp, message in again.load_retained()}
    assert kept == {"a": (1, b"1"), "b": (3, None)}
    assert again.log_between(node | 15, node | 30) == [(node | 20, "t20"), (node | 30, "t30")]
    assert list(again.log_bodies([node | 10, 99])) == [(node | 10, b"body10")]
    assert again.last_id() == node | 30
    assert again.meta("alive_us") == 77
    assert again.log_bytes == 18
    assert again.trim([5], 15, log_bytes_max=1 << 20) == 0
    assert again.log_between(node, node | 100) == [(node | 20, "t20"), (node | 30, "t30")]
    assert again.trim([5], 15, log_bytes_max=0) == 2
    seen = SeenEvents(again)
    assert 1 in seen
    assert not seen.add(2)
    assert seen.add(3)


def test_removals_of_retained_messages_are_forgotten_in_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    store.retained += [("old", 5, None), ("new", 50, None), ("kept", 5, Message("kept", b"1", retain=True))]
    store.commit()
    assert store.trim_retained(10) == ["old"]
    assert sorted(topic for topic, _, _ in store.load_retained()) == ["kept", "new"]
