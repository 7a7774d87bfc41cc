"""Matches one document against an index of conjunctions: candidates from postings and intervals, then the rest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.kernels.jit import kernel

Int8 = NDArray[np.int8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

ANYTHING, INTERVAL, ONE_OF, PREFIX = 0, 1, 2, 3


class Conjunctions(NamedTuple):
    """Conjunction c belongs to filter owner[c] and has the constraints indptr[c]:indptr[c + 1], the first of which is
    the one it is found by; a constraint is an attribute, a kind and its arguments."""

    owner: Int32
    indptr: Int64
    attribute: Int32
    kind: Int8
    low: Float64
    high: Float64
    is_low_open: NDArray[np.bool_]
    is_high_open: NDArray[np.bool_]
    set_start: Int64  # values of ONE_OF; for PREFIX the prefix's number
    set_stop: Int64
    set_number: Float64
    set_text: Int32


class Stabbing(NamedTuple):
    """Conjunctions found by an interval, per attribute a:  at start[a]:start[a + 1], by rising low end; `highest` is an
    implicit tree of maxima of the high ends, tree[a] its first entry and leaves[a] its number of leaves."""

    start: Int64
    low: Float64
    conjunction: Int32
    tree: Int64
    leaves: Int64
    highest: Float64


class Encoded(NamedTuple):
    """A document: per attribute the stamp of the document that has it, its number (or nan) and its text (or -1)."""

    stamp: Int64
    number: Float64
    text: Int32
    prefix_stamp: Int64


@kernel
def satisfies(conjunctions: Conjunctions, at: int, document: Encoded, stamp: int) -> bool:
    """Whether constraint `at` holds."""
    attribute = conjunctions.attribute[at]
    if document.stamp[attribute] != stamp:
        return False
    kind = conjunctions.kind[at]
    if kind == ANYTHING:
        return True
    if kind == PREFIX:
        return bool(document.prefix_stamp[conjunctions.set_start[at]] == stamp)
    number, text = document.number[attribute], document.text[attribute]
    if kind == INTERVAL:
        if number < conjunctions.low[at] or number > conjunctions.high[at] or np.isnan(number):
            return False
        if number == conjunctions.low[at] and conjunctions.is_low_open[at]:
            return False
        return not (number == conjunctions.high[at] and conjunctions.is_high_open[at])
    for place in range(conjunctions.set_start[at], conjunctions.set_stop[at]):
        if conjunctions.set_text[place] >= 0:
            if conjunctions.set_text[place] == text:
                return True
        elif conjunctions.set_number[place] == number:
            return True
    return False


@kernel
def judge(
    conjunctions: Conjunctions,
    which: int,
    first: int,
    document: Encoded,
    stamp: int,
    seen: Int64,
    out: Int32,
    size: int,
) -> int:
    """Adds the owner of a conjunction to `out` if all its constraints from `first` on hold; returns the new size."""
    owner = conjunctions.owner[which]
    if seen[owner] == stamp:
        return size
    for at in range(conjunctions.indptr[which] + first, conjunctions.indptr[which + 1]):
        if not satisfies(conjunctions, at, document, stamp):
            return size
    seen[owner] = stamp
    out[size] = owner
    return size + 1


@kernel
def match_document(
    conjunctions: Conjunctions,
    postings: Int32,
    starts: Int64,
    stops: Int64,
    stabbing: Stabbing,
    numeric: Int32,
    document: Encoded,
    stamp: int,
    seen: Int64,
    out: Int32,
) -> int:
    """Filters that match, unsorted, in `out`; returns how many.

    `starts`, `stops` are the ranges of `postings` whose key the document has; `numeric` its attributes with a number.
    Cost: the candidates found plus a logarithm per numeric attribute.
    """
    size = 0
    for at in range(len(starts)):
        for place in range(starts[at], stops[at]):
            size = judge(conjunctions, postings[place], 1, document, stamp, seen, out, size)
    stack = np.empty(128, np.int64)
    for attribute in numeric:
        first, last = stabbing.start[attribute], stabbing.start[attribute + 1]
        leaves = stabbing.leaves[attribute]
        if first == last:
            continue
        value = document.number[attribute]
        below = np.searchsorted(stabbing.low[first:last], value, side="right")
        tree = stabbing.tree[attribute]
        stack[0] = 1
        depth = 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            if stabbing.highest[tree + node] < value or leftmost(node, leaves) >= below:
                continue
            if node >= leaves:
                which = stabbing.conjunction[first + node - leaves]
                size = judge(conjunctions, which, 0, document, stamp, seen, out, size)
            else:
                stack[depth] = 2 * node + 1
                stack[depth + 1] = 2 * node
                depth += 2
    return size


@kernel
def leftmost(node: int, leaves: int) -> int:
    """The first leaf below a node of an implicit binary tree whose leaves are leaves .. 2 * leaves - 1."""
    while node < leaves:
        node *= 2
    return node - leaves
