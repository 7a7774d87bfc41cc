"""What one node knows of its ring, bounded, and how that survives peers coming and going.

A router is told facts (`learn`, `forget`) and asked for decisions (`next_hop`, `state_for`, ...); it sends nothing. It
keeps the `near` closest peers on each side, and of each slot of its table the peer with the smallest measure. Both
depend only on which peers it has heard of, not on the order, so a node that hears of all peers ends with exactly the
row that the bulk form computes, and can drop all others at once.

How a protocol drives it. Joining: route a request to one's own position through anybody; every node passed answers
with `state_for`; the newcomer learns that as hearsay and greets whom it keeps (`learn_all` names them), who learn it
first hand. Leaving: tell `announce_targets`, with `state_for` each of them. Crashes: call the near peers now and
then; whoever does not answer is forgotten, and `repair_candidates` are asked for their `state_for` us. Near peers
know each other both ways, so that repairs the ring; table entries are known one way only, so stale ones are found
when used: forget, try `next_hop` again. While the ring is being repaired two nodes may disagree, so messages need a
limit of hops.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from coterie.substrate.identifiers import MASK, clockwise

Peer = int
Contact = tuple[Peer, int]  # a peer and its position

_LOST_MAX = 256


class RingRouter:
    """The part that Chord, Pastry and Oscar share. Positions are distinct; a peer at a taken position is ignored."""

    def __init__(self, peer: Peer, position: int, near: int) -> None:
        if near < 1:
            raise ValueError(f"near = {near}: a ring needs at least one neighbour on each side")
        self.peer = peer
        self.position = position
        self.near = near
        self._position_of: dict[Peer, int] = {}
        self._at: list[int] = []  # clockwise distances of all known peers, ascending
        self._peer_at: dict[int, Peer] = {}  # by clockwise distance
        self._slots: dict[int, int] = {}  # slot -> clockwise distance of the peer in it
        self._lost: dict[Peer, int] = {}  # the most recently lost peers, so that hearsay does not bring them back

    # What kinds of rings differ in

    def next_hop(self, key: int) -> Peer | None:
        """The peer to pass a message for this key on to; None if the key is ours."""
        raise NotImplementedError

    def _slot(self, distance: int) -> tuple[int, int] | None:
        """The table slot of a peer at this clockwise distance, and its measure there: the smallest one stays."""
        raise NotImplementedError

    def _twin(self, peer: Peer, position: int) -> RingRouter:
        """An empty router for somebody else with our parameters."""
        raise NotImplementedError

    def _changed(self) -> None:
        """Called after what is known has changed, to refresh whatever next_hop reads."""

    # Facts

    def learn(self, peer: Peer, position: int, *, is_hearsay: bool = False) -> bool:
        """Hear of a peer; True if it is now kept. Hearsay about a peer lost a short while ago is ignored."""
        self._take_in(peer, position, is_hearsay)
        self._changed()
        return peer in self._position_of

    def learn_all(self, contacts: Iterable[Contact], *, is_hearsay: bool = False) -> list[Peer]:
        """Hear of many peers at once. Returns those newly kept: greet them, for hearsay may name the dead, who take the
        places of the living, and the living may not have heard of us."""
        known = self._position_of
        before: dict[Peer, int] | None = None
        for peer, position in contacts:
            if known.get(peer) != position:  # most is no news
                before = dict(known) if before is None else before
                self._take_in(peer, position, is_hearsay)
        if before is None:
            return []
        self._changed()
        return sorted(peer for peer, position in known.items() if before.get(peer) != position)

    def forget(self, peer: Peer) -> bool:
        """The peer has left or does not answer any more; True if it was known."""
        position = self._position_of.get(peer)
        if position is None:
            return False
        self._drop(peer)
        self._lost[peer] = position
        if len(self._lost) > _LOST_MAX:
            del self._lost[next(iter(self._lost))]
        self._changed()
        return True

    # Decisions

    def position_of(self, peer: Peer) -> int | None:
        """Where a peer we keep sits; None if we do not keep it."""
        return self._position_of.get(peer)

    @property
    def known(self) -> Mapping[Peer, int]:
        """Everybody we keep, and where they sit; as it is, not a copy."""
        return self._position_of

    def neighbours(self) -> list[Contact]:
        """Everybody we keep, by peer."""
        return sorted(self._position_of.items())

    def successors(self) -> list[Contact]:
        """The near peers clockwise, nearest first."""
        return [self._contact(distance) for distance in self._at[: self.near]]

    def predecessors(self) -> list[Contact]:
        """The near peers counterclockwise, nearest first."""
        return [self._contact(distance) for distance in self._at[: -self.near - 1 : -1]]

    def state_for(self, position: int) -> list[Contact]:
        """What a node at this position would keep of all we know, ourselves included; for newcomers and repair."""
        twin = self._twin(-1, position)
        twin.learn(self.peer, self.position)
        twin.learn_all(self._position_of.items())
        return twin.neighbours()

    def announce_targets(self) -> list[Peer]:
        """Whom to tell that we have come or are leaving."""
        return sorted(self._position_of)

    def repair_candidates(self, lost: Peer) -> list[Peer]:
        """Whom to ask, best first, for a replacement of a peer about to be forgotten or just forgotten.

        On the side of the lost peer the outermost neighbour knows the next one beyond; and those closest to where the
        lost peer was know the peers around it.
        """
        position = self._position_of.get(lost, self._lost.get(lost))
        if position is None:
            return []
        distance = clockwise(self.position, position)
        outermost = [self._at[: self.near][-1:], self._at[-self.near :][:1]]
        if distance > MASK >> 1:
            outermost.reverse()
        after = bisect_left(self._at, distance)
        around = [at for at in self._at[max(after - 2, 0) : after + 3] if at != distance]
        chosen = dict.fromkeys(at for group in [*outermost, around] for at in group if at != distance)
        return [self._peer_at[at] for at in chosen]

    # Bookkeeping

    def _contact(self, distance: int) -> Contact:
        return self._peer_at[distance], (self.position + distance) & MASK

    def _take_in(self, peer: Peer, position: int, is_hearsay: bool) -> None:
        if is_hearsay and self._lost.get(peer) == position:
            return
        self._lost.pop(peer, None)
        if self._position_of.get(peer) == position:
            return
        if peer in self._position_of:
            self._drop(peer)
        distance = clockwise(self.position, position)
        if peer != self.peer and distance and distance not in self._peer_at and self._would_keep(distance):
            self._insert(peer, position, distance)

    def _would_keep(self, distance: int) -> bool:
        """Whether a newcomer at this distance would stay: most of those that a node hears of would not."""
        index = bisect_left(self._at, distance)
        return index < self.near or index > len(self._at) - self.near or self._has_place(distance)

    def _has_place(self, distance: int) -> bool:
        """Whether a newcomer that is not near would win a place of the table."""
        place = self._slot(distance)
        if place is None:
            return False
        holder = self._slots.get(place[0])
        held = None if holder is None else self._slot(holder)
        return held is None or place[1] <= held[1]

    def _insert(self, peer: Peer, position: int, distance: int) -> None:
        index = bisect_left(self._at, distance)
        self._at.insert(index, distance)
        self._peer_at[distance] = peer
        self._position_of[peer] = position
        displaced = self._claim(distance)
        pushed = self._at[self.near] if len(self._at) > self.near else distance
        pulled = self._at[-self.near - 1] if len(self._at) > self.near else distance
        for other in dict.fromkeys((distance, displaced, pushed, pulled)):
            if not self._is_kept(other):
                self._remove(other)

    def _claim(self, distance: int) -> int:
        """Take the slot if the measure is the smallest; the distance of whoever goes without a slot now."""
        place = self._slot(distance)
        if place is None:
            return distance
        slot, measure = place
        holder = self._slots.get(slot)
        if holder is not None:
            held = self._slot(holder)
            assert held is not None
            if held[1] < measure:
                return distance
        self._slots[slot] = distance
        return distance if holder is None else holder

    def _is_kept(self, distance: int) -> bool:
        index = bisect_left(self._at, distance)
        if index < self.near or index >= len(self._at) - self.near:
            return True
        place = self._slot(distance)
        return place is not None and self._slots.get(place[0]) == distance

    def _remove(self, distance: int) -> None:
        del self._at[bisect_left(self._at, distance)]
        del self._position_of[self._peer_at.pop(distance)]
        place = self._slot(distance)
        if place is None or self._slots.get(place[0]) != distance:
            return
        del self._slots[place[0]]
        for other in self._at:  # a near peer may take the slot over
            if (rival := self._slot(other)) is not None and rival[0] == place[0]:
                self._claim(other)

    def _drop(self, peer: Peer) -> None:
        self._remove(clockwise(self.position, self._position_of[peer]))
