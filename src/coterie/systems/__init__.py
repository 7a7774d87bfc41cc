"""The systems side by side; adding one is adding its module here."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.protocol.system import System
from coterie.systems import content, dynatops, flooding, scribe, spidercast
from coterie.systems.magnet import system as magnet
from coterie.systems.tamara import adaptive, planned

SYSTEMS: dict[str, System] = {
    module.SYSTEM.name: module.SYSTEM
    for module in (flooding, scribe, adaptive, planned, magnet, dynatops, content, spidercast)
}


def system_named(name: str) -> System:
    try:
        return SYSTEMS[name]
    except KeyError:
        raise ConfigError("system", name, f"one of {', '.join(SYSTEMS)}") from None
