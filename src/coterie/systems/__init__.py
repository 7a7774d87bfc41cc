"""The systems side by side; adding one is adding it to this list."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.protocol.system import System
from coterie.systems import content, coterie, dynatops, flooding, homes, mesh, scribe, spidercast, star
from coterie.systems.magnet import system as magnet
from coterie.systems.tamara import adaptive, planned
from coterie.systems.tamara.anywhere import CLUSTERED, over
from coterie.systems.zones import ZONED, zoned

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        flooding.SYSTEM,
        mesh.SYSTEM,
        star.SYSTEM,
        homes.SYSTEM,
        zoned(mesh.SYSTEM),
        scribe.SYSTEM,
        adaptive.SYSTEM,
        planned.SYSTEM,
        magnet.SYSTEM,
        magnet.UNIFORM,
        magnet.INTEREST_RING,
        dynatops.SYSTEM,
        content.SYSTEM,
        spidercast.SYSTEM,
        coterie.SYSTEM,
    )
}


def system_named(name: str) -> System:
    """A system of the list; behind its name `+zones` puts zone relays over it, `+clusters` planned topic-clusters."""
    if name in SYSTEMS:
        return SYSTEMS[name]
    for suffix, layer in ((CLUSTERED, over), (ZONED, zoned)):
        if name.endswith(suffix):
            return layer(system_named(name.removesuffix(suffix)))
    known = f"one of {', '.join(SYSTEMS)}; or one of them with {ZONED} or {CLUSTERED}"
    raise ConfigError("system", name, known)
