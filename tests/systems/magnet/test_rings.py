"""One node on two rings."""

from __future__ import annotations

from coterie.substrate.oscar import OscarShape
from coterie.systems.magnet.rings import TwoRings


def test_both_rings_take_back_a_lost_peer_at_its_own_word_only() -> None:
    rings = TwoRings(0, 1000, OscarShape(2, 1), 4)
    rings.learn_all([(1, 2000), (2, 3000), (3, 4000)])
    assert rings.forget(1)
    rings.learn_all([(1, 2000)], is_hearsay=True)
    assert rings.position_of(1) is None
    assert rings.control.position_of(1) is None
    assert rings.learn(1, 2000)
    assert rings.skewed.successors()[0] == (1, 2000)
    assert rings.control.position_of(1) is not None


def assert_nobody_is_known_by_halves(rings: TwoRings) -> None:
    """Whoever a ring keeps is pinged: a loss would not be noticed otherwise."""
    kept = dict(rings.skewed.neighbours())
    assert kept.items() <= dict(rings.neighbours()).items()
    for peer, _ in rings.control.neighbours():
        assert rings.position_of(peer) is not None


def test_who_was_lost_does_not_come_back_with_a_new_place() -> None:
    rings = TwoRings(0, 1000, OscarShape(2, 1), 4)
    rings.learn_all([(1, 2000), (2, 3000), (3, 4000)])
    rings.forget(1)
    rings.move(2500, [(1, 2000), (4, 5000)])
    assert rings.position_of(1) is None
    assert rings.skewed.successors()[0] == (2, 3000)
    assert_nobody_is_known_by_halves(rings)


def test_a_ring_takes_a_neighbour_that_only_the_other_one_kept() -> None:
    """2 is no neighbour on the skewed ring while 1 sits in between; when 1 is lost nobody needs to say so again."""
    rings = TwoRings(0, 1000, OscarShape(0, 1), 4)
    rings.learn_all([(1, 2000), (2, 3000), (3, 900)])
    assert rings.skewed.position_of(2) is None
    assert rings.position_of(2) == 3000, "the control ring keeps it"
    rings.forget(1)
    assert rings.skewed.successors()[0] == (2, 3000)
    assert_nobody_is_known_by_halves(rings)


def test_new_long_links_are_known_to_all_of_the_node() -> None:
    rings = TwoRings(0, 1000, OscarShape(2, 1), 1)
    rings.learn_all([(peer, 1000 + 500 * peer) for peer in range(1, 9)])
    fresh = rings.relink([(20, 7777), (21, 8888)])
    assert fresh == [20, 21]
    assert {peer for peer, _ in rings.skewed.links()} == {1, 8, 20, 21}
    assert_nobody_is_known_by_halves(rings)
