"""`coterie members`, `coterie drain` and `coterie remove`: who belongs to a running network, and who shall no more."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.cli.adminclient import NetworkOptions
from coterie.cli.choices import Json
from coterie.cli.console import out, print_json, table
from coterie.plans.membership import NetworkMembers, drain, remove

Node = Annotated[str, typer.Argument(metavar="NODE", help="Its number or its name.")]
Limit = Annotated[
    float, typer.Option("--limit", min=1.0, help="Seconds to wait until it has left; it continues leaving after that.")
]


def members_command(network: NetworkOptions, as_json: Json = False) -> None:
    """List the members of the network.

    The list in force, as the nodes that answer know it: number, name, address, whether a node is in, leaving or
    removed, and the plan it works by (a leaf has no place in one yet). It changes when a node joins (`coterie node
    --join`), is drained or removed.

    Examples:
      coterie members --nodes 3
    """
    live = network.connected().live
    told = NetworkMembers(live.places, live.token).documents()
    said, plans = told[0][1], {one["node"]: one["plan"] for _, one in told}
    if as_json:
        listed = [one | {"plan": plans.get(one["id"])} for one in said["members"]]
        print_json({"epoch": said["epoch"], "members": listed})
        return
    rows = [
        [str(one["id"]), one["name"], f"{one['host']}:{one['port']}", one["server"], one["zone"], one["state"],
         plans.get(one["id"], "-")]
        for one in said["members"]
    ]  # fmt: skip
    out.print(table(f"members, list {said['epoch']}", ["node", "name", "links", "clients", "zone", "is", "plan"], rows))


def drain_command(node: Node, network: NetworkOptions, limit: Limit = 600.0) -> None:
    """Make a node leave the network cleanly.

    Its clients are sent to other nodes (those that do not follow are disconnected), its sessions and its log are
    handed over, then its process ends. Killed in the middle, it goes on when it is started again.

    Examples:
      coterie drain 2
      coterie drain west --admin 10.0.0.1:2883 --admin 10.0.0.3:2883
    """
    members = NetworkMembers(network.places, network.secret)
    drain(members, members.number_of(node), _tell, limit)


def remove_command(
    node: Node,
    network: NetworkOptions,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Remove it on your word, without a majority or although another node still hears it."
        ),
    ] = False,
    limit: Limit = 60.0,
) -> None:
    """Take a dead node out of the network.

    Says first who keeps what it had. They take over its sessions; its number is not used again, and its disk is of no
    use any more. A node that lives is drained instead.

    Examples:
      coterie remove 2
    """
    members = NetworkMembers(network.places, network.secret)
    remove(members, members.number_of(node), force, _tell, limit)


def _tell(text: str) -> None:
    out.print(text, soft_wrap=True, highlight=False, markup=False)
