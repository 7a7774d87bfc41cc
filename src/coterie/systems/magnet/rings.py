"""One node's place on both rings: the control ring by name, the skewed ring by interest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from coterie.substrate.chord import ChordRouter
from coterie.substrate.identifiers import MASK, clockwise, node_position
from coterie.substrate.oscar import OscarRouter, OscarShape
from coterie.substrate.router import Contact, Peer, RingRouter
from coterie.systems.magnet.stages import CONTROL_SEED

LOST_MAX = 256  # peers lost most recently


@lru_cache(maxsize=1 << 16)
def control_position(peer: Peer) -> int:
    return node_position(peer, CONTROL_SEED)


def planned_shape(shape: OscarShape, link_count: int) -> OscarShape:
    """As many long links as the plan gave, so that hearing of others does not add to them unless some are lost."""
    return replace(shape, links=max(0, link_count - 2 * shape.near))


class TwoRings(RingRouter):
    """Answers like a router of the skewed ring, and keeps everybody that either ring needs.

    Positions are those on the skewed ring; where a peer sits on the control ring follows from its address.
    """

    def __init__(self, peer: Peer, position: int, shape: OscarShape, control_near: int) -> None:
        super().__init__(peer, position, shape.near)
        self._shape = shape
        self._place: dict[Peer, int] = {}  # where everybody we keep sits on the skewed ring
        self.control = ChordRouter(peer, control_position(peer), control_near)
        self.skewed = OscarRouter(peer, position, shape)

    @classmethod
    def planned(
        cls, peer: Peer, position: int, shape: OscarShape, control_near: int, contacts: list[Contact]
    ) -> TwoRings:
        """From the neighbours that a plan gives, told apart as the bulk form does it."""
        by_name = ChordRouter(peer, control_position(peer), control_near)
        by_name.learn_all((other, control_position(other)) for other, _ in contacts)
        ahead = sorted(contacts, key=lambda contact: clockwise(position, contact[1]))
        near = dict.fromkeys(ahead[: shape.near] + ahead[-shape.near :])
        skewed = [it for it in contacts if it in near or by_name.position_of(it[0]) is None]
        rings = cls(peer, position, planned_shape(shape, len(skewed)), control_near)
        rings.skewed.learn_all(skewed)
        rings.control = by_name
        rings._place = dict(contacts)
        rings._keep()
        return rings

    def move(self, position: int, contacts: Iterable[Contact]) -> None:
        """Sit at another place of the skewed ring, knowing these there."""
        self.position = position
        self._place.update((peer, at) for peer, at in contacts if peer != self.peer and self._lost.get(peer) != at)
        self.skewed = OscarRouter(self.peer, position, self._shape)
        ahead = sorted(self._place.items(), key=lambda contact: clockwise(position, contact[1]))
        self.skewed.learn_all(ahead[: self.near] + ahead[-self.near :])
        self.skewed.learn_all(ahead)
        self._keep()

    def relink(self, contacts: list[Contact]) -> list[Peer]:
        """Make these the long links of the skewed ring; who is new."""
        before = dict(self._place)
        self._place.update(contacts)
        self.skewed.relink(contacts)
        self._keep()
        return sorted(peer for peer, position in self._place.items() if before.get(peer) != position)

    # --- what the lower tier asks for ---

    def learn(self, peer: Peer, position: int, *, is_hearsay: bool = False) -> bool:
        is_known = peer in self._place
        if not self._hear(peer, position, is_hearsay) and not is_known:
            self._place.pop(peer, None)  # neither ring has changed, so there is nothing that one could offer the other
            return False
        self._keep()
        return peer in self._place

    def learn_all(self, contacts: Iterable[Contact], *, is_hearsay: bool = False) -> list[Peer]:
        before = dict(self._place)
        for peer, position in contacts:
            self._hear(peer, position, is_hearsay)
        self._keep()
        return sorted(peer for peer, position in self._place.items() if before.get(peer) != position)

    def forget(self, peer: Peer) -> bool:
        is_known = peer in self._place
        if is_known:
            self._lost.pop(peer, None)
            self._lost[peer] = self._place.pop(peer)
            if len(self._lost) > LOST_MAX:
                del self._lost[next(iter(self._lost))]
        self.control.forget(peer)
        self.skewed.forget(peer)
        self._keep()
        return is_known

    def position_of(self, peer: Peer) -> int | None:
        return self._place.get(peer)

    @property
    def known(self) -> Mapping[Peer, int]:
        return self._place

    def neighbours(self) -> list[Contact]:
        return sorted(self._place.items())

    def announce_targets(self) -> list[Peer]:
        return sorted(self._place)

    def repair_candidates(self, lost: Peer) -> list[Peer]:
        return list(dict.fromkeys(self.skewed.repair_candidates(lost) + self.control.repair_candidates(lost)))

    def state_of(self, peer: Peer, position: int) -> list[Contact]:
        """What this peer would keep of all we know, if it sat at this place of the skewed ring."""
        twin = TwoRings(peer, position, self._shape, self.control.near)
        twin.learn_all([(self.peer, self.position), *self._place.items()])
        return twin.neighbours()

    # --- inside ---

    def _hear(self, peer: Peer, position: int, is_hearsay: bool) -> bool:
        """Whether a ring keeps it now."""
        # Both rings believe the same hearsay: what one had taken and the other refused, first-hand word could not mend.
        if peer == self.peer or (is_hearsay and self._lost.get(peer) == position):
            return False
        self._lost.pop(peer, None)
        self._place[peer] = position
        is_by_name = self.control.learn(peer, control_position(peer), is_hearsay=is_hearsay)
        is_by_interest = self.skewed.learn(peer, position, is_hearsay=is_hearsay)
        return is_by_name or is_by_interest

    def _keep(self) -> None:
        """Offer each ring whom the other one knows, then remember those alone whom a ring has kept.

        A ring that has lost a neighbour may have turned down the next one before, and will not hear of it again:
        whoever pings us is known already. The skewed ring takes neighbours alone, for others would fill its long links.
        """
        here = self.position
        ahead = sorted(self._place.items(), key=lambda contact: (contact[1] - here) & MASK)
        self.skewed.learn_all(ahead[: self.near] + ahead[-self.near :])
        self.control.learn_all([(peer, control_position(peer)) for peer in self._place])
        kept = {**self.skewed.known, **self.control.known}
        self._place = {peer: place for peer, place in self._place.items() if peer in kept}
