"""A Magnet node: trees on the skewed ring, homes and samples of interest on the control ring, and moving house.

Moving (section 3.2, Algorithm 1): ask the homes of one's topics for samples, ask the most similar node for the place
behind it, leave all trees, sit down there, join again, and look for long links by random walks. Whoever does not answer
is left out and the next one is asked. Where identifiers have run out, a place behind
others of the same crowd will do.
"""

from __future__ import annotations

from random import Random

from coterie.model import Slice, Topic
from coterie.model.ledger import HEARTBEAT_S
from coterie.protocol.events import Timer
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import MASK, clockwise
from coterie.substrate.oscar import OscarRouter
from coterie.substrate.router import Contact, RingRouter
from coterie.systems.key_routing import Ping, TellState
from coterie.systems.magnet.membership import SamplingNode
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.rings import TwoRings
from coterie.systems.magnet.trees import closer_predecessor
from coterie.systems.magnet.wire import CONTROL, SKEWED, AskPlace, TellPlace

REJOIN_DELAY_S = 5.0  # interests change in waves; one move serves them all
VIEWS_DELAY_S = 3.0  # how long homes may take to answer
ANSWER_S = 3.0  # how long somebody asked for a place may take
PLACES_MAX = 64  # places asked for in one move: behind failed contacts, or where identifiers have run out
GAP_MIN = 4
CROWD = 1 << 32  # peers within this distance are so close for no other reason than that there was no room closer by


