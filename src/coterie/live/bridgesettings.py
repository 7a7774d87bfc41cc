"""Bridges in a node's configuration: what may stand there, checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from coterie.broker.settings import AccessSection, ConfigTable
from coterie.errors import ConfigError
from coterie.mqtt.bridge import BridgeRule, check_rules


class BridgeTopic(ConfigTable, frozen=True, kw_only=True):
    """`local` + filter here is `remote` + filter there."""

    filter: str
    direction: Literal["in", "out", "both"] = "in"
    qos: Literal[0, 1] = 1
    local: str = ""
    remote: str = ""


class BridgeSection(ConfigTable, frozen=True, kw_only=True):
    """Another MQTT broker that takes messages from this network and gives it some."""

    name: str
    server: str
    version: Literal[4, 5] = 5
    user: str = ""
    password_file: str = ""
    client_id: str = ""
    tls: bool = False
    authority: str = ""
    certificate: str = ""
    certificate_key: str = ""
    local_user: str = ""
    topics: tuple[BridgeTopic, ...] = ()


def rules_of(section: BridgeSection) -> tuple[BridgeRule, ...]:
    return tuple(
        BridgeRule(one.filter, one.direction != "out", one.direction != "in", one.qos, one.local, one.remote)
        for one in section.topics
    )


def check_bridges(bridges: Sequence[BridgeSection], access: AccessSection) -> None:
    """Raise ConfigError for bridges that could not work."""
    names = [one.name for one in bridges]
    if len(set(names)) != len(names) or not all(names):
        raise ConfigError("bridges.name", names, "a name for each bridge, and every name once")
    users = {user.name for user in access.users}
    for one in bridges:
        if not one.topics:
            raise ConfigError(f"bridges {one.name}: topics", [], "at least one [[bridges.topics]]")
        if one.local_user and one.local_user not in users:
            raise ConfigError(f"bridges {one.name}: local_user", one.local_user, "a user of [[access.users]]")
        if not one.local_user and access.anonymous == "never":
            told = "a user of [[access.users]] whose rights the bridge has, because access.anonymous is never"
            raise ConfigError(f"bridges {one.name}: local_user", "", told)
        if not one.server.rpartition(":")[2].isdigit() or not one.server.rpartition(":")[0]:
            raise ConfigError(f"bridges {one.name}: server", one.server, "host:port")
        check_rules(one.name, rules_of(one), one.version)
