"""The rivals in their readings: DCB-M connects every topic, also after changes; L_b as printed weighs less."""

from __future__ import annotations

import numpy as np

from coterie.kernels.placement import joining
from coterie.kernels.trees import delays as treedelay
from coterie.lab.dynatops_rivals import DividedOverlay, first_members, random_members
from coterie.model import Relation


def _wants(seed: int, share: float = 0.3) -> np.ndarray:
    return (np.random.default_rng(seed).random((45, 25)) < share).astype(np.uint8)


def _is_connected(overlay: DividedOverlay, wants: np.ndarray) -> bool:
    topics, brokers = np.nonzero(wants.T)
    members = Relation.from_pairs(topics, brokers, wants.shape[1], wants.shape[0])
    anybody = random_members(members, np.random.default_rng(5))
    return all(
        bool(np.all(treedelay.flood_hops(wants, overlay.links, source, members.indptr, members.columns) >= 0))
        for source in (first_members(members), anybody)
    )


def test_every_topic_is_connected_at_first_and_after_changes() -> None:
    wants = _wants(1)
    overlay = DividedOverlay(wants, 1)
    assert _is_connected(overlay, wants)
    assert overlay.follow(wants) == 0
    other = wants.copy()
    other[3] = 1 - other[3]
    assert overlay.follow(other) > 0
    assert _is_connected(overlay, other)


def test_a_share_of_everything_weighs_less_than_one_of_the_cluster() -> None:
    """Broker 0 has what the user wants and most of the load; the cluster's mean sends the user away, the whole not."""
    counts = np.zeros((4, 2), np.int32)
    counts[0, 0] = 9
    load = np.array([9, 1, 1, 1], np.int64)
    held = np.zeros((1, 1), np.int32)
    nobody = np.full(1, -1, np.int32)
    population = joining.Population(
        held, nobody, nobody, counts, load, np.zeros((4, 2), np.uint8), np.zeros(4, np.int64)
    )
    members = np.arange(4, dtype=np.int32)
    topics = np.array([0], np.int32)
    assert joining.choose(population, topics, 0, members, 0.5, True, 0.0) != 0
    assert joining.choose(population, topics, 0, members, 0.5, True, 12.0) == 0
