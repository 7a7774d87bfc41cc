"""An index of many filters that finds those matching a document without looking at the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.interests import matching
from coterie.model.relation import Index
from coterie.substrate.filters import (
    Anything,
    Conjunction,
    Constraint,
    Document,
    Filter,
    Interval,
    OneOf,
    Prefix,
    Value,
)

# What a conjunction may be found by: a value or the mere presence of an attribute, or a prefix of its text.
Key = tuple[str, str, Value]


class FilterIndex:
    """Each conjunction is filed under its rarest constraint; a document looks up its own values only.

    Built once; filters that come and go are for a new index.
    """

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filter_count = len(filters)
        self._attributes: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self._prefixes: dict[tuple[str, str], int] = {}
        self._prefix_lengths: dict[str, list[int]] = {}
        owners = [number for number, one in enumerate(filters) for _ in one.conjunctions]
        parts = [parts for one in filters for parts in one.conjunctions]
        commonness = Counter(key for some in parts for attribute, one in some for key in _keys(attribute, one))
        ordered = [_rarest_first(some, commonness) for some in parts]
        self._conjunctions = self._encode(owners, ordered)
        self._file(ordered)
        attribute_count = max(len(self._attributes), 1)
        self._document = matching.Encoded(
            np.zeros(attribute_count, np.int64),
            np.full(attribute_count, np.nan),
            np.full(attribute_count, -1, np.int32),
            np.zeros(max(len(self._prefixes), 1), np.int64),
        )
        self._stamp = 0
        self._seen = np.zeros(max(self._filter_count, 1), np.int64)
        self._out = np.empty(max(self._filter_count, 1), np.int32)

    def match(self, document: Document) -> Index:
        """The numbers of the filters that match, ascending."""
        self._stamp += 1
        stamp, encoded = self._stamp, self._document
        starts: list[int] = []
        stops: list[int] = []
        numeric: list[int] = []
        for attribute, value in document.items():
            number = self._attributes.get(attribute)
            if number is None:
                continue
            encoded.stamp[number] = stamp
            is_text = isinstance(value, str)
            encoded.number[number] = np.nan if is_text else value
            encoded.text[number] = self._texts.get(value, -1) if isinstance(value, str) else -1
            if not is_text:
                numeric.append(number)
            for key in self._document_keys(attribute, value, stamp):
                found = self._ranges.get(key)
                if found is not None:
                    starts.append(found[0])
                    stops.append(found[1])
        size = matching.match_document(
            self._conjunctions,
            self._postings,
            np.array(starts, np.int64),
            np.array(stops, np.int64),
            self._stabbing,
            np.array(numeric, np.int32),
            encoded,
            stamp,
            self._seen,
            self._out,
        )
        return np.sort(self._out[:size])

    def _document_keys(self, attribute: str, value: Value, stamp: int) -> Iterable[Key]:
        yield ("", attribute, "")
        yield ("=", attribute, value)
        if isinstance(value, str):
            for length in self._prefix_lengths.get(attribute, ()):
                number = self._prefixes.get((attribute, value[:length])) if length <= len(value) else None
                if number is not None:
                    self._document.prefix_stamp[number] = stamp
                    yield ("^", attribute, value[:length])

    # --- building ---

    def _encode(self, owners: list[int], ordered: list[list[tuple[str, Constraint]]]) -> matching.Conjunctions:
        rows = [part for parts in ordered for part in parts]
        count = len(rows)
        low, high = np.full(count, -np.inf), np.full(count, np.inf)
        is_low_open, is_high_open = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        kind = np.zeros(count, np.int8)
        set_start, set_stop = np.zeros(count, np.int64), np.zeros(count, np.int64)
        set_number: list[float] = []
        set_text: list[int] = []
        for at, (attribute, constraint) in enumerate(rows):
            if isinstance(constraint, Interval):
                kind[at] = matching.INTERVAL
                low[at], high[at] = constraint.low, constraint.high
                is_low_open[at], is_high_open[at] = constraint.is_low_open, constraint.is_high_open
            elif isinstance(constraint, Prefix):
                kind[at] = matching.PREFIX
                set_start[at] = self._prefix(attribute, constraint.start)
            elif isinstance(constraint, OneOf):
                kind[at] = matching.ONE_OF
                set_start[at] = len(set_number)
                for value in constraint.values:
                    is_text = isinstance(value, str)
                    set_number.append(np.nan if isinstance(value, str) else value)
                    set_text.append(self._texts.setdefault(str(value), len(self._texts)) if is_text else -1)
                set_stop[at] = len(set_number)
        attributes = [self._attributes.setdefault(attribute, len(self._attributes)) for attribute, _ in rows]
        return matching.Conjunctions(
            np.array(owners, np.int32),
            np.concatenate([[0], np.cumsum([len(parts) for parts in ordered])]).astype(np.int64),
            np.array(attributes, np.int32),
            kind,
            low,
            high,
            is_low_open,
            is_high_open,
            set_start,
            set_stop,
            np.array(set_number, np.float64),
            np.array(set_text, np.int32),
        )

    def _prefix(self, attribute: str, start: str) -> int:
        lengths = self._prefix_lengths.setdefault(attribute, [])
        if len(start) not in lengths:
            lengths.append(len(start))
        return self._prefixes.setdefault((attribute, start), len(self._prefixes))

    def _file(self, ordered: list[list[tuple[str, Constraint]]]) -> None:
        """Postings per key for what is found by a value, stabbing trees for what is found by an interval."""
        filed: dict[Key, list[int]] = {}
        intervals: list[tuple[int, float, float, int]] = []
        for number, parts in enumerate(ordered):
            attribute, constraint = parts[0]
            if isinstance(constraint, Interval):
                intervals.append((self._attributes[attribute], constraint.low, constraint.high, number))
            else:
                for key in _keys(attribute, constraint):
                    filed.setdefault(key, []).append(number)
        self._ranges: dict[Key, tuple[int, int]] = {}
        start = 0
        for key, numbers in filed.items():
            self._ranges[key] = start, start + len(numbers)
            start += len(numbers)
        self._postings = np.array([number for numbers in filed.values() for number in numbers], np.int32)
        self._stabbing = _stabbing(intervals, len(self._attributes))


def _keys(attribute: str, constraint: Constraint) -> list[Key]:
    if isinstance(constraint, OneOf):
        return [("=", attribute, value) for value in constraint.values]
    if isinstance(constraint, Prefix):
        return [("^", attribute, constraint.start)]
    return [("", attribute, "")]


def _rarest_first(parts: Conjunction, commonness: Counter[Key]) -> list[tuple[str, Constraint]]:
    """The constraint to be found by first: the one whose keys occur least; intervals and existence come last."""

    def rank(part: tuple[str, Constraint]) -> tuple[int, int]:
        order = {OneOf: 0, Prefix: 1, Interval: 2, Anything: 3}[type(part[1])]
        return (0 if order < 2 else order, sum(commonness[key] for key in _keys(*part)))

    first = min(parts, key=rank)
    return [first, *(part for part in parts if part is not first)]


def _stabbing(intervals: list[tuple[int, float, float, int]], attribute_count: int) -> matching.Stabbing:
    intervals.sort()
    attribute = np.array([entry[0] for entry in intervals], np.int64)
    high = np.array([entry[2] for entry in intervals], np.float64)
    start = np.searchsorted(attribute, np.arange(attribute_count + 1)).astype(np.int64)
    trees: list[NDArray[np.float64]] = []
    leaves = np.zeros(max(attribute_count, 1), np.int64)
    tree = np.zeros(max(attribute_count, 1), np.int64)
    for number in range(attribute_count):
        count = int(start[number + 1] - start[number])
        leaves[number] = 1 << max(count - 1, 0).bit_length()
        tree[number] = sum(len(one) for one in trees)
        if count:
            trees.append(_maxima(high[start[number] : start[number + 1]], int(leaves[number])))
    return matching.Stabbing(
        start if attribute_count else np.zeros(2, np.int64),
        np.array([entry[1] for entry in intervals], np.float64),
        np.array([entry[3] for entry in intervals], np.int32),
        tree,
        leaves,
        np.concatenate(trees) if trees else np.zeros(0),
    )


def _maxima(values: NDArray[np.float64], leaves: int) -> NDArray[np.float64]:
    """An implicit tree: entry i is the larger of entries 2i and 2i + 1, leaves stand at the end."""
    tree = np.full(2 * leaves, -np.inf)
    tree[leaves : leaves + len(values)] = values
    size = leaves
    while size > 1:
        tree[size // 2 : size] = np.maximum(tree[size : 2 * size : 2], tree[size + 1 : 2 * size : 2])
        size //= 2
    return tree
