"""A lock keeps a second one out, here and, by a stand-in, where there is no fcntl."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from coterie.locking import lock


def test_a_second_one_is_kept_out_until_the_file_is_closed(tmp_path):
    with open(tmp_path / "lock", "w") as first, open(tmp_path / "lock", "w") as second:
        lock(first)
        with pytest.raises(OSError, match="temporarily unavailable"):
            lock(second)
    with open(tmp_path / "lock", "w") as third:
        lock(third, waits=True)


def test_windows_is_asked_in_its_own_way(tmp_path, monkeypatch):
    asked = []
    stand_in = SimpleNamespace(LK_LOCK=1, LK_NBLCK=2, locking=lambda *arguments: asked.append(arguments[1:]))
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
    with open(tmp_path / "lock", "w") as file:
        lock(file)
        lock(file, waits=True)
    assert asked == [(2, 1), (1, 1)]
