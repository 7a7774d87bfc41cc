"""Tapestry: routing by prefix, one digit a hop, without leaf sets (Zhao et al., 2004).

A key's root is found by surrogate routing: digit after digit, where no node goes on with the key's digit the next
higher one that some node has is taken instead. Tables hold, of the nodes that fit a slot, the nearest one: by
exclusive-or where nothing is known about the network (a choice everybody can repeat), by distance in the plane where
coordinates are given (proximity neighbour selection).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.model import Overlay, Relation
from coterie.model.relation import Index
from coterie.substrate.identifiers import BITS
from coterie.substrate.rings import Paths, Words

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TapestryMesh:
    """The next hop from every node towards every other: quadratic in the nodes, for some thousands of them."""

    positions: Words
    hops: Index  # node, target -> the next node on the way
    digit_bits: int

    @classmethod
    def of(cls, positions: Words, digit_bits: int, plane: Floats | None = None) -> TapestryMesh:
        if digit_bits not in (1, 2, 4, 8):
            raise ConfigError("digit_bits", digit_bits, "1, 2, 4 or 8")
        digits = _digits(positions, digit_bits)
        if plane is None:
            away = (positions[:, None] ^ positions[None, :]).astype(np.float64)
        else:
            away = ((plane[:, None, :] - plane[None, :, :]) ** 2).sum(axis=2)
        return cls(positions, _next_hops(digits, away), digit_bits)

    @cached_property
    def overlay(self) -> Overlay:
        count = len(self.positions)
        rows = np.repeat(np.arange(count), count)
        columns = self.hops.ravel()
        kept = rows != columns
        return Overlay(Relation.from_pairs(rows[kept], columns[kept], count, count), self.positions)

    def owners(self, keys: Words) -> Index:
        """The surrogate root of each key."""
        digits = _digits(self.positions, self.digit_bits)
        wanted = _digits(keys, self.digit_bits)
        return np.array([_surrogate(digits, row, 1 << self.digit_bits) for row in wanted], np.int32)

    def paths(self, starts: Index, keys: Words) -> Paths:
        """From each start to the root of each key, both ends included."""
        order = np.argsort(self.positions)
        place = np.minimum(np.searchsorted(self.positions[order], keys), len(order) - 1)
        owner = order[place].astype(np.int32)
        if not np.array_equal(self.positions[owner], keys):  # keys of topics, not of nodes
            owner = self.owners(keys)
        at = starts.astype(np.int32)
        steps = [at]
        while np.any(is_moving := (at >= 0) & (at != owner)):
            at = np.where(is_moving, self.hops[at, owner], -1).astype(np.int32)
            steps.append(at)
        table = np.stack(steps, axis=1)
        is_hop = table >= 0
        indptr = np.concatenate([[0], np.cumsum(is_hop.sum(axis=1))]).astype(np.int64)
        return Paths(indptr, table[is_hop])


def _digits(positions: Words, digit_bits: int) -> NDArray[np.int64]:
    shifts = np.arange(BITS - digit_bits, -1, -digit_bits).astype(np.uint64)
    mask = np.uint64((1 << digit_bits) - 1)
    return ((positions[:, None] >> shifts[None, :]) & mask).astype(np.int64)


def _next_hops(digits: NDArray[np.int64], away: Floats) -> Index:
    """For every target: of the nodes that share one digit more with it than we do, the nearest to us."""
    count = len(digits)
    hops = np.tile(np.arange(count, dtype=np.int32)[:, None], (1, count))
    for target in range(count):
        is_same = digits == digits[target]
        shared = np.where(is_same.all(axis=1), digits.shape[1], np.argmin(is_same, axis=1))
        for level in np.unique(shared[shared < digits.shape[1]]).tolist():
            nodes = np.flatnonzero(shared == level)
            fitting = np.flatnonzero(shared > level)
            hops[nodes, target] = fitting[np.argmin(away[np.ix_(nodes, fitting)], axis=1)]
    return hops


def _surrogate(digits: NDArray[np.int64], wanted: NDArray[np.int64], base: int) -> int:
    left = np.arange(len(digits))
    for level, digit in enumerate(wanted.tolist()):
        if len(left) == 1:
            break
        ahead = (digits[left, level] - digit) % base
        left = left[ahead == ahead.min()]
    return int(left[0])
