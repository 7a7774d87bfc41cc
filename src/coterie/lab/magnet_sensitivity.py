"""What Magnet's parameters are worth, how far an order of the ring can lead, and what crashes cost."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.lab.experiment import OURS, Claim, Experiment, Point, Sense, per_seed, yes
from coterie.lab.magnet_measures import compare, crash_a_tenth, ours_is_better
from coterie.lab.measuring import value

PAPER = "magnet"
SMALL: Point = {"nodes": 600, "topics": 200, "subscriptions": 12}


def _varied(base: Point, changes: Sequence[Point]) -> list[Point]:
    usual: Point = {
        "samples": 10,
        "links": 19,
        "choices": 1,
        "rounds": 0,
        "median_samples": 0,
        "direction": "clockwise",
    }
    return [{**base, **usual, **change} for change in changes]


_CHANGES: list[Point] = [
    *({"samples": k} for k in (1, 3, 10, 30, 100)),
    *({"links": links} for links in (10, 14, 28)),
    {"choices": 2},
    {"rounds": 1},
    {"rounds": 3},
    {"median_samples": 5},
    {"direction": "either"},
]
SENSITIVITY = Experiment(
    id="magnet/sensitivity",
    paper=PAPER,
    where="sections 2.2, 3.2, 4",
    title="Samples, links, power of two choices, rejoining, sampled medians, routing direction",
    run=compare,
    quick=_varied(
        {"workload": "multimodal", **SMALL, "modes": 10, "modes_per_peer": 1},
        [{"samples": 1}, {"samples": 10}, {"links": 10}, {"links": 28}],
    ),
    full=[
        *_varied({"workload": "multimodal", "nodes": 5000, "modes": 10, "modes_per_peer": 1}, _CHANGES),
        *_varied({"workload": "multimodal", "nodes": 5000, "modes": 25, "modes_per_peer": 5}, _CHANGES),
    ],
    full_seeds=3,
    claims=(
        Claim(
            "sensitivity/few-samples",
            "section 1",
            "one sample for each topic is nearly as good as ten: what ten save more (one category of ten)",
            0.05,
            0.05,
            lambda rows: [
                ten - one
                for one, ten in zip(
                    per_seed(rows, "saving", samples=1, modes=10),
                    per_seed(
                        rows,
                        "saving",
                        **{"samples": 10, "modes": 10, "links": 19, "choices": 1, "rounds": 0},
                        median_samples=0,
                        direction="clockwise",
                    ),
                    strict=True,
                )
            ],
            sense=Sense.AT_MOST,
        ),
        yes(
            "sensitivity/links",
            "section 2.2",
            "a higher degree improves connectivity among those who want the same: fewer relays with 28 links than 10",
            lambda rows: [
                float(many < few)
                for few, many in zip(
                    *(per_seed(rows, "relays", links=links, modes=10) for links in (10, 28)), strict=True
                )
            ],
        ),
    ),
)

_LIMIT: Point = {"workload": "multimodal", "nodes": 4000, "modes_per_peer": 1, "modes": 10}
LIMITS = Experiment(
    id="magnet/limits",
    paper=PAPER,
    where="section 3.2",
    title="Orders of the ring by somebody who sees everything",
    run=compare,
    quick=[{**_LIMIT, **SMALL, "ordering": name} for name in ("magnet", "likeness")],
    full=[
        *({**_LIMIT, "ordering": name} for name in ("magnet", "linkage", "spectral", "bisection", "likeness")),
        *(
            {**_LIMIT, "modes_per_peer": 5, "modes": 25, "ordering": name}
            for name in ("magnet", "linkage", "spectral", "bisection", "likeness")
        ),
        *(
            {"workload": "spatial", "nodes": 4000, "ordering": name}
            for name in ("magnet", "linkage", "spectral", "bisection", "likeness", "hilbert")
        ),
    ],
    full_seeds=3,
    claims=(
        yes(
            "limits/ours",
            OURS,
            "the order by likeness saves more than Magnet's own on every workload",
            ours_is_better,
        ),
    ),
)

_CRASH: Point = {"workload": "multimodal", "modes": 10, "modes_per_peer": 1, "near": 3, "system": "magnet"}
REPAIR = Experiment(
    id="magnet/repair",
    paper=PAPER,
    where="section 3.3",
    title="A tenth of the nodes crashes",
    run=crash_a_tenth,
    quick=[{**_CRASH, "nodes": 80, "topics": 30, "subscriptions": 3}],
    full=[
        {**_CRASH, "nodes": 500, "topics": 100, "subscriptions": 8, "system": name}
        for name in ("magnet", "interest-ring", "magnet-uniform")
    ],
    full_seeds=3,
    claims=(
        Claim(
            "repair/heals",
            "section 3.3",
            "after the trees have healed, nothing that is published is missed",
            0.0,
            0.0,
            value("missed_share"),
        ),
    ),
)
