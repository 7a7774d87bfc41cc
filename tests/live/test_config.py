"""The configuration file: the example is complete and true, and mistakes are named."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

import coterie.live
from coterie.errors import ConfigError, InputError
from coterie.live.bridgesettings import BridgeSection, BridgeTopic
from coterie.live.config import NodeConfig, config_of, load_config

EXAMPLE = Path(coterie.live.__file__).parent / "example.toml"


def test_the_example_shows_every_key_with_its_default() -> None:
    shown = tomllib.loads(EXAMPLE.read_text())
    defaults = msgspec.to_builtins(NodeConfig())
    for section, keys in defaults.items():
        if section in ("folder", "bridges", "process"):
            continue
        given = {**shown[section]}
        if section == "network":
            keys = {name: value for name, value in keys.items() if name != "peers"}
        if section == "access":
            keys = {name: value for name, value in keys.items() if name != "users"}
        assert msgspec.json.encode(given, order="sorted") == msgspec.json.encode(keys, order="sorted"), section


def test_the_example_shows_a_bridge_with_every_key() -> None:
    text = EXAMPLE.read_text()
    lines = text[text.index("# [[bridges]]") :].splitlines()
    (shown,) = tomllib.loads("\n".join(line.removeprefix("# ") for line in lines))["bridges"]
    given = BridgeSection(name="old", server="mqtt.example.org:1883", topics=(BridgeTopic(filter="sensors/#"),))
    assert shown == msgspec.json.decode(msgspec.json.encode(given))


def test_the_example_loads() -> None:
    assert load_config(EXAMPLE).name == "node-0"


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"mqtt": {"prot": 1}}, "prot"),
        ({"mqtt": {"port": "x"}}, "port"),
        ({"mqtt": {"port": 70_000}}, "mqtt.port"),
        ({"node": {"id": 5000}}, "node.id"),
        ({"mqtt": {"limits": {"receive_maximum": 0}}}, "mqtt.receive_maximum"),
        ({"mqtt": {"limits": {"nonsense": 1}}}, "nonsense"),
        ({"mqtt": {"tls_port": 8883}}, "mqtt.certificate"),
        ({"links": {"silence_s": 1.0}}, "links.silence_s"),
        ({"mqtt": {"latency_budget_ms": 0.5}}, "mqtt.latency_budget_ms"),
        ({"admin": {"token": "t", "token_file": "f"}}, "admin.token_file"),
        ({"network": {"peers": [{"id": 1, "host": "h", "port": 1}]}}, "network.key"),
        ({"network": {"key": "k", "peers": [{"id": 1, "host": "h", "port": 1}] * 2}}, "network.peers"),
        ({"bridges": [{"name": "b", "server": "h:1", "topics": [{"filter": "a"}]}] * 2}, "bridges.name"),
        ({"bridges": [{"name": "b", "server": "h", "topics": [{"filter": "a"}]}]}, "bridges b: server"),
        ({"bridges": [{"name": "b", "server": "h:1"}]}, "bridges b: topics"),
        ({"bridges": [{"name": "b", "server": "h:1", "topics": [{"filter": "a/#/b"}]}]}, "bridges b: filter"),
        (
            {
                "bridges": [
                    {"name": "b", "server": "h:1", "version": 4, "topics": [{"filter": "#", "direction": "both"}]}
                ]
            },
            "bridges b: filter",
        ),
        ({"bridges": [{"name": "b", "server": "h:1", "topics": [{"filter": "a", "qos": 2}]}]}, "qos"),
    ],
)
def test_mistakes_name_the_key(table: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        config_of(table)


def test_secrets_are_not_told_with_a_mistake() -> None:
    for table in ({"network": {"keyy": "geheim"}}, {"admin": {"tokn": 1, "token": 7}},
                  {"access": {"users": [{"name": "a", "passwort": "geheim"}]}}):  # fmt: skip
        with pytest.raises(ConfigError) as told:
            config_of(table)
        assert "geheim" not in str(told.value)


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("[node\n")
    with pytest.raises(InputError, match="not TOML"):
        load_config(path)
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path / "absent.toml")
