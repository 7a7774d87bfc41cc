"""What a plan costs under some demand, beside what runs now; no Spark, no files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.accounting.bounds import lower_bounds
from coterie.accounting.price import price
from coterie.errors import ConfigError
from coterie.model import Design, Ledger
from coterie.model.prices import EXAMPLE, Prices
from coterie.model.wires import COTERIE, Wire
from coterie.plans.bill import Bill
from coterie.plans.fitting import brought_over
from coterie.plans.plan import Plan
from coterie.plans.tables import NamedWorkload
from coterie.systems import system_named

LOG_WANTED = "a log; ct.read_log(...) makes one of files and data frames"


def named(log: Any, nodes: int | None = None) -> NamedWorkload:
    """The demand of a log, of a window of one, or a workload that has its names already.

    With `nodes`, clients of a log that names no brokers are spread over so many.
    """
    if isinstance(log, NamedWorkload):
        return log
    demand: Callable[[int | None], NamedWorkload] | None = getattr(log, "demand", None)
    if demand is None:
        raise ConfigError("log", type(log).__name__, LOG_WANTED)
    return demand(nodes)


def price_plan(
    plan: Plan, log: Any, *, against: str | None = "mesh", prices: Prices | None = None, wire: Wire = COTERIE
) -> Bill:
    demand = named(log, plan.node_count)
    design = adopted(plan, demand)
    workload = demand.workload
    peers = workload.is_peer_network
    return Bill(
        plan.system,
        price(design, workload, wire=wire),
        None if against is None else price_now(demand, against, wire),
        lower_bounds(workload, design.placement.node_of, wire, design.upkeep),
        against,
        prices or EXAMPLE,
        0 if peers else workload.node_count,
        workload.subscriber_count,
    )


def adopted(plan: Plan, demand: NamedWorkload) -> Design:
    """The plan's design under this demand; ConfigError says why it does not fit."""
    fitted = brought_over(plan, demand)
    if isinstance(fitted, str):
        raise ConfigError("log", demand.workload.name, "the nodes that the plan was made for", do=fitted)
    system = system_named(plan.system.removesuffix("-now"))
    return system.adopt(fitted, demand.workload, system.configure(plan.settings), plan.seed)


def price_now(demand: NamedWorkload, against: str, wire: Wire = COTERIE) -> Ledger:
    """What runs now, with clients where they are."""
    system = system_named(against)
    workload = demand.workload
    return price(system.plan(workload, node_of=workload.attachment), workload, wire=wire)
