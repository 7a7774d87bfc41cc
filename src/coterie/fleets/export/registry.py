"""The targets side by side; adding one is adding it to this list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coterie.errors import ConfigError
from coterie.fleets.export import emqx, haproxy, mosquitto_acl, mosquitto_bridges, nats_leaf, nats_users, table
from coterie.fleets.export.target import LinkShape, Mover, Target
from coterie.fleets.fleet import BrokerFleet

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        haproxy.TARGET,
        mosquitto_acl.TARGET,
        mosquitto_bridges.TARGET,
        nats_users.TARGET,
        nats_leaf.TARGET,
        emqx.TARGET,
        table.TARGET,
    )
}


@dataclass(frozen=True)
class Expressible:
    """What may be planned for a target: systems as `--system` takes them, always with clients placed.

    The bill of such a design is the bill of what will really run.
    """

    systems: tuple[str, ...]


SYSTEMS_OF = {
    LinkShape.PLACEMENT: ("mesh", "star"),  # links stay as they are: whichever of the two the fleet has
    LinkShape.STAR: ("star:crossing=wanted",),
    LinkShape.ONE_TREE: ("star:crossing=wanted",),
    LinkShape.TREE_PER_TOPIC: (
        "coterie:links=lean",
    ),  # the links; a tree on them for each topic is made when it is written down
    LinkShape.MESH: ("mesh",),
}


def expressible(target: str) -> Expressible:
    """For `coterie plan --for TARGET`: only what the target can say is planned for it."""
    shape = target_named(target, "--for").shape
    return Expressible(SYSTEMS_OF[shape])


def target_named(name: str, key: str = "--to") -> Target:
    try:
        return TARGETS[name]
    except KeyError:
        raise ConfigError(key, name, f"one of {', '.join(TARGETS)}") from None


def chosen_targets(names: Sequence[str], fleet: BrokerFleet) -> list[Target]:
    """Targets by name; placement comes along where links are cut to where clients will be."""
    chosen = [target_named(name) for name in dict.fromkeys(names)]
    if not chosen:
        raise ConfigError("--to", "", f"at least one of {', '.join(TARGETS)}")
    if len({target.speaks for target in chosen if target is not table.TARGET}) > 1:
        raise ConfigError("--to", ", ".join(names), "targets of one kind of broker")
    if sum(target.shape in (LinkShape.STAR, LinkShape.TREE_PER_TOPIC) for target in chosen) > 1:
        raise ConfigError("--to", ", ".join(names), "one target that says something about links")
    needs_map = any(target.moves is Mover.BALANCER for target in chosen)
    if needs_map and haproxy.TARGET not in chosen and fleet.balancer is not None:
        chosen.insert(0, haproxy.TARGET)
    return chosen
