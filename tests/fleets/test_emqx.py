"""EMQX by its documentation: a stand-in that answers as its API is said to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from coterie.errors import RunError
from coterie.fleets.emqxapi import ThroughApi
from coterie.fleets.fleet import BrokerFleet, fleet_of

CLIENTS = [
    {"clientid": f"c {number}", "node": f"emqx@10.0.0.{number % 2 + 1}", "connected": True,
     "expiry_interval": 60 if number == 3 else 0}
    for number in range(1500)
]  # fmt: skip


class StandIn(BaseHTTPRequestHandler):
    gone: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query)
        page, limit = int(asked["page"][0]), int(asked["limit"][0])
        rows = CLIENTS[(page - 1) * limit : page * limit]
        self._answer(200, {"data": rows, "meta": {"hasnext": page * limit < len(CLIENTS)}})

    def do_DELETE(self) -> None:
        client = unquote(self.path.rsplit("/", 1)[-1])
        if client in self.gone:
            self._answer(404, {})
            return
        self.gone.append(client)
        self.send_response(204)
        self.end_headers()

    def _answer(self, code: int, document: object) -> None:
        is_known = self.headers["Authorization"] == "Basic a2V5OnNlY3JldA=="
        self.send_response(code if is_known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, format: str, *words: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def fleet_at(address: str) -> BrokerFleet:
    brokers = [{"name": f"e{number}", "address": f"10.0.0.{number}:1883", "monitor": address} for number in (1, 2)]
    return fleet_of({"broker": brokers, "emqx": {"key": "key"}}, "fleet.toml")


def test_seats_come_in_pages_and_a_client_is_disconnected_once(api, monkeypatch):
    monkeypatch.setenv("EMQX_SECRET", "secret")
    emqx = ThroughApi(fleet_at(api))
    seats = emqx.seats()
    assert len(seats) == 1500
    assert (seats["c 0"].broker, seats["c 1"].broker) == ("e1", "e2")
    assert [client for client, seat in seats.items() if seat.is_lasting] == ["c 3"]
    emqx.end(["c 0", "c 0"], seats, lambda client: "e2")
    assert StandIn.gone == ["c 0"]


def test_an_api_that_refuses_or_is_not_there_is_told(api, monkeypatch):
    monkeypatch.setenv("EMQX_SECRET", "wrong")
    with pytest.raises(RunError, match="answers 401"):
        ThroughApi(fleet_at(api)).seats()
    with pytest.raises(RunError, match="does not answer"):
        ThroughApi(fleet_at("127.0.0.1:1")).seats()
