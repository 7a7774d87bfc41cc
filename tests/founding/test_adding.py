"""A host more for a network on disk."""

from __future__ import annotations

import pytest

from coterie.errors import ConfigError, InputError
from coterie.founding.adding import added
from coterie.founding.folders import FoundingWish, found
from coterie.founding.hosts import read_hosts
from coterie.live.config import load_config
from coterie.systems import system_named

HOSTS = read_hosts(["a=127.0.0.2,b=127.0.0.3"])


def test_a_new_host_has_what_the_others_have_and_knows_whom_to_ask(tmp_path):
    found(FoundingWish(HOSTS, users=("ann",), is_tls=True), system_named("mesh"), tmp_path / "net")
    first = load_config(tmp_path / "net" / "a" / "node.toml")
    (one,) = added(["c=127.0.0.4"], tmp_path / "net")
    config = load_config(tmp_path / "net" / "c" / "node.toml")
    assert (one.node, config.node.id, config.name) == (2, 2, "c")
    assert config.network.join == ["127.0.0.2:3883", "127.0.0.3:3883"]
    assert (config.keys(), config.access, config.mqtt.tls_port) == (first.keys(), first.access, 8883)
    assert [(peer.id, peer.server) for peer in config.network.peers] == [(2, "127.0.0.4:8883")]
    assert (tmp_path / "net" / "c" / "node.pem").exists()
    (other,) = added(["d=127.0.0.5"], tmp_path / "net")
    assert other.node == 3


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(ConfigError, match="--out: expected the folder that `coterie init` made"):
        added(["c"], tmp_path)
    found(FoundingWish(HOSTS, is_tls=True), system_named("mesh"), tmp_path / "net")
    with pytest.raises(ConfigError, match="--add: expected a host that is not in"):
        added(["a"], tmp_path / "net")
    with pytest.raises(ConfigError, match="--add: expected a host that is not in"):
        added(["c"], tmp_path / "net", number=1)
    with pytest.raises(ConfigError, match="--add: expected no zone, got 'c'"):
        added(["c=127.0.0.4@east"], tmp_path / "net")
    (tmp_path / "net" / "authority" / "authority.key").unlink()
    with pytest.raises(InputError, match=r"authority.key: there is no such file: it signs"):
        added(["c"], tmp_path / "net")


def test_the_data_folder_is_where_the_operator_wants_it(tmp_path):
    found(FoundingWish(HOSTS, data="/var/lib/coterie"), system_named("mesh"), tmp_path / "net")
    assert load_config(tmp_path / "net" / "a" / "node.toml").node.data == "/var/lib/coterie"
