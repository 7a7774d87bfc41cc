"""Publish/subscribe that organises itself around who listens to what.

    import coterie as ct
    log = ct.read_log("subs.csv", publications="pubs.jsonl.gz", columns={"subscriber": "user"})
    learn, later = log.split(0.5)
    plan = ct.plan(learn, system="coterie", brokers=32)
    plan.price(later)
    ct.compare(learn, later).plot()

Everything is loaded when it is first used: importing this package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers read it; importing typing would be most of what importing us costs
if TYPE_CHECKING:
    from typing import Any

    from coterie.api.backtesting import backtest
    from coterie.api.comparing import Comparison, compare
    from coterie.api.lists import list_systems, list_workloads
    from coterie.api.logs import Log, log_of, read_log, workload_log
    from coterie.api.planning import load_plan, plan, price
    from coterie.api.running import RunningNetwork, connect, up
    from coterie.api.simulating import SimulatedRun, simulate
    from coterie.errors import ConfigError, CoterieError, InputError, RunError
    from coterie.model.prices import Prices, read_prices
    from coterie.plans.bill import Bill
    from coterie.plans.diff import PlanDiff
    from coterie.plans.plan import Plan

    __version__: str

# Name -> the module that has it.
_HOMES = {
    "Bill": "plans.bill",
    "Comparison": "api.comparing",
    "ConfigError": "errors",
    "CoterieError": "errors",
    "InputError": "errors",
    "Log": "api.logs",
    "Plan": "plans.plan",
    "PlanDiff": "plans.diff",
    "Prices": "model.prices",
    "RunError": "errors",
    "RunningNetwork": "api.running",
    "SimulatedRun": "api.simulating",
    "backtest": "api.backtesting",
    "compare": "api.comparing",
    "connect": "api.running",
    "list_systems": "api.lists",
    "list_workloads": "api.lists",
    "load_plan": "api.planning",
    "log_of": "api.logs",
    "plan": "api.planning",
    "price": "api.planning",
    "read_log": "api.logs",
    "read_prices": "model.prices",
    "simulate": "api.simulating",
    "up": "api.running",
    "workload_log": "api.logs",
}

__all__ = [
    "Bill",
    "Comparison",
    "ConfigError",
    "CoterieError",
    "InputError",
    "Log",
    "Plan",
    "PlanDiff",
    "Prices",
    "RunError",
    "RunningNetwork",
    "SimulatedRun",
    "backtest",
    "compare",
    "connect",
    "list_systems",
    "list_workloads",
    "load_plan",
    "log_of",
    "plan",
    "price",
    "read_log",
    "read_prices",
    "simulate",
    "up",
    "workload_log",
]


def __getattr__(name: str) -> Any:
    """PEP 562: who asks for a name first pays for its module."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("coterie")
        except PackageNotFoundError:  # running from a source tree that was never installed
            found = "0.0.0"
    elif name in _HOMES:
        from importlib import import_module

        found = getattr(import_module(f"coterie.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'coterie' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__")), "__version__"})
