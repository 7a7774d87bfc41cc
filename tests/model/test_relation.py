"""Relations against plain Python sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.model import Relation

pairs_of = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=60)


@given(pairs_of)
def test_rows_are_the_sorted_sets(pairs: list[tuple[int, int]]) -> None:
    relation = Relation.from_pairs([row for row, _ in pairs], [column for _, column in pairs], 10, 8)
    for row in range(10):
        assert relation.row(row).tolist() == sorted({column for at, column in pairs if at == row})
    assert relation.check("it") is relation
    assert relation.pair_count == len(set(pairs))


@given(pairs_of)
def test_transposed_swaps_and_twice_is_the_same(pairs: list[tuple[int, int]]) -> None:
    relation = Relation.from_pairs([row for row, _ in pairs], [column for _, column in pairs], 10, 8)
    swapped = relation.transposed
    assert {(row, column) for column in range(8) for row in swapped.row(column).tolist()} == set(pairs)
    assert swapped.check("it").transposed == relation


def test_taken_rows_come_in_the_order_asked_for() -> None:
    relation = Relation.from_rows([[0, 2], [], [1]], 3)
    taken = relation.taken(np.array([2, 0, 0, 1]))
    assert [taken.row(i).tolist() for i in range(taken.row_count)] == [[1], [0, 2], [0, 2], []]
    assert relation.taken(np.zeros(0, np.int64)).row_count == 0


def test_from_rows_equals_from_pairs() -> None:
    assert Relation.from_rows([[2, 1, 2], [], [0]], 3) == Relation.from_pairs([0, 0, 2], [1, 2, 0], 3, 3)
    assert Relation.from_rows([[2, 1, 2], [], [0]], 3) != Relation.from_rows([[2], [], [0]], 3)


@pytest.mark.parametrize(("row", "column"), [(-1, 0), (0, -1), (3, 0), (0, 4)])
def test_pairs_outside_are_refused(row: int, column: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        Relation.from_pairs([row], [column], 3, 4)


@pytest.mark.parametrize(
    ("indptr", "columns", "says"),
    [
        ([0, 2, 1], [0, 1], "offsets"),
        ([1, 2, 2], [0, 1], "offsets"),
        ([0, 1, 2], [0, 5], "row 1 names column 5 of 3"),
        ([0, 2, 2], [1, 1], "row 0 is not strictly ascending"),
        ([0, 0, 2], [2, 1], "row 1 is not strictly ascending"),
    ],
)
def test_check_names_what_is_wrong(indptr: list[int], columns: list[int], says: str) -> None:
    relation = Relation(np.array(indptr, np.int64), np.array(columns, np.int32), 3)
    with pytest.raises(InputError, match=says):
        relation.check("some file")


def test_descending_across_rows_is_fine() -> None:
    Relation(np.array([0, 1, 2], np.int64), np.array([2, 0], np.int32), 3).check("it")
