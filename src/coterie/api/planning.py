"""One system on a log: its plan, and what a system or a design costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price as price_design
from coterie.api.choosing import candidates_of, running_now
from coterie.api.logs import Log
from coterie.errors import ConfigError
from coterie.model import Design, Workload
from coterie.model.latency import Latency
from coterie.model.prices import EXAMPLE, Prices, chosen_prices
from coterie.model.wires import COTERIE, wire_named
from coterie.plans.bill import Bill
from coterie.plans.plan import Plan, PlanFacts
from coterie.plans.pricing import named, price_now
from coterie.plans.store import PlanStore
from coterie.systems import system_named


def plan(
    log: Log,
    later: Log | None = None,
    *,
    system: str = "coterie",
    settings: Mapping[str, object] | None = None,
    brokers: int | None = None,
    place: bool | None = None,
    against: str = "mesh",
    seed: int = 1,
) -> Plan:
    """A plan by one system for the demand of a log (or of a window of it).

    `brokers` spreads clients over so many where the log names none. `place` says whether clients may move: None leaves
    it to the system. With `later`, the plan's bill on that window is part of it. `ct.compare` tries all systems.
    """
    candidate = candidates_of([system])[0]
    parameters = candidate.system.configure(settings) if settings else candidate.parameters
    demand = named(log, brokers)
    workload, chosen = demand.workload, candidate.system
    if not chosen.fits(workload):
        raise ConfigError(
            "system",
            system,
            "a system that can plan a log of this size and kind",
            do=f"`coterie systems {system}` says for what it is made",
        )
    node_of = None
    if place is False:
        node_of = workload.attachment
    elif place and not candidate.places:
        placer = system_named("coterie")
        node_of = placer.stages.placement(workload, placer.parameters(), seed).node_of
    design = chosen.plan(workload, parameters, seed, node_of=node_of)
    facts = PlanFacts(
        system=chosen.name,
        input=log.name,
        about=dict(demand.facts),
        predicted=price_design(design, workload),
        because=f"planned with {system}",
    )
    made = Plan.of(design, demand, facts)
    if later is None:
        return made
    bill = made.price(later, against=running_now(against)[0].system.name)
    return made.with_facts(later=bill.ledger, now=bill.now, against=against)


def load_plan(folder: str | Path, version: int | None = None) -> Plan:
    """A plan of the store in `folder` (what `plan.save`, `coterie plan` and `coterie watch` write): the current one."""
    return PlanStore.at(Path(folder)).load(version)


def price(
    what: Plan | Design | str,
    log: Log | Workload,
    *,
    settings: Mapping[str, object] | None = None,
    against: str | None = "mesh",
    prices: Prices | str | Path | None = None,
    latency: Latency | None = None,
    wire: str = COTERIE.name,
    seed: int = 1,
) -> Bill:
    """What a plan, a design or a system (planned on this very demand) costs, beside what runs now.

    For a plan the same as `plan.price(log)`.
    """
    paid = chosen_prices(prices)
    if isinstance(what, Plan):
        return what.price(log, against=against, prices=paid)
    from coterie.api.logs import log_of

    demand = named(log_of(log) if isinstance(log, Workload) else log)
    workload, counted = demand.workload, wire_named(wire)
    design = what if isinstance(what, Design) else design_of(what, workload, settings or {}, seed)
    _check_fit(design, workload)
    brokers = 0 if workload.is_peer_network else workload.node_count
    return Bill(
        design.system,
        price_design(design, workload, latency, counted),
        None if against is None else price_now(demand, against, counted),
        lower_bounds(workload, design.placement.node_of, counted, design.upkeep),
        against,
        paid,
        brokers,
        workload.subscriber_count,
    )


def design_of(name: str, workload: Workload, settings: Mapping[str, object], seed: int) -> Design:
    """What a system makes of a workload."""
    candidate = candidates_of([name])[0]
    parameters = candidate.system.configure(settings) if settings else candidate.parameters
    return candidate.system.plan(workload, parameters, seed)


def _check_fit(design: Design, workload: Workload) -> None:
    clients = len(design.placement.node_of)
    if (workload.node_count, workload.subscriber_count) != (design.node_count, clients):
        has = f"{workload.node_count} nodes and {workload.subscriber_count} subscribers"
        raise ConfigError("design", f"{design.node_count} nodes, {clients} subscribers", f"one for a workload of {has}")


def bounds(log: Log | Workload, prices: Prices | None = None) -> Bill:
    """What nothing that delivers everything goes below, with clients where they are."""
    demand = log if isinstance(log, Workload) else named(log).workload
    found = lower_bounds(demand)
    brokers = 0 if demand.is_peer_network else demand.node_count
    return Bill(
        "lower bound", found, prices=prices or EXAMPLE, node_count=brokers, client_count=demand.subscriber_count
    )
