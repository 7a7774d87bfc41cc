"""`coterie apply`: switch a running network to a plan, look first, go back, follow the planner, or show the bill."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli.adminclient import NetworkOptions
from coterie.cli.console import err, number, out, print_json, table
from coterie.errors import ConfigError, InputError

if TYPE_CHECKING:
    from coterie.api.running import RunningNetwork


@dataclass(frozen=True, kw_only=True)
class PlannedNetworkOptions(NetworkOptions):
    """The plan knows how many nodes there are."""

    nodes: Annotated[
        int,
        typer.Option("--nodes", "-n", min=0, help="How many nodes `coterie up` started; 0: as many as the plan has."),
    ] = 0


def apply_command(
    plan: Annotated[
        Path, typer.Argument(help="The folder that `coterie plan` or `coterie watch` publishes into.")
    ] = Path("out"),
    version: Annotated[
        int | None, typer.Option(help="Version to apply; the current one by default. An older one rolls back.")
    ] = None,
    *,
    network: PlannedNetworkOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change and what it saves.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Apply every plan that is published from now on.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Show the predicted and the measured bill.")] = False,
    over: Annotated[
        float,
        typer.Option(min=0.0, help="Seconds to measure for --status; 0: all the time since the plan was applied."),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Switch a running network to a plan.

    The plan may use any system, and no message is lost: the new structures are built beside those in use, and the
    nodes switch when all are complete. Clients that can be redirected are sent where the plan wants them, twenty a
    second. If something fails before the switch, nothing changes.

    Examples:
      coterie apply out --base-port 1883 --dry-run
      coterie apply out --version 1
      coterie apply out --status --over 10
    """
    from coterie.api.planning import load_plan

    if follow and (dry_run or status or version is not None):
        raise ConfigError(
            "--follow", True, "no --dry-run, --status or --version with it, because it applies what is current"
        )
    if follow:
        _follow(network.connected(_count(plan, network)), plan)
        return
    chosen = load_plan(plan, version)
    net = network.connected(network.nodes or chosen.node_count)
    if status:
        _show_status(net, plan, version, over, as_json)
        return
    summary = net.changes(chosen)
    bill = net.bill(chosen)
    if not dry_run:
        net.apply(chosen, err.print)
    if as_json:
        print_json({"version": chosen.version, "dry_run": dry_run, **summary, "bill": bill})
        return
    shown = [[name.replace("_", " "), _cell(value)] for name, value in summary.items()]
    out.print(table(f"plan {chosen.version}, {'not applied' if dry_run else 'applied'}", ["", ""], shown))
    out.print(_bill_table("what it saves", "with this plan", "measured so far", bill))


def _count(plan: Path, network: NetworkOptions) -> int:
    from coterie.api.planning import load_plan

    if network.nodes or network.admin:
        return network.nodes
    try:
        return load_plan(plan).node_count
    except InputError:
        told = "the number of nodes, because there is no plan yet that says it"
        raise ConfigError("--nodes", 0, told) from None


def _follow(net: RunningNetwork, plan: Path) -> None:
    try:
        net.follow(plan, out.print, err.print)
    except KeyboardInterrupt:
        err.print("stopped following; the network keeps its plan")


def _show_status(net: RunningNetwork, plan: Path, version: int | None, over_s: float, as_json: bool) -> None:
    from coterie.api.planning import load_plan

    answers = net.live.ask("/plan")
    if not answers[0]["is_applied"] and version is None:
        raise InputError(str(plan), f"no plan has been applied yet; `coterie apply {plan}` does it")
    running = load_plan(plan, version if version is not None else int(answers[0]["version"]))
    bill = net.bill(running, over_s)
    age_s = max(one["in_force_s"] for one in answers)
    if as_json:
        print_json({"version": running.version, "in_force_s": age_s, "bill": bill})
        return
    title = f"plan {running.version} ({answers[0]['system']}), in force for {age_s:,.0f} s; per second"
    out.print(_bill_table(title, "predicted", "measured", bill))


def _bill_table(title: str, left: str, right: str, bill: Any) -> Any:
    rows = [
        [name.replace("_", " "), "-" if foretold is None else number(round(foretold, 3)), number(round(counted, 3)),
         f"{counted / foretold:.2f}" if foretold else "-"]
        for name, (foretold, counted) in bill.items()
    ]  # fmt: skip
    return table(title, ["", left, right, "ratio"], rows)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else number(value)
