"""The store against a dictionary: folded, reopened, killed or cut off, it holds the batches up to some number."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.carried import decode_carried
from coterie.broker.writes import (
    COPIED_BODIES,
    COPIED_GUESTS,
    COPIED_LOG,
    DELIVERIES,
    INCOMING,
    INTEGER_KEYS,
    LOADED,
    LOG,
    MESSAGES,
    META,
    RETAINED,
    SESSIONS,
    SUBSCRIPTIONS,
    TABLES,
    Between,
    DeliveryRow,
    SessionRow,
    StoreWrite,
)
from coterie.errors import InputError
from coterie.live.store import Store
from coterie.mqtt.packets import Subscription, Will
from coterie.mqtt.publish import Message
from coterie.mqtt.session import SENT, Delivery

Model = dict[str, dict[object, bytes]]
NUMBERS = st.integers(0, 12)
VALUES = st.none() | st.binary(max_size=6)


@st.composite
def writes(draw: st.DrawFn) -> StoreWrite:
    table = draw(st.sampled_from((MESSAGES, LOG, DELIVERIES, SESSIONS)))
    if table in INTEGER_KEYS:
        if draw(st.integers(0, 5)) == 0:
            first = draw(NUMBERS)
            return table, Between(first, first + draw(NUMBERS)), None
        return table, draw(NUMBERS), draw(VALUES)
    client = draw(st.sampled_from("ab"))
    return table, client if table == SESSIONS else (client, draw(NUMBERS)), draw(VALUES)


BATCHES = st.lists(st.lists(writes(), max_size=8), min_size=1, max_size=8)


def applied(batches: list[list[StoreWrite]]) -> Model:
    model: Model = {name: {} for name in TABLES}
    for batch in batches:
        for table, key, value in batch:
            rows = model[table]
            if isinstance(key, Between):
                for gone in [one for one in rows if key.first <= one <= key.last]:  # type: ignore[operator]
                    del rows[gone]
            elif value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    return model


def held(store: Store) -> Model:
    model: Model = {name: dict(store.saved().rows(name)) for name in LOADED}
    model[COPIED_GUESTS] = {}  # has no way to be listed
    for name in (LOG, MESSAGES, COPIED_LOG, COPIED_BODIES):
        model[name] = dict(store.between(name, 0, 1 << 60))
    return model


def fold(store: Store) -> None:
    if store.begin_fold():
        store.fold()
        store.end_fold()


@settings(max_examples=60)
@given(BATCHES, st.lists(st.sampled_from(("go on", "fold", "fold half", "reopen", "kill")), min_size=8, max_size=8))
def test_the_store_is_the_sum_of_its_batches(batches: list[list[StoreWrite]], after: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        store = Store(Path(place))
        for number, batch in enumerate(batches, 1):
            store.append(batch)
            match after[number - 1]:
                case "fold":
                    fold(store)
                case "fold half":
                    if store.begin_fold():
                        store.fold()  # and never ended: as if it were killed behind the commit, or were still at it
                case "reopen":
                    store.close()
                    store = Store(Path(place))
                case "kill":
                    store = Store(Path(place))
            expected = applied(batches[:number])
            assert held(store) == expected
            for table, key in ((MESSAGES, 3), (DELIVERIES, ("a", 1)), (LOG, 5)):
                assert store.get(table, key) == expected[table].get(key)
            rows = sorted(expected[LOG].items())  # type: ignore[type-var]
            assert store.between(LOG, 2, 9, 3) == [one for one in rows if 2 <= one[0] <= 9][:3]  # type: ignore[operator]
            assert store.between(LOG, 0, 12, 2, newest_first=True) == rows[::-1][:2]


@settings(max_examples=60)
@given(BATCHES, st.integers(0, 8), st.data())
def test_killed_at_any_byte_it_holds_the_batches_up_to_some_number(
    batches: list[list[StoreWrite]], folded: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        store = Store(folder)
        for number, batch in enumerate(batches, 1):
            store.append(batch)
            if number == folded:
                fold(store)
        files = sorted(folder.glob("batches-*"))
        if files:
            whole = files[-1].read_bytes()
            files[-1].write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
        found = held(Store(folder))
        first = min(folded, len(batches)) if folded <= len(batches) else 0
        assert found in [applied(batches[:count]) for count in range(first, len(batches) + 1)]


def test_what_came_and_went_never_reaches_sqlite(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append([(MESSAGES, 1, b"body"), (DELIVERIES, ("a", 1), b"x")])
    store.append([(MESSAGES, 1, None), (DELIVERIES, ("a", 1), None)])
    assert store.begin_fold()
    assert not store._old.of[MESSAGES]
    assert not store._old.of[DELIVERIES]


def test_one_body_however_many_sessions_wait_for_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    body = bytes(1000)
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    for number in range(200):
        refer = [(DELIVERIES, (f"client {one}", number), b"reference") for one in range(50)]
        store.append([(MESSAGES, number, body), *refer])
    store.close()
    kept = sum(path.stat().st_size for path in tmp_path.iterdir()) - before
    assert kept / 200 < 1000 + 50 * 60


def test_a_damaged_database_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "node.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match="not a usable store"):
        Store(tmp_path)


OLD = """
create table meta (key text primary key, value) without rowid;
create table sessions (client text primary key, expiry_s, will, will_due_s, expires_at_s{owner}) without rowid;
create table subscriptions (client text, filter text, body blob, primary key (client, filter)) without rowid;
create table deliveries (client text, sequence integer, body blob, primary key (client, sequence)) without rowid;
create table incoming (client text, packet integer, primary key (client, packet)) without rowid;
create table retained (topic text primary key, stamp integer, body blob) without rowid;
create table log (id integer primary key, topic text, body blob);
create table seen (id integer primary key);
"""


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_earlier_format_comes_along(tmp_path: Path, version: int) -> None:
    pack = msgspec.msgpack.encode
    will = Will("last/words", b"bye")
    db = sqlite3.connect(tmp_path / "node.sqlite")
    db.executescript(OLD.format(owner=", owner text" if version == 2 else ""))
    row = ("c", 3600, pack(will), None, 12.5) + (("user",) if version == 2 else ())
    db.execute(f"insert into sessions values ({', '.join('?' * len(row))})", row)
    db.execute("insert into subscriptions values ('c', 'a/#', ?)", (pack(Subscription("a/#", 1)),))
    message = Message("a/b", b"payload", 1, id=77)
    for sequence, client in ((4, "c"), (9, "d")):
        one = Delivery(sequence, message, 1, packet_id=3, state=SENT)
        db.execute("insert into deliveries values (?, ?, ?)", (client, sequence, pack(one)))
    db.execute("insert into incoming values ('c', 8)")
    db.execute("insert into retained values ('r', 55, ?)", (pack(Message("r", b"kept", 0, True)),))
    db.execute("insert into retained values ('gone', 56, null)")
    db.execute("insert into seen values (99)")
    db.executemany("insert into meta values (?, ?)", [("format", version), ("alive_us", 123)])
    db.commit()
    db.close()
    store = Store(tmp_path)
    found = held(store)
    assert list(found[MESSAGES]) == [77]
    assert decode_carried(found[MESSAGES][77]).payload == b"payload"
    assert found[DELIVERIES].keys() == {("c", 4), ("d", 9)}
    assert msgspec.msgpack.decode(found[DELIVERIES]["c", 4], type=DeliveryRow) == DeliveryRow(77, 1, False, (), 3, SENT)
    owner = "user" if version == 2 else None
    session = msgspec.msgpack.decode(found[SESSIONS]["c"], type=SessionRow)
    assert session == SessionRow(3600, will, None, 12.5, owner)
    assert found[SUBSCRIPTIONS].keys() == {("c", "a/#")}
    assert found[INCOMING] == {("c", 8): b""}
    assert msgspec.msgpack.decode(found[RETAINED]["gone"]) == [56, None]
    assert decode_carried(msgspec.msgpack.decode(found[RETAINED]["r"])[1]).payload == b"kept"
    assert msgspec.msgpack.decode(found[META]["alive_us"]) == 123
    store.close()
    assert held(Store(tmp_path)) == found


def test_what_goes_while_it_is_on_its_way_to_sqlite_is_gone_afterwards(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append([(MESSAGES, 1, b"body"), (MESSAGES, 2, b"other")])
    assert store.begin_fold()
    store.append([(MESSAGES, 1, None)])  # SQLite will have it in a moment
    store.fold()
    store.end_fold()
    assert store.rows(MESSAGES) == [(2, b"other")]
    store.close()
    assert Store(tmp_path).rows(MESSAGES) == [(2, b"other")]


def test_batches_are_there_until_sqlite_has_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append([(MESSAGES, 1, b"body")])
    assert store.begin_fold()  # and killed before SQLite has any of it
    assert Store(tmp_path).rows(MESSAGES) == [(1, b"body")]
