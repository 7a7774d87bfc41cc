"""Options by which commands find the nodes of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA = Path("coterie-data")
Token = Annotated[str, typer.Option(envvar="COTERIE_TOKEN", help="The admin token; by default the one in --data.")]
DataFolder = Annotated[Path, typer.Option(help="The data folder of `coterie up`, which holds the admin token.")]
NodeCount = Annotated[int, typer.Option("--nodes", "-n", min=1, help="How many nodes `coterie up` started.")]
BasePort = Annotated[int, typer.Option(min=1, max=63_535, help="The base port of `coterie up`.")]
Admin = Annotated[
    list[str] | None,
    typer.Option("--admin", help="HOST:PORT of a node's admin interface, instead of a base port; repeatable."),
]
Host = Annotated[str, typer.Option(help="Where the nodes are.")]
