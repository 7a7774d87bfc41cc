"""What lies on a disk and may have been damaged or written by somebody else: it is told as a mistake, nothing else."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import msgspec

from coterie.broker.batches import encode_batch, encode_head, read_file
from coterie.broker.journal import Journal, PublishTally
from coterie.broker.passwords import read_password_file
from coterie.errors import ConfigError, InputError
from coterie.live.config import config_of
from coterie.live.passwords import hash_password
from coterie.live.wal import Batches
from coterie.model.plan import Slice
from coterie.pipeline.journal import MALFORMED, Range, read_range
from coterie.plans.store import PlanStore
from tests.plans.made import plan_of

BOOT = b"boot"


class Desk:
    """A folder in memory where inputs are laid, made when it is first used and gone with the process."""

    def __init__(self) -> None:
        self._made: tempfile.TemporaryDirectory[str] | None = None

    def folder(self, name: str) -> Path:
        if self._made is None:
            memory = Path("/dev/shm")
            self._made = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        found = Path(self._made.name) / name
        found.mkdir(exist_ok=True)
        return found


_desk = Desk()


def files(data: bytes) -> None:
    """Password files, slices and configurations."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(ValueError):
        read_password_file(text)
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        msgspec.json.decode(data, type=Slice)
    try:
        table = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    if isinstance(table, dict):
        with contextlib.suppress(ConfigError):
            config_of(table)


def journal(data: bytes) -> None:
    """Every line that is not empty comes out as one row, read whole or in two ranges."""
    path = _desk.folder("journal") / "000000000001.jsonl"
    path.write_bytes(data)
    cut = data.rfind(b"\n", 0, len(data) // 2) + 1
    whole = [row for batch in read_range(Range("n", str(path), 0, len(data))) for row in batch.to_pylist()]
    pieces = [Range("n", str(path), 0, cut), Range("n", str(path), cut, len(data))]
    assert whole == [row for piece in pieces for batch in read_range(piece) for row in batch.to_pylist()]
    assert len(whole) == sum(bool(line.strip()) for line in data.splitlines())
    assert all((row["kind"] == MALFORMED) <= (row["detail"] is not None) for row in whole)


def batches(data: bytes) -> None:
    """What the store keeps before SQLite has it: batches come out as they went in, in a row, or it is said."""
    found = read_file(data)
    if found is not None:
        assert [one.number for one in found.batches] == list(range(found.first, found.first + len(found.batches)))
    folder = _desk.folder("batches")
    for path in folder.iterdir():
        path.unlink()
    (folder / f"batches-{1:020d}").write_bytes(data)
    try:
        kept = Batches(folder, BOOT)
    except InputError:
        return
    count = len(kept.unread)
    kept.append(b"and one more")
    kept.close()
    again = Batches(folder, BOOT)
    assert len(again.unread) == count + 1
    assert again.unread[-1].body == b"and one more"
    again.close()


def plans(data: bytes) -> None:
    """A plan's manifest, its design and its tables; the first byte says which of them it is."""
    folder = _desk.folder("plans")
    if not (folder / "good").exists():
        plan_of("star").save(folder / "good")
    names = sorted(path.name for path in PlanStore(folder / "good").folder(1).iterdir())
    name = names[data[0] % len(names)] if data else names[0]
    store = PlanStore(folder / "bad")
    if not store.root.exists():
        shutil.copytree(folder / "good", folder / "bad")
    good = (PlanStore(folder / "good").folder(1) / name).read_bytes()
    # Bytes of a good file with the input laid over them somewhere: pure noise would not get past the first check.
    at = int.from_bytes(data[1:3], "big") % (len(good) + 1)
    (store.folder(1) / name).write_bytes(good[:at] + data[3:] + good[at + len(data[3:]) :])
    try:
        plan = store.load()
        _ = plan.design, plan.topics, plan.clients, plan.nodes, plan.placement, plan.moves
        plan.slices()
    except InputError:
        pass
    finally:
        (store.folder(1) / name).write_bytes(good)


def _lines() -> bytes:
    written = Journal("n")
    written.subscribed(1.5, "ann", "a/#")
    written.published(PublishTally("bob", "a/b"), 2.0, 20, 3)
    written.unsubscribed(3.25, "ann", "a/#")
    written.admitted(4.0, "cid", 1, "likes it", 2)
    written.counters(60.0, {"messages_in": 4.0})
    return b"\n".join(written.take_lines()) + b"\n"


_row = [encode_batch(number, number - 1, b"body %d" % number) for number in (1, 2, 3)]
LOGS = [_lines(), b'{"t": 1e9, "kind": "publish", "client": "c", "topic": "t", "count": 2, "bytes": 5}\n']
BATCHES = [encode_head(BOOT, 1) + b"".join(_row), encode_head(b"another boot", 1) + _row[0], b"".join(_row[1:])]
PLANS = [b"\x00\x00\x10abc", b"\x01\x01\x00" + bytes(8), b"\x02\x00\x00{}", b'\x03\x00\x40": -1, ', b"\x04\x00\x00\xff"]
FILES = [
    b"ann:" + hash_password("x").encode() + b"\nbob:$7$101$AA==$AA==\n",
    msgspec.json.encode(Slice(version=1, system="flooding", node=0)),
    b'{"mqtt": {"port": 1, "limits": {"queue_count_max": 5}}, "network": {"peers": [{"id": 1}]}}',
    json.dumps(
        {"access": {"users": [{"name": "ann", "publish": ["a/%c/#"]}]}, "limits": {"connects_per_s": 1.5}}
    ).encode(),
]
