"""Safety while faults rage, liveness after they stop, for every system under many seeds.

`make seeds` runs two hundred of them; a failure names the system and the seed, which repeat it.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from coterie.protocol.system import System
from coterie.sim.faults import FaultMix
from coterie.sim.run import simulate
from coterie.systems import SYSTEMS
from tests.conformance.deviations import DEVIATIONS, instance_for

SEEDS = range(1000, 1000 + int(os.environ.get("COTERIE_SEEDS", "5")))


@pytest.mark.parametrize("system", [system for system in SYSTEMS.values() if (system.name, "faults") not in DEVIATIONS])
@pytest.mark.parametrize("seed", SEEDS)
def test_storm(system: System, seed: int) -> None:
    draw = np.random.default_rng(seed)
    storm = FaultMix(
        crash_share=float(draw.uniform(0, 0.4)),
        partition_share=float(draw.uniform(0, 0.5)),
        loss=float(draw.uniform(0, 0.3)),
        duplication=float(draw.uniform(0, 0.3)),
        jitter_s=float(draw.uniform(0, 2)),
        slow_share=float(draw.uniform(0, 0.3)),
    )
    workload = instance_for(system, nodes=int(draw.integers(2, 40)), topics=int(draw.integers(1, 8)), seed=seed)
    design = system.plan(workload, seed=seed)
    outcome = simulate(system, system.parameters(), design, workload, seed, faults=storm)
    assert all(missing.reason for missing in outcome.missing), f"{system.name}, seed {seed}"
