"""What a turn reads is what it will have been: the shelf with its own writes on it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.turn import Turn
from coterie.broker.turnshelf import TurnShelf
from coterie.broker.writes import LOG, SESSIONS, Between, StoreWrite
from tests.broker.shelf import MemoryShelf

KEYS = st.integers(0, 8)
WRITES = st.lists(
    st.tuples(st.just(LOG), KEYS, st.none() | st.binary(min_size=1, max_size=1))
    | st.tuples(st.just(SESSIONS), st.sampled_from("abc"), st.none() | st.binary(min_size=1, max_size=1))
    | st.builds(lambda first, more: (LOG, Between(first, first + more), None), KEYS, KEYS),
    max_size=6,
)


@given(WRITES, st.lists(WRITES, max_size=3), WRITES, KEYS, KEYS, st.integers(0, 3), st.booleans())
def test_it_reads_as_if_the_turn_had_ended(
    before: list[StoreWrite], parts: list[list[StoreWrite]], after: list[StoreWrite], first: int, more: int,
    most: int, newest_first: bool,
) -> None:  # fmt: skip
    beneath, whole, turn = MemoryShelf(), MemoryShelf(), Turn()
    beneath.write(before)
    whole.write(before)
    shelf = TurnShelf(beneath, turn)
    for number, part in enumerate((*parts, after)):
        if number == len(parts):  # the next turn
            beneath.write(turn.writes)
            turn.writes = []
        turn.writes += part
        whole.write(part)
        asked = (LOG, first, first + more, most, newest_first)
        assert shelf.between(*asked) == whole.between(*asked)
        assert [shelf.get(LOG, key) for key in range(9)] == [whole.get(LOG, key) for key in range(9)]
        assert shelf.get(SESSIONS, "a") == whole.get(SESSIONS, "a")
        for table in (LOG, SESSIONS):
            assert sorted(shelf.rows(table)) == sorted(whole.rows(table))
