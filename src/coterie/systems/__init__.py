"""The systems side by side; adding one is adding it to this list."""

from __future__ import annotations

from coterie.errors import ConfigError
from coterie.protocol.system import System
from coterie.systems import content, coterie, dynatops, flooding, homes, mesh, scribe, spidercast, star
from coterie.systems.magnet import system as magnet
from coterie.systems.tamara import adaptive, planned
from coterie.systems.tamara.anywhere import CLUSTERED, over

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        flooding.SYSTEM,
        mesh.SYSTEM,
        star.SYSTEM,
        homes.SYSTEM,
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
    """A system of the list, or, with `+clusters` behind its name, planned topic-clusters over it."""
    below = name.removesuffix(CLUSTERED)
    try:
        system = SYSTEMS[below]
    except KeyError:
        raise ConfigError("system", name, f"one of {', '.join(SYSTEMS)}; or one of them with {CLUSTERED}") from None
    return system if below == name else over(system)
