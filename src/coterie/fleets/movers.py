"""Which way clients are moved, by target."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.fleets.balancer import LiveBalancer
from coterie.fleets.export.target import Mover, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.moving import BehindBalancer, Movable
from coterie.fleets.wanted import Wanted


def movable_of(
    fleet: BrokerFleet, targets: Sequence[Target], balancer: LiveBalancer | None, wanted: Wanted | None
) -> Movable | None:
    kinds = {target.moves for target in targets}
    if Mover.BALANCER in kinds and balancer is not None:
        return BehindBalancer(balancer)
    return None
