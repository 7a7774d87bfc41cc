"""Chord: a ring with fingers at exponentially growing distances, routed greedily clockwise (Stoica et al., 2001).

A key belongs to the first node at or after it. Intervals are (u, v]: a finger that sits exactly at the key is used
(CLAIMS, DYNATOPS, reading 2). By default a message travels over fingers alone, of which the successor is the first;
`successors` lets it use more of the successor list.
"""

from __future__ import annotations

from bisect import bisect_right

from coterie.errors import ConfigError
from coterie.kernels.rings.chord import chord_fingers
from coterie.substrate.identifiers import MASK
from coterie.substrate.rings import Circle, ClockwiseRing, Words
from coterie.substrate.router import Contact, Peer, RingRouter

NEAR = 4  # neighbours each node keeps on both sides: its successor list, and predecessors for ownership


def _check(near: int, successors: int) -> None:
    if near < 1:
        raise ConfigError("near", near, "at least 1: a ring needs a neighbour on each side")
    if not 1 <= successors <= near:
        raise ConfigError("successors", successors, f"1 to {near}, the neighbours kept on each side")


def chord_ring(positions: Words, near: int = NEAR, successors: int = 1) -> ClockwiseRing:
    """The finger tables of all nodes."""
    _check(near, successors)
    circle = Circle(positions)
    return ClockwiseRing(circle, *chord_fingers(circle.ascending, circle.order, successors), near)


class ClockwiseRouter(RingRouter):
    """Passes a key on to the link furthest clockwise that does not overshoot it."""

    def __init__(self, peer: Peer, position: int, near: int) -> None:
        super().__init__(peer, position, near)
        self._ahead: list[int] = []  # clockwise distances of the links, ascending
        self._behind = 0  # clockwise distance of the predecessor

    def next_hop(self, key: int) -> Peer | None:
        ahead = (key - self.position) & MASK
        if ahead == 0 or ahead > self._behind:
            return None
        index = bisect_right(self._ahead, ahead)
        return self._peer_at[self._ahead[index - 1 if index else 0]]

    def links(self) -> list[Contact]:
        """The peers we route over, by clockwise distance."""
        return [self._contact(distance) for distance in self._ahead]

    def _changed(self) -> None:
        self._ahead = self._linked()
        self._behind = self._at[-1] if self._at else 0

    def _linked(self) -> list[int]:
        """The clockwise distances of the peers to route over, the successor among them, ascending."""
        raise NotImplementedError


class ChordRouter(ClockwiseRouter):
    """One node's fingers and neighbours."""

    def __init__(self, peer: Peer, position: int, near: int = NEAR, successors: int = 1) -> None:
        _check(near, successors)
        super().__init__(peer, position, near)
        self.routed_successors = successors

    def _linked(self) -> list[int]:
        return sorted({*self._slots.values(), *self._at[: self.routed_successors]})

    def _slot(self, distance: int) -> tuple[int, int]:
        """The nearest peer at a distance of [2^i, 2^(i + 1)) is finger i and maybe some below; the others are none."""
        return distance.bit_length(), distance

    def _twin(self, peer: Peer, position: int) -> ChordRouter:
        return ChordRouter(peer, position, self.near, self.routed_successors)
