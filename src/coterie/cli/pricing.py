"""`coterie price`: plan with any systems and print what their designs would cost, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.cli.choices import DemandOptions, Json
from coterie.cli.console import flat, out, print_json, print_wide, progress
from coterie.model.prices import chosen_prices
from coterie.model.store import load_design, save_design, save_workload
from coterie.plans.bill import Bill

MONTH = "money a month"
SHOWN = (
    "maintenance.tree_keepalives",
    "maintenance.link_keepalives",
    "maintenance.associations",
    "dissemination.copies",
    "dissemination.inbound",
    "dissemination.wanted",
    "dissemination.relayed",
    "dissemination.filtered",
    "dissemination.duplicate",
    "dissemination.link_cost",
    "delay.hops.mean",
    "delay.hops.max",
    "delay.milliseconds.mean",
    "delay.milliseconds.p99",
    "state.degree.mean",
    "state.degree.max",
    "state.links",
    "state.trees",
    "state.tree_entries.mean",
    "topics.links",
    "topics.diameter",
    "topics.partitioned",
    "topics.top_intersection",
    "control.subscription",
    "volume.copies",
    "volume.upkeep",
    "volume.control",
    "volume.total",
    "load.messages.max",
    "loss.owed",
    "loss.lost",
    MONTH,
)


def price_command(
    systems: Annotated[
        list[str] | None, typer.Option("--system", "-s", help="Repeatable; all that fit the workload by default.")
    ] = None,
    *,
    asked: DemandOptions,
    design: Annotated[Path | None, typer.Option(help="Price this saved design instead of planning one.")] = None,
    save_to: Annotated[Path | None, typer.Option("--save", help="Folder for the workload and the designs.")] = None,
    prices: Annotated[Path | None, typer.Option(help="A price file (`coterie prices` prints an example).")] = None,
    as_json: Json = False,
) -> None:
    """Plan with any systems on a generated workload.

    Prints the ledgers side by side, with the lower bound of the workload.

    Examples:
      coterie price -w spatial --nodes 500 --subscriptions 16 -s mesh -s magnet
      coterie price -w multimodal --nodes 200 --topics 100 --subscriptions 5 \\
          -s scribe
    """
    from coterie.api.planning import bounds, design_of, price
    from coterie.systems import SYSTEMS
    from coterie.workloads.traces import latency_of

    demand, seed = asked.demand(), asked.seed
    delays = latency_of(asked.latency, demand)
    paid = chosen_prices(prices)
    names = systems or [name for name, system in SYSTEMS.items() if system.fits(demand)]
    ledgers: dict[str, dict[str, float]] = {}
    if save_to is not None:
        save_to.mkdir(parents=True, exist_ok=True)
        save_workload(demand, save_to / "workload.npz")
    with progress("pricing", as_json) as report:
        for index, name in enumerate(names if design is None else ["saved design"]):
            report(name, index / len(names))
            made = load_design(design) if design is not None else design_of(name, demand, asked.settings, seed)
            bill = price(made, demand, against=None, prices=paid, latency=delays)
            ledgers[made.system if design is not None else name] = _columns(bill)
            if save_to is not None:
                save_design(made, save_to / f"design-{name}.npz")
        report("lower bound", 1.0)
        ledgers["lower bound"] = _columns(bounds(demand, paid))
    if as_json:
        print_json({"workload": demand.name, "seed": seed, "ledgers": ledgers})
        return
    used = [name for name in SHOWN if any(ledger[name] for ledger in ledgers.values()) or name == "loss.lost"]
    title = f"{demand.name}: {demand.node_count:,} nodes, {demand.topic_count:,} topics, seed {seed}"
    print_wide(title, ["per second", *ledgers], flat(ledgers, used))
    if save_to is not None:
        out.print(f"\nsaved to {save_to} (docs/FORMATS.md describes the files)", soft_wrap=True)


def _columns(bill: Bill) -> dict[str, float]:
    """The ledger's, and a month of it in money."""
    return bill.columns() | {MONTH: bill.money.total}
