"""Options by which commands find the nodes of a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.api.places import places_of
from coterie.live.tokens import TOKEN_FILE, read_token

if TYPE_CHECKING:
    from coterie.api.running import RunningNetwork


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Where the nodes of a running network are, and what lets us in."""

    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="How many nodes `coterie up` started.")] = 3
    base_port: Annotated[int, typer.Option(min=1, max=63_535, help="The base port of `coterie up`.")] = 1883
    admin: Annotated[
        list[str] | None,
        typer.Option("--admin", help="HOST:PORT of a node's admin interface, instead of a base port; repeatable."),
    ] = None
    token: Annotated[
        str, typer.Option(envvar="COTERIE_TOKEN", help="The admin token; by default the one in --data.")
    ] = ""
    data: Annotated[Path, typer.Option(help="The data folder of `coterie up`, which holds the admin token.")] = Path(
        "coterie-data"
    )
    host: Annotated[str, typer.Option(help="Where the nodes are.")] = "127.0.0.1"

    @property
    def places(self) -> list[tuple[str, int]]:
        """The admin interfaces: as listed, or as `coterie up` lays them out."""
        return places_of(self.admin, self.host, self.base_port, self.nodes)

    @property
    def secret(self) -> str:
        return self.token or read_token(self.data / TOKEN_FILE)

    def connected(self, nodes: int | None = None) -> RunningNetwork:
        """All of the network's processes, behind so many admin interfaces."""
        from coterie.api.running import connect

        return connect(
            nodes or self.nodes, base_port=self.base_port, host=self.host, token=self.token, data=self.data,
            admin=self.admin,
        )  # fmt: skip
