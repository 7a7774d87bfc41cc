"""What the fleet file tells `coterie compare` and `coterie plan`: which broker is the hub, and the brokers' zones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from coterie.pipeline.planning import Candidate

ASSUMED_ZONES = 3  # where nothing is known of the brokers


@dataclass(frozen=True)
class KnownFleet:
    """`hub` as the pipeline counts nodes, by their names; `zone_of` holds pairs of broker and zone."""

    is_given: bool = False
    hub: int | None = None
    zone_of: tuple[tuple[str, str], ...] = ()

    def around(self, candidate: Candidate) -> Candidate:
        """A star gets the hub that the fleet has; other systems have none."""
        if self.hub is None or candidate.system.name != "star":
            return candidate
        return replace(candidate, parameters=msgspec.structs.replace(candidate.parameters, hub=self.hub))

    def zones(self, asked: int | None, is_for_target: bool) -> int:
        """Clients do not leave their zone, so brokers that are really there are not put in zones by us."""
        return asked if asked is not None else 1 if self.is_given or is_for_target else ASSUMED_ZONES


def known_fleet(path: Path | None) -> KnownFleet:
    if path is None:
        return KnownFleet()
    from coterie.fleets.fleet import read_fleet

    fleet = read_fleet(path)
    hub = sorted(fleet.names).index(fleet.hub) if fleet.hub else None
    return KnownFleet(True, hub, tuple((one.name, one.zone) for one in fleet.broker if one.zone))
