from __future__ import annotations

from coterie.sim.world.record import Diary, Grant


def _grant(topic_filter: str, from_us: int, until_us: int) -> Grant:
    return Grant(topic_filter, 1, from_us, 0, 0, until_us)


def test_a_wish_that_is_confirmed_once_more_goes_on_and_one_that_was_given_up_does_not() -> None:
    diary = Diary(0)
    renewed, given_up, open_end = _grant("a", 10, 20), _grant("b", 10, 20), _grant("c", 10, -1)
    diary.grants = [renewed, _grant("a", 20, 50), given_up, _grant("b", 21, -1), open_end]
    assert diary.holds(open_end, 99)
    assert diary.holds(given_up, 20)
    assert not diary.holds(given_up, 21)
    assert diary.holds(renewed, 50)
    assert not diary.holds(renewed, 51)
    assert diary.holds(given_up, -1)  # no moment: whatever became of it
