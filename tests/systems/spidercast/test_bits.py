"""Topics' members as bits and as lists lead to the same choices, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.kernels.links import bits
from coterie.lab.spidercast_runs import run_churn
from coterie.model import Relation
from coterie.systems.spidercast import coverage
from coterie.systems.spidercast.parameters import SpiderCastParameters
from coterie.workloads import make_workload

OVERLAYS = [
    {},
    {"k_random": 1},
    {"ties": "first"},
    {"disconnects": "above-target"},
    {"is_adaptive": True},
    {"view_share": 0.3},
    {"links": "similarity", "k_greedy": 10, "k_random": 0},
    {"links": "similarity", "k_greedy": 3, "k_random": 2, "view_share": 0.5},
]


def as_lists(by_topic: Relation) -> np.ndarray:
    return np.zeros((0, 1), np.uint64)


@pytest.mark.parametrize("settings", OVERLAYS)
def test_bits_and_lists_lead_to_the_same_overlay(settings, monkeypatch):
    interests = make_workload(
        "rss", {"nodes": 300, "topics": 40, "subscriptions": 5, "subscriptions_max": 9}, 3
    ).interests
    bulk = coverage.build(interests, SpiderCastParameters(**settings), 3)
    assert len(bulk.nodes.members) == 40
    monkeypatch.setattr(coverage, "_members", as_lists)
    assert coverage.build(interests, SpiderCastParameters(**settings), 3).links() == bulk.links()


def test_bits_and_lists_lead_to_the_same_overlays_under_churn(monkeypatch):
    point = {"nodes": 100, "life_s": 50, "duration_s": 210}
    by_bits = run_churn(point, 1)
    monkeypatch.setattr(coverage, "_members", as_lists)
    assert run_churn(point, 1) == by_bits


def test_where_a_topic_has_few_members_there_are_only_lists():
    interests = Relation.from_pairs(np.arange(500), np.arange(500), 500, 500)
    assert len(coverage.begin(interests, SpiderCastParameters(), 1).nodes.members) == 0


def test_counts_of_sets_by_bits_are_counts():
    draw = np.random.default_rng(1)
    sets = draw.random((9, 200)) < 0.4
    planes, carry, kept = np.zeros((4, 4), np.uint64), np.zeros(4, np.uint64), np.zeros(4, np.uint64)
    used = 0
    for members in sets:
        words = np.zeros(4, np.uint64)
        for node in np.flatnonzero(members):
            bits.put_in(words, node)
        used = bits.count_in(planes, used, words, carry)
    counts = sets.sum(axis=0)
    bits.keep_counted(planes, used, kept)
    assert bits.size_of(kept) == np.count_nonzero(counts)
    bits.put_out(kept, int(counts.argmax()))
    bits.keep_highest(planes, used, kept)
    counts[counts.argmax()] = 0
    best = np.flatnonzero(counts == counts.max())
    assert [bits.nth_of(kept, nth) for nth in range(len(best) + 1)] == [*best, -1]
