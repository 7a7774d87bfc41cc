"""What is kept for a node that is away is on as many disks as it should be, though that node cannot see to it.

Whoever has a copy of a node that is away for `AWAY_S`, or whose sessions are wanted now, asks the next in that node's
order what they have of it; who has less gets everything, and the log from its end backwards. Each does so by itself:
nothing has to be agreed upon, for a copy only grows by what its node once said, and the greater of two has more. When
the node is back it says who its keepers are, and the others forget.
"""

from __future__ import annotations

from collections.abc import Callable

from coterie.broker.carried import TIME_BITS
from coterie.broker.copies import Copy, HeldCopies, log_stretch, whole_in_parts
from coterie.broker.frames import AskKept, ControlMessage, HeldFor, HoldFor, encode_control
from coterie.broker.keeperlists import KeeperLists, rendezvous
from coterie.broker.links import PeerLinks
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.writes import COPIED_BODIES, COPIED_LOG, Shelf

AWAY_S = 10.0  # a node that is started again is back before
SURE_S, HEARD_S = 1.0, 5.0  # what is heard later than that was said later; and by then a node that is there is heard
LOOK_S = 0.5
PATIENT_S = 20.0  # how long a node that leaves waits for others to find somebody else
SILENT_S = 1.5  # a helper that says nothing for so long is replaced
SAFE_S = 2.5  # how long a session waits for helpers
WARD_TIMER = "ward"


class _Ward:
    """A node that is away. `helpers`: what the others have of it; `asked_s`: since when one owes an answer."""

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.is_urgent = False
        self.helpers: dict[int, HeldFor] = {}
        self.asked_s: dict[int, float] = {}
        self.waiting: list[tuple[float, Callable[[], None]]] = []  # until when, and what then


