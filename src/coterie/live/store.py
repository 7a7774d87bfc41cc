"""What a node must not forget, on disk: tables of a key and bytes, as `broker.writes` names them.

A batch goes to an append-only file (`wal`): that is all that an answer to a client waits for. From there the last word
on every key is *folded* into SQLite now and then, in one go; what came and went in between, as most deliveries do,
never gets there. A write says what a key is from now on, so replaying batches that were folded already does no harm; a
file of batches is deleted when SQLite has all of it on the disk.

`sync = "normal"`: whatever was answered survives kill -9. `sync = "full"`: a power cut as well; the disk is waited for
in a thread (`syncing`), with whatever was appended meanwhile in the next round.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from coterie.broker.batches import pack_writes, plain_key, rows_of
from coterie.broker.writes import (
    DELIVERIES,
    INCOMING,
    INTEGER_KEYS,
    LOADED,
    MESSAGES,
    TABLES,
    Between,
    Key,
    Rows,
    Saved,
    StoreWrite,
)
from coterie.errors import InputError
from coterie.live.oldstore import migrate
from coterie.live.wal import Batches, boot_of_machine

FORMAT = 4
STORE_FILE = "node.sqlite"
FOLD_BYTES = 4 << 20
BRIEF = (DELIVERIES, MESSAGES, INCOMING)  # most rows of these go again before they are folded
Folded = dict[str, set[Any]]
_pack = msgspec.msgpack.Encoder().encode
_unpack_key = msgspec.msgpack.Decoder().decode


def as_key(plain: Any) -> Key:
    """A key as msgpack gives it back."""
    return tuple(plain) if isinstance(plain, list) else plain


class Unfolded:
    """The last word on every key since some batch, and the spans that were removed before it."""

    def __init__(self) -> None:
        self.of: dict[str, dict[Any, bytes | None]] = {name: {} for name in TABLES}
        self.spans: dict[str, list[Between]] = {name: [] for name in INTEGER_KEYS}

    def add(self, writes: Iterable[StoreWrite], folded: Folded, folding: Unfolded | None = None) -> None:
        """`folded` knows which keys of brief tables SQLite has; with `folding` under way, those of it count too."""
        of = self.of
        for table, key, value in writes:
            if value is not None:
                of[table][key] = value
            elif type(key) is Between:
                self._remove_span(table, key)
            elif (
                table not in folded
                or key in folded[table]
                or (folding is not None and folding.of[table].get(key) is not None)
            ):
                of[table][key] = None
            else:
                of[table].pop(key, None)  # it came and went: SQLite never hears of it

    def _remove_span(self, table: str, span: Between) -> None:
        rows = self.of[table]
        for key in [key for key in rows if span.first <= key <= span.last]:
            del rows[key]
        self.spans[table].append(span)

    def says(self, table: str, key: Any) -> tuple[bool, bytes | None]:
        """Whether there is a word on a key, and which."""
        rows = self.of[table]
        if key in rows:
            return True, rows[key]
        is_gone = table in self.spans and any(span.first <= key <= span.last for span in self.spans[table])
        return is_gone, None

    def __bool__(self) -> bool:
        return any(self.of.values()) or any(self.spans.values())


class Store:
    """See the module. Also the `Shelf` of a broker: reads see every batch that was appended.

    `append` and reads belong to one thread. `fold` may run in another meanwhile, one at a time: `begin_fold` before it
    and `end_fold` after it in the first.
    """

    def __init__(self, folder: Path, sync: str = "normal", boot: bytes | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / STORE_FILE
        self.is_full = sync == "full"
        try:
            self._db = self._open()
            folded = self._prepare()
            self._folded_keys: Folded = {name: {as_key(key) for key in self._keys(name)} for name in BRIEF}
        except sqlite3.Error as error:
            raise InputError(str(self._path), f"is not a usable store: {error}") from None
        self._batches = Batches(folder, boot_of_machine() if boot is None else boot, folded, self.is_full)
        self._young, self._old = Unfolded(), Unfolded()
        self._is_folding = False  # `_old` is under way to SQLite
        for batch in self._batches.unread:
            self._young.add(rows_of(batch), self._folded_keys)
        self._batches.unread.clear()
        self._fold_until = folded

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = normal")
        return db

    def _prepare(self) -> int:
        """The tables, whatever was there before; returns the last batch that is in them."""
        (found,) = self._db.execute("pragma user_version").fetchone()
        if found > FORMAT:
            raise InputError(str(self._path), "was written by a newer version; move it away to start afresh")
        if found < FORMAT:
            self._db.execute("begin immediate")
            old = migrate(self._db, str(self._path))
            for name in TABLES:  # format 3 lacks those of copies
                kind = "integer primary key" if name in INTEGER_KEYS else "blob primary key"
                tail = "" if name in INTEGER_KEYS else " without rowid"
                self._db.execute(f"create table if not exists kept_{name} (key {kind}, value blob not null){tail}")
            self._db.execute("create table if not exists folded (batch integer)")
            self._db.execute("insert into folded select 0 where not exists (select * from folded)")
            changes = Unfolded()
            changes.add(old, {})
            self._write(self._db, changes)
            self._db.execute(f"pragma user_version = {FORMAT}")
            self._db.execute("commit")
        return int(self._db.execute("select batch from folded").fetchone()[0])

    # --- writing ---

    def append(self, writes: list[StoreWrite]) -> int:
        """Hand a batch to the system; returns its number. OSError: it is not kept, nor is anything after it.

        With `is_full` it is safe when `syncing` has returned.
        """
        number = self._batches.append(pack_writes(writes))
        self._young.add(writes, self._folded_keys, self._old if self._is_folding else None)
        return number

    def keep(self, writes: list[StoreWrite]) -> None:
        """Append, and wait until it is as safe as `sync` says."""
        self.append(writes)
        if self.is_full:
            self.note_synced(self.syncing()())

    def syncing(self) -> Callable[[], int]:
        return self._batches.syncing()

    def note_synced(self, number: int) -> None:
        self._batches.note_synced(number)

    # --- folding ---

    @property
    def unfolded_bytes(self) -> int:
        return self._batches.size

    def begin_fold(self) -> bool:
        """False if there is nothing to fold."""
        if self._old or (self._batches.size == 0 and not self._young):
            return bool(self._old)
        self._fold_until = self._batches.turn()
        self._old, self._young = self._young, Unfolded()
        self._is_folding = True
        return True

    def fold(self) -> None:
        """Any thread; a connection of its own, so that reads go on."""
        db = self._open()
        db.execute("pragma synchronous = full")  # its batches are deleted afterwards: it must be on the disk by then
        try:
            db.execute("begin immediate")
            self._write(db, self._old)
            db.execute("update folded set batch = ?", (self._fold_until,))
            db.execute("commit")
        finally:
            db.close()

    def end_fold(self) -> None:
        for name in BRIEF:
            keys = self._folded_keys[name]
            for key, value in self._old.of[name].items():
                (keys.discard if value is None else keys.add)(key)
        self._old = Unfolded()
        self._is_folding = False
        self._batches.forget()

    def _write(self, db: sqlite3.Connection, changes: Unfolded) -> None:
        for table in INTEGER_KEYS:
            spans = [tuple(span) for span in changes.spans[table]]
            db.executemany(f"delete from kept_{table} where key between ? and ?", spans)
        for table, rows in changes.of.items():
            puts = [(_stored(table, key), value) for key, value in rows.items() if value is not None]
            gone = [(_stored(table, key),) for key, value in rows.items() if value is None]
            db.executemany(f"insert or replace into kept_{table} values (?, ?)", puts)
            db.executemany(f"delete from kept_{table} where key = ?", gone)

    def close(self) -> None:
        while self.begin_fold():
            self.fold()
            self.end_fold()
        self._batches.close()
        self._db.close()

    # --- reading ---

    def saved(self) -> Saved:
        """Everything that a broker is given at its start."""
        return Saved({name: self.rows(name) for name in LOADED})

    def rows(self, table: str) -> Rows:
        found: dict[Key, bytes] = {}
        for stored, value in self._db.execute(f"select key, value from kept_{table}"):
            found[plain_key(table, stored if table in INTEGER_KEYS else _unpack_key(stored))] = value
        for changes in (self._old, self._young):
            for span in changes.spans.get(table, ()):
                found = {key: value for key, value in found.items() if not span.first <= key <= span.last}  # type: ignore[operator]
            for key, word in changes.of[table].items():
                if word is None:
                    found.pop(key, None)
                else:
                    found[key] = word
        return list(found.items())

    def get(self, table: str, key: Key) -> bytes | None:
        for changes in (self._young, self._old):
            has_word, word = changes.says(table, key)
            if has_word:
                return word
        row = self._db.execute(f"select value from kept_{table} where key = ?", (_stored(table, key),)).fetchone()
        return None if row is None else row[0]

    def between(
        self, table: str, first: int, last: int, count_max: int = 0, newest_first: bool = False
    ) -> list[tuple[int, bytes]]:
        way = "desc" if newest_first else "asc"
        young = self._unfolded(table, first, last)
        limit = count_max + len(young) if count_max else -1
        query = f"select key, value from kept_{table} where key between ? and ? order by key {way} limit ?"
        found = {key: value for key, value in self._db.execute(query, (first, last, limit)) if self._stands(table, key)}
        found.update((key, word) for key, word in young.items() if word is not None)
        rows = sorted(found.items(), reverse=newest_first)
        return rows[:count_max] if count_max else rows

    def _unfolded(self, table: str, first: int, last: int) -> dict[int, bytes | None]:
        found: dict[int, bytes | None] = {}
        for changes in (self._old, self._young):
            for span in changes.spans[table]:
                for key in [key for key in found if span.first <= key <= span.last]:
                    found[key] = None
            rows = changes.of[table]
            keys = sorted(rows)
            found.update((key, rows[key]) for key in keys[bisect_left(keys, first) : bisect_right(keys, last)])
        return found

    def _stands(self, table: str, key: int) -> bool:
        """Whether nothing newer says otherwise of a row in SQLite."""
        return not (self._young.says(table, key)[0] or self._old.says(table, key)[0])

    def bytes_in(self, table: str) -> int:
        return self._count_bytes(table) + sum(
            len(value) for changes in (self._old, self._young) for value in changes.of[table].values() if value
        )

    def _count_bytes(self, table: str) -> int:
        query = f"select coalesce(sum(length(value)), 0) from kept_{table}"
        return int(self._db.execute(query).fetchone()[0])

    def _keys(self, table: str) -> list[Any]:
        rows = self._db.execute(f"select key from kept_{table}")
        return [key if table in INTEGER_KEYS else _unpack_key(key) for (key,) in rows]


def _stored(table: str, key: Any) -> Any:
    return key if table in INTEGER_KEYS else _pack(key)
