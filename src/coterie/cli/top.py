"""`coterie top`: the nodes of a network, what passes through them, and what waits, once a second."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from coterie.cli.adminclient import NetworkOptions
from coterie.cli.console import out, print_json, short, table
from coterie.dashboard.rates import rates
from coterie.plans.admin import ask, nobody_at

HEADER = [
    *("node", "clients", "links", "in/s", "out/s", "copies/s", "control/s"),
    *("queued", "shed", "behind", "CPU %", "MB", "up"),
]


def top_command(
    network: NetworkOptions,
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table (over one interval) and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every node's totals once.")] = False,
) -> None:
    """Show a live table of the nodes.

    Rates, links, queues, what was shed, who is catching up.

    Examples:
      coterie top --nodes 5 --base-port 1883
    """
    places, token = network.places, network.secret
    with ThreadPoolExecutor(min(32, len(places))) as pool:

        def look() -> list[dict[str, float] | None]:
            return list(pool.map(lambda place: ask(place[0], place[1], "/totals", token), places))

        before, moment_s = look(), time.monotonic()
        if not any(before):
            raise nobody_at(*places[0])
        if as_json:
            print_json({"nodes": before})
            return
        if once:
            time.sleep(interval)
            out.print(_rows(before, look(), interval))
            return
        with Live(console=out, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                now, now_s = look(), time.monotonic()
                live.update(_rows(before, now, now_s - moment_s), refresh=True)
                before, moment_s = now, now_s


def _rows(before: list[Any], now: list[Any], span_s: float) -> Table:
    rows = []
    for node, (old, new) in enumerate(zip(before, now, strict=True)):
        if new is None:
            rows.append([str(node), *["-"] * (len(HEADER) - 2), "down"])
            continue
        passed = rates(old or new, new, span_s)
        figures = [
            new["clients"],
            new["links"],
            *(passed[name] for name in ("in", "out", "copies", "control")),
            new["queued_messages"],
            new["shed_messages"] + new["link_shed_total"],
            new["behind"],
            round(passed["cpu_percent"]),
            round(new["memory_bytes_max"] / 1e6),
        ]
        rows.append([str(node), *map(short, figures), _age(new["uptime_seconds"])])
    return table("nodes", HEADER, rows)


def _age(seconds: float) -> str:
    for letter, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{letter}"
    return f"{seconds:.0f}s"
