"""The command as a person types it, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from coterie.cli import main

Called = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """Call it with the command's arguments: (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coterie", *arguments])
        monkeypatch.delenv("COTERIE_DEBUG", raising=False)
        with pytest.raises(SystemExit) as ended:
            main.run()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call
