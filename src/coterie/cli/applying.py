"""`coterie apply`: switch a running network to a plan, look first, or go back to an earlier one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow.parquet as pq
import typer

from coterie.cli.adminclient import ask
from coterie.cli.console import number, out, print_json, table
from coterie.cli.up import ADMIN_OFFSET
from coterie.errors import ConfigError, InputError, RunError
from coterie.model.plan import Slice, slices
from coterie.pipeline.plans import PlanStore


def apply_command(
    plan: Annotated[Path, typer.Argument(help="The folder that `coterie plan` or `coterie watch` publishes into.")],
    version: Annotated[
        int | None, typer.Option(help="A version; the current one if absent. Older ones roll back.")
    ] = None,
    base_port: Annotated[int, typer.Option(help="The base port of `coterie up`.")] = 1883,
    admin: Annotated[
        list[str] | None, typer.Option("--admin", help="HOST:PORT of each node's admin interface, in order.")
    ] = None,
    token: Annotated[str, typer.Option(envvar="COTERIE_TOKEN", help="The admin token.")] = "",
    host: Annotated[str, typer.Option()] = "127.0.0.1",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Give every node its slice of a plan, and send clients that follow to where the plan wants them.

    Nodes change over by their system's own protocol, without losing a message; clients are moved twenty a second.

    Example: coterie apply ./plans --base-port 1883 --dry-run
    """
    store = PlanStore(plan)
    chosen = version if version is not None else store.current()
    if chosen is None:
        raise InputError(str(plan), "holds no plan yet; `coterie plan` makes one")
    design = store.design(chosen)
    topics = _names(store.folder(chosen), "topic")
    parts = [_named(part, topics) for part in slices(design, version=chosen)]
    places = [_place(one) for one in admin or ()] or [(host, base_port + ADMIN_OFFSET + n) for n in range(len(parts))]
    if len(places) != len(parts):
        raise ConfigError("--admin", len(places), f"one for each of the plan's {len(parts)} nodes")
    clients = dict(zip(_names(store.folder(chosen), "subscriber"), design.placement.node_of.tolist(), strict=False))
    before = [_answer(place, "/plan", token) for place in places]
    running = {one["system"] for one in before}
    if running != {design.system}:
        raise ConfigError("plan", design.system, f"a plan for the system that runs: {', '.join(sorted(running))}")
    summary = _changes(before, parts, clients, places, token)
    summary["predicted"] = store.manifest(chosen).get("predicted", {})
    if not dry_run:
        _switch(places, parts, clients, chosen, token)
    if as_json:
        print_json({"version": chosen, "dry_run": dry_run, **summary})
        return
    shown = [[name.replace("_", " "), number(value)] for name, value in summary.items() if isinstance(value, int)]
    out.print(table(f"plan {chosen}, {'not applied' if dry_run else 'applied'}", ["", ""], shown))


def _switch(
    places: list[tuple[str, int]], parts: list[Slice], clients: dict[str, int], version: int, token: str
) -> None:
    """Structures first, then clients: whoever moves finds the new structure."""
    for place, part in zip(places, parts, strict=True):
        _answer(place, "/plan", token, "POST", msgspec.json.encode(part))
    body = msgspec.json.encode({"version": version, "clients": clients})
    for place in places:
        _answer(place, "/placement", token, "POST", body)


def _changes(
    before: list[dict[str, Any]], parts: list[Slice], clients: dict[str, int], places: list[tuple[str, int]], token: str
) -> dict[str, Any]:
    homes = [_answer(place, "/placement", token)["clients"] for place in places]
    at = {client: node for node, names in enumerate(homes) for client in names}
    old = [{pair[0] for pair in one.get("neighbours", [])} for one in before]
    new = [{one.node for one in part.neighbours} for part in parts]
    moves = Counter(clients[client] for client, node in at.items() if clients.get(client, node) != node)
    return {
        "clients_connected": len(at),
        "clients_known_to_the_plan": sum(client in clients for client in at),
        "clients_to_move": moves.total(),
        "positions_to_change": sum(
            one.get("position", 0) != part.position for one, part in zip(before, parts, strict=True)
        ),
        "links_to_add": sum(len(after - had) for had, after in zip(old, new, strict=True)),
        "links_to_drop": sum(len(had - after) for had, after in zip(old, new, strict=True)),
        "clusters_to_join": sum(len(part.channels) for part in parts),
    }


def _named(part: Slice, topics: list[str]) -> Slice:
    """The plan counts topics; nodes know them by name."""
    channels = tuple(
        msgspec.structs.replace(one, topics=tuple(topics[topic] for topic in one.topics if isinstance(topic, int)))
        for one in part.channels
    )
    return msgspec.structs.replace(part, channels=channels)


def _names(folder: Path, what: str) -> list[str]:
    path = folder / f"{what}s.parquet"
    try:
        names: list[str] = pq.read_table(path).column(what).to_pylist()
    except (OSError, KeyError) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
    return names


def _answer(place: tuple[str, int], path: str, token: str, method: str = "GET", body: bytes = b"") -> dict[str, Any]:
    found = ask(place[0], place[1], path, token, method, body)
    if found is None:
        raise RunError(f"no node answers at {place[0]}:{place[1]}; nothing more was changed")
    document: dict[str, Any] = found
    return document


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host or "127.0.0.1", int(port)
