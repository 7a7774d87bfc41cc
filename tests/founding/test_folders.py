"""A new network on disk: complete, consistent, secrets unreadable to others, refused rather than overwritten."""

from __future__ import annotations

import json
import stat
from dataclasses import replace

import pytest

from coterie.errors import ConfigError, InputError
from coterie.founding.folders import FoundingWish, found
from coterie.founding.hosts import read_hosts
from coterie.live.config import load_config
from coterie.live.passwords import check_password
from coterie.systems import system_named

HOSTS = read_hosts(["a=127.0.0.2@east,b=127.0.0.3@east,c=127.0.0.4@west"])


def test_every_host_has_what_its_node_needs(tmp_path):
    passwords = found(FoundingWish(HOSTS, users=("ann", "bob"), is_tls=True), system_named("mesh"), tmp_path / "net")
    configs = [load_config(tmp_path / "net" / host.name / "node.toml") for host in HOSTS]
    assert [config.node.id for config in configs] == [0, 1, 2]
    assert len({config.keys() for config in configs}) == 1
    for config in configs:
        assert [(peer.id, peer.host, peer.zone) for peer in config.network.peers] == [
            (0, "127.0.0.2", "east"), (1, "127.0.0.3", "east"), (2, "127.0.0.4", "west"),
        ]  # fmt: skip
        assert config.mqtt.port == -1
        assert config.access.anonymous == "never"
        slice_ = json.loads((config.path(config.network.slice)).read_text())
        assert slice_["node"] == config.node.id
        assert {user.name: check_password(passwords[user.name].encode(), user.password) for user in config.access.users}
        assert (config.path("coterie.service")).read_text().count("ProtectSystem=strict") == 1
    assert (tmp_path / "net" / "passwords.txt").read_text() == "".join(f"{n} {w}\n" for n, w in passwords.items())


def test_secrets_are_readable_to_nobody_else(tmp_path):
    found(FoundingWish(HOSTS, users=("ann",), is_tls=True), system_named("mesh"), tmp_path / "net")
    secret = {"node.toml", "network.key", "admin.token", "node.key", "authority.key", "passwords.txt"}
    met = set()
    for path in (tmp_path / "net").rglob("*"):
        if path.is_file() and path.name in secret:
            met.add(path.name)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert met == secret


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(ConfigError, match=r"--out: expected a folder that is empty.*move it away"):
        found(FoundingWish(HOSTS), system_named("mesh"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_authority_of_your_own(tmp_path):
    found(FoundingWish(HOSTS, is_tls=True), system_named("mesh"), tmp_path / "one")
    own = (tmp_path / "one" / "authority" / "authority.pem", tmp_path / "one" / "authority" / "authority.key")
    found(FoundingWish(HOSTS, is_tls=True, authority=own), system_named("mesh"), tmp_path / "two")
    assert (tmp_path / "two" / "a" / "authority.pem").read_bytes() == own[0].read_bytes()
    assert not (tmp_path / "two" / "authority").exists()
    with pytest.raises(InputError, match="cannot be used as an authority"):
        found(FoundingWish(HOSTS, is_tls=True, authority=(own[0], own[0])), system_named("mesh"), tmp_path / "three")


@pytest.mark.parametrize("users", [("a/b",), ("#",), ("$x",), ("ann", "ann"), ("",)])
def test_users_that_permissions_could_not_name(tmp_path, users):
    with pytest.raises(ConfigError, match="--users"):
        found(FoundingWish(HOSTS, users=users), system_named("mesh"), tmp_path / "net")
    assert not (tmp_path / "net").exists()


def test_a_node_with_peers_and_without_a_slice_does_not_start(tmp_path):
    """It would look healthy and pass nothing on."""
    found(FoundingWish(HOSTS), system_named("mesh"), tmp_path / "net")
    path = tmp_path / "net" / "a" / "node.toml"
    path.write_text(path.read_text().replace('slice = "slice.json"', 'slice = ""'))
    with pytest.raises(ConfigError, match=r"network\.slice: expected the JSON file.*coterie init"):
        load_config(path)


def test_every_host_may_make_its_own_folder_from_the_same_secrets(tmp_path):
    """As the pods of a StatefulSet do: one after the other, on disks of their own."""
    both = FoundingWish(HOSTS, key="k" * 32, token="t" * 32, data="/data")
    found(both, system_named("mesh"), tmp_path / "all")
    for host in HOSTS:
        found(replace(both, only=host.name), system_named("mesh"), tmp_path / f"at-{host.name}")
        assert [path.name for path in (tmp_path / f"at-{host.name}").iterdir()] == [host.name]
        for name in ("node.toml", "slice.json", "network.key", "admin.token"):
            own, given = tmp_path / f"at-{host.name}" / host.name / name, tmp_path / "all" / host.name / name
            assert own.read_bytes() == given.read_bytes()
    with pytest.raises(ConfigError, match="--only: expected one of the hosts: a, b, c"):
        found(replace(both, only="d"), system_named("mesh"), tmp_path / "at-d")
