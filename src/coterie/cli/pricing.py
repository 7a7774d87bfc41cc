"""`coterie price`: plan with any systems and print what their designs would cost, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.cli import choices
from coterie.cli.console import flat, out, print_json, progress, settings_of, table
from coterie.errors import ConfigError
from coterie.model import Ledger, Workload
from coterie.model.prices import EXAMPLE, Prices, monthly, read_prices
from coterie.model.store import load_design, save_design, save_workload
from coterie.systems import SYSTEMS, system_named

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
    workload: choices.WorkloadName = "multimodal",
    load: choices.WorkloadFile = None,
    nodes: choices.Nodes = None,
    topics: choices.Topics = None,
    subscriptions: choices.Subscriptions = None,
    subscribers: choices.Subscribers = None,
    extra: choices.With = None,
    parameters: choices.Set = None,
    seed: choices.Seed = 0,
    latency: choices.LatencyModel = "50",
    design: Annotated[Path | None, typer.Option(help="Price this saved design instead of planning one.")] = None,
    save_to: Annotated[Path | None, typer.Option("--save", help="Folder for the workload and the designs.")] = None,
    prices: Annotated[Path | None, typer.Option(help="A price file (`coterie prices` prints an example).")] = None,
    as_json: choices.Json = False,
) -> None:
    """Plan with each system and print the ledgers side by side, with the lower bound of the workload.

    Example: coterie price --workload spatial --nodes 5000 --topics 500 --subscriptions 16
    """
    sizes = {"nodes": nodes, "topics": topics, "subscriptions": subscriptions, "subscribers": subscribers}
    demand = choices.chosen_workload(workload, load, sizes, extra, seed)
    delays = choices.chosen_latency(latency, demand)
    ledgers: dict[str, dict[str, float]] = {}
    paid = EXAMPLE if prices is None else read_prices(prices)
    names = systems or [name for name, system in SYSTEMS.items() if system.fits(demand)]
    if save_to is not None:
        save_to.mkdir(parents=True, exist_ok=True)
        save_workload(demand, save_to / "workload.npz")
    with progress("pricing", as_json) as report:
        if design is not None:
            loaded = load_design(design)
            _check_fit(demand, loaded.node_count, len(loaded.placement.node_of))
            ledgers[loaded.system] = _columns(price(loaded, demand, delays), demand, paid)
            names = []
        for index, name in enumerate(names):
            report(name, index / len(names))
            system = system_named(name)
            made = system.plan(demand, system.configure(settings_of(parameters or (), "--set")), seed)
            ledgers[name] = _columns(price(made, demand, delays), demand, paid)
            if save_to is not None:
                save_design(made, save_to / f"design-{name}.npz")
    ledgers["lower bound"] = _columns(lower_bounds(demand), demand, paid)
    if as_json:
        print_json({"workload": demand.name, "seed": seed, "ledgers": ledgers})
        return
    used = [name for name in SHOWN if any(ledger[name] for ledger in ledgers.values()) or name == "loss.lost"]
    title = f"{demand.name}: {demand.node_count:,} nodes, {demand.topic_count:,} topics, seed {seed}"
    out.print(table(title, ["per second", *ledgers], flat(ledgers, used)))
    if save_to is not None:
        out.print(f"\nsaved to {save_to} (docs/FORMATS.md describes the files)")


def _columns(bill: Ledger, demand: Workload, prices: Prices) -> dict[str, float]:
    """The ledger's, and a month of it in money; peers are not rented by the hour."""
    brokers = 0 if demand.is_peer_network else demand.node_count
    return bill.columns() | {MONTH: monthly(bill, prices, brokers, demand.subscriber_count).total}


def _check_fit(workload: Workload, node_count: int, subscriber_count: int) -> None:
    if (workload.node_count, workload.subscriber_count) != (node_count, subscriber_count):
        has = f"{workload.node_count} nodes and {workload.subscriber_count} subscribers"
        raise ConfigError(
            "design", f"{node_count} nodes, {subscriber_count} subscribers", f"made for a workload of {has}"
        )
