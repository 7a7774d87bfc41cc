"""`coterie node`: one node of a live network, from its configuration file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from coterie.cli.console import out
from coterie.errors import ConfigError
from coterie.live.config import NodeConfig, checked, load_config
from coterie.live.nodelog import NodeLog
from coterie.live.passwords import hash_password
from coterie.live.processes import check_processes, count_of, is_by_itself, process_config


def node_command(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The node's TOML file.")] = None,
    example_config: Annotated[
        bool, typer.Option("--example-config", help="Print a configuration with every key explained.")
    ] = False,
    password: Annotated[
        bool, typer.Option("--hash-password", help="Read a password from standard input and print its hash.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the configuration.")] = False,
    process: Annotated[
        int | None,
        typer.Option("--process", min=0, hidden=True, help="Which of node.processes; the first starts them."),
    ] = None,
    join: Annotated[
        list[str] | None, typer.Option("--join", help="HOST:PORT of a member's links: join its network; repeatable.")
    ] = None,
) -> None:
    """Run one node.

    MQTT for clients, links to its peers, metrics and an admin interface. Ctrl-C (or SIGTERM) stops it cleanly;
    after a kill -9 it goes on where it was.

    Examples:
      coterie node --example-config > node.toml
      coterie node --config node.toml
      coterie node --config node.toml --join 10.0.0.1:3883
    """
    if example_config:
        sys.stdout.write(example())
        return
    if password:
        out.print(hash_password(sys.stdin.readline().rstrip("\n")), soft_wrap=True)
        return
    if config is None:
        raise ConfigError("--config", None, "the path of a node's TOML file", do="--example-config prints one")
    from coterie.live.joining import place_in
    from coterie.live.node import load_slice, run_node
    from coterie.systems import system_named

    if join:
        for one in join:
            place_in(one)
    settings = _read(config, join)
    system = system_named(settings.network.system)
    system.configure(settings.network.settings)
    if check:
        load_slice(settings, system)
        settings.keys()
        out.print(f"{config}: node {settings.node.id} of {settings.network.name}, {system.title}")
        return
    if count_of(settings) > 1:
        check_processes(settings)
        if process is None:
            _run_all(config, settings, join)
            return
        reread = partial(_read, config, join)
        settings = process_config(settings, process)
        log = NodeLog(settings)
        run_node(settings, system_named, log, _told(settings, log), reread=lambda: process_config(reread(), process))
        return
    log = NodeLog(settings)
    run_node(settings, system_named, log, _told(settings, log), _announce, lambda: _read(config, join))
    log(f"{settings.name} has stopped")


def _read(config: Path, join: list[str] | None) -> NodeConfig:
    """The file, and whom to ask if the command line says so."""
    settings = load_config(config)
    if not join:
        return settings
    return checked(msgspec.structs.replace(settings, network=msgspec.structs.replace(settings.network, join=join)))


def _told(settings: NodeConfig, log: NodeLog) -> Callable[[dict[str, int]], None]:
    return lambda ports: log(f"{settings.name} is ready: {_listed(ports)}")


def _run_all(config: Path, settings: NodeConfig, join: list[str] | None) -> None:
    """As many processes as the configuration wants, behind one port."""
    from coterie.api.running import found_processes
    from coterie.live.supervising import run_processes
    from coterie.systems import system_named

    if is_by_itself(settings):
        found_processes(settings, system_named(settings.network.system))
    words = [word for one in join or () for word in ("--join", one)]
    command = [sys.executable, "-m", "coterie", "node", "--config", str(config), *words]
    run_processes(settings, command, NodeLog(settings))


def example() -> str:
    return files("coterie.live").joinpath("example.toml").read_text()


def _listed(ports: dict[str, int]) -> str:
    return ", ".join(f"{name} {port}" for name, port in ports.items() if port)


def _announce(token: str, path: Path) -> None:
    """Once, at the start that made it; to the terminal of whoever started the node."""
    out.print(f"admin token, made now and kept in {path}: {token}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    typer.run(node_command)
