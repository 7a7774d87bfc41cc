"""What it costs to keep a QoS 1 message for a lasting session, in several stores: processor time and bytes on disk.

Run `python benchmarks/bench_store.py`. Each store does the same: a message (its body once) and one reference per
session in a batch, that batch safe against kill -9 before the next; later the references and the body go again.
"Online" is one session that acknowledges at once, with batches of 1 and of 20 messages; "offline" is 50 sessions whose
clients are away. lmdb and rocksdict are tried where they are installed; neither is needed by coterie.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from coterie.live.store import FOLD_BYTES, Store

Writes = list[tuple[str, bytes, bytes | None]]  # (table, key, value or nothing)
BODY = os.urandom(200)
REFERENCE = b"\x01" * 12
_pack = msgspec.msgpack.Encoder().encode


class Kept(Protocol):
    def commit(self, writes: Writes) -> None: ...
    def close(self) -> None: ...


def opened(folder: Path) -> sqlite3.Connection:
    db = sqlite3.connect(folder / "store.db", isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = normal")
    for table in ("messages", "deliveries"):
        db.execute(f"create table {table} (key blob primary key, value blob) without rowid")
    return db


def apply(db: sqlite3.Connection, writes: Writes) -> None:
    for table in ("messages", "deliveries"):
        puts = [(key, value) for name, key, value in writes if name == table and value is not None]
        gone = [(key,) for name, key, value in writes if name == table and value is None]
        if puts:
            db.executemany(f"insert or replace into {table} values (?, ?)", puts)
        if gone:
            db.executemany(f"delete from {table} where key = ?", gone)


class Sqlite:
    """A transaction per batch."""

    def __init__(self, folder: Path) -> None:
        self.db = opened(folder)

    def commit(self, writes: Writes) -> None:
        self.db.execute("begin immediate")
        apply(self.db, writes)
        self.db.execute("commit")

    def close(self) -> None:
        self.db.close()


class SqliteLog(Sqlite):
    """One append-only table of batches in SQLite, folded into the tables every 4 MB."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.db.execute("create table log (number integer primary key, body blob)")
        self.size, self.pending = 0, Pending()

    def commit(self, writes: Writes) -> None:
        body = _pack(writes)
        self.db.execute("insert into log (body) values (?)", (body,))
        self.size += len(body)
        self.pending.add(writes)
        if self.size > 4 << 20:
            self.fold()

    def fold(self) -> None:
        self.db.execute("begin immediate")
        apply(self.db, self.pending.take())
        self.db.execute("delete from log")
        self.db.execute("commit")
        self.size = 0

    def close(self) -> None:
        self.fold()
        super().close()


class Pending:
    """The last word on every key since the last fold; what came and went in between was never there."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, bytes], tuple[bytes | None, bool]] = {}

    def add(self, writes: Writes) -> None:
        of = self.of
        for table, key, value in writes:
            name = (table, key)
            before = of.get(name)
            if value is None and before is not None and before[1]:
                del of[name]
            else:
                of[name] = (value, before[1] if before is not None else value is not None)

    def take(self) -> Writes:
        found = [(table, key, value) for (table, key), (value, _) in self.of.items()]
        self.of.clear()
        return found


class FileThenSqlite(Sqlite):
    """An append-only file, folded into SQLite every 4 MB; `is_full` syncs every batch."""

    def __init__(self, folder: Path, is_full: bool = False) -> None:
        super().__init__(folder)
        self.path = folder / "batches.log"
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.size, self.pending, self.is_full = 0, Pending(), is_full

    def commit(self, writes: Writes) -> None:
        body = _pack(writes)
        self.size += os.write(self.file, len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body)
        if self.is_full:
            os.fdatasync(self.file)
        self.pending.add(writes)
        if self.size > 4 << 20:
            self.fold()

    def fold(self) -> None:
        super().commit(self.pending.take())
        os.ftruncate(self.file, 0)
        self.size = 0

    def close(self) -> None:
        self.fold()
        os.close(self.file)
        super().close()


class Lmdb:
    def __init__(self, folder: Path) -> None:
        import lmdb

        self.env = lmdb.open(str(folder), map_size=4 << 30, max_dbs=2, sync=False, writemap=False)
        self.of = {name: self.env.open_db(name.encode()) for name in ("messages", "deliveries")}

    def commit(self, writes: Writes) -> None:
        with self.env.begin(write=True) as change:
            for table, key, value in writes:
                if value is None:
                    change.delete(key, db=self.of[table])
                else:
                    change.put(key, value, db=self.of[table])

    def close(self) -> None:
        self.env.close()


class Rocks:
    def __init__(self, folder: Path) -> None:
        import rocksdict

        self.db = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
        self.batch = rocksdict.WriteBatch

    def commit(self, writes: Writes) -> None:
        batch = self.batch(raw_mode=True)
        for table, key, value in writes:
            if value is None:
                batch.delete(table[:1].encode() + key)
            else:
                batch.put(table[:1].encode() + key, value)
        self.db.write(batch)

    def close(self) -> None:
        self.db.close()


class Ours:
    """The store of a node."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)

    def commit(self, writes: Writes) -> None:
        self.store.append([(table, _key(table, key), value) for table, key, value in writes])
        if self.store.unfolded_bytes > FOLD_BYTES:
            self.store.begin_fold()
            self.store.fold()
            self.store.end_fold()

    def close(self) -> None:
        self.store.close()


