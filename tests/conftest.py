"""Shared by all tests: small workloads, and hypothesis without deadlines (compilation and shared machines are slow)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from coterie.model import Publications, Relation, Workload
from coterie.sim.run import SPAN_S

settings.register_profile("coterie", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("coterie")


def small_workload(
    nodes: int, topics: int, seed: int, subscribers: int | None = None, wanted: float = 0.3, events_max: int = 3
) -> Workload:
    """Anything can happen in it: empty interests, topics nobody wants or publishes, several publishers of one topic."""
    draw = np.random.default_rng(seed)
    people = nodes if subscribers is None else subscribers
    subscriber, topic = np.nonzero(draw.random((people, topics)) < wanted)
    rows = int(draw.integers(1, 2 * topics + 1))
    return Workload(
        name="small",
        interests=Relation.from_pairs(subscriber, topic, people, topics),
        publications=Publications.of(
            draw.integers(0, people, rows),
            draw.integers(0, topics, rows),
            draw.integers(0, events_max + 1, rows) / SPAN_S,
            draw.integers(0, 300, rows),
        ),
        attachment=(np.arange(people) if subscribers is None else draw.integers(0, nodes, people)).astype(np.int32),
        node_count=nodes,
    )


@pytest.fixture
def make_workload() -> object:
    return small_workload
