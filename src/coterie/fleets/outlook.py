"""What a plan is predicted to cost a fleet in copies, beside what the fleet costs as it is, and what is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coterie.errors import CoterieError
from coterie.fleets.crossing import ALL, Copies, Crossings, crossings_of, flooded
from coterie.fleets.export import mosquitto_acl
from coterie.fleets.export.target import LinkShape, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout
from coterie.fleets.measuring import MosquittoLogs
from coterie.fleets.natsmonitor import route_messages


def copies_under(fleet: BrokerFleet, targets: Sequence[Target], wanted: FleetLayout) -> Copies:
    """Copies once the plan is in force. Placement alone leaves the links: a star if there is a hub, else a mesh."""
    shapes = [target.shape for target in targets if target.shape is not LinkShape.PLACEMENT]
    shape = shapes[0] if shapes else LinkShape.PLACEMENT
    if shape is LinkShape.PLACEMENT and fleet.hub:
        return Copies(links_now(fleet))
    is_mesh = shape in (LinkShape.MESH, LinkShape.PLACEMENT)
    return Copies(crossings_of(shape, wanted, fleet.hub, fleet.limits.prefixes), is_mesh)


def links_now(fleet: BrokerFleet) -> Crossings:
    """A star as its hub's access list prunes it now; without one, everything crosses."""
    open_star = flooded(fleet.names, fleet.hub)
    acl = fleet.named(fleet.hub).acl
    reads = mosquitto_acl.in_block(acl.read_text(), fleet.probe.topic) if acl is not None and acl.is_file() else None
    if reads is None:
        return open_star
    down = {(fleet.hub, one.name): reads.get(one.bridge_name, ALL) for one in fleet.broker if one.name != fleet.hub}
    return {**open_star, **down}


def copies_now(fleet: BrokerFleet, targets: Sequence[Target], wanted: FleetLayout) -> Copies:
    """Copies as things are: a star that is pruned as its list says, or a mesh that follows interest by itself."""
    is_star = any(target.shape is LinkShape.STAR and target.speaks == "mqtt" for target in targets)
    if fleet.hub and (is_star or not any(target.speaks == "nats" for target in targets)):
        return Copies(links_now(fleet))
    return Copies(crossings_of(LinkShape.MESH, wanted, fleet.hub, fleet.limits.prefixes), is_mesh=True)


def copies_per_s(wanted: FleetLayout, copies: Copies) -> float | None:
    """None: the plan does not say who publishes what."""
    if not wanted.publishes:
        return None
    return sum(
        rate * copies.of(wanted.home[client], topic)
        for client, topics in wanted.publishes.items()
        for topic, rate in topics.items()
    )


def foretold(
    fleet: BrokerFleet, targets: Sequence[Target], wanted: FleetLayout, seats: Mapping[str, str]
) -> tuple[float | None, float | None]:
    """Copies per second as clients sit now, and by the plan."""
    seated = as_seated(wanted, seats)
    now = copies_per_s(seated, copies_now(fleet, targets, seated))
    return now, copies_per_s(wanted, copies_under(fleet, targets, wanted))


def as_seated(wanted: FleetLayout, seats: Mapping[str, str]) -> FleetLayout:
    """The same wishes where clients sit now; who is not connected counts where the plan has him."""
    known = {client: broker for client, broker in seats.items() if client in wanted.home and broker in wanted.brokers}
    return wanted.moved({**wanted.home, **known})


@dataclass(frozen=True)
class Measured:
    """Copies over some seconds, and what the plan predicts for the same messages; None: cannot be told here."""

    seconds: float
    copies: int | None = None
    predicted: float | None = None
    delivered: int | None = None
    why_not: str = ""


def measure(fleet: BrokerFleet, targets: Sequence[Target], wanted: FleetLayout, seconds: float) -> Measured:
    """Watch the fleet for a while."""
    copies = copies_under(fleet, targets, wanted)
    try:
        if any(target.speaks == "nats" for target in targets):
            before = route_messages(fleet)
            time.sleep(seconds)
            rate = copies_per_s(wanted, copies)
            return Measured(seconds, route_messages(fleet) - before, rate * seconds if rate is not None else None)
        logs = MosquittoLogs(fleet)
        time.sleep(seconds)
        found = logs.count()
    except CoterieError as error:
        return Measured(seconds, why_not=str(error))
    return Measured(seconds, found.copies, float(found.predicted(copies)), found.delivered)
