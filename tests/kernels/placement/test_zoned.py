"""Zones: what crosses them, event by event, and that crossing costs steer clients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.kernels.placement.passes import Present, Zones
from coterie.kernels.placement.problem import Problem
from coterie.kernels.placement.zoned import Crossed
from tests.kernels.placement.crowds import plain_copies, problem_of


def crossed(seed: int, crossing: float, away: float) -> Crossed:
    problem = replace(problem_of(seed, 200, 24, 8), capacity=np.full((8, 2), 40.0))
    zone_of, now = np.array([0, 1, 0, 1, 0, 1, 0, 1], np.int32), (np.arange(200) % 8).astype(np.int32)
    return Crossed(problem, Zones(zone_of, crossing, np.full(200, away)), Present(now), now, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_topic_crosses_once_to_every_other_zone_that_wants_it(seed: int) -> None:
    fleet = crossed(seed, 9.0, 0.0)
    problem, now = fleet.problem, fleet.present.node_of
    zoned: Problem = replace(problem, capacity=problem.capacity[:2])
    assert fleet.crossings(now) == pytest.approx(plain_copies(zoned, fleet.zones.zone_of[now]))


@pytest.mark.parametrize("seed", range(3))
def test_dear_crossings_are_avoided(seed: int) -> None:
    cheap, dear = crossed(seed, 0.0, 0.0), crossed(seed, 20.0, 0.0)
    found = {one.zones.crossing: one.solved() for one in (cheap, dear)}
    assert dear.crossings(found[20.0]) <= dear.crossings(found[0.0])
    assert dear.cost(found[20.0]) < dear.cost(dear.present.node_of)
    assert all(dear.problem.is_within(part) for part in found.values())


def test_leaving_a_zone_must_pay() -> None:
    fleet = crossed(4, 5.0, 1e9)
    found = fleet.solved()
    assert np.array_equal(fleet.zones.zone_of[found], fleet.zones.zone_of[fleet.present.node_of])
    assert fleet.cost(found) < fleet.cost(fleet.present.node_of)
