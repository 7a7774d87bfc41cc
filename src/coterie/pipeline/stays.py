"""When wishes hold: in which periods each of them was alive, and the stays that were short.

A wish is a key, client * (number of filters) + filter; times are seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Stays = tuple[I64, F64, F64]  # key, begin, end
WAITING = 4_000_000  # stays gathered before they are joined


@dataclass(frozen=True)
class Period:
    """A stretch of time [start, end) in seconds since 1970."""

    start_s: float
    end_s: float

    def alive(self, since: F64, until: F64) -> NDArray[np.bool_]:
        return (since < self.end_s) & (until > self.start_s)


def wish_times(since: pa.ChunkedArray, until: pa.ChunkedArray) -> tuple[F64, F64]:
    """In seconds; infinite where a row does not say."""
    return _seconds(since, -np.inf), _seconds(until, np.inf)


def marked(pairs: I64, key: I64, since: F64, until: F64, periods: Sequence[Period]) -> NDArray[np.uint64]:
    """For every pair a bit for each period in which one of its rows was alive."""
    marks = np.zeros(len(pairs), np.uint64)
    for bit, period in enumerate(periods):
        marks[np.searchsorted(pairs, key[period.alive(since, until)])] |= np.uint64(1 << bit)
    return marks


def stays_in(period: Period, key: I64, since: F64, until: F64) -> tuple[I64, F64, F64]:
    """What of each row lies in the period, in seconds from its start; infinite where it goes on beyond."""
    alive = period.alive(since, until)
    begin = np.where(since[alive] > period.start_s, since[alive] - period.start_s, -np.inf)
    end = np.where(until[alive] < period.end_s, until[alive] - period.start_s, np.inf)
    return key[alive], begin, end


def short_stays(key: I64, begin: F64, end: F64) -> tuple[I64, F64, F64]:
    """Stays of each key, overlapping ones joined, without those that never began and never ended."""
    joined = joined_stays(key, begin, end)
    is_short = np.isfinite(joined[1]) | np.isfinite(joined[2])
    return joined[0][is_short], joined[1][is_short], joined[2][is_short]


def joined_stays(key: I64, begin: F64, end: F64) -> tuple[I64, F64, F64]:
    """Stays of each key in order, overlapping ones joined."""
    order = np.lexsort((end, begin, key))
    key, begin, end = key[order], begin[order], end[order]
    # A running maximum inside each key: by rank, so that a later key is always above an earlier one.
    ascending = np.sort(end)
    rank = np.searchsorted(ascending, end)
    group = np.cumsum(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
    reached = np.maximum.accumulate(group * (len(key) + 1) + rank) - group * (len(key) + 1) if len(key) else rank
    ends = ascending[reached]
    is_new = np.ones(len(key), bool)
    is_new[1:] = (key[1:] != key[:-1]) | (begin[1:] > ends[:-1])
    first = np.flatnonzero(is_new)
    last = np.concatenate([first[1:] - 1, [len(key) - 1]])[: len(first)].astype(np.int64)
    return key[first], begin[first], ends[last]


def joined_pieces(pieces: Iterable[Stays], waiting_max: int = WAITING) -> Stays:
    """`joined_stays` of all pieces; however many those are, memory holds what is joined and about as much again."""
    whole: Stays = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    waiting, rows = [whole], 0
    for piece in pieces:
        waiting.append(piece)
        rows += len(piece[0])
        if rows >= max(waiting_max, len(whole[0])):
            whole = joined_stays(*map(np.concatenate, zip(*waiting, strict=True)))
            waiting, rows = [whole], 0
    return joined_stays(*map(np.concatenate, zip(*waiting, strict=True))) if rows else whole


def _seconds(times: pa.ChunkedArray, missing: float) -> F64:
    seconds = pc.divide(times.cast(pa.int64()).cast(pa.float64()), 1e6)
    found: F64 = pc.fill_null(seconds, missing).to_numpy()
    return found


def sorted_distinct(key: I64) -> I64:
    ordered = np.sort(key)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered
