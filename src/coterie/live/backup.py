"""A node's store in one file, taken while the node runs; and put back.

First the batches are copied, then SQLite, each as it is at that moment. What SQLite folded in between is in its copy,
and batches that it has already are skipped: together they are the store as it was when the later of the two was
copied. The copy is then folded, so that a backup is one SQLite file.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from coterie.errors import ConfigError, InputError
from coterie.live.store import FORMAT, STORE_FILE, Store
from coterie.locking import lock
from coterie.writing import replacing


def back_up(data: Path, out: Path) -> int:
    """The store of a data folder as one file at `out`, which appears whole or not at all; its size in bytes."""
    if not (data / STORE_FILE).is_file():
        raise InputError(str(data), "there is no store of a node")
    if out.exists():
        raise ConfigError("--out", str(out), "a file that is not there yet")
    with TemporaryDirectory(prefix=".coterie-backup-", dir=out.parent) as name:
        folder = Path(name)
        _copy(data, folder)
        store = Store(folder)
        if store.begin_fold():
            store.fold()
            store.end_fold()
        store.close()
        _check(folder / STORE_FILE)
        with replacing(out) as beside:
            shutil.move(folder / STORE_FILE, beside)
    return out.stat().st_size


def restore(backup: Path, data: Path) -> None:
    """Put a backup back as the store of a node that does not run and has none of its own."""
    if not backup.is_file():
        raise InputError(str(backup), "there is no such file")
    _check(backup)
    data.mkdir(parents=True, exist_ok=True)
    with open(data / "lock", "w") as held:
        try:
            lock(held)
        except OSError:
            raise ConfigError("node.data", str(data), "a folder that no running node uses") from None
        taken = sorted(path.name for pattern in ("node.sqlite*", "batches-*") for path in data.glob(pattern))
        if taken:
            told = "a folder without a store"
            raise ConfigError("node.data", str(data), told, do=f"move {', '.join(taken)} away first")
        with replacing(data / STORE_FILE) as beside:
            shutil.copyfile(backup, beside)


def _copy(data: Path, folder: Path) -> None:
    for path in sorted(data.glob("batches-*")):
        try:
            shutil.copyfile(path, folder / path.name)
        except FileNotFoundError:
            continue  # folded and deleted meanwhile: SQLite, which is copied next, has all of it
    source = sqlite3.connect(f"file:{data / STORE_FILE}?mode=ro", uri=True)
    target = sqlite3.connect(folder / STORE_FILE)
    try:
        source.backup(target)
    except sqlite3.Error as error:
        raise InputError(str(data / STORE_FILE), f"cannot be copied: {error}") from None
    finally:
        source.close()
        target.close()


def _check(path: Path) -> None:
    """Every page, and that we can read what it holds."""
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        (said,) = db.execute("pragma integrity_check").fetchone()
        (found,) = db.execute("pragma user_version").fetchone()
    except sqlite3.Error as error:
        raise InputError(str(path), f"is no backup of a node: {error}") from None
    finally:
        db.close()
    if said != "ok":
        raise InputError(str(path), f"is damaged: {said}")
    if found != FORMAT:
        raise InputError(str(path), f"is a store of format {found}; this version reads and writes {FORMAT}")
