"""`coterie backup` and `coterie restore`: what a node must not forget, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.console import out
from coterie.live.backup import back_up, restore
from coterie.live.config import load_config

Config = Annotated[Path, typer.Option("--config", "-c", help="The node's TOML file.")]


def backup_command(
    config: Config,
    file: Annotated[Path, typer.Option("--out", "-o", help="The file to write; it must not be there yet.")],
) -> None:
    """Copy a node's store into one file, while it runs.

    Sessions, subscriptions, retained messages and the log: all that its data folder must not lose. The configuration,
    keys and certificates are files of yours; keep them too.

    Examples:
      coterie backup --config node.toml --out node-0.sqlite
    """
    size = back_up(load_config(config).data, file)
    out.print(f"{file}: {size:,} bytes, checked")


def restore_command(
    backup: Annotated[Path, typer.Argument(help="What `coterie backup` wrote.")],
    config: Config,
) -> None:
    """Restore a node's store from a backup.

    The node must not run, and must have no store of its own: move an old one away first. What was acknowledged after
    the backup was taken is not in it; other nodes still have their copies of what they received.

    Examples:
      coterie restore node-0.sqlite --config node.toml
    """
    data = load_config(config).data
    restore(backup, data)
    out.print(f"{data}: restored from {backup}; start the node")
