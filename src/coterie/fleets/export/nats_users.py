"""NATS: every server lets in the users the plan places there; a reload moves a client, the others stay.

NATS' mesh already sends one copy to each interested server, so placement is what helps. Clients are users: they give
all servers' addresses (or one name that resolves to all) and are let in at their home only. Users whom the plan does
not know are let in everywhere.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coterie.errors import InputError
from coterie.fleets.export.target import LinkShape, Mover, Piece, Remark, Target
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.layout import FleetLayout

FILE = "coterie-users.conf"
LINE = re.compile(r'^    \{ user: ("(?:[^"\\]|\\.)*"), password: ("(?:[^"\\]|\\.)*") \}$')


def read_users(fleet: BrokerFleet) -> dict[str, str]:
    """User -> password (or its bcrypt hash), from the operator's file."""
    path = fleet.nats.users
    if path is None:
        raise fleet.missing("nats.users", "a CSV file of user,password; without passwords nobody can be let in")
    try:
        with open(path, newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    if rows and rows[0][:2] == ["user", "password"]:
        rows = rows[1:]
    for number, row in enumerate(rows, 1):
        if len(row) != 2 or not row[0]:
            raise InputError(str(path), "expected user,password", number)
    return dict(row for row in rows)


def text_of(users: Mapping[str, str]) -> str:
    """The list of one server."""
    rows = [f"    {{ user: {json.dumps(user)}, password: {json.dumps(word)} }}" for user, word in sorted(users.items())]
    return "\n".join(
        ["# made by `coterie export --to nats-users`", "authorization {", "  users: [", *rows, "  ]", "}", ""]
    )


def users_in(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        if match := LINE.match(line):
            found[json.loads(match[1])] = json.loads(match[2])
    return found


def lists(fleet: BrokerFleet, home: Mapping[str, str], users: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Server -> the users it lets in."""
    everywhere = set(fleet.nats.everywhere)
    found: dict[str, dict[str, str]] = {name: {} for name in fleet.names}
    for user, word in users.items():
        at: Iterable[str] = [home[user]] if user in home and user not in everywhere else fleet.names
        for server in at:
            found[server][user] = word
    return found


def place_of(fleet: BrokerFleet, server: str) -> Path:
    folder = fleet.named(server).config
    if folder is None:
        raise fleet.missing(fleet.key(server, "config"), f"the folder of its configuration, which includes {FILE}")
    return folder / FILE


def pieces(fleet: BrokerFleet, wanted: FleetLayout) -> list[Piece]:
    made = lists(fleet, wanted.home, read_users(fleet))
    return [
        Piece(f"nats-users/{server}.conf", text_of(users), place_of(fleet, server), server)
        for server, users in made.items()
    ]


def merge(piece: Piece, old: str) -> str:
    """Whom the one or the other list lets in."""
    return text_of({**users_in(old), **users_in(piece.text)})


def check(fleet: BrokerFleet, wanted: FleetLayout) -> Sequence[Remark]:
    users = read_users(fleet)
    strangers = [client for client in wanted.home if client not in users]
    remarks = []
    if strangers:
        remarks.append(
            Remark(
                f"{len(strangers)} clients of the plan are no users, {strangers[0]!r} for one: they cannot be placed"
            )
        )
    unknown = [user for user in users if user not in wanted.home and user not in fleet.nats.everywhere]
    if unknown:
        remarks.append(Remark(f"{len(unknown)} users are not in the plan, {unknown[0]!r} for one: let in everywhere"))
    for one in fleet.broker:
        if one.config is None:
            remarks.append(Remark(f"{fleet.key(one.name, 'config')} is missing", True))
        if not one.monitor:
            remarks.append(Remark(f"{fleet.key(one.name, 'monitor')} is missing: who is where is read there", True))
    return remarks


TARGET = Target(
    name="nats-users",
    says="NATS: a list of users per server, so that every client is let in at its home only",
    shape=LinkShape.MESH,
    pieces=pieces,
    moves=Mover.LISTS,
    merge=merge,
    check=check,
    speaks="nats",
)
