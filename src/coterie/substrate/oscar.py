"""Oscar: a small-world ring for any distribution of positions (Girdzijauskas, Datta and Aberer; Magnet, section 2).

Each node halves what lies ahead of it by medians, again and again, and draws long links from the partitions in between;
so links fall off with the number of nodes passed, not with the distance of identifiers, and skew does no harm. Messages
travel clockwise only, over everything a node keeps (CLAIMS, Magnet, reading 1).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.errors import ConfigError
from coterie.kernels.rings.oscar import oscar_links
from coterie.model import Relation
from coterie.substrate.chord import ClockwiseRouter
from coterie.substrate.identifiers import MASK, splitmix64
from coterie.substrate.rings import Circle, ClockwiseRing, Words
from coterie.substrate.router import Contact, Peer


@dataclass(frozen=True)
class OscarShape:
    """How many links of which kind a node keeps."""

    links: int = 17  # long links; with two ring neighbours this makes the 19 of Magnet, section 5
    near: int = 1  # ring neighbours on each side
    samples: int = 0  # for each median; 0 takes the exact one
    choices: int = 1  # peers drawn for each link, of which the best is kept; 2 is the power of two choices
    is_balanced: bool = False  # first one link to each partition, rather than each to a random one

    def __post_init__(self) -> None:
        for key, least in {"links": 0, "near": 1, "samples": 0, "choices": 1}.items():
            if getattr(self, key) < least:
                raise ConfigError(key, getattr(self, key), f"at least {least}")


def oscar_ring(
    positions: Words,
    seed: int,
    shape: OscarShape | None = None,
    interests: Relation | None = None,
    weights: NDArray[np.float64] | None = None,
) -> ClockwiseRing:
    """The links of all nodes. With several choices, the most similar in interests (weighted by topic) wins if interests
    are given, else the one fewest others have linked to."""
    shape = shape or OscarShape()
    circle = Circle(positions)
    if interests is None:
        topics = np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0)
    else:
        topic_weights = np.ones(interests.column_count) if weights is None else weights.astype(np.float64)
        topics = interests.indptr, interests.columns, topic_weights
    start = np.uint64(splitmix64(seed & MASK))
    indptr, links = oscar_links(
        circle.ascending,
        circle.order,
        start,
        shape.near,
        shape.links,
        shape.samples,
        shape.choices,
        shape.is_balanced,
        topics,
    )
    return ClockwiseRing(circle, indptr, links, shape.near)


class OscarRouter(ClockwiseRouter):
    """One node's ring neighbours and long links.

    Peers it hears of become long links while there is room; `relink` takes those that somebody has drawn.
    """

    def __init__(self, peer: Peer, position: int, shape: OscarShape | None = None) -> None:
        self.shape = shape or OscarShape()
        super().__init__(peer, position, self.shape.near)

    def relink(self, contacts: Iterable[Contact]) -> list[Peer]:
        """Ring neighbours stay, these peers become the long links, all others go. Returns whom we did not know."""
        before = dict(self._position_of)
        near = {distance: self._peer_at[distance] for distance in self._at[: self.near] + self._at[-self.near :]}
        self._at = sorted(near)
        self._peer_at = near
        self._position_of = {peer: (self.position + distance) & MASK for distance, peer in near.items()}
        for peer, position in contacts:
            self._take_in(peer, position, is_hearsay=False)
        self._changed()
        return sorted(peer for peer, position in self._position_of.items() if before.get(peer) != position)

    def _linked(self) -> list[int]:
        return self._at

    def _slot(self, distance: int) -> None:
        return None

    def _is_kept(self, distance: int) -> bool:
        index = bisect_left(self._at, distance)
        is_near = index < self.near or index >= len(self._at) - self.near
        return is_near or len(self._at) - 2 * self.near <= self.shape.links

    def _has_place(self, distance: int) -> bool:
        return len(self._at) + 1 - 2 * self.near <= self.shape.links

    def _twin(self, peer: Peer, position: int) -> OscarRouter:
        return OscarRouter(peer, position, self.shape)
