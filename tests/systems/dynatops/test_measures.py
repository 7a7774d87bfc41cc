"""The measures and compared systems of the experiments, on instances small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.kernels.rings import slotcost
from coterie.kernels.trees import delays as treedelay
from coterie.lab.dynatops_measures import GeoHierarchy, TopicConnected, chord_performance, performance_of_trees
from coterie.model import Relation, Spread, Trees
from coterie.systems.dynatops.positions import Slots, hashed_slots, slot_positions


def test_performance_of_one_tree() -> None:
    # root 0 -> 1 (relay) -> 2 and 3, both subscribed, with one and three users
    members = Relation.from_rows([[2, 3]], 4)
    indptr = np.array([0, 3], np.int64)
    node, parent = np.array([1, 2, 3], np.int32), np.array([0, 1, 1], np.int32)
    trees = Trees(Spread.ROOTED, members, np.array([0], np.int32), indptr, node, parent)
    plane = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 0.0], [0.0, 4.0]])
    found = performance_of_trees(trees, np.array([2.0]), np.array([1.0, 3.0]), plane)
    assert (found.overhead, found.relays, found.broker_hops, found.user_hops) == (3.0, 1.0, 2.0, 2.0)
    assert found.user_distance == pytest.approx(5 + (1 * 4 + 3 * 3) / 4)


def test_relays_agree_with_the_seat_costs() -> None:
    draw = np.random.default_rng(5)
    interests = Relation.from_rows([draw.choice(12, 3, replace=False) for _ in range(20)], 12)
    slots = Slots.at(slot_positions(20, "random", 5))
    slot_of = hashed_slots(20, 5)
    instance = slots.instance(interests, np.ones(12), 1.0)
    members = interests.transposed
    found = chord_performance(
        slots.positions[slot_of], members, np.ones(12), np.ones(members.pair_count), np.zeros((20, 2))
    )
    relays, hops = slotcost.full_cost(instance, slot_of)
    assert found.relays * 12 == pytest.approx(relays)
    assert found.broker_hops * members.pair_count == pytest.approx(hops)


@pytest.mark.parametrize("seed", range(5))
def test_topics_are_connected_by_greedy_merge_and_after_repair(seed: int) -> None:
    draw = np.random.default_rng(seed)
    wants = (draw.random((12, 9)) < 0.3).astype(np.uint8)
    overlay = TopicConnected(wants)
    later = wants.copy()
    later[draw.integers(12, size=4), draw.integers(9, size=4)] ^= 1
    for links, wanted in ((overlay.links, wants), (None, later)):
        if links is None:
            before = overlay.links.copy()
            added = overlay.repaired(later)
            assert added == np.count_nonzero(overlay.links != before) // 2
            assert np.all(overlay.links >= before)
            links = overlay.links
        rows, columns = np.nonzero(wanted.T)
        members = Relation.from_pairs(rows, columns, 9, 12)
        source = np.array([row[0] if len(row := members.row(topic)) else 0 for topic in range(9)], np.int32)
        assert treedelay.flood_hops(wanted, links, source, members.indptr, members.columns).min(initial=0) >= 0


def test_hierarchy_climbs_only_as_far_as_needed() -> None:
    plane = np.array([[x + 0.5, y + 0.5] for y in range(8) for x in range(8)], float)
    geo = GeoHierarchy(plane, levels=3)
    members = Relation.from_rows([[0, 1, 63]], 64)
    trees = geo.trees(np.array([0], np.int32), members)
    near, far = geo._path(0, 1), geo._path(0, 63)
    assert near[0] == far[0] == 0
    assert (near[-1], far[-1]) == (1, 63)
    assert len(near) <= 3 < len(far) <= 7
    assert len(set(far)) == len(far)
    assert {0, 1, 63} <= {*trees.node.tolist(), 0}


def test_update_messages_walk_to_the_root_and_touch_each_new_edge() -> None:
    slots = Slots.at(slot_positions(16, "even", 0))
    root = np.array([3], np.int32)
    counts = np.zeros((1, 16), np.int32)
    slot_of = np.arange(16, dtype=np.int32)
    one = np.array([9], np.int32)
    topic = np.zeros(1, np.int32)

    def change(sign: int) -> int:
        return treedelay.update_messages(
            slots.parent, slots.depth, counts, root, slot_of, one, topic, np.array([sign], np.int8)
        )

    expected = slots.depth[9, 3] + slots.depth[3, 9]
    assert change(1) == expected
    assert change(-1) == expected
    assert not counts.any()
