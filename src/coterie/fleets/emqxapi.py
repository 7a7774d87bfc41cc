"""EMQX by its API: who is connected where, disconnecting one client. After its documentation; tried on a stand-in."""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from coterie.errors import RunError
from coterie.fleets.balancer import Seat
from coterie.fleets.fleet import BrokerFleet, host_port
from coterie.fleets.moving import HomeOf

ANSWER_S = 10.0
PAGE = 1000


class ThroughApi:
    """Clients of an EMQX cluster; any of its nodes answers for all."""

    def __init__(self, fleet: BrokerFleet) -> None:
        self.fleet = fleet
        self._address = next((one.monitor for one in fleet.broker if one.monitor), "")
        if not self._address:
            raise fleet.missing(fleet.key(fleet.names[0], "monitor"), "HOST:PORT of EMQX' API")
        word = f"{fleet.emqx.key}:{os.environ.get('EMQX_SECRET', '')}"
        self._headers = {"Authorization": "Basic " + base64.b64encode(word.encode()).decode()}

    def seats(self) -> dict[str, Seat]:
        found: dict[str, Seat] = {}
        page = 1
        while True:
            answer = self._ask("GET", f"/api/v5/clients?limit={PAGE}&page={page}")
            for one in answer.get("data", []):
                broker = self._broker(str(one.get("node", "")))
                session = one["clientid"] if one.get("connected", True) else ""
                found[one["clientid"]] = Seat(broker, int(one.get("expiry_interval", 0)) > 0, session)
            if not answer.get("meta", {}).get("hasnext"):
                return found
            page += 1

    def end(self, clients: Sequence[str], seats: Mapping[str, Seat], home_of: HomeOf) -> None:
        for client in clients:
            self._ask("DELETE", f"/api/v5/clients/{quote(client, safe='')}")

    def _broker(self, node: str) -> str:
        """EMQX' node (name@host) as the fleet file calls it."""
        name, _, host = node.partition("@")
        for one in self.fleet.broker:
            if one.name in (node, name) or (host and host == host_port(one.address)[0]):
                return one.name
        return node

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        request = urllib.request.Request(f"http://{self._address}{path}", method=method, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            code = error.code
            error.close()
            if code == 404 and method == "DELETE":
                return {}  # it has gone already
            raise RunError(f"EMQX' API at {self._address} answers {code} to {method} {path.split('?')[0]}") from None
        except (OSError, urllib.error.URLError) as error:
            raise RunError(f"EMQX' API at {self._address} does not answer: {error}") from None
        document: dict[str, Any] = json.loads(body) if body else {}
        return document
