"""A node takes a new configuration while it runs: users, rules, limits, certificates, keys and the log level.

What needs a restart stays as it is and is named. Nothing is taken if anything in the new configuration is wrong.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from coterie.broker.access import Access
from coterie.broker.commands import Reload
from coterie.errors import ConfigError
from coterie.live.config import NodeConfig, secrets_of
from coterie.live.guard import Guard
from coterie.live.tokens import kept_token

if TYPE_CHECKING:
    from coterie.live.node import LiveNode


def merged(old: NodeConfig, new: NodeConfig) -> NodeConfig:
    """The configuration as far as a running node can take it."""
    mqtt, links, network, admin = new.mqtt, new.links, new.network, new.admin
    return replace(
        old,
        node=replace(old.node, log_level=new.node.log_level),
        access=replace(new.access, logins=old.access.logins),
        limits=new.limits,
        mqtt=replace(
            old.mqtt, limits=mqtt.limits, profile=mqtt.profile, certificate=mqtt.certificate,
            certificate_key=mqtt.certificate_key, connections_max=mqtt.connections_max,
            websocket_origins=mqtt.websocket_origins,
        ),
        links=replace(old.links, certificate=links.certificate, certificate_key=links.certificate_key),
        network=replace(
            old.network, key=network.key, key_file=network.key_file, accepted_keys=network.accepted_keys
        ),
        admin=replace(old.admin, token=admin.token, token_file=admin.token_file, hosts=admin.hosts),
    )  # fmt: skip


def differences(old: NodeConfig, new: NodeConfig) -> list[str]:
    """The keys that are not the same, as they stand in the file; never their values."""
    return _differences(msgspec.to_builtins(old), msgspec.to_builtins(new), "")


def _differences(old: Any, new: Any, name: str) -> list[str]:
    if old == new:
        return []
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [name]
    keys = list(dict.fromkeys([*old, *new]))
    return [one for key in keys for one in _differences(old.get(key), new.get(key), f"{name}.{key}".lstrip("."))]


def reload(node: LiveNode, new: NodeConfig) -> dict[str, list[str]]:
    """Take what can be taken; returns the keys of that and of the rest. Files that keys name are read again anyway."""
    old, taken = node.config, merged(node.config, new)
    passwords, key = secrets_of(taken)
    Access(taken.access, passwords, key)  # whatever is wrong with it is told here, before anything has changed
    command = Reload(taken.access, taken.limits, taken.options(), taken.mqtt.connections_max, passwords, key)
    keys = taken.keys()
    token = taken.admin.token or kept_token(taken.token_path)[0]
    _load_certificates(node, taken)
    node.config, node.token = taken, token
    node.interface.guard = Guard(token, taken.admin.hosts)
    if node.peers is not None:
        node.peers.keys = keys
    node.websocket_origins[:] = taken.mqtt.websocket_origins
    node.logins.forget()
    node.driver.take(command)
    return {"taken": differences(old, taken), "needs_restart": differences(taken, new)}


def _load_certificates(node: LiveNode, config: NodeConfig) -> None:
    """New handshakes show the new certificate; connections that are open stay as they are."""
    links = [] if node.peers is None else node.peers.contexts
    for key, contexts, section in (("mqtt", node.tls, config.mqtt), ("links", links, config.links)):
        for context in contexts:
            paths = [str(config.path(one)) if one else None for one in (section.certificate, section.certificate_key)]
            try:
                context.load_cert_chain(str(paths[0]), paths[1])
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"{key}.certificate", paths[0], f"a usable certificate: {error}") from None
