"""Where the nodes of a network are, so that one can talk to them: nothing is loaded that plans or runs."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.errors import ConfigError

ADMIN_OFFSET, LINK_OFFSET = 1000, 2000  # of a node's other ports from its MQTT port, as `coterie up` lays them out


def places_of(admin: Sequence[str] | None, host: str, base_port: int, nodes: int) -> list[tuple[str, int]]:
    """Where the admin interfaces are: as listed, or as `coterie up` lays them out."""
    return [place_of(one) for one in admin or ()] or [(host, base_port + ADMIN_OFFSET + node) for node in range(nodes)]


def place_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit():
        raise ConfigError("--admin", text, "HOST:PORT")
    return host or "127.0.0.1", int(port)
