"""`coterie init`: the folders of a new network, one for each host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.choices import Json
from coterie.cli.console import out, print_json
from coterie.errors import ConfigError, InputError
from coterie.founding.adding import added
from coterie.founding.folders import FoundingWish, found
from coterie.founding.hosts import read_hosts
from coterie.founding.templates import Ports
from coterie.model.parameters import settings_of

OWN = Ports()
SECRET_LETTERS_MIN = 16


def init_command(
    hosts: Annotated[
        list[str] | None, typer.Option("--hosts", help="a,b,c; or NAME=ADDRESS, NAME=ADDRESS@ZONE.")
    ] = None,
    folder: Annotated[Path, typer.Option("--out", "-o", help="Where to write; it must be empty.")] = Path("cluster"),
    add: Annotated[
        list[str] | None, typer.Option("--add", help="Add hosts to the network in --out; they join when they start.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--number", min=0, help="Node number of the first host of --add; the next free one by default."),
    ] = None,
    system: Annotated[str, typer.Option("--system", "-s", help="How events spread; a plan may change it.")] = "mesh",
    parameters: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the system, NAME=VALUE; repeatable.")
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="Name of the network; both ends of a link must agree on it.")
    ] = "coterie",
    tls: Annotated[
        bool, typer.Option("--tls", help="Make certificates for clients and links, signed by a new authority.")
    ] = False,
    authority: Annotated[
        Path | None, typer.Option("--authority", help="PEM file of your own authority, instead of a new one.")
    ] = None,
    authority_key: Annotated[Path | None, typer.Option("--authority-key", help="The key of that authority.")] = None,
    users: Annotated[
        list[str] | None, typer.Option("--users", help="ann,bob: each gets a password; nobody else gets in.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="The network's key, instead of a new one.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="The admin token, instead of a new one.")
    ] = None,
    data: Annotated[str, typer.Option("--data", help="Data folder of a node, on its host.")] = "data",
    only: Annotated[
        str, typer.Option("--only", help="Make the folder of this host only, for hosts that make their own.")
    ] = "",
    mqtt_port: Annotated[int, typer.Option(min=1, max=65_535, help="For clients without TLS.")] = OWN.mqtt,
    tls_port: Annotated[int, typer.Option(min=1, max=65_535, help="For clients with --tls.")] = OWN.tls,
    link_port: Annotated[int, typer.Option(min=1, max=65_535, help="Between the nodes.")] = OWN.links,
    admin_port: Annotated[int, typer.Option(min=1, max=65_535, help="Health, metrics, plans.")] = OWN.admin,
    as_json: Json = False,
) -> None:
    """Create a network: one folder per host.

    It holds the node's configuration, its keys, certificates and unit file; a page says what to do with it.

    Examples:
      coterie init --hosts a,b,c
      coterie init --hosts a=10.0.0.1@east,b=10.0.0.2@west \\
          --tls --users ann,bob --out net
      coterie init --add c=10.0.0.3@west --out net
    """
    from coterie.systems import system_named

    if add:
        _add(add, folder, number, as_json)
        return
    if not hosts:
        raise ConfigError("--hosts", "", "the hosts of the network, NAME or NAME=ADDRESS each")
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
        key=_secret(key_file),
        token=_secret(token_file),
        data=data,
        only=only,
    )
    passwords = found(wish, system_named(system), folder)
    names = [host.name for host in wish.hosts]
    if as_json:
        print_json({"folder": str(folder), "hosts": names, "users": list(passwords)})
        return
    if only:
        out.print(f"{folder / only}: all that the node on {only} needs")
        return
    out.print(f"{folder}: a folder for each of {', '.join(names)}; {folder / 'README.md'} says what to do with them")
    if passwords:
        out.print(f"passwords are in {folder / 'passwords.txt'}: hand them out, then delete the file")


def _add(told: list[str], folder: Path, number: int | None, as_json: bool) -> None:
    made = added(told, folder, number)
    if as_json:
        print_json({"folder": str(folder), "hosts": [host.name for host in made]})
        return
    for host in made:
        out.print(f"{folder / host.name}: all that node {host.node} needs to join the network")


def _secret(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        found = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
    if len(found) < SECRET_LETTERS_MIN:
        raise InputError(str(path), f"expected a secret of at least {SECRET_LETTERS_MIN} letters")
    return found
