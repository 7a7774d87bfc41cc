"""Figure 8 of the content trees paper: how long its two clustering algorithms run, by the size of the network."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from coterie.lab.content_measures import FLAT, STUB, grid, orders
from coterie.lab.content_runs import PAPER, everything_of, sample
from coterie.lab.experiment import Claim, Experiment, Plot, Point, Row, Sense, per_seed, shrunk, yes
from coterie.lab.measuring import Measure
from coterie.systems.content.demand import Demand
from coterie.systems.content.grouping import merge_by_cost, merge_by_overlap
from coterie.systems.content.merges import Merges

FEW = 0.002  # documents, enough to merge something
NODES = (500, 1000, 2000, 5000)


def run_times(point: Point, seed: int) -> Mapping[str, float]:
    """CPU seconds of both, trees included; all pairs of Algorithm 2 as printed by what one of its trees took."""
    terrain, demand = everything_of(point, seed)
    known = sample(demand, 0.03, seed)

    def timed(merge: Callable[[Merges], None], known: Demand = known) -> tuple[float, Merges]:
        began = time.process_time()
        merges = Merges.start(terrain, known, "low-stretch")
        merge(merges)
        merges.costs()
        return time.process_time() - began, merges

    for merge in (merge_by_overlap, merge_by_cost):
        timed(merge, sample(demand, FEW, seed))  # compiled code is loaded, whoever comes first
    mult, merges = timed(merge_by_overlap)
    mult2, tried = timed(merge_by_cost)
    leaves = len(merges.leaves)
    printed = leaves + leaves * (leaves - 1) / 2 + (leaves - 1) * (leaves - 2) / 2
    return {"mult_s": mult, "mult2_s": mult2, "mult2_printed_s": mult2 * printed / tried.work}


def _grows_faster(slow: str, network: str) -> Measure:
    """1 for every seed in which the largest network takes this algorithm more times the smallest one's than MULT."""

    def measure(rows: Sequence[Row]) -> list[float]:
        times = {
            (name, nodes): per_seed(rows, name, network=network, nodes=nodes)
            for name in (slow, "mult_s")
            for nodes in (NODES[0], NODES[-1])
        }
        growth = [
            [large / small for small, large in zip(times[name, NODES[0]], times[name, NODES[-1]], strict=True)]
            for name in (slow, "mult_s")
        ]
        return [float(other > own) for other, own in zip(*growth, strict=True)]

    return measure


TIMES = Experiment(
    id="content/fig8",
    paper=PAPER,
    where="Figure 8",
    title="Running times of MULT and MULT2 by the size of the network",
    run=run_times,
    quick=(),
    full=grid((STUB, FLAT), (2.0,), NODES, 10_000),
    small=shrunk(nodes=5),
    stand_ins=(STUB, FLAT),
    claims=[
        *(
            Claim(
                f"fig8/time-{network}",
                "Figure 8",
                f"MULT is several orders of magnitude faster than MULT2, 500 nodes ({network}; log10 of the times)",
                2.0,
                0.5,
                orders("mult2_printed_s", "mult_s", network=network, nodes=NODES[0]),
                sense=Sense.AT_LEAST,
            )
            for network in (STUB, FLAT)
        ),
        *(
            Claim(
                f"fig8/time-pruned-{network}",
                "Figure 8",
                f"the same, only groups that share a document are tried ({network})",
                2.0,
                0.5,
                orders("mult2_s", "mult_s", network=network, nodes=NODES[0]),
                sense=Sense.AT_LEAST,
                because="groups without a common document cannot gain from a common tree, and few pairs have one",
                reads=f"fig8/time-{network}",
            )
            for network in (STUB, FLAT)
        ),
        *(
            yes(
                f"fig8/scales-{network}",
                "section VII-D",
                f"MULT scales better with the network: 500 to 5,000 nodes slow MULT2 down more ({network})",
                _grows_faster("mult2_printed_s", network),
                because="both compute trees on the same network, whose cost grows alike; MULT2 computes more of them, "
                "but as many at every size: 1,000 keywords at 500 nodes as at 5,000",
            )
            for network in (STUB, FLAT)
        ),
        *(
            yes(
                f"fig8/scales-pruned-{network}",
                "section VII-D",
                f"the same, only groups that share a document are tried ({network})",
                _grows_faster("mult2_s", network),
                reads=f"fig8/scales-{network}",
            )
            for network in (STUB, FLAT)
        ),
    ],
    plots=[
        Plot(
            f"Figure 8: running times, {network}",
            "nodes",
            {"MULT": "mult_s", "MULT2, all pairs": "mult2_printed_s", "MULT2, pairs that share": "mult2_s"},
            y_label="CPU seconds",
            log_y=True,
            only={"network": network},
        )
        for network in (STUB, FLAT)
    ],
    full_seeds=3,
)
