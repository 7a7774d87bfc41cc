"""The dashboard looks at a real network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coterie.api.places import places_of
from coterie.dashboard.watching import NetworkWatcher
from coterie.errors import ConfigError, RunError
from coterie.live.tokens import TOKEN_FILE, read_token
from tests.interop.test_up import command, free_base

pytestmark = pytest.mark.interop


def test_a_running_network_in_one_picture(tmp_path: Path) -> None:
    base = free_base()
    options = ["--nodes", "2", "--system", "scribe", "--base-port", str(base), "--data", str(tmp_path / "net")]
    network = subprocess.Popen(command("up", "up_command", *options), stdout=subprocess.PIPE, text=True)
    assert network.stdout is not None
    try:
        assert "2 nodes" in network.stdout.readline()
        watcher = NetworkWatcher(places_of(None, "127.0.0.1", base, 2), read_token(tmp_path / "net" / TOKEN_FILE), None)
        watcher.start()
        made = watcher.look()
    finally:
        network.terminate()
        network.communicate(timeout=30)
    assert [node["status"] for node in made["nodes"]] == ["ok", "ok"]
    assert made["links"] == [{"ends": [0, 1], "is_connected": True, "trees": made["links"][0]["trees"]}]
    assert [node["status"] for node in watcher.look()["nodes"]] == ["down", "down"]


def test_nobody_there_and_nonsense_addresses_are_named() -> None:
    with pytest.raises(RunError, match="start a network with"):
        NetworkWatcher(places_of(["127.0.0.1:1"], "", 0, 1), "", None).start()
    with pytest.raises(ConfigError, match="HOST:PORT"):
        places_of(["nonsense"], "", 0, 1)
