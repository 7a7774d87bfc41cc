"""`coterie apply`: switch a running network to a plan, look first, go back, follow the planner, or show the bill."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli.adminclient import DATA, DataFolder, Token, token_of
from coterie.cli.console import err, number, out, print_json, table
from coterie.cli.switching import LiveNetwork, PlanForNetwork, change_over, fit, side_by_side
from coterie.cli.up import ADMIN_OFFSET, BasePort
from coterie.errors import ConfigError, CoterieError, InputError
from coterie.pipeline.plans import CURRENT, PlanStore

LOOK_S = 1.0  # between two looks for a new plan
TRY_AGAIN_S = 10.0


def apply_command(
    plan: Annotated[Path, typer.Argument(help="The folder that `coterie plan` or `coterie watch` publishes into.")],
    version: Annotated[
        int | None, typer.Option(help="A version; the current one if absent. Older ones roll back.")
    ] = None,
    nodes: Annotated[
        int, typer.Option("--nodes", "-n", min=0, help="How many nodes `coterie up` started; 0: as the plan.")
    ] = 0,
    base_port: BasePort = 1883,
    admin: Annotated[
        list[str] | None, typer.Option("--admin", help="HOST:PORT of each node's admin interface, in order.")
    ] = None,
    token: Token = "",
    data: DataFolder = DATA,
    host: Annotated[str, typer.Option(help="Where the nodes are.")] = "127.0.0.1",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change and what it saves.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Apply every plan that is published from now on.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Show the predicted and the measured bill.")] = False,
    over: Annotated[
        float, typer.Option(min=0.0, help="Seconds to measure for --status; 0: all since the plan is in force.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Switch a running network to a plan, of whatever system, without losing a message.

    The new plan is built beside the one in use; when it is complete at all nodes, they switch. Clients that follow are
    sent where the plan wants them, twenty a second. If it cannot be built, nothing changes.

    Example: coterie apply out/journal --base-port 1883 --dry-run
    """
    if follow and (dry_run or status or version is not None):
        raise ConfigError("--follow", True, "alone: it applies what is current")
    token = token_of(token, data)
    store = PlanStore(plan.parent if (plan / CURRENT).is_file() else plan)  # what `plan` prints is as good
    places = [_place(one) for one in admin or ()]
    if follow:
        follow_plans(store, LiveNetwork(places or _places(host, base_port, nodes or _node_count(store)), token))
        return
    chosen = version if version is not None else store.current()
    if chosen is None:
        raise InputError(str(plan), "holds no plan yet; `coterie plan` makes one")
    network = LiveNetwork(places or _places(host, base_port, nodes or store.design(chosen).node_count), token)
    if status:
        _show_bill(store, network, version, over, as_json)
        return
    fitted = fit(store, chosen, network)
    summary = _changes(network, fitted)
    bill = side_by_side(store, chosen, network)
    if not dry_run:
        change_over(network, fitted, err.print)
    if as_json:
        print_json({"version": chosen, "dry_run": dry_run, **summary, "bill": bill})
        return
    shown = [[name.replace("_", " "), _cell(value)] for name, value in summary.items()]
    out.print(table(f"plan {chosen}, {'not applied' if dry_run else 'applied'}", ["", ""], shown))
    out.print(_bill_table("what it saves", "with this plan", "measured so far", bill))


def follow_plans(store: PlanStore, network: LiveNetwork) -> None:
    """Until interrupted: whatever the planner makes current is applied; what fails is told and tried again."""
    running = network.ask("/plan")[0]
    applied = running["version"] if running["generation"] else None
    try:
        while True:
            current = store.current()
            if current is not None and current != applied:
                applied = _try(store, network, current, applied)
                time.sleep(0.0 if applied == current else TRY_AGAIN_S)
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        err.print("stopped following; the network keeps its plan")


def _try(store: PlanStore, network: LiveNetwork, version: int, applied: int | None) -> int | None:
    try:
        change_over(network, fit(store, version, network), out.print)
    except CoterieError as error:
        err.print(f"plan {version} was not applied: {error}")
        return applied
    return version


def _show_bill(store: PlanStore, network: LiveNetwork, version: int | None, over_s: float, as_json: bool) -> None:
    answers = network.ask("/plan")
    running = version if version is not None else int(answers[0]["version"])
    if not answers[0]["generation"] and version is None:
        raise InputError(str(store.root), "no plan has been applied yet")
    bill = side_by_side(store, running, network, over_s)
    age_s = max(one["in_force_s"] for one in answers)
    if as_json:
        print_json({"version": running, "in_force_s": age_s, "bill": bill})
        return
    title = f"plan {running} ({answers[0]['system']}), in force for {age_s:,.0f} s; per second"
    out.print(_bill_table(title, "predicted", "measured", bill))


def _bill_table(title: str, left: str, right: str, bill: dict[str, tuple[float | None, float]]) -> Any:
    rows = [
        [name.replace("_", " "), "-" if foretold is None else number(round(foretold, 3)), number(round(counted, 3)),
         f"{counted / foretold:.2f}" if foretold else "-"]
        for name, (foretold, counted) in bill.items()
    ]  # fmt: skip
    return table(title, ["", left, right, "ratio"], rows)


def _changes(network: LiveNetwork, plan: PlanForNetwork) -> dict[str, Any]:
    before = network.ask("/plan")
    homes = network.ask("/placement")
    at = {client: one["node"] for one, home in zip(before, homes, strict=True) for client in home["clients"]}
    old = [{pair[0] for pair in one.get("neighbours", [])} for one in before]
    new = [{one.node for one in part.neighbours} for part in plan.slices]
    moves = Counter(plan.clients[client] for client, node in at.items() if plan.clients.get(client, node) != node)
    return {
        "system_now": before[0]["system"],
        "system_of_the_plan": plan.system,
        "clients_connected": len(at),
        "clients_known_to_the_plan": sum(client in plan.clients for client in at),
        "clients_to_move": moves.total(),
        "positions_to_change": sum(
            one.get("position", 0) != part.position for one, part in zip(before, plan.slices, strict=True)
        ),
        "links_to_add": sum(len(after - had) for had, after in zip(old, new, strict=True)),
        "links_to_drop": sum(len(had - after) for had, after in zip(old, new, strict=True)),
        "clusters_to_join": sum(one.is_member for part in plan.slices for one in part.channels),
    }


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else number(value)


def _node_count(store: PlanStore) -> int:
    current = store.current()
    if current is None:
        raise ConfigError("--nodes", 0, "how many nodes there are, because there is no plan yet that would say it")
    return store.design(current).node_count


def _places(host: str, base_port: int, nodes: int) -> list[tuple[str, int]]:
    return [(host, base_port + ADMIN_OFFSET + node) for node in range(nodes)]


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit():
        raise ConfigError("--admin", text, "HOST:PORT")
    return host or "127.0.0.1", int(port)


if __name__ == "__main__":
    typer.run(apply_command)
