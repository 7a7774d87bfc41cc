"""Building timelines: what turns one set of interests into another, and changes put into time order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.model import Change, Relation, Timeline, Workload


@dataclass(frozen=True, eq=False)
class Changes:
    """Some rows of a timeline, in any order."""

    time_s: NDArray[np.float64]
    change: NDArray[np.uint8]
    who: NDArray[np.int32]
    what: NDArray[np.int32]

    @classmethod
    def of(cls, time_s: ArrayLike, change: ArrayLike, who: ArrayLike, what: ArrayLike = -1) -> Changes:
        """From anything of one length; single values are repeated."""
        arrays = np.broadcast_arrays(np.asarray(time_s, np.float64), change, who, what)
        time, kind, subject, target = (np.atleast_1d(array) for array in arrays)
        return cls(time, kind.astype(np.uint8), subject.astype(np.int32), target.astype(np.int32))

    def __len__(self) -> int:
        return len(self.time_s)


def in_time_order(start: Workload, parts: Sequence[Changes]) -> Timeline:
    """One timeline of all parts; at the same moment, earlier parts and earlier rows come first."""
    time_s = np.concatenate([part.time_s for part in parts])
    order = np.argsort(time_s, kind="stable")
    return Timeline(
        start=start,
        time_s=time_s[order],
        change=np.concatenate([part.change for part in parts])[order],
        who=np.concatenate([part.who for part in parts])[order],
        what=np.concatenate([part.what for part in parts])[order],
    )


def difference(before: Relation, after: Relation) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32]]:
    """(change, row, column) of every pair in only one of two relations of one shape: what goes, then what comes."""
    width = max(before.column_count, 1)
    old = before.rows.astype(np.int64) * width + before.columns
    new = after.rows.astype(np.int64) * width + after.columns
    gone = old[~np.isin(old, new, assume_unique=True, kind="sort")]
    come = new[~np.isin(new, old, assume_unique=True, kind="sort")]
    row, column = np.divmod(np.concatenate([gone, come]), width)
    change = np.repeat(np.array([Change.UNSUBSCRIBE, Change.SUBSCRIBE], np.uint8), [len(gone), len(come)])
    return change, row.astype(np.int32), column.astype(np.int32)


def drawn_anew(first: Relation, fresh: Relation, time_s: NDArray[np.float64], who: NDArray[np.int32]) -> Changes:
    """At each moment somebody takes a fresh row for the one they had; what is in both is no change."""
    both, rows = _previous_rows(first, fresh, who)
    change, event, topic = difference(both.taken(rows), fresh)
    order = np.argsort(event, kind="stable")
    return Changes.of(time_s[event[order]], change[order], who[event[order]], topic[order])


def _previous_rows(first: Relation, later: Relation, who: NDArray[np.int32]) -> tuple[Relation, NDArray[np.int64]]:
    """(both relations as one, the row in it that `who[i]` had before later row i)."""
    both = Relation(
        np.concatenate([first.indptr, first.indptr[-1] + later.indptr[1:]]),
        np.concatenate([first.columns, later.columns]),
        first.column_count,
    )
    order = np.argsort(who, kind="stable")
    is_first = np.concatenate([[True], who[order][1:] != who[order][:-1]]) if len(who) else np.zeros(0, bool)
    last = np.empty(len(who), np.int64)
    last[order] = np.where(is_first, who[order], np.roll(order, 1) + first.row_count)
    return both, last
