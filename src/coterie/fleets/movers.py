"""Which way clients are moved, by target."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.fleets.balancer import LiveBalancer
from coterie.fleets.emqxapi import ThroughApi
from coterie.fleets.export.target import Mover, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.moving import BehindBalancer, Movable
from coterie.fleets.natsmonitor import ByLists


def movable_of(fleet: BrokerFleet, targets: Sequence[Target], balancer: LiveBalancer | None) -> Movable | None:
    """None: these targets move nobody, or nothing is there that could."""
    kinds = {target.moves for target in targets}
    if Mover.LISTS in kinds:
        return ByLists(fleet)
    if Mover.API in kinds:
        return ThroughApi(fleet)
    if Mover.BALANCER in kinds and balancer is not None:
        return BehindBalancer(balancer)
    return None
