"""Magnet's Figure 2: how many links peers have.

Its caption calls them categories, of which no peer has 19; section 4.2 says that the figure is of links. Everybody has
19 of its own, so what differs is how many others have one to it. The paper prints no number but the mean.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coterie.lab.experiment import Experiment, Plot, Point, shrunk
from coterie.lab.magnet_measures import parameters_of, ring_of, workload_of
from coterie.systems.magnet.stages import control_ring, skewed_part
from coterie.systems.magnet.system import SYSTEM, UNIFORM

COUNTS = tuple(range(8, 41))


def links_of_peers(point: Point, seed: int) -> Mapping[str, float]:
    """Shares of the peers that so many others have as a neighbour, on Magnet's ring by interest and the strawman's."""
    workload = workload_of(point, seed)
    own, plain = parameters_of(point)
    design = SYSTEM.plan(workload, own, seed)
    skewed = skewed_part(design.overlay, control_ring(workload.node_count, own.control_near), own.near)
    found: dict[str, float] = {}
    for name, ring in (("magnet", skewed), ("strawman", ring_of(UNIFORM.plan(workload, plain, seed)))):
        known_by = np.bincount(ring.links, minlength=workload.node_count)
        found |= {f"{name}_{count}": float(np.mean(known_by == count)) for count in COUNTS}
    return found


FIGURE_2 = Experiment(
    id="magnet/fig2",
    paper="magnet",
    where="Figure 2",
    title="Multi-modal: links of peers, 19 on average",
    run=links_of_peers,
    quick=(),
    full=[
        {
            "workload": "multimodal",
            "nodes": 10_000,
            "topics": 1000,
            "subscriptions": 50,
            "modes": 10,
            "modes_per_peer": 1,
        }
    ],
    small=shrunk(nodes=5, topics=5, subscriptions=5),
    full_seeds=3,
    plots=(
        Plot(
            "Figure 2: peers that so many others have a link to",
            None,
            {
                f"{told} @ {count}": f"{name}_{count}"
                for name, told in (("magnet", "Magnet"), ("strawman", "strawman"))
                for count in COUNTS
            },
            x_label="links",
            y_label="share of the peers",
        ),
    ),
)
