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
