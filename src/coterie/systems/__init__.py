"""The systems side by side; adding one is adding its module here."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.protocol.system import System
from coterie.systems import flooding, scribe

SYSTEMS: dict[str, System] = {module.SYSTEM.name: module.SYSTEM for module in (flooding, scribe)}


def system_named(name: str) -> System:
    try:
        return SYSTEMS[name]
    except KeyError:
        raise ConfigError("system", name, f"one of {', '.join(SYSTEMS)}") from None
