"""NATS servers by their monitoring port: who is connected where, and how many messages their routes have carried."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.errors import RunError
from coterie.fleets.balancer import Seat
from coterie.fleets.export import nats_users
from coterie.fleets.fleet import BrokerFleet
from coterie.fleets.moving import HomeOf
from coterie.fleets.record import write_whole
from coterie.fleets.telling import tell

ANSWER_S = 5.0
PAGE = 1024


def ask_monitor(fleet: BrokerFleet, server: str, path: str) -> dict[str, Any]:
    address = fleet.named(server).monitor
    if not address:
        raise fleet.missing(fleet.key(server, "monitor"), "HOST:PORT of its monitoring")
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=ANSWER_S) as answer:
            document: dict[str, Any] = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise RunError(f"{server}: its monitoring at {address} does not answer: {error}") from None
    return document


def route_messages(fleet: BrokerFleet) -> int:
    """Messages that arrived over routes and leaf links, of all servers since they started: each copy counts once."""
    total = 0
    for server in fleet.names:
        routes = ask_monitor(fleet, server, "/routez").get("routes") or []
        leaves = ask_monitor(fleet, server, "/leafz").get("leafs") or []
        total += sum(int(one["in_msgs"]) for one in [*routes, *leaves])
    return total


class ByLists:
    """Clients of NATS: each has its place in a list of users, and leaves where it is struck off."""

    def __init__(self, fleet: BrokerFleet) -> None:
        self.fleet = fleet

    def seats(self) -> dict[str, Seat]:
        found: dict[str, Seat] = {}
        for server in self.fleet.names:
            start = 0
            while True:
                page = ask_monitor(self.fleet, server, f"/connz?auth=1&limit={PAGE}&offset={start}")
                rows = page.get("connections") or []
                for one in rows:
                    client = one.get("authorized_user") or one.get("name")
                    if client and one.get("kind", "Client") == "Client":
                        found[client] = Seat(server, False, str(one["cid"]))
                start += len(rows)
                if not rows or start >= int(page.get("total", 0)):
                    break
        return found

    def end(self, clients: Sequence[str], seats: Mapping[str, Seat], home_of: HomeOf) -> None:
        """Strike them off every list but their home's, which lets them in already."""
        homes = {client: home_of(client) for client in clients}
        for server in self.fleet.names:
            place = nats_users.place_of(self.fleet, server)
            users = nats_users.users_in(place.read_text())
            left = {user: word for user, word in users.items() if homes.get(user) in (None, server)}
            if left != users:
                write_whole(place, nats_users.text_of(left))
                tell(self.fleet, server)
