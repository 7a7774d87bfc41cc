"""DYNATOPS' Figure 6 under other readings of who moves, how often clusters exchange, and the load weight."""

from __future__ import annotations

from itertools import pairwise

from coterie.lab.dynatops_claims import PAPER, below, change, over
from coterie.lab.dynatops_located import CLUSTERS, TRACES, fewer_people, minimum_inside
from coterie.lab.dynatops_runs import run_location
from coterie.lab.experiment import Claim, Experiment, Plot, Point, yes
from coterie.lab.measuring import Setting, along

DRAWN = "dynatops-location"  # stays and returns as Figure 5 tells them, as many people a cell as the paper has
SIZE_OF_DRAWN: Point = {"subscribers": 4000, "rows": 10, "columns": 12}
DAY_H, WEEK_H = 24.0, 168.0
# T_update and w_l are not told; a day and w_l / |B| = 0.1 are taken.
READINGS: dict[str, tuple[str, Point]] = {
    "weekly": ("brokers tell their cluster once a week", {"load_weight": 0.1, "update_h": WEEK_H}),
    "similarity": ("similarity alone, w_l = 0", {"load_weight": 0.0, "update_h": DAY_H}),
}


def _management(workload: str, mark: str, told: str, at: dict[str, Setting], reads: str) -> list[Claim]:
    return [
        yes(
            f"fig6a/{workload}-{mark}",
            "Figure 6a",
            f"management has its minimum inside the range of cluster sizes ({told})",
            minimum_inside(**at),
            reads=f"fig6a/{reads}",
        ),
        yes(
            f"fig6a/{workload}-less-{mark}",
            "Figure 6a",
            f"less management than with static and with location-based placement ({told}, c = 10)",
            below("dynatops_management", ("static_management", "loc_management"), cluster=10, **at),
            reads=f"fig6a/{reads}-less",
        ),
    ]


def _of_the_drawn() -> list[Claim]:
    """All of Figure 6's numbers on people drawn as the paper describes its own; they read the claims on real traces."""
    at: dict[str, Setting] = {"workload": DRAWN, "cluster": 10}
    return [
        over(
            f"fig6{part}/drawn-{base.replace('_', '-')}",
            f"Figure 6{part}",
            f"over {per_cent:g} % {statement} (people drawn to Figure 5)",
            per_cent,
            change(f"dynatops_{key}", f"{'loc' if key == 'handovers' else base}_{key}", **at),
            reads=f"fig6{part}/{TRACES[0]}-{base.replace('_', '-')}",
        )
        for part, key, base, per_cent, statement in (
            ("d", "user_distance", "bayeux_loc", 60.0, "less delay than Bayeux(loc), brokers placed by hops"),
            ("d", "user_distance", "geops", 30.0, "less delay than GeoPS, brokers placed by hops"),
            ("e", "overhead", "bayeux_loc", 40.0, "less overhead than Bayeux(loc)"),
            ("e", "overhead", "geops", 20.0, "less overhead than GeoPS"),
            ("c", "handovers", "geops", 80.0, "fewer handovers than GeoPS"),
        )
    ]


def _handovers(workload: str) -> list[Claim]:
    """Nobody is moved by load: what similarity alone spares, in small and in large clusters."""
    _, alone = READINGS["similarity"]
    return [
        over(
            f"fig6c/{workload}-similarity-{cluster}",
            "Figure 6c",
            f"over 80 % fewer handovers than GeoPS, similarity alone, w_l = 0, c = {cluster} ({workload})",
            80.0,
            change("dynatops_handovers", "loc_handovers", workload=workload, cluster=cluster, **alone),
            reads=f"fig6c/{workload}-geops",
        )
        for cluster in (CLUSTERS[1], CLUSTERS[-1])
    ]


def falling(values: list[float]) -> bool:
    return all(later < earlier for earlier, later in pairwise(values))


def _steps_and_sizes(mark: str, told: str, at: dict[str, Setting], reads: str) -> list[Claim]:
    """What Figures 6d to 6f say of cluster sizes and of each half of DYNATOPS, on other people or by other rules."""
    named = (("delay", "d", "user_distance"), ("overhead", "e", "overhead"))
    return [
        *(
            yes(
                f"fig6f/{mark}-{name}",
                "Figure 6f",
                f"{name} falls with the cluster size from 5 to 50 ({told})",
                along(f"dynatops_{value}", "cluster", falling, **at),
                reads=f"fig6f/{reads}-{name}",
            )
            for name, _, value in named
        ),
        *(
            yes(
                f"fig6{part}/{mark}-{half}",
                f"Figure 6{part}",
                f"{statement} lowers the {name} ({told}, c = 10)",
                below(f"{better}_{value}", (f"{worse}_{value}",), cluster=10, **at),
                reads=f"fig6{part}/{reads}-{half}",
            )
            for name, part, value in named
            for half, statement, better, worse in (
                ("up", "user placement, against people at the broker of their cell,", "up", "loc"),
                ("bnr", "broker reconfiguration, on top of user placement,", "dynatops", "up"),
            )
        ),
    ]


PEOPLE = Experiment(
    id=f"{PAPER}/fig6-people",
    paper=PAPER,
    where="Figure 6",
    title="People who move: rarer exchange, no load weight, and people drawn to Figure 5",
    run=run_location,
    quick=(),
    full=[
        *(
            {"workload": workload, "cluster": cluster, **reading}
            for workload in TRACES
            for _, reading in READINGS.values()
            for cluster in CLUSTERS
        ),
        *(
            {"workload": DRAWN, **SIZE_OF_DRAWN, "cluster": cluster, "load_weight": 0.1, "update_h": DAY_H}
            for cluster in CLUSTERS
        ),
    ],
    small=fewer_people,
    full_seeds=3,
    stand_ins=TRACES,
    claims=[
        *(
            claim
            for workload in TRACES
            for mark, (told, reading) in READINGS.items()
            for claim in _management(workload, mark, f"{workload}, {told}", {"workload": workload, **reading}, workload)
        ),
        *(claim for workload in TRACES for claim in _handovers(workload)),
        *_management("drawn", "day", "people drawn to Figure 5", {"workload": DRAWN}, TRACES[0]),
        *_of_the_drawn(),
        *(
            claim
            for workload in TRACES
            for mark, (told, reading) in READINGS.items()
            for claim in _steps_and_sizes(
                f"{workload}-{mark}", f"{workload}, {told}", {"workload": workload, **reading}, workload
            )
        ),
        *(
            claim
            for workload in TRACES
            for claim in _steps_and_sizes(
                f"drawn-for-{workload}", "people drawn to Figure 5", {"workload": DRAWN}, workload
            )
        ),
    ],
    plots=[
        Plot(
            f"Subscription management, people drawn to Figure 5, {told}",
            "cluster",
            {"DYNATOPS": "dynatops_management", "static": "static_management", "by location": "loc_management"},
            only={"workload": DRAWN},
        )
        for told in ("daily exchange",)
    ],
)
