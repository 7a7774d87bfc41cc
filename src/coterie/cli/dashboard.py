"""`coterie dashboard`: the web page of a running network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.adminclient import NetworkOptions
from coterie.cli.console import out
from coterie.errors import ConfigError


def dashboard_command(
    network: NetworkOptions,
    plans: Annotated[Path | None, typer.Option(help="Folder of plans: shows the predicted bill beside ours.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the page; 0 takes a free one.")] = 8080,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between looks.")] = 1.0,
) -> None:
    """Serve a web page that shows a running network.

    It shows the overlay, the channels, the rates and the bill. The page is for this machine only, for whoever has the
    address that is printed, and asks nobody else for anything.

    Examples:
      coterie dashboard --nodes 5
    """
    from coterie.dashboard.watching import NetworkWatcher, open_page

    watcher = NetworkWatcher(network.places, network.secret, plans)
    watcher.start()
    try:
        server, address = open_page(watcher, port, interval)
    except OSError as error:
        raise ConfigError("--port", port, f"a free port ({error.strerror})") from None
    out.print(address, soft_wrap=True)
    out.print("whoever has this address sees the network; Ctrl-C stops it")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
