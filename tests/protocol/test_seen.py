"""The bounded memory against a set that never forgets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.protocol.seen import Seen


@given(st.lists(st.integers(0, 60), max_size=300), st.integers(1, 20))
def test_remembers_the_last_and_stays_bounded(identifiers: list[int], capacity: int) -> None:
    seen = Seen(capacity)
    fresh: list[int] = []  # what it called new, in order
    for identifier in identifiers:
        was_new = seen.add(identifier)
        assert was_new or identifier in fresh
        if was_new:
            assert identifier not in fresh[-capacity:]
            fresh.append(identifier)
        assert identifier in seen
        assert len(seen) <= 2 * capacity
