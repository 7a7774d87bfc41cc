"""The log: lines for people or machines, and files that are turned over."""

from __future__ import annotations

import json

import pytest

from coterie.errors import ConfigError
from coterie.live.config import config_of
from coterie.live.nodelog import NodeLog


def test_lines_for_machines(tmp_path, capsys):
    log = NodeLog(config_of({"node": {"log_format": "json", "name": "north"}}, str(tmp_path)))
    log('she said "ü"')
    found = json.loads(capsys.readouterr().out)
    assert (found["node"], found["text"]) == ("north", 'she said "ü"')


def test_files_are_turned_over_and_the_oldest_is_forgotten(tmp_path):
    log = NodeLog(
        config_of({"node": {"log_file": "logs/node", "log_bytes_max": 4096, "log_files_max": 3}}, str(tmp_path))
    )
    for number in range(200):
        log(f"line {number} " + "x" * 80)
    log.close()
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert names == ["node", "node.1", "node.2"]
    assert all(path.stat().st_size <= 4096 for path in (tmp_path / "logs").iterdir())
    lines = [line for name in reversed(names) for line in (tmp_path / "logs" / name).read_text().splitlines()]
    numbers = [int(line.split()[2]) for line in lines]
    assert numbers == list(range(numbers[0], 200))


def test_what_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"node.log_file: expected a file that can be written"):
        NodeLog(config_of({"node": {"log_file": "file/log"}}, str(tmp_path)))
