"""Five systems and ours on each other's workloads and on real traces, by one ledger: `coterie reproduce survey`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.accounting.price import price
from coterie.errors import ConfigError, InputError
from coterie.lab.experiment import (
    OURS,
    Claim,
    Experiment,
    Point,
    Row,
    Sense,
    ValueTable,
    as_it_is,
    per_seed,
    shrunk,
    yes,
)
from coterie.model import Workload
from coterie.systems import system_named
from coterie.workloads import make_workload

PAPER = "survey"
# The layer that most others are compared with, the five, and the sixth.
SYSTEMS = ("scribe", "tamara", "magnet", "dynatops", "content", "spidercast", "coterie")
FIVE = SYSTEMS[1:-1]
METRICS = {
    "overall": "Messages per second in all",
    "copies": "Copies per event",
    "unwanted": "Copies per event that the receiver did not want",
    "degree": "Links per node",
    "hops": "Mean hops to a reader",
    "hottest": "Load of the hottest node over the mean",
}
FLOOR = {"floor": "floor.copies"}  # of copies, where everybody stays

WORKLOADS: dict[str, Point] = {
    "tamara": {"workload": "tamara", "nodes": 3000},
    "magnet": {"workload": "multimodal", "nodes": 3000, "topics": 300, "subscriptions": 15, "modes": 10},
    "dynatops": {"workload": "dynatops", "nodes": 100, "subscribers": 20_000},
    "content": {"workload": "content", "network": "flat", "degree": 10, "nodes": 500, "topics": 5000},
    "spidercast": {"workload": "rss", "nodes": 3000},
    "uncorrelated": {"workload": "uncorrelated", "nodes": 3000, "topics": 300, "subscriptions": 15},
    "wiki": {"workload": "wiki"},
    "foursquare": {"workload": "foursquare"},
    "gowalla": {"workload": "gowalla"},
}
TRACES = ("wiki", "foursquare", "gowalla")
# Whose workload a system was made for, and by which number its authors judge it.
HOME = {
    "tamara": ("tamara", "overall"),
    "magnet": ("magnet", "unwanted"),
    "dynatops": ("dynatops", "copies"),
    "spidercast": ("spidercast", "unwanted"),
}


def run_survey(point: Point, seed: int) -> Mapping[str, float]:
    """Every system on one workload. What a system cannot plan has no numbers; a trace that is not here has none."""
    try:
        workload = make_workload(*_asked(point), seed)
    except InputError:
        return {}
    values: dict[str, float] = {"floor.copies": floor_copies(workload)}
    for name in SYSTEMS:
        try:
            values |= {f"{name}.{key}": value for key, value in _bill(name, workload, seed).items()}
        except ConfigError:
            continue
    return values


def _asked(point: Point) -> tuple[str, dict[str, object]]:
    return str(point["workload"]), {key: value for key, value in point.items() if key != "workload"}


def _bill(name: str, workload: Workload, seed: int) -> dict[str, float]:
    system = system_named(name)
    bill = price(system.plan(workload, system.configure({}), seed), workload)
    events, flows = max(float(workload.publications.rate.sum()), 1e-12), bill.dissemination
    return {
        "overall": bill.overall,
        "copies": flows.copies / events,
        "unwanted": (flows.relayed + flows.filtered) / events,
        "degree": bill.state.degree.mean,
        "hops": bill.delay.hops.mean,
        "hottest": bill.load.hottest,
    }


def floor_copies(workload: Workload) -> float:
    """Copies per event that nobody can save where everybody stays: one to each node that wants it, but the first."""
    rates = workload.rates
    readers = workload.node_interests(workload.attachment).transposed.lengths
    events = max(float(rates.sum()), 1e-12)
    return float((rates * (readers - 1).clip(min=0)).sum()) / events


def _best_at_home(system: str) -> Claim:
    """No other of the five does better by the paper's own number on its own workload."""
    workload, metric = HOME[system]

    def measure(rows: Sequence[Row]) -> list[float]:
        own = per_seed(rows, f"{system}.{metric}", name=workload)
        others = [per_seed(rows, f"{other}.{metric}", name=workload) for other in FIVE if other != system]
        others = [found for found in others if len(found) == len(own)]
        return [float(all(mine <= found[at] * (1 + 1e-9) for found in others)) for at, mine in enumerate(own)]

    return yes(f"home/{system}", OURS, f"of the five, {system} has the least {metric} on its own workload", measure)


def _ahead(workload: str) -> Claim:
    """Ours against the cheapest of the five, in all messages."""

    def measure(rows: Sequence[Row]) -> list[float]:
        own = per_seed(rows, "coterie.overall", name=workload)
        others = [per_seed(rows, f"{other}.overall", name=workload) for other in FIVE]
        best = [min(run) for run in zip(*(found for found in others if len(found) == len(own)), strict=True)]
        return [mine / other for mine, other in zip(own, best, strict=True)]

    return Claim(
        f"ahead/{workload}",
        OURS,
        f"{workload}: coterie's messages over those of the cheapest of the five",
        1.0,
        0.1,
        measure,
        sense=Sense.AT_MOST,
    )


def small(point: Point) -> Point:
    if point["name"] in TRACES:
        return as_it_is(point)
    return shrunk(nodes=5, subscribers=5, topics=5 if point["name"] == "content" else 1)(point)


def run_named(point: Point, seed: int) -> Mapping[str, float]:
    return run_survey({key: value for key, value in point.items() if key != "name"}, seed)


LEDGER = Experiment(
    id=f"{PAPER}/ledger",
    paper=PAPER,
    where="all five papers",
    title="Five systems and ours on each other's workloads and on real traces",
    run=run_named,
    quick=(),
    full=[{"name": name, **point} for name, point in WORKLOADS.items()],
    small=small,
    quick_seeds=1,
    full_seeds=3,
    claims=[*(_best_at_home(system) for system in HOME), *(_ahead(name) for name in WORKLOADS)],
    tables=[
        ValueTable(
            title,
            "name",
            {**(FLOOR if metric == "copies" else {}), **{system: f"{system}.{metric}" for system in SYSTEMS}},
        )
        for metric, title in METRICS.items()
    ],
)
EXPERIMENTS: tuple[Experiment, ...] = (LEDGER,)
