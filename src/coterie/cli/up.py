"""`coterie up`: a whole network on this machine with one command."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import err, out, progress
from coterie.live.tokens import TOKEN_FILE, read_token
from coterie.model.parameters import settings_of


def up_command(
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes", "-n", min=1, max=1000, help="How many nodes; 3 by default, or as many as the plan has."
        ),
    ] = None,
    system: Annotated[str, typer.Option("--system", "-s", help="A system; 'coterie systems' lists them.")] = "scribe",
    plan: Annotated[Path | None, typer.Option(help="Start with the current plan of this folder.")] = None,
    base_port: Annotated[int, typer.Option(help="Node i takes MQTT on this port plus i.")] = 1883,
    data: Annotated[Path, typer.Option(help="Data folder of the nodes: configuration, store, journal, log.")] = Path(
        "coterie-data"
    ),
    parameters: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the system, NAME=VALUE; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed, for positions on a ring and other draws.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    respawn: Annotated[bool, typer.Option("--respawn", help="Start a node again when it dies.")] = False,
    follow: Annotated[
        Path | None, typer.Option(help="Switch to every plan that `coterie watch --out` publishes into this folder.")
    ] = None,
) -> None:
    """Start a network of nodes on this machine.

    Waits until it is healthy; Ctrl-C stops it. Node i listens for MQTT on base port + i, for its admin interface 1,000
    higher, for its peers 2,000 higher; each has a folder in --data with its configuration, store, journal and log.

    Examples:
      coterie up
      coterie up --nodes 5 --system scribe --base-port 1883 --data ./net
    """
    from coterie.api.planning import load_plan
    from coterie.api.running import ENDING, HEALTHY_S, arranged

    settings = settings_of(parameters or (), "--set")
    first = None if plan is None else load_plan(plan)
    processes = arranged(first, nodes, system, settings, base_port, data, host, seed)
    processes.told = err.print
    count = processes.count
    for number in ENDING:
        signal.signal(number, signal.default_int_handler)
    try:
        with progress("starting nodes", is_quiet=False, is_forking=True) as report:
            processes.start()
            processes.wait_healthy(HEALTHY_S, lambda ready, all_of: report(f"{ready} of {all_of}", ready / all_of))
        last = base_port + count - 1
        out.print(f"{count} nodes are up: MQTT on {host}:{base_port}..{last}, data in {data}", soft_wrap=True)
        look = f"coterie top --base-port {base_port} --nodes {count} --data {data}"
        out.print(f"stop with Ctrl-C; look with: {look}", soft_wrap=True)
        sys.stdout.flush()
        if follow is not None:
            processes.follow(follow, read_token(data / TOKEN_FILE), out.print, err.print)
        processes.watch(respawn)
    except KeyboardInterrupt:
        out.print("stopping")
    finally:
        processes.stop()
