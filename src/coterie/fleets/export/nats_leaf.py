"""NATS: a star of leaf nodes instead of a full mesh; a tenth of the links and of the subscription traffic.

Leaf nodes form one tree and pass on what is wanted beyond, by themselves. The files replace the `cluster` section of
the servers and take a restart. Placement goes with it (`nats-users`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from coterie.fleets.export.mosquitto_acl import hub_of
from coterie.fleets.export.target import LinkShape, Mover, Piece, Remark, Target
from coterie.fleets.fleet import BrokerFleet, host_port
from coterie.fleets.layout import FleetLayout

FILE = "coterie-links.conf"
LEAF = "coterie-leaf"  # the user that leaf nodes are


def pieces(fleet: BrokerFleet, wanted: FleetLayout) -> list[Piece]:
    hub = fleet.named(hub_of(fleet))
    if not hub.link:
        raise fleet.missing(fleet.key(hub.name, "link"), "HOST:PORT where leaf nodes reach the hub")
    made = []
    for one in fleet.broker:
        if one.config is None:
            raise fleet.missing(
                fleet.key(one.name, "config"), f"the folder of its configuration, which includes {FILE}"
            )
        text = _hub(hub.link, fleet.nats.leaf_password) if one is hub else _leaf(hub.link, fleet.nats.leaf_password)
        made.append(Piece(f"nats-leaf/{one.name}.conf", text, one.config / FILE, one.name, needs_restart=True))
    return made


def _hub(address: str, password: str) -> str:
    host, port = host_port(address)
    asks = f', authorization {{ user: "{LEAF}", password: {json.dumps(password)} }}' if password else ""
    return f'# made by `coterie export --to nats-leaf`: the hub\nleafnodes {{ host: "{host}", port: {port}{asks} }}\n'


def _leaf(address: str, password: str) -> str:
    who = f"{LEAF}:{quote(password, safe='')}@" if password else ""
    remote = f'leafnodes {{ remotes: [ {{ url: "nats-leaf://{who}{address}" }} ] }}'
    return f"# made by `coterie export --to nats-leaf`: a leaf of the hub\n{remote}\n"


def check(fleet: BrokerFleet, wanted: FleetLayout) -> Sequence[Remark]:
    remarks = [
        Remark(f"{fleet.key(one.name, 'restart')} is missing: leaf nodes cannot be reloaded", True)
        for one in fleet.broker
        if not one.restart
    ]
    if fleet.nats.users is not None and not fleet.nats.leaf_password:
        remarks.append(Remark("nats.leaf_password is missing: servers that ask for names ask leaf nodes too", True))
    return [*remarks, Remark("everything between two leaves passes the hub: watch its load")]


TARGET = Target(
    name="nats-leaf",
    says="NATS: a star of leaf nodes around a hub",
    shape=LinkShape.STAR,
    pieces=pieces,
    moves=Mover.NOBODY,
    check=check,
    speaks="nats",
)
