"""`coterie backtest` as docs/howto/backtest.md tells it, on the embedded data, which is too small for Spark."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from coterie.pipeline import latesession

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "howto" / "backtest.md"


@pytest.fixture
def coterie(monkeypatch, typed):
    def refuse(master: str) -> object:
        raise AssertionError("Spark was started for a small log")

    monkeypatch.setattr(latesession, "_open", refuse)
    return typed


def test_the_page_word_for_word(coterie, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (shlex.split(block) for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert (first[0], second[-2]) == ("coterie", ">")
    code, said, err = coterie(*first[1:])
    assert code == 0, err
    assert all(line.endswith(("so far)", "loading ...")) for line in err.splitlines()), "nothing but progress"
    for name in ("hash", "admission", "plan once", "replan", "priced moves", "coterie", "oracle", "bound"):
        assert re.search(rf"^{name} ", said, re.MULTILINE), name
    assert "On this log with 8 brokers" in said
    page = Path("out/debian-updates/backtest.html").read_text()
    assert page.count("<svg") == 2
    code, said, _ = coterie(*second[1:-2])
    found = json.loads(said)
    assert code == 0
    assert found["about"]["windows"] == 4
    policies = found["brokers"]["8"]["policies"]
    assert policies["hash"]["net"] == 0.0
    assert policies["coterie"]["net"] >= 0.0
    assert policies["oracle"]["gross"] <= found["brokers"]["8"]["bound"]["gross"]


def test_brokers_that_the_log_lists_are_not_chosen(coterie, tmp_path) -> None:
    code, _, err = coterie("backtest", "--windows", "2", "--brokers", "8", "--brokers", "32", "-o", str(tmp_path))
    assert code == 2
    assert "lists its nodes itself" in err
