"""A relation between two dense index spaces as CSR arrays: interests, channel members, links are all this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.errors import InputError

Index = NDArray[np.int32]
Offset = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Relation:
    """Row -> set of columns.

    `columns[indptr[r]:indptr[r + 1]]` are the columns of row `r`, ascending, without repeats, below `column_count`.
    The arrays are shared, not copied: nobody writes into them.
    """

    indptr: Offset
    columns: Index
    column_count: int

    def __post_init__(self) -> None:
        if self.indptr.dtype != np.int64 or self.columns.dtype != np.int32:
            raise TypeError("a relation wants int64 offsets and int32 columns")

    @property
    def row_count(self) -> int:
        return len(self.indptr) - 1

    @property
    def pair_count(self) -> int:
        return len(self.columns)

    def row(self, index: int) -> Index:
        return self.columns[self.indptr[index] : self.indptr[index + 1]]

    @property
    def lengths(self) -> Offset:
        return np.diff(self.indptr)

    @cached_property
    def rows(self) -> Index:
        """The row of every pair, aligned with `columns`."""
        return np.repeat(np.arange(self.row_count, dtype=np.int32), self.lengths)

    def taken(self, rows: NDArray[np.integer]) -> Relation:
        """The relation whose row i is row rows[i] of this one."""
        lengths = self.lengths[rows]
        indptr = _offsets(lengths)
        at = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        return Relation(indptr, self.columns[at], self.column_count)

    @cached_property
    def transposed(self) -> Relation:
        """Column -> rows; for interests this is topic -> subscribers."""
        order = np.argsort(self.columns, kind="stable")
        counts = np.bincount(self.columns, minlength=self.column_count)
        return Relation(_offsets(counts), self.rows[order], self.row_count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Relation):
            return NotImplemented
        return (
            self.column_count == other.column_count
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.columns, other.columns)
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def from_pairs(cls, rows: ArrayLike, columns: ArrayLike, row_count: int, column_count: int) -> Relation:
        """From pairs in any order, repeats removed. Sorts one int64 key per pair: never np.unique, which hashes."""
        row = np.asarray(rows, dtype=np.int64)
        column = np.asarray(columns, dtype=np.int64)
        if len(row) and (min(row.min(), column.min()) < 0 or row.max() >= row_count or column.max() >= column_count):
            raise ValueError("a pair lies outside of the relation")
        key = row * column_count + column
        key.sort()
        if len(key):
            key = key[np.concatenate([[True], key[1:] != key[:-1]])]
        row, column = np.divmod(key, max(column_count, 1))
        return cls(_offsets(np.bincount(row, minlength=row_count)), column.astype(np.int32), column_count)

    @classmethod
    def from_rows(cls, rows: Sequence[Iterable[int]], column_count: int) -> Relation:
        """From one iterable of columns per row."""
        lists = [list(row) for row in rows]
        row = np.repeat(np.arange(len(lists)), [len(columns) for columns in lists])
        column = np.array([column for columns in lists for column in columns], dtype=np.int64)
        return cls.from_pairs(row, column, len(lists), column_count)

    @classmethod
    def identity(cls, count: int) -> Relation:
        return cls(np.arange(count + 1, dtype=np.int64), np.arange(count, dtype=np.int32), count)

    @classmethod
    def empty(cls, row_count: int, column_count: int) -> Relation:
        return cls(np.zeros(row_count + 1, np.int64), np.zeros(0, np.int32), column_count)

    def check(self, source: str) -> Relation:
        """Prove the invariants of data that came from outside; InputError names the source and the first bad row."""
        if (
            len(self.indptr) == 0
            or self.indptr[0] != 0
            or self.indptr[-1] != len(self.columns)
            or np.any(self.lengths < 0)
        ):
            raise InputError(source, "offsets do not rise from 0 to the number of pairs")
        outside = (self.columns < 0) | (self.columns >= self.column_count)
        if outside.any():
            at = int(np.argmax(outside))
            raise InputError(source, f"row {self.rows[at]} names column {self.columns[at]} of {self.column_count}")
        inside_row = np.ones(max(len(self.columns) - 1, 0), bool)
        starts = self.indptr[1:-1]
        inside_row[starts[(starts > 0) & (starts < len(self.columns))] - 1] = False
        unsorted = inside_row & (np.diff(self.columns) <= 0)
        if unsorted.any():
            raise InputError(source, f"row {self.rows[int(np.argmax(unsorted))]} is not strictly ascending")
        return self


def _offsets(counts: NDArray[np.integer]) -> Offset:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
