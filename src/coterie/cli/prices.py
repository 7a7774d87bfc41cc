"""`coterie prices`: an example of a price file, to be filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli import choices
from coterie.cli.console import out, print_json
from coterie.model.prices import EXAMPLE, EXAMPLE_FILE, read_prices


def prices_command(
    file: Annotated[Path | None, typer.Argument(help="A price file to check; nothing: print an example.")] = None,
    as_json: choices.Json = False,
) -> None:
    """Print an example price file, or check one.

    Examples:
      coterie prices > prices.toml
      coterie prices prices.toml
    """
    prices = EXAMPLE if file is None else read_prices(file)
    if as_json:
        print_json(prices)
    elif file is None:
        out.file.write(EXAMPLE_FILE)
    else:
        out.print(f"{file}: fine; a gigabyte between zones costs {prices.per_gb_across_zones:g} {prices.currency}")
