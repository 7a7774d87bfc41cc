"""`coterie dashboard`: the web page of a running network."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.adminclient import DATA, DataFolder, Token, ask, token_of
from coterie.cli.console import out
from coterie.cli.switching import LiveNetwork, side_by_side
from coterie.cli.top import places_of
from coterie.cli.up import BasePort
from coterie.dashboard.server import Picture, serve
from coterie.dashboard.view import Bill, NodeSays, picture
from coterie.errors import ConfigError, CoterieError, RunError
from coterie.pipeline.plans import PlanStore

Place = tuple[str, int]


def dashboard_command(
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="How many nodes `coterie up` started.")] = 3,
    base_port: BasePort = 1883,
    admin: Annotated[
        list[str] | None, typer.Option("--admin", help="HOST:PORT of an admin interface instead; repeatable.")
    ] = None,
    token: Token = "",
    data: DataFolder = DATA,
    host: Annotated[str, typer.Option(help="Where the nodes are.")] = "127.0.0.1",
    plans: Annotated[Path | None, typer.Option(help="Folder of plans: shows the predicted bill beside ours.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the page; 0 takes a free one.")] = 8080,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between looks.")] = 1.0,
) -> None:
    """A web page that shows the overlay, the channels, the rates and the bill of a running network.

    The page is for this machine only, for whoever has the address that is printed, and asks nobody else for anything.

    Example: coterie dashboard --nodes 5
    """
    store = None if plans is None else PlanStore(plans)
    watcher = Watcher(places_of(admin, host, base_port, nodes), token_of(token, data), store)
    watcher.start()
    try:
        own = secrets.token_urlsafe(24)
        server = serve(Picture(watcher.look, interval), "127.0.0.1", port, own)
    except OSError as error:
        raise ConfigError("--port", port, f"a free port ({error.strerror})") from None
    out.print(f"http://127.0.0.1:{server.server_address[1]}/#token={own}", soft_wrap=True)
    out.print("whoever has this address sees the network; Ctrl-C stops it")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


class Watcher:
    """Asks all nodes and remembers the answers, so that the next look can tell rates."""

    def __init__(self, places: list[Place], token: str, store: PlanStore | None) -> None:
        self._places, self._token, self._store = places, token, store
        self._pool = ThreadPoolExecutor(min(32, len(places)))
        self._before: list[NodeSays | None] = []
        self._looked_s = 0.0

    def start(self) -> None:
        self._before, self._looked_s = self._ask_all(), time.monotonic()
        if not any(self._before):
            raise RunError(f"no node answers on {self._places[0][0]}:{self._places[0][1]}; is the network up?")

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
        for path in ("/health", "/topology", "/channels", "/totals"):
            answer = ask(*place, path, self._token)
            if answer is None:
                return None
            said.append(answer)
        return NodeSays(*said)

    def _bill(self, now: list[NodeSays | None]) -> Bill | None:
        """Predicted and measured; nothing while a node is down or the plan is not one of these."""
        if self._store is None or not all(now):
            return None
        try:
            version = max(one.health["plan_version"] for one in now if one is not None)
            return side_by_side(self._store, version, LiveNetwork(self._places, self._token))
        except CoterieError:
            return None
