"""Looks at a running network for the web page: asks every node and remembers the answers, so that rates can be told."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from coterie.dashboard.server import LatestPicture, serve
from coterie.dashboard.view import NodeSays, merge, picture
from coterie.errors import CoterieError
from coterie.plans.admin import LiveNetwork, ask, nobody_at
from coterie.plans.measured import SideBySide, side_by_side
from coterie.plans.store import PlanStore

Place = tuple[str, int]
LOOKS_AT_ONCE = 32
FOUND_MAX = 100


class NetworkWatcher:
    """Asks all nodes and remembers the answers, so that the next look can tell rates."""

    def __init__(self, places: Sequence[Place], token: str, plans: Path | None) -> None:
        self._places, self._token = list(places), token
        self._store = None if plans is None else PlanStore.at(plans)
        self._pool = ThreadPoolExecutor(min(LOOKS_AT_ONCE, len(places)))
        self._before: list[NodeSays | None] = []
        self._looked_s = 0.0

    def start(self) -> None:
        self._before, self._looked_s = self._ask_all(), time.monotonic()
        if not any(self._before):
            raise nobody_at(*self._places[0])

    def look(self) -> dict[str, Any]:
        now, now_s = self._ask_all(), time.monotonic()
        made = picture(self._before, now, max(now_s - self._looked_s, 1e-3), self._bill(now))
        self._before = [new or old for old, new in zip(self._before, now, strict=True)]
        self._looked_s = now_s
        return made

    def _ask_all(self) -> list[NodeSays | None]:
        return list(self._pool.map(self._ask, self._places))

    def _ask(self, place: Place) -> NodeSays | None:
        said = []
        for path in ("/overview", "/totals"):
            answer = ask(*place, path, self._token)
            if answer is None:
                return None
            said.append(answer)
        return NodeSays(*said)

    def find(self, text: str) -> list[dict[str, Any]]:
        """Channels of the whole network by a part of their names: the first hundred."""
        path = f"/find?{urlencode({'name': text})}"
        said = self._pool.map(lambda place: ask(place[0], place[1], path, self._token), self._places)
        answers = [one for one in said if one]
        found = merge([(one["node"], *entry) for one in answers for entry in one["channels"]])
        first = sorted(one["name"] for one in found)[:FOUND_MAX]
        return [one for one in found if one["name"] in set(first)]

    def _bill(self, now: list[NodeSays | None]) -> SideBySide | None:
        """Predicted and measured; nothing while a node is down or the plan is not one of these."""
        if self._store is None or not all(now):
            return None
        try:
            version = max(one.overview["plan_version"] for one in now if one is not None)
            return side_by_side(self._store.load(version), LiveNetwork(self._places, self._token))
        except CoterieError:
            return None


def open_page(watcher: NetworkWatcher, port: int, interval_s: float) -> tuple[ThreadingHTTPServer, str]:
    """A server that is ready to run, and the address to open."""
    own = secrets.token_urlsafe(24)
    server = serve(LatestPicture(watcher.look, interval_s), "127.0.0.1", port, own, watcher.find)
    return server, f"http://127.0.0.1:{server.server_address[1]}/#token={own}"
