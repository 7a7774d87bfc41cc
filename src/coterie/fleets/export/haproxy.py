"""HAProxy in front of any MQTT brokers: a map from client to broker, and a configuration that follows it.

Clients of MQTT 3.1.1 and 5 are placed by the identifier in their CONNECT, without knowing of it. The map can be changed
while everything runs; a client goes where the map says the next time it connects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

from coterie.fleets.export.target import BALANCER, LinkShape, Mover, Piece, Remark, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout

CONFIGURATION = """\
# HAProxy 2.5 or later, made by `coterie export --to haproxy`. Take it over once; afterwards only the map changes.
global
    stats socket {socket} mode 600 level admin

ring {ring}
    format raw
    maxlen 1200
    size 33554432

defaults
    mode tcp
    timeout connect 3s
    timeout client 1d
    timeout server 1d
    retries 3
    option redispatch

frontend {frontend}
    bind {bind}
    option logasap
    log ring@{ring} format raw local0
    log-format "%ci:%cp %s %[var(sess.flags)] %[var(sess.version)] %[var(sess.expiry)] %[var(sess.client)]"
    tcp-request inspect-delay 5s
    tcp-request content reject unless {{ req.payload(0,0),mqtt_is_valid }}
    tcp-request content set-var(sess.client) req.payload(0,0),mqtt_field_value(connect,client_identifier),url_enc
    tcp-request content set-var(sess.flags) req.payload(0,0),mqtt_field_value(connect,flags)
    tcp-request content set-var(sess.version) req.payload(0,0),mqtt_field_value(connect,protocol_version)
    tcp-request content set-var(sess.expiry) req.payload(0,0),mqtt_field_value(connect,17)
    tcp-request content set-var(sess.home) var(sess.client),map_str({map},none)
    use_backend planned if {{ var(sess.home) -m str {names} }}
    use_backend nameless unless {{ var(sess.client) -m len gt 0 }}
    default_backend unplanned

backend planned
    use-server %[var(sess.home)] if TRUE
    balance hash var(sess.client)
    hash-type consistent
{servers}

backend unplanned
{unknown}    balance hash var(sess.client)
    hash-type consistent
{tracked}

backend nameless
    balance leastconn
{tracked}
"""


def configuration(fleet: BrokerFleet) -> str:
    balancer = fleet.balancer
    assert balancer is not None
    servers = [f"    server {one.name} {one.address} check inter 1s fall 2 rise 2" for one in fleet.broker]
    tracked = [f"    server {one.name} {one.address} track planned/{one.name}" for one in fleet.broker]
    return CONFIGURATION.format(
        socket=balancer.socket,
        map=balancer.map,
        ring=balancer.ring,
        frontend=balancer.frontend,
        bind=balancer.bind,
        names=" ".join(fleet.names),
        servers="\n".join(servers),
        tracked="\n".join(tracked),
        unknown=f"    use-server {fleet.hub} if TRUE\n" if balancer.unknown == "hub" else "",
    )


def key_of(client: str) -> str:
    """A client as the map knows it: like `url_enc`, so that spaces, quotes and unicode make no trouble."""
    return quote(client, safe="")


def map_text(home: Mapping[str, str]) -> str:
    return "".join(f"{key_of(client)} {broker}\n" for client, broker in sorted(home.items()) if client)


def homes_in(text: str) -> dict[str, str]:
    """Client -> broker of a map's text; comments and empty lines are passed over."""
    rows = (line.split(None, 1) for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return {unquote(row[0]): row[1].strip() for row in rows if len(row) == 2}


def pieces(fleet: BrokerFleet, wanted: FleetLayout) -> list[Piece]:
    if fleet.balancer is None:
        raise fleet.missing("balancer", "a [balancer] section says where HAProxy's socket and map are")
    strangers = homes_in(fleet.balancer.map.read_text()) if fleet.balancer.map.is_file() else {}
    kept = {client: broker for client, broker in strangers.items() if broker in fleet.names}
    homes = {**kept, **wanted.home}  # who was admitted since the plan was made keeps his place
    return [
        Piece("haproxy/haproxy.cfg", configuration(fleet)),
        Piece("haproxy/clients.map", map_text(homes), fleet.balancer.map, BALANCER),
    ]


def needed(fleet: BrokerFleet) -> list[Remark]:
    """What targets say that cut links to where clients will be."""
    if fleet.balancer is not None:
        return []
    return [Remark("balancer is missing: without it no client moves, but links are cut as if they had", True)]


def check(fleet: BrokerFleet, wanted: FleetLayout) -> Sequence[Remark]:
    if fleet.balancer is None:
        return [Remark("balancer: a [balancer] section is missing", True)]
    remarks = []
    if "" in wanted.home:
        remarks.append(Remark("clients without an identifier cannot be placed; they go to the emptiest broker"))
    mean = len(wanted.home) / len(wanted.brokers)
    for broker, count in wanted.loads.items():
        if mean >= 10 and count > fleet.limits.clients_max * mean + 1:
            remarks.append(Remark(f"{broker} gets {count} clients, more than limits.clients_max times the mean"))
    return remarks


TARGET = Target(
    name="haproxy",
    says="HAProxy's map of clients and its configuration; links stay as they are",
    shape=LinkShape.PLACEMENT,
    pieces=pieces,
    moves=Mover.BALANCER,
    check=check,
)
