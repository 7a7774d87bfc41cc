"""Magnet among nodes that know nothing of each other's interests: they sit anywhere on the ring."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coterie.lab.experiment import Claim, Experiment, Point, Sense, shrunk
from coterie.lab.magnet_measures import parameters_of, relays, workload_of
from coterie.lab.measuring import value
from coterie.model import Relation, Workload
from coterie.model.relation import Index
from coterie.protocol.system import Stages
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.stages import greedy_paths, ordered_overlay
from coterie.systems.magnet.system import SYSTEM, UNIFORM

PAPER = "magnet"
ANYWHERE = 103  # stream of randomness


def _anywhere(workload: Workload, interests: Relation, parameters: MagnetParameters, seed: int) -> Index:
    return np.random.default_rng([seed, ANYWHERE]).permutation(interests.row_count).astype(np.int32)


def compare_unknown(point: Point, seed: int) -> Mapping[str, float]:
    """Magnet's rings and trees without its order, against the strawman."""
    workload = workload_of(point, seed)
    own, plain = parameters_of(point)
    stages = Stages(overlay=ordered_overlay(_anywhere), trees=greedy_paths, upkeep=SYSTEM.stages.upkeep)
    blind = relays(stages.plan("magnet", workload, own, seed), workload)
    return {"saving": 1 - blind / relays(UNIFORM.plan(workload, plain, seed), workload)}


UNKNOWN = Experiment(
    id="magnet/unknown",
    paper=PAPER,
    where="section 6",
    title="Interests that nobody knows",
    run=compare_unknown,
    quick=(),
    full=[
        {"workload": "multimodal", "modes": 10, "modes_per_peer": 1, "nodes": 5000},
        {"workload": "uncorrelated", "nodes": 5000},
    ],
    small=shrunk(nodes=5),
    full_seeds=3,
    claims=[
        Claim(
            f"unknown/{workload}",
            "section 6",
            f"where interests are unknown{told}, costs are no worse than the strawman's: the saving",
            0.0,
            0.05,
            value("saving", workload=workload),
            sense=Sense.AT_LEAST,
        )
        for workload, told in (("multimodal", ""), ("uncorrelated", " and uncorrelated"))
    ],
)