class MagnetNode(SamplingNode):
    """On two rings."""

    router: TwoRings

    def __init__(self, address: int, parameters: MagnetParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._changes = 0
        self._is_settled = False  # the interest this node starts with is no change
        self._moved_s = -2 * HEARTBEAT_S
        self._told_s: dict[int, float] = {}  # whom we have told since then, and when
        self._asked: int | None = None  # whose place we have asked for
        self._places_left = 0
        self._refused: set[int] = set()

    # --- rings ---

    def make_router(self, position: int) -> RingRouter:
        assert self._planned is not None
        shape, near = self._parameters.shape, self._parameters.control_near
        if self._planned.settings.get("join"):
            return TwoRings(self.address, position, shape, near)
        contacts = [(neighbour.node, neighbour.position) for neighbour in self._planned.neighbours]
        return TwoRings.planned(self.address, position, shape, near, contacts)

    @property
    def ring(self) -> OscarRouter:
        return self.router.skewed

    def relink(self, contacts: list[Contact]) -> list[int]:
        return self.router.relink(contacts)

    def root_hop(self, key: int) -> int | None:
        return self.router.control.next_hop(key)

    def successors(self) -> dict[int, int]:
        following = {peer: SKEWED for peer, _ in self.ring.successors()[:1]}
        for peer, _ in self.router.control.successors()[:1]:
            following[peer] = following.get(peer, 0) | CONTROL
        return following

    def in_between(self, peer: int, position: int, rings: int) -> list[Contact]:
        closer = closer_predecessor(self.ring, peer, position) if rings & SKEWED else []
        control = self.router.control
        place = control.position_of(peer)
        if rings & CONTROL and place is not None:
            for other, _ in closer_predecessor(control, peer, place):
                known = self.router.position_of(other)
                if known is not None:
                    closer.append((other, known))
        return closer

    def state_of(self, peer: int, position: int) -> list[Contact]:
        return self.router.state_of(peer, position)

    # --- hooks ---

    def on_start(self, slice: Slice) -> None:
        super().on_start(slice)
        if self._parameters.rejoin_every:
            self.set_timer("settled", HEARTBEAT_S)
        if self._is_joining and self._parameters.sample_rounds:
            self.set_timer("rejoin", REJOIN_DELAY_S)  # Algorithm 1 for a newcomer, once it knows what it wants

    def on_subscribe(self, topic: Topic) -> None:
        super().on_subscribe(topic)
        self._interest_changed()

    def on_unsubscribe(self, topic: Topic) -> None:
        super().on_unsubscribe(topic)
        self._interest_changed()

    def on_timer(self, timer: Timer) -> None:
        if timer == "settled":
            self._is_settled = True
        elif timer == "rejoin":
            self.ask_views()
            self.set_timer("place", VIEWS_DELAY_S)
        elif timer == "place":
            self._refused = set()
            self._places_left = PLACES_MAX
            self._ask_best()
        elif timer == "answer":
            self._exclude_asked()
        else:
            super().on_timer(timer)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, AskPlace):
            self._offer_place(source, message.position)
        elif isinstance(message, TellPlace):
            self._on_place(source, message)
        else:
            if isinstance(message, Ping) and self.now_s - self._moved_s < 2 * HEARTBEAT_S:
                self._tell_place(source)
                if self.router.position_of(source) == message.position:
                    return
            super().on_receive(source, message)

    def on_neighbour_lost(self, peer: int) -> None:
        super().on_neighbour_lost(peer)
        if self._asked == peer:
            self._exclude_asked()

    # --- identifier acquisition (Algorithm 1) ---

    def _interest_changed(self) -> None:
        every = self._parameters.rejoin_every
        self._changes += self._is_settled
        if every and self._changes >= every:
            self._changes = 0
            self.set_timer("rejoin", REJOIN_DELAY_S)

    def _exclude_asked(self) -> None:
        """No contact: leave it out and start over with the others (section 3.2)."""
        if self._asked is not None:
            self._refused.add(self._asked)
            self._ask_best()

    def _ask_best(self) -> None:
        """Ask the most similar node we know for the place behind it, ties at random (lines 2 and 3)."""
        self._asked = None
        known = {it.node: it for view in self._views.values() for it in view}
        open_ = [it for it in known.values() if it.node != self.address and it.node not in self._refused]
        if not open_ or self._places_left == 0:
            return
        worth = {it.node: self.similarity(it.interest, it.weight) for it in open_}
        best = max(worth.values())
        self._ask_place(self.random.choice(sorted(node for node, value in worth.items() if value == best)))

    def _ask_place(self, peer: int) -> None:
        self._asked = peer
        self._places_left -= 1
        self.send(peer, AskPlace(self.router.position))
        self.set_timer("answer", ANSWER_S)

    def _offer_place(self, source: int, position: int) -> None:
        self._hear(source, position)
        following = self.ring.successors()
        successor, place = following[0] if following else (self.address, self.ring.position)
        middle = (self.ring.position + clockwise(self.ring.position, place) // 2) & MASK
        contacts = [it for it in self.state_of(source, middle) if it[0] != source]
        self.send(source, TellPlace(self.ring.position, successor, place, tuple(contacts)))

    def _on_place(self, source: int, message: TellPlace) -> None:
        if self._asked != source:
            return
        self._asked = None
        self.cancel_timer("answer")
        if message.successor == self.address:
            return  # we sit there already
        found = place_behind(message, self.random)
        if found is not None:
            self._move(found, message.contacts)
        elif self._places_left:
            self._ask_place(another_of_crowd(source, message, self.address, self.random))

    def _tell_place(self, peer: int) -> None:
        """It may not have heard where we sit now. Not too often: it may have moved as well and answer in turn."""
        if self.now_s - self._told_s.get(peer, -HEARTBEAT_S) >= HEARTBEAT_S / 2:
            self._told_s[peer] = self.now_s
            self.send(peer, Ping(self.router.position))

    def _move(self, position: int, contacts: tuple[tuple[int, int], ...]) -> None:
        wanted = self._uproot()
        behind, ahead = self.ring.predecessors()[:1], self.ring.successors()[:1]
        for side, other in ((behind, ahead), (ahead, behind)):
            if side and other and side != other:
                self.send(side[0][0], TellState(tuple(other)))
        before = self.router.announce_targets()
        self.router.move(position, contacts)
        self._moved_s = self.now_s
        to_tell = sorted({*before, *self.router.announce_targets()})
        self._told_s = dict.fromkeys(to_tell, self.now_s)
        self._ping(to_tell)
        for topic in wanted:
            self._want(topic)
        self.search_links()


def place_behind(message: TellPlace, random: Random) -> int | None:
    """A place near the mean rather than at it (line 3): two who come at once must not meet. None: no room."""
    gap = clockwise(message.position, message.successor_position)
    if message.position == message.successor_position:
        gap = MASK  # it is alone
    if gap < GAP_MIN:
        return None
    return (message.position + gap // 4 + random.randrange(gap // 2)) & MASK


def another_of_crowd(source: int, message: TellPlace, own: int, random: Random) -> int:
    """Whom to ask where there is no room: the mean of two identifiers is used up after some sixty joins at one spot.

    Those around it sit close together, all of them for the same reason, so any of them is as good a neighbour. A random
    one of those that the asked one knows, so that all room between them is used.
    """
    within = [
        peer
        for peer, place in message.contacts
        if peer not in (own, source) and 0 < clockwise(message.position, place) <= CROWD
    ]
    return random.choice(within) if within else message.successor
