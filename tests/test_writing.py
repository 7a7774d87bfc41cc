"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coterie.writing import folder_replacing, replacing, sweep, write_whole


def test_a_file_is_replaced_in_one_move_and_synced_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.json"
    write_whole(target, "old")
    did: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (did.append("sync"), fsync(handle))[1])
    monkeypatch.setattr(Path, "replace", lambda self, other: (did.append("rename"), replace(self, other))[1])
    write_whole(target, b"new")
    assert target.read_bytes() == b"new"
    assert did == ["sync", "rename", "sync"]  # the content, the name, the folder that holds the name


def test_who_fails_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    target = tmp_path / "a.npz"
    write_whole(target, "old")

    def fail() -> None:
        with replacing(target) as beside:
            assert beside.suffix == ".npz"
            beside.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


def test_a_folder_appears_whole_and_replaces_the_one_before(tmp_path: Path) -> None:
    place = tmp_path / "000001"
    for text in ("old", "new"):
        with folder_replacing(place) as unfinished:
            (unfinished / "deep").mkdir()
            (unfinished / "deep" / text).write_text(text)
            assert not (place / "deep" / text).exists()
    assert [path.name for path in (place / "deep").iterdir()] == ["new"]
    with pytest.raises(RuntimeError), folder_replacing(place):
        raise RuntimeError
    assert (place / "deep" / "new").exists()


def test_what_a_killed_writer_left_is_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-1-x").mkdir()
    (tmp_path / ".unfinished-1-y").write_text("half")
    (tmp_path / "kept").write_text("whole")
    sweep(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]
