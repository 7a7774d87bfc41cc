"""`coterie init`: the folders of a new network, one for each host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.choices import Json
from coterie.cli.console import out, print_json
from coterie.errors import ConfigError
from coterie.founding.folders import FoundingWish, found
from coterie.founding.hosts import read_hosts
from coterie.founding.templates import Ports
from coterie.model.parameters import settings_of
from coterie.systems import system_named

OWN = Ports()


def init_command(
    hosts: Annotated[list[str], typer.Option("--hosts", help="a,b,c; or NAME=ADDRESS, NAME=ADDRESS@ZONE.")],
    folder: Annotated[Path, typer.Option("--out", "-o", help="Where to write; it must be empty.")] = Path("cluster"),
    system: Annotated[str, typer.Option("--system", "-s", help="How events spread; a plan may change it.")] = "mesh",
    parameters: Annotated[list[str] | None, typer.Option("--set", help="key=value of the system.")] = None,
    name: Annotated[
        str, typer.Option("--name", help="Of the network; both ends of a link must agree on it.")
    ] = "coterie",
    tls: Annotated[
        bool, typer.Option("--tls", help="Certificates for clients and links, by an authority of its own.")
    ] = False,
    authority: Annotated[
        Path | None, typer.Option("--authority", help="PEM file of your own authority instead.")
    ] = None,
    authority_key: Annotated[Path | None, typer.Option("--authority-key", help="And its key.")] = None,
    users: Annotated[
        list[str] | None, typer.Option("--users", help="ann,bob: each gets a password; nobody else may in.")
    ] = None,
    mqtt_port: Annotated[int, typer.Option(min=1, max=65_535, help="For clients without TLS.")] = OWN.mqtt,
    tls_port: Annotated[int, typer.Option(min=1, max=65_535, help="For clients with --tls.")] = OWN.tls,
    link_port: Annotated[int, typer.Option(min=1, max=65_535, help="Between the nodes.")] = OWN.links,
    admin_port: Annotated[int, typer.Option(min=1, max=65_535, help="Health, metrics, plans.")] = OWN.admin,
    as_json: Json = False,
) -> None:
    """Make a network: a folder for each host.

    It holds the node's configuration, its keys, certificates and unit file; a page says what to do with it.

    Examples:
      coterie init --hosts a,b,c
      coterie init --hosts a=10.0.0.1@east,b=10.0.0.2@west --tls --users ann,bob --out net
    """
    if (authority is None) != (authority_key is None):
        raise ConfigError("--authority-key", str(authority_key or ""), "a file, together with --authority")
    own = None if authority is None or authority_key is None else (authority, authority_key)
    wish = FoundingWish(
        hosts=read_hosts(hosts),
        network=name,
        settings=settings_of(parameters or (), "--set"),
        ports=Ports(mqtt_port, tls_port, link_port, admin_port),
        is_tls=tls or own is not None,
        users=[word.strip() for text in users or () for word in text.split(",") if word.strip()],
        authority=own,
    )
    passwords = found(wish, system_named(system), folder)
    names = [host.name for host in wish.hosts]
    if as_json:
        print_json({"folder": str(folder), "hosts": names, "users": list(passwords)})
        return
    out.print(f"{folder}: a folder for each of {', '.join(names)}; {folder / 'README.md'} says what to do with them")
    if passwords:
        out.print(f"passwords are in {folder / 'passwords.txt'}: hand them out, then delete the file")
