"""What a user names, as what the planner takes: systems with settings, what runs now, the fleet that is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from coterie.errors import ConfigError
from coterie.model.parameters import settings_of
from coterie.model.wires import COTERIE
from coterie.pipeline.planning import Candidate
from coterie.systems import SYSTEMS, system_named

# What people run, as (system, the wire its bytes are counted on).
RUNNING = {
    "nats": ("mesh", "nats"),
    "emqx": ("mesh", "mqtt"),
    "vernemq": ("mesh", "mqtt"),
    "mosquitto": ("star", "mqtt"),
}


def candidates_of(systems: Sequence[str] | Mapping[str, Mapping[str, object]] | None) -> list[Candidate]:
    """NAME or NAME:key=value,key=value, one or several; or a mapping of names to settings; all systems by default."""
    if isinstance(systems, str):
        systems = [systems]
    if isinstance(systems, Mapping):
        return [Candidate(one := system_named(name), one.configure(told)) for name, told in systems.items()]
    chosen = []
    for entry in systems or list(SYSTEMS):
        name, _, settings = entry.partition(":")
        system = system_named(name)
        pairs = [pair for pair in settings.split(",") if pair]
        chosen.append(Candidate(system, system.configure(settings_of(pairs, "--system"))))
    return chosen


def running_now(name: str) -> tuple[Candidate, str]:
    """The system that stands for what the user runs, and on whose wire bytes are counted."""
    if name in RUNNING:
        system, wire = RUNNING[name]
        return candidates_of([system])[0], wire
    try:
        return candidates_of([name])[0], COTERIE.name
    except ConfigError:
        raise ConfigError("--against", name, f"one of {', '.join((*RUNNING, *SYSTEMS))}") from None


def with_now(candidates: list[Candidate], now: Candidate) -> tuple[list[Candidate], Candidate]:
    """What runs now is always in the table, under a name of its own where the same system is planned otherwise."""
    same = [one for one in candidates if one.system.name == now.system.name]
    if any(one.parameters == now.parameters for one in same):
        return candidates, now
    if same:
        now = replace(now, system=replace(now.system, name=f"{now.system.name}-now"))
    return [now, *candidates], now


def expressed(
    systems: Sequence[str] | Mapping[str, Mapping[str, object]] | None, target: str | None
) -> list[Candidate]:
    """What to plan with: what was asked for, or what the target of an export can say."""
    if target is None:
        return candidates_of(systems)
    from coterie.fleets.export.registry import expressible

    if systems:
        raise ConfigError("--for", target, "no --system beside it: the target says which systems it can express")
    return candidates_of(list(expressible(target).systems))


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

    def zones(self, asked: int | None, is_for_target: bool) -> int | None:
        """Clients do not leave their zone, so brokers that are really there are not put in zones by us."""
        return asked if asked is not None else 1 if self.is_given or is_for_target else None


def known_fleet(path: Path | None) -> KnownFleet:
    if path is None:
        return KnownFleet()
    from coterie.fleets.fleet import read_fleet

    fleet = read_fleet(path)
    hub = sorted(fleet.names).index(fleet.hub) if fleet.hub else None
    return KnownFleet(True, hub, tuple((one.name, one.zone) for one in fleet.broker if one.zone))
