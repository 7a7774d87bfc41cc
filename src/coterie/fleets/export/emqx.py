"""EMQX: placement by HAProxy, and clients disconnected by EMQX' own API so that they come back at their home.

Its cluster sends one copy to each node with a subscriber, so placement is what helps. Written after EMQX 5's
documentation and tried against a stand-in only: it could not be run where this was made.
"""

from __future__ import annotations

from collections.abc import Sequence

from coterie.fleets.export import haproxy
from coterie.fleets.export.target import LinkShape, Mover, Piece, Remark, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout


def pieces(fleet: BrokerFleet, wanted: FleetLayout) -> list[Piece]:
    return haproxy.pieces(fleet, wanted)


def check(fleet: BrokerFleet, wanted: FleetLayout) -> Sequence[Remark]:
    remarks = [Remark("this target follows EMQX's documentation; it has not been run against EMQX")]
    remarks += haproxy.check(fleet, wanted)
    if not fleet.emqx.key:
        remarks.append(Remark("emqx.key is missing: an API key, its secret in the environment as EMQX_SECRET", True))
    if not any(one.monitor for one in fleet.broker):
        remarks.append(Remark("no broker has the key 'monitor': HOST:PORT of EMQX' API", True))
    return remarks


TARGET = Target(
    name="emqx",
    says="EMQX: placement by HAProxy, disconnects by its API (untested)",
    shape=LinkShape.MESH,
    pieces=pieces,
    moves=Mover.API,
    check=check,
    is_tested=False,
)
