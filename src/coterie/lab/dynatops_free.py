"""DYNATOPS' Figure 9 as experiments: how long the network stays as it is before it may be configured anew."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from coterie.lab.dynatops_claims import PAPER
from coterie.lab.dynatops_located import sampled_people
from coterie.lab.dynatops_patterns import PATTERNS, SIZES
from coterie.lab.dynatops_readings import run_located
from coterie.lab.dynatops_runs import run_poisson
from coterie.lab.experiment import Experiment, Plot, per_seed, shrunk, yes
from coterie.lab.measuring import Measure, along, each_seed

FREE_H = (5, 10, 20, 50)
STILL = (
    "one reconfiguration pays, at the start; placement then keeps the brokers' subscriptions so still that none pays "
    "again, however short the free period is"
)


def _rises(values: list[float]) -> bool:
    return values[-1] > values[0]


def _falls(values: list[float]) -> bool:
    return values[-1] < values[0]


def _slightly(values: list[float]) -> bool:
    """It grows from the shortest to the longest free period, by less than 5 %."""
    return values[0] < values[-1] <= 1.05 * values[0]


def _over_patterns(name: str, is_so: Callable[[list[float]], bool]) -> Measure:
    """1 for every seed where the mean over all patterns, by free period, is as asked."""
    return each_seed(lambda own: is_so([fmean(per_seed(own, name, free_h=free_h)) for free_h in FREE_H]))


DEGRADING: tuple[tuple[str, str, str, Callable[[list[float]], bool]], ...] = (
    (
        "overhead",
        "the overhead rises, by less than 5 %, as T_free grows from 5 to 50 h",
        "dynatops_overhead",
        _slightly,
    ),
    ("messages", "reconfiguration messages fall as T_free grows", "dynatops_reconfiguration", _falls),
)


FIGURE_9 = Experiment(
    id=f"{PAPER}/fig9",
    paper=PAPER,
    where="Figure 9",
    title="The reconfiguration free period, all patterns",
    run=run_poisson,
    quick=(),
    full=[
        {
            **SIZES,
            "pattern": pattern,
            "change_rate": 0.025,
            "cluster": 5,
            "free_h": free_h,
            "duration_h": 100,
            "systems": "dynatops",
            "tco": False,
        }
        for pattern in PATTERNS
        for free_h in FREE_H
    ],
    small=shrunk(nodes=4, subscribers=4),
    full_seeds=3,
    claims=[
        *(
            yes(f"fig9/{name}", "Figure 9", f"{statement} (mean of all patterns)", _over_patterns(value, is_so))
            for name, statement, value, is_so in DEGRADING
        ),
        *(
            yes(
                f"fig9/{name}-{pattern}",
                "Figure 9",
                f"{statement} ({pattern})",
                along(value, "free_h", is_so, pattern=pattern),
                STILL if pattern == "multimodal" else "",
                reads=f"fig9/{name}",
            )
            for pattern in PATTERNS
            for name, statement, value, is_so in DEGRADING
        ),
    ],
    plots=[
        Plot(
            "Figure 9: messages per event",
            "free_h",
            "dynatops_overhead",
            "pattern",
            x_label="T_free, hours",
            y_label="messages",
        ),
        Plot(
            "Figure 9: reconfiguration messages",
            "free_h",
            "dynatops_reconfiguration",
            "pattern",
            x_label="T_free, hours",
        ),
    ],
)


SAMPLES = (12, 6, 3)  # how often in the trace brokers may be placed anew
FIGURE_9_LOCATED = Experiment(
    id=f"{PAPER}/fig9-located",
    paper=PAPER,
    where="Figure 9",
    title="The reconfiguration free period, people who move",
    run=run_located,
    quick=(),
    full=[
        {
            "workload": name,
            "cluster": 10,
            "load_weight": 0.1,
            "delay": "hops",
            "samples": each,
            "updates_per_sample": 60 // each,
        }
        for name in ("foursquare", "gowalla")
        for each in SAMPLES
    ],
    small=sampled_people,
    full_seeds=3,
    stand_ins=("foursquare", "gowalla"),
    claims=[
        yes(
            f"fig9/located-{name}-{workload}",
            "Figure 9",
            f"people who move, {workload}: {statement} as T_free grows",
            along(value, "samples", _rises if is_more else _falls, workload=workload),
            because="" if is_more else "it changes by less than what two seeds differ by",
        )
        for workload in ("foursquare", "gowalla")
        for name, statement, value, is_more in (
            ("overhead", "the overhead rises", "dynatops_overhead", False),
            ("messages", "reconfiguration messages fall", "dynatops_reconfiguration", True),
        )
    ]
    + [
        yes(
            f"fig9/located-overhead-{workload}-slight",
            "Figure 9",
            f"people who move, {workload}: the overhead changes by less than 5 % as T_free grows",
            along(
                "dynatops_overhead", "samples", lambda found: abs(found[0] / found[-1] - 1) < 0.05, workload=workload
            ),
            reads=f"fig9/located-overhead-{workload}",
        )
        for workload in ("foursquare", "gowalla")
    ],
    plots=[
        Plot(f"Figure 9, people who move: {told}", "samples", value, "workload", x_label="times in the whole trace")
        for told, value in (
            ("messages per event", "dynatops_overhead"),
            ("reconfiguration messages", "dynatops_reconfiguration"),
        )
    ],
)