def _key(table: str, key: bytes) -> int | tuple[str, int]:
    number = int.from_bytes(key[-8:], "big")
    return number if table == "messages" else (f"client {key[7]}", number)


STORES: dict[str, Callable[[Path], Kept]] = {
    "SQLite, one transaction a batch": Sqlite,
    "SQLite, one append-only table": SqliteLog,
    "coterie's": Ours,
    "append-only file before SQLite": FileThenSqlite,
    "the same, every batch synced": lambda folder: FileThenSqlite(folder, True),
    "lmdb, nothing synced": Lmdb,
    "rocksdict": Rocks,
}


def message(number: int, sessions: int) -> Iterator[tuple[str, bytes, bytes | None]]:
    yield "messages", number.to_bytes(8, "big"), BODY
    for session in range(sessions):
        yield "deliveries", session.to_bytes(8, "big") + number.to_bytes(8, "big"), REFERENCE


def online(store: Kept, messages: int, per_batch: int) -> None:
    """The acknowledgement of a batch comes while the next one is taken."""
    done: Writes = []
    for first in range(0, messages, per_batch):
        writes = [one for number in range(first, first + per_batch) for one in message(number, 1)]
        store.commit(writes + done)
        done = [(table, key, None) for table, key, _ in writes]
    store.commit(done)


def offline(store: Kept, messages: int, sessions: int) -> None:
    for number in range(messages):
        store.commit(list(message(number, sessions)))


def measure(make: Callable[[Path], Kept], work: Callable[[Kept], None], messages: int) -> tuple[float, float]:
    """(microseconds, bytes on disk) for a message."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        store = make(Path(place))
        start_s = time.process_time()
        work(store)
        store.close()
        spent_s = time.process_time() - start_s
        size = sum(path.stat().st_blocks * 512 for path in Path(place).rglob("*") if path.is_file())
    return spent_s / messages * 1e6, size / messages


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--messages", type=int, default=20_000)
    count = arguments.parse_args().messages
    works: list[tuple[str, int, Callable[[Kept], None]]] = [
        ("online, 1", count, lambda store: online(store, count, 1)),
        ("online, 20", count, lambda store: online(store, count, 20)),
        ("50 offline", count // 20, lambda store: offline(store, count // 20, 50)),
    ]
    print(f"{'':34}" + "".join(f"{name:>12} us {'bytes':>8}" for name, _, _ in works))
    for name, make in STORES.items():
        cells: list[Any] = []
        try:
            for _, messages, work in works:
                cells += measure(make, work, messages)
        except ImportError as error:
            print(f"{name:34} not here: {error.name}")
            continue
        print(
            f"{name:34}"
            + "".join(f"{us:15.1f} {size:8,.0f}" for us, size in zip(cells[::2], cells[1::2], strict=True)),
            flush=True,
        )


if __name__ == "__main__":
    main()
