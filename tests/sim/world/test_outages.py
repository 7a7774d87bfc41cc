"""How long two nodes were kept from each other, as the judge counts it."""

from __future__ import annotations

from coterie.sim.world.outages import AFTER_US, APART_US, LONG_US, Outages

S = 1_000_000


def cut(*spans_s: tuple[float, float]) -> Outages:
    outages = Outages()
    for number, (from_s, until_s) in enumerate(spans_s):
        outages.begin(f"cut {number}", int(from_s * S), frozenset([0]))
        outages.end(f"cut {number}", int(until_s * S))
    return outages


def test_several_outages_one_after_the_other_count_as_one_for_as_long_as_they_are_felt() -> None:
    outages = cut((1.0, 3.0), (4.0, 5.5))
    assert not outages.excuse(0, 1, 5 * S - 100_000)
    assert outages.excuse(0, 1, 4 * S + LONG_US - 2 * S)
    assert outages.excuse(1, 0, 3 * S + AFTER_US)
    assert not outages.excuse(0, 1, 3 * S + AFTER_US + 1)  # the first one is long past
    assert not outages.excuse(1, 2, 5 * S)


def test_a_connection_begun_in_an_outage_holds_the_two_apart_beyond_it() -> None:
    """Half a second of nothing, a dial that fails three seconds later, and the node is down by then."""
    outages = cut((1.0, 1.5), (4.0, 6.0))
    assert not outages.excuse(0, 1, 6 * S)
    outages.dialled(1, 0, int(1.2 * S), int(4.2 * S))
    assert outages.excuse(0, 1, S + APART_US)
    assert not outages.excuse(0, 1, S + APART_US - 1)
    assert not outages.excuse(0, 2, S + APART_US)  # it was between those two
    alone = cut((1.0, 1.5))
    alone.dialled(0, 1, int(1.2 * S), int(4.2 * S))
    assert not alone.excuse(0, 1, 6 * S)  # what is in both counts once, and that is waited for


def test_a_slow_disk_of_its_own_excuses_no_node() -> None:
    """It can wait for others for as long as it waits for itself; they can not."""
    outages = Outages()
    outages.begin("spoil", S, frozenset([0]), is_disk=True)
    outages.end("spoil", 9 * S)
    assert outages.excuse(1, 0, 9 * S)
    assert not outages.excuse(0, 1, 9 * S)
    outages.begin("full", S, frozenset([0]))
    assert outages.excuse(0, 1, 9 * S)
