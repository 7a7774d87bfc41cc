"""Deadlines against a dictionary, and what they cost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.mqtt.timers import Timers

steps = st.tuples(st.integers(0, 4), st.none() | st.integers(0, 30), st.integers(0, 6))


@given(st.lists(steps, max_size=40))
def test_each_deadline_comes_once_and_in_time(script: list[tuple[int, int | None, int]]) -> None:
    timers: Timers[int] = Timers()
    held: dict[int, float] = {}
    now_s = 0.0
    for subject, delay_s, wait_s in script:
        deadline_s = None if delay_s is None else now_s + delay_s
        timers.set(subject, deadline_s)
        held.pop(subject, None)
        if deadline_s is not None:
            held[subject] = deadline_s
        now_s += wait_s
        expected = sorted(one for one, at_s in held.items() if at_s <= now_s)
        assert sorted(timers.due(now_s)) == expected
        held = {one: at_s for one, at_s in held.items() if at_s > now_s}
        assert len(timers) == len(held)
        if held:
            assert timers.deadline_s is not None
            assert timers.deadline_s <= min(held.values())


def test_forgotten_subjects_are_not_kept() -> None:
    timers: Timers[int] = Timers()
    for subject in range(10_000):
        timers.set(subject, 1e9)
        timers.set(subject, None)
        timers.set(-1, 1e6 + subject)
    assert len(timers._heap) < 200
