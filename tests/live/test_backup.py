"""Backups: consistent while a node writes and folds, checked, refused rather than overwritten."""

from __future__ import annotations

import sqlite3
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.writes import RETAINED
from coterie.errors import ConfigError, InputError
from coterie.live.backup import back_up, restore
from coterie.live.store import Store
from coterie.locking import lock


def put(store: Store, number: int) -> None:
    """Two keys that only ever change together."""
    value = str(number).encode()
    store.append([(RETAINED, "one", value), (RETAINED, "two", value)])


def fold(store: Store) -> None:
    if store.begin_fold():
        store.fold()
        store.end_fold()


def values(folder) -> tuple[bytes | None, bytes | None]:
    store = Store(folder)
    try:
        return store.get(RETAINED, "one"), store.get(RETAINED, "two")
    finally:
        store.close()


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.sampled_from(["put", "fold"]), min_size=1, max_size=12))
def test_a_backup_is_the_store_as_it_was(tmp_path_factory, steps):
    tmp_path = tmp_path_factory.mktemp("backup")
    store = Store(tmp_path / "data")
    last = 0
    put(store, 0)
    for number, step in enumerate(steps, 1):
        if step == "put":
            put(store, number)
            last = number
        else:
            fold(store)
    back_up(tmp_path / "data", tmp_path / "copy.sqlite")
    put(store, 999)
    store.close()
    restore(tmp_path / "copy.sqlite", tmp_path / "again")
    assert values(tmp_path / "again") == (str(last).encode(),) * 2


def test_nothing_is_torn_while_the_node_writes_and_folds(tmp_path):
    store = Store(tmp_path / "data")
    put(store, 0)
    stop = threading.Event()
    written = [0]

    def work() -> None:
        while not stop.is_set() and written[0] < 20_000:
            put(store, written[0] + 1)
            written[0] += 1
            if written[0] % 50 == 0:
                fold(store)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        for number in range(5):
            before = written[0]
            back_up(tmp_path / "data", tmp_path / f"{number}.sqlite")
            restore(tmp_path / f"{number}.sqlite", tmp_path / f"again-{number}")
            one, two = values(tmp_path / f"again-{number}")
            assert one == two is not None
            assert before <= int(one)
    finally:
        stop.set()
        writer.join()
        store.close()


def test_what_is_there_is_not_overwritten_and_a_running_node_is_left_alone(tmp_path):
    store = Store(tmp_path / "data")
    put(store, 1)
    back_up(tmp_path / "data", tmp_path / "copy.sqlite")
    with pytest.raises(ConfigError, match="--out: expected a file that is not there yet"):
        back_up(tmp_path / "data", tmp_path / "copy.sqlite")
    store.close()
    with pytest.raises(ConfigError, match=r"without a store.*move .*node.sqlite.* away"):
        restore(tmp_path / "copy.sqlite", tmp_path / "data")
    (tmp_path / "other").mkdir()
    with open(tmp_path / "other" / "lock", "w") as held:
        lock(held)
        with pytest.raises(ConfigError, match="no running node"):
            restore(tmp_path / "copy.sqlite", tmp_path / "other")


def test_what_is_no_backup_is_said(tmp_path):
    with pytest.raises(InputError, match="no store of a node"):
        back_up(tmp_path, tmp_path / "copy.sqlite")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match="is no backup of a node"):
        restore(tmp_path / "text", tmp_path / "data")
    sqlite3.connect(tmp_path / "empty.sqlite").execute("create table x (y)").connection.close()
    with pytest.raises(InputError, match="format 0"):
        restore(tmp_path / "empty.sqlite", tmp_path / "data")
    with pytest.raises(InputError, match="no such file"):
        restore(tmp_path / "nowhere", tmp_path / "data")


def test_damage_is_noticed(tmp_path):
    store = Store(tmp_path / "data")
    for number in range(2000):
        store.append([(RETAINED, f"topic/{number}", b"x" * 200)])
    store.close()
    back_up(tmp_path / "data", tmp_path / "copy.sqlite")
    content = bytearray((tmp_path / "copy.sqlite").read_bytes())
    content[20_000:24_000] = b"\xff" * 4000
    (tmp_path / "copy.sqlite").write_bytes(content)
    with pytest.raises(InputError, match=r"damaged|no backup"):
        restore(tmp_path / "copy.sqlite", tmp_path / "again")