class Wards:
    """See the module."""

    def __init__(
        self, node: int, zones: dict[int, str], copies_wanted: int, copies: HeldCopies, lists: KeeperLists,
        links: PeerLinks, talk: Talk, shelf: Shelf, turn: Turn,
    ) -> None:  # fmt: skip
        self._node, self._zones, self._wanted = node, zones, copies_wanted
        self._copies, self._lists, self._links, self._talk = copies, lists, links, talk
        self._shelf, self._turn = shelf, turn
        self._of: dict[int, _Ward] = {}
        self._is_leaving = self._is_looking = False
        self._sure_s = 0.0

    def set_members(self, zones: dict[int, str], is_leaving: bool) -> None:
        """Those that may keep something; a node that is leaving does not count itself."""
        if is_leaving and not self._is_leaving:
            self._sure_s = self._turn.now_s + SURE_S
        self._zones, self._is_leaving = zones, is_leaving
        self._look_later()

    @property
    def is_whole(self) -> bool:
        """Whether all that is kept here is elsewhere too, as it should be: nodes that are there have said whose it is
        now, or can have nobody else; for those that are away others have it."""
        return all(self._missing(copy, is_whole=True) <= 0 for copy in self._orphans()) and not self._is_awaited()

    def _is_awaited(self) -> bool:
        """Whether somebody who is there has nobody else yet for what is kept here, and may find one."""
        if self._turn.now_s >= self._sure_s + PATIENT_S:
            return False
        kept = [one for one in self._there() if self._node in self._lists.keepers(one)]
        return any(one in self._copies.of and self._order(one) for one in kept)

    def urge(self, origin: int) -> None:
        """Its sessions are wanted: do not wait whether it comes back."""
        if origin in self._copies.of:
            self._ward(origin).is_urgent = True
            self._tend(self._copies.of[origin])
            self._look_later()

    def when_safe(self, origin: int, then: Callable[[], None]) -> None:
        """Do this when enough others have what is kept here for that node, or none that could be reached is left."""
        copy = self._copies.of.get(origin)
        if copy is None or self._missing(copy) <= 0:
            then()
            return
        self._ward(origin).waiting.append((self._turn.now_s + SAFE_S, then))
        self.urge(origin)

    def took(self, origin: int) -> None:
        """Another one gave what it keeps for that node: from now on this one sees to it as well."""
        if origin in self._copies.of:
            self._look_later()

    def back(self, origin: int) -> None:
        ward = self._of.pop(origin, None)
        for _, then in ward.waiting if ward is not None else ():
            then()

    # --- who is away ---

    def _ward(self, origin: int) -> _Ward:
        return self._of.setdefault(origin, _Ward(self._turn.now_s))

    def _orphans(self) -> list[Copy]:
        """Of nodes that are away."""
        return list(self._copies.orphans(self._there()))

    def _there(self) -> list[int]:
        """When this node leaves, only those that have shown lately that they are."""
        there = self._links.connected
        if self._is_leaving:
            since_s = max(self._sure_s, self._turn.now_s - AWAY_S)
            there = [one for one in there if self._links.was_heard(one, since_s)]
        return there

    def start(self) -> None:
        if self._copies.of:
            self._look_later()

    def lost(self, peer: int) -> None:
        """It may be one whose copy is here, or one that helps."""
        for ward in self._of.values():
            ward.helpers.pop(peer, None)
        if peer in self._copies.of:
            self._ward(peer)
        if self._of:
            self._look_later()

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._turn.set_timer((WARD_TIMER,), LOOK_S)

    def look(self) -> None:
        self._is_looking = False
        orphans = self._orphans()
        for copy in orphans:
            ward = self._ward(copy.origin)
            if ward.is_urgent or self._turn.now_s - ward.since_s >= (HEARD_S if self._is_leaving else AWAY_S):
                self._tend(copy)
        for origin in list(self._of):
            self._let_go(origin)
        if any(one.waiting for one in self._of.values()) or any(self._missing(one, True) > 0 for one in orphans):
            self._look_later()

    # --- helpers ---

    def _order(self, origin: int) -> list[int]:
        """The others that may have it, first those whom it told of."""
        zones = {node: zone for node, zone in self._zones.items() if node != origin}
        order = rendezvous(origin, zones)
        known = [one for one in self._lists.keepers(origin) if one in zones]
        return [one for one in dict.fromkeys((*known, *order)) if one != self._node]

    def _missing(self, copy: Copy, is_whole: bool = False) -> int:
        """How many more should have it; the last of its log is enough unless it is to be whole."""
        ward = self._of.get(copy.origin)
        there = [] if ward is None else ward.helpers.values()
        having = sum(self._has(copy, one, is_whole) for one in there)
        wanted = max(1, self._wanted - 1) if self._is_leaving else self._wanted - 1
        return min(wanted, len(self._order(copy.origin))) - having

    @staticmethod
    def _has(copy: Copy, said: HeldFor, is_whole: bool) -> bool:
        state = copy.state
        has_log = state.log_first > state.log_last or said.log_first <= (
            state.log_first if is_whole else state.log_last
        )
        return (said.life, said.serial) > copy.place or ((said.life, said.serial) == copy.place and has_log)

    def _tend(self, copy: Copy) -> None:
        """Ask as many as are missing, who have not been silent lately."""
        ward, now_s = self._ward(copy.origin), self._turn.now_s
        missing = self._missing(copy, is_whole=True)
        for peer in self._order(copy.origin):
            said = ward.helpers.get(peer)
            if missing <= 0:
                return
            if said is not None and self._has(copy, said, is_whole=True):
                continue
            asked_s = ward.asked_s.get(peer)
            if asked_s is None or now_s - asked_s > 2 * SILENT_S:
                ward.asked_s[peer] = now_s
                self._tell(copy, peer, AskKept(copy.state.life))
                missing -= 1
            elif now_s - asked_s <= SILENT_S:
                missing -= 1

    def _tell(self, copy: Copy, peer: int, said: ControlMessage) -> None:
        ago_us = max(0, self._turn.now_us - copy.state.here_us)
        self._talk.tell(peer, HoldFor(copy.origin, ago_us, encode_control(said)))

    def on_held(self, peer: int, said: HeldFor) -> None:
        copy = self._copies.of.get(said.node)
        ward = self._of.get(said.node)
        if copy is None or ward is None:
            return
        ward.helpers[peer] = said
        ward.asked_s.pop(peer, None)
        if not self._has(copy, said, is_whole=True):
            ward.asked_s[peer] = self._turn.now_s
            self._give(copy, peer, said)
        self._let_go(said.node)

    def _give(self, copy: Copy, peer: int, said: HeldFor) -> None:
        state = copy.state
        if (said.life, said.serial) < copy.place:
            rows = self._copies.everything(copy)
            for part in whole_in_parts(rows, state.life, state.serial, state.now_us, state.log_last):
                self._tell(copy, peer, part)
        else:
            # What it was told of that is not here was in no batch yet: it is gone with its node.
            low = max(state.log_first, copy.origin << TIME_BITS)
            self._tell(copy, peer, log_stretch(self._shelf, (COPIED_LOG, COPIED_BODIES), low, said.log_first - 1))

    def _let_go(self, origin: int) -> None:
        """Whoever waits no longer."""
        ward, copy = self._of[origin], self._copies.of.get(origin)
        is_safe = copy is None or self._missing(copy) <= 0
        ready = [one for one in ward.waiting if is_safe or one[0] <= self._turn.now_s]
        ward.waiting = [one for one in ward.waiting if one not in ready]
        if copy is None:
            del self._of[origin]
        for _, then in ready:
            then()
