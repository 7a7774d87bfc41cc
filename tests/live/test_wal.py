"""Batches survive whatever is cut off behind them; anything else that is wrong with their files is said."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.batches import encode_batch, encode_head
from coterie.errors import InputError
from coterie.live.wal import Batches

BOOT, LATER = b"one boot", b"another boot"


def filled(folder: Path, bodies: list[bytes]) -> Path:
    batches = Batches(folder, BOOT)
    for body in bodies:
        batches.append(body)
    batches.close()
    return next(folder.glob("batches-*"))


def bodies_in(folder: Path, boot: bytes = BOOT) -> list[bytes]:
    return [batch.body for batch in Batches(folder, boot).unread]


BODIES = st.lists(st.binary(max_size=40), min_size=1, max_size=6)


@given(BODIES, st.data())
def test_a_cut_at_any_byte_leaves_whole_batches_and_the_next_ones_follow(
    bodies: list[bytes], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = filled(folder, bodies)
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        batches = Batches(folder, BOOT)
        found = [batch.body for batch in batches.unread]
        assert found == bodies[: len(found)]
        if cut == len(whole):
            assert found == bodies
        lost = len(bodies) - len(found)
        assert lost == 0 or cut < len(whole)
        batches.append(b"next")
        batches.close()
        assert bodies_in(folder) == [*found, b"next"]


@given(BODIES, st.data())
def test_a_flipped_byte_is_never_taken_for_a_batch(bodies: list[bytes], data: st.DataObject) -> None:
    """In the last batch it may be a torn end; anywhere before, the reader refuses."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = filled(folder, bodies)
        whole = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(whole)
        if at < len(whole) - 24 - len(bodies[-1]):
            with pytest.raises(InputError, match="damaged at byte"):
                bodies_in(folder)
        else:
            assert bodies_in(folder) == bodies[:-1]


def test_after_a_power_cut_what_was_not_synced_may_be_gone_but_no_more(tmp_path: Path) -> None:
    batches = Batches(tmp_path, BOOT)
    batches.append(b"first")
    batches.note_synced(batches.syncing()())
    for body in (b"second", b"third"):
        batches.append(body)
    batches.close()
    path = next(tmp_path.glob("batches-*"))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"second", b"s\0\0ond"))
    with pytest.raises(InputError, match="damaged"):  # the machine ran on: a disk that lies
        bodies_in(tmp_path)
    assert bodies_in(tmp_path, LATER) == [b"first"]
    path.write_bytes(whole.replace(b"first", b"f\0\0st"))
    with pytest.raises(InputError, match="damaged"):  # it was on the disk once
        bodies_in(tmp_path, LATER)


def test_files_are_deleted_when_told_and_not_before(tmp_path: Path) -> None:
    batches = Batches(tmp_path, BOOT)
    batches.append(b"one")
    assert batches.turn() == 1
    batches.append(b"two")
    assert len(list(tmp_path.glob("batches-*"))) == 2
    batches.forget()
    batches.close()
    assert [batch.body for batch in Batches(tmp_path, BOOT, 1).unread] == [b"two"]
    with pytest.raises(InputError, match="damaged"):  # batch 1 is nowhere
        Batches(tmp_path, BOOT, 0)


def test_a_full_disk_takes_back_what_is_half_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Batches(tmp_path, BOOT)
    batches.append(b"kept")
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
    with pytest.raises(OSError, match="No space"):
        batches.append(b"not kept")
    monkeypatch.undo()
    batches.append(b"later")
    assert bodies_in(tmp_path) == [b"kept", b"later"]


def test_a_batch_that_is_missing_in_between_is_damage(tmp_path: Path) -> None:
    whole = encode_head(BOOT, 1) + encode_batch(1, 0, b"one") + encode_batch(3, 0, b"three")
    (tmp_path / "batches-0000000000000001").write_bytes(whole)
    with pytest.raises(InputError, match="damaged"):
        bodies_in(tmp_path)


def test_a_file_that_was_left_before_it_was_synced_is_synced_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    batches = Batches(tmp_path, BOOT, is_synced=True)
    batches.append(b"one")
    batches.turn()
    batches.append(b"two")
    first, second = sorted(str(path) for path in tmp_path.glob("batches-*"))
    batches.note_synced(batches.syncing()())
    assert (synced, batches.synced) == ([first, second], 2)
    batches.turn()  # all of it is on the disk: nothing is left open
    before = len(os.listdir("/proc/self/fd"))
    batches.append(b"three")
    batches.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_a_killed_process_left_is_synced_before_anybody_relies_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a power cut would take it although later batches are on the disk, and were answered for."""
    path = filled(tmp_path, [b"one", b"two"])
    synced: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    assert len(Batches(tmp_path, BOOT, is_synced=True).unread) == 2
    assert synced == [str(path)]
    Batches(tmp_path, BOOT)
    assert synced == [str(path)]
