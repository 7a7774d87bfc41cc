"""DYNATOPS' Figure 5: how often people come back to a cell, and how long they stay, beside what the paper tells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coterie.lab.dynatops_claims import PAPER
from coterie.lab.dynatops_located import TRACES
from coterie.lab.dynatops_people import DRAWN, SIZE_OF_DRAWN
from coterie.lab.experiment import Experiment, Plot, Point
from coterie.model import Change
from coterie.workloads import make_timeline

VISITS = (1, 2, 3, 5, 10, 20, 50)
HOURS = (1, 3, 6, 12, 24, 48, 72, 168, 336, 672)


def visits_of_people(point: Point, seed: int) -> Mapping[str, float]:
    """Shares of the (person, cell) pairs with so many visits or fewer, and of the stays that are so short or shorter.

    Brokers sit in all cells, so a handover is a visit. A stay counts if both of its ends are seen.
    """
    settings = {key: value for key, value in point.items() if key != "workload"} | {"nodes": 0, "placement": "cell"}
    line = make_timeline(str(point["workload"]), settings, seed)
    moves = line.change == Change.MOVE
    who, cell, time_s = line.who[moves], line.what[moves], line.time_s[moves]
    people, cells = line.start.subscriber_count, line.start.node_count
    everybody = np.arange(people, dtype=np.int64)
    pairs = np.concatenate([everybody * cells + line.start.attachment, who.astype(np.int64) * cells + cell])
    times = np.unique(pairs, return_counts=True)[1]
    order = np.lexsort([time_s, who])
    is_same = np.diff(who[order]) == 0
    stays_h = np.diff(time_s[order])[is_same] / 3600
    return {f"visits_{most}": float(np.mean(times <= most)) for most in VISITS} | {
        f"stays_{most}": float(np.mean(stays_h <= most)) for most in HOURS
    }


FIGURE_5 = Experiment(
    id=f"{PAPER}/fig5",
    paper=PAPER,
    where="Figure 5",
    title="People who move: the two traces, and people drawn to what the paper tells of its own",
    run=visits_of_people,
    quick=(),
    full=[*({"workload": trace} for trace in TRACES), {"workload": DRAWN, **SIZE_OF_DRAWN}],
    full_seeds=3,
    plots=[
        Plot(
            "Figure 5a: people and cells with so many visits or fewer",
            None,
            {f" @ {most}": f"visits_{most}" for most in VISITS},
            "workload",
            log_x=True,
            x_label="visits",
            y_label="share of the pairs",
            figure="fig5a",
        ),
        Plot(
            "Figure 5b: stays of so many hours or less",
            None,
            {f" @ {most}": f"stays_{most}" for most in HOURS},
            "workload",
            log_x=True,
            x_label="hours",
            y_label="share of the stays",
            figure="fig5b",
        ),
    ],
)
