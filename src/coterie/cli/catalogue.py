"""`coterie systems` and `coterie workloads`: what there is and what it can be told."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from coterie.cli.choices import Json
from coterie.cli.console import out, print_json, table
from coterie.systems import SYSTEMS, system_named
from coterie.workloads import WORKLOADS, kind_of

Name = Annotated[str | None, typer.Argument(help="Show the parameters of this one.")]


def systems_command(name: Name = None, as_json: Json = False) -> None:
    """List the systems, or the parameters of one."""
    _show("systems", SYSTEMS, system_named(name) if name else None, as_json)


def workloads_command(name: Name = None, as_json: Json = False) -> None:
    """List the workload generators, or the parameters of one."""
    _show("workloads", WORKLOADS, kind_of(name) if name else None, as_json)


def _show(what: str, registry: dict[str, Any], one: Any, as_json: bool) -> None:
    if one is not None:
        _show_parameters(one, as_json)
        return
    listed = [{"name": entry.name, "title": entry.title, "paper": entry.paper} for entry in registry.values()]
    if as_json:
        print_json(listed)
        return
    rows = [[entry["name"], entry["title"], entry["paper"]] for entry in listed]
    out.print(table(what, ["name", "what it is", "from"], rows, right_from=3))
    out.print(f"\n'coterie {what} NAME' shows the parameters of one")


def _show_parameters(entry: Any, as_json: bool) -> None:
    defaults = [(field.name, field.default) for field in msgspec.structs.fields(entry.parameters)]
    if as_json:
        print_json({"name": entry.name, "title": entry.title, "paper": entry.paper, "parameters": dict(defaults)})
        return
    rows = [[name, str(default)] for name, default in defaults]
    out.print(table(f"{entry.name}: {entry.title} ({entry.paper})", ["parameter", "default"], rows))
