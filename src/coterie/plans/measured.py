"""The bill that the nodes of a running network have counted, beside the one its plan predicted."""

from __future__ import annotations

import time

from coterie.plans.admin import LiveNetwork
from coterie.plans.plan import Plan

SHOWN = (
    *("dissemination.wanted", "dissemination.inbound", "dissemination.relayed", "dissemination.filtered"),
    *("dissemination.duplicate", "dissemination.copies", "maintenance.tree_keepalives"),
    *("maintenance.link_keepalives", "maintenance.associations", "control.messages"),
    *("volume.copies", "volume.upkeep", "volume.control", "volume.total"),
)
DELIVERED = "loss.delivered"
SideBySide = dict[str, tuple[float | None, float]]  # column -> (predicted, measured)


def predicted(plan: Plan) -> dict[str, float]:
    """What the plan is predicted to cost, per second; nothing where it says nothing."""
    return {} if plan.facts.predicted is None else plan.facts.predicted.columns()


def measured(network: LiveNetwork, over_s: float = 0.0) -> dict[str, float]:
    """What the nodes counted, per second: since the plan is in force, or in the coming seconds."""
    counted, span_s = _counted(network)
    if over_s:
        time.sleep(over_s)
        later, later_s = _counted(network)
        counted, span_s = {name: later[name] - counted[name] for name in later}, later_s - span_s
    return {name: value / max(span_s, 1e-9) for name, value in counted.items()}


def _counted(network: LiveNetwork) -> tuple[dict[str, float], float]:
    """(counts of all nodes together, in how many seconds)."""
    books = network.ask("/ledger")
    total = {name: sum(one["columns"][name] * one["in_force_s"] for one in books) for name in SHOWN}
    total[DELIVERED] = float(sum(one["deliveries"] for one in books))
    return total, max(one["in_force_s"] for one in books)


def side_by_side(plan: Plan, network: LiveNetwork, over_s: float = 0.0) -> SideBySide:
    """Predicted and measured, per second; copies per delivered message last."""
    rate, foretold = measured(network, over_s), predicted(plan)
    rows: SideBySide = {
        name: (foretold.get(name), rate[name]) for name in (*SHOWN, DELIVERED) if foretold.get(name) or rate[name]
    }
    owed = foretold.get(DELIVERED)
    rows["copies per delivery"] = (
        foretold["dissemination.copies"] / owed if owed else None,
        rate["dissemination.copies"] / rate[DELIVERED] if rate[DELIVERED] else 0.0,
    )
    return rows
