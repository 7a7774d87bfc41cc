"""`coterie systems` and `coterie workloads`: what there is and what it can be told."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.api import lists
from coterie.cli.choices import Json
from coterie.cli.console import loading, out, print_json, table

Name = Annotated[str | None, typer.Argument(help="Show the parameters of this one.")]


def systems_command(name: Name = None, as_json: Json = False) -> None:
    """List the systems, or the parameters of one.

    Examples:
      coterie systems
      coterie systems coterie
    """
    with loading():
        found = lists.list_systems() if name is None else lists.system(name)
    _show("systems", found, as_json)


def workloads_command(name: Name = None, as_json: Json = False) -> None:
    """List the workload generators, or one's parameters.

    Examples:
      coterie workloads
      coterie workloads multimodal
    """
    with loading():
        found = lists.list_workloads() if name is None else lists.workload_kind(name)
    _show("workloads", found, as_json)


def _show(what: str, found: lists.Catalogue | lists.Listed, as_json: bool) -> None:
    if isinstance(found, lists.Listed):
        _show_one(found, as_json)
    else:
        _show_all(what, found, as_json)


def _show_all(what: str, listed: lists.Catalogue, as_json: bool) -> None:
    if as_json:
        rows = [{"name": one.name, "title": one.title, "paper": one.paper} for one in listed.values()]
        print_json({what: rows})
        return
    out.print(table(what, ["name", "what it is", "from"], [[*_row(one)] for one in listed.values()], right_from=3))
    out.print(f"\n'coterie {what} NAME' shows the parameters of one")


def _row(one: lists.Listed) -> tuple[str, str, str]:
    return one.name, one.title, one.paper


def _show_one(one: lists.Listed, as_json: bool) -> None:
    if as_json:
        told = {"name": one.name, "title": one.title, "paper": one.paper}
        defaults = {each.name: each.default for each in one.parameters}
        meanings = {each.name: each.meaning for each in one.parameters}
        print_json({**told, "parameters": defaults, "meanings": meanings})
        return
    rows = [[each.name, str(each.default), each.meaning] for each in one.parameters]
    title = f"{one.name}: {one.title} ({one.paper.strip('()')})"
    out.print(table(title, ["parameter", "default", "meaning"], rows, right_from=3))
