"""`coterie inspect`: a client, a topic or a link, asked of the whole network."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from coterie.cli.adminclient import NetworkOptions
from coterie.cli.choices import Json
from coterie.cli.console import out, print_json
from coterie.errors import ConfigError
from coterie.plans.inspecting import client_told, inspect, link_told, topic_told


class Subject(StrEnum):
    CLIENT = "client"
    SESSION = "session"
    TOPIC = "topic"
    LINK = "link"


def inspect_command(
    subject: Annotated[Subject, typer.Argument(help="What NAME is: a client, its session, a topic or a link.")],
    name: Annotated[str, typer.Argument(help="A client identifier, a topic, or the number of a node.")],
    network: NetworkOptions,
    as_json: Json = False,
) -> None:
    """Ask the whole network about a client, a topic or a link.

    Where a client (or the session of one that is away) is, what it wants and what waits for it; who subscribes to a
    topic anywhere and which way its events go; who is linked to a node.

    Examples:
      coterie inspect client ann
      coterie inspect topic news/vienna
      coterie inspect link 2
    """
    if subject is Subject.LINK and not name.isdigit():
        raise ConfigError("NAME", name, "the number of a node")
    found, silent = inspect(network.connected().live, "client" if subject is Subject.SESSION else subject.value, name)
    if as_json:
        print_json({subject.value: name, "nodes": found, "silent": silent})
        return
    told = link_told(int(name), found) if subject is Subject.LINK else None
    told = told or (topic_told(name, found) if subject is Subject.TOPIC else client_told(name, found))
    if silent:
        told.append(f"(nobody answers at {', '.join(silent)}: what is only known there is missing)")
    for line in told:
        out.print(line, soft_wrap=True, highlight=False, markup=False)
