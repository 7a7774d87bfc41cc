"""Pastry: routing by prefix, one digit a hop, with leaf sets for the last one (Rowstron and Druschel, 2001).

A key belongs to the node numerically closest to it; of two at the same distance, to the clockwise one. Where the
original picks table entries by network proximity, a slot here holds the candidate with the smallest exclusive-or with
the owner's identifier: a choice everybody can repeat, and one that spreads the load over all candidates.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.rings.pastry import Prefixes, pastry_paths, pastry_tables, table_rows
from coterie.model import Overlay
from coterie.model.relation import Index
from coterie.substrate.identifiers import BITS, MASK, clockwise, is_closer
from coterie.substrate.rings import Circle, Paths, Words
from coterie.substrate.router import Peer, RingRouter

DIGIT_BITS = 4  # b
LEAVES = 16  # L


def _check(digit_bits: int, leaves: int) -> None:
    if digit_bits not in (1, 2, 4, 8):
        raise ConfigError("digit_bits", digit_bits, "1, 2, 4 or 8")
    if leaves < 2 or leaves % 2:
        raise ConfigError("leaves", leaves, "an even number of at least 2, half of them on each side")


@dataclass(frozen=True, eq=False)
class PastryRing:
    """The leaf sets and routing tables of all nodes."""

    circle: Circle
    table: NDArray[np.int32]  # node, row, digit -> node or -1
    digit_bits: int
    leaves: int

    @classmethod
    def of(cls, positions: Words, digit_bits: int = DIGIT_BITS, leaves: int = LEAVES) -> PastryRing:
        _check(digit_bits, leaves)
        circle = Circle(positions)
        rows = table_rows(circle.ascending, digit_bits)
        return cls(circle, pastry_tables(circle.ascending, circle.order, rows, digit_bits), digit_bits, leaves)

    @property
    def positions(self) -> Words:
        return self.circle.positions

    @cached_property
    def overlay(self) -> Overlay:
        """Everything a node keeps: leaves and table entries."""
        node, row, digit = np.nonzero(self.table >= 0)
        return self.circle.overlay(node, self.table[node, row, digit], self.leaves // 2)

    def owners(self, keys: Words) -> Index:
        return self.circle.nearest(keys)

    def paths(self, starts: Index, keys: Words) -> Paths:
        circle = self.circle
        places = (circle.positions, circle.ascending, circle.order, circle.rank)
        prefixes = Prefixes(*places, self.table, self.digit_bits, self.leaves // 2)
        return Paths(*pastry_paths(prefixes, starts, keys, self.owners(keys)))


class PastryRouter(RingRouter):
    """One node's leaf set and routing table."""

    def __init__(self, peer: Peer, position: int, digit_bits: int = DIGIT_BITS, leaves: int = LEAVES) -> None:
        _check(digit_bits, leaves)
        super().__init__(peer, position, leaves // 2)
        self.digit_bits = digit_bits
        self.leaves = leaves
        self._ring: list[int] = [0]  # `_at` and ourselves at distance 0
        self._left = self._width = 0  # the outermost leaf counterclockwise, and how far it is to the clockwise one
        self._is_all_leaves = True

    def next_hop(self, key: int) -> Peer | None:
        ahead = (key - self.position) & MASK
        if self._is_all_leaves or (ahead - self._left) & MASK <= self._width:
            closest = self._closest(ahead, 0)
            return self._peer_at[closest] if closest else None
        entry = self._slots.get(self._slot_of(key))
        if entry is not None:
            return self._peer_at[entry]
        shared = BITS - (key ^ self.position).bit_length()
        closest = self._closest(ahead, shared - shared % self.digit_bits)
        return self._peer_at[closest] if closest else None

    def table(self) -> dict[tuple[int, int], Peer]:
        """(row, digit) -> peer."""
        cells = {divmod(slot, 1 << self.digit_bits): self._peer_at[at] for slot, at in self._slots.items()}
        return dict(sorted(cells.items()))

    def repair_candidates(self, lost: Peer) -> list[Peer]:
        """As any ring does, and then the others in the same row of the table, who share as many digits with us."""
        found = super().repair_candidates(lost)
        position = self._position_of.get(lost, self._lost.get(lost))
        if position is None:
            return found
        row = self._slot_of(position) >> self.digit_bits
        mates = [self._peer_at[at] for slot, at in self._slots.items() if slot >> self.digit_bits == row]
        return list(dict.fromkeys(found + sorted(peer for peer in mates if peer != lost)[:3]))

    def _closest(self, ahead: int, bits_shared: int) -> int:
        """The distance of the closest to a key so far ahead among those sharing its first bits, of all known and us."""
        ring = self._ring
        index = bisect_left(ring, ahead)
        before, after = ring[index - 1], ring[index] if index < len(ring) else 0
        if bits_shared:
            shift = BITS - bits_shared
            prefix = (self.position + ahead & MASK) >> shift
            if (self.position + before & MASK) >> shift != prefix:
                return after
            if (self.position + after & MASK) >> shift != prefix:
                return before
        return before if is_closer(ahead, before, after) else after

    def _slot_of(self, position: int) -> int:
        """Row and digit in one number."""
        row = (BITS - (position ^ self.position).bit_length()) // self.digit_bits
        digit = (position >> (BITS - self.digit_bits * (row + 1))) & ((1 << self.digit_bits) - 1)
        return row << self.digit_bits | digit

    def _slot(self, distance: int) -> tuple[int, int]:
        position = (self.position + distance) & MASK
        return self._slot_of(position), position ^ self.position

    def _twin(self, peer: Peer, position: int) -> PastryRouter:
        return PastryRouter(peer, position, self.digit_bits, self.leaves)

    def _changed(self) -> None:
        at = self._at
        self._ring = [0, *at]
        self._is_all_leaves = len(at) < self.leaves
        if not self._is_all_leaves:
            self._left = at[-self.near]
            self._width = clockwise(self._left, at[self.near - 1])
