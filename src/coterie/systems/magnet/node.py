"""A Magnet node: trees on the skewed ring, homes and samples of interest on the control ring, and moving house.

Sampling (section 3.4) needs no tree of its own: whoever wants a topic reports to its next hop towards the topic's home,
every round; whoever has been reported to mixes, truncates and reports in turn; and the home's sample goes back the way
the reports came. Moving (section 3.2): ask the homes of one's topics for samples, ask the most similar node for the
place behind it, leave all trees, sit down there, join again.
"""

from __future__ import annotations

from random import Random

from coterie.model import Slice, Topic
from coterie.model.ledger import INTERVAL_S
from coterie.protocol.events import Timer
from coterie.protocol.membership import Descriptor
from coterie.protocol.wire import Message
from coterie.substrate.identifiers import MASK, clockwise, topic_key
from coterie.substrate.oscar import OscarRouter
from coterie.substrate.router import Contact, RingRouter
from coterie.systems.group_multicast import HOPS_MAX
from coterie.systems.key_routing import Ping, TellState
from coterie.systems.magnet.parameters import MagnetParameters
from coterie.systems.magnet.rings import TwoRings
from coterie.systems.magnet.trees import TreeNode, closer_predecessor
from coterie.systems.magnet.wire import CONTROL, SKEWED, AskPlace, AskView, Sample, TellPlace, View

REJOIN_DELAY_S = 5.0  # interests change in waves; one move serves them all
VIEWS_DELAY_S = 3.0  # how long homes may take to answer
PLACES_MAX = 32  # places asked for in one move: behind failed contacts, or where identifiers have run out
STALE_ROUNDS = 2.5  # reports older than this are forgotten


class MagnetNode(TreeNode):
    """On two rings."""

    router: TwoRings

    def __init__(self, address: int, parameters: MagnetParameters, random: Random) -> None:
        super().__init__(address, parameters, random)
        self._parameters = parameters
        self._reports: dict[Topic, dict[int, tuple[float, tuple[Descriptor, ...]]]] = {}
        self._views: dict[Topic, tuple[Descriptor, ...]] = {}
        self._changes = 0
        self._is_settled = False  # the interest this node starts with is no change
        self._moved_s = -2 * INTERVAL_S
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
        if self._parameters.sample_rounds:
            self.set_timer("sample", INTERVAL_S / self._parameters.sample_rounds)
        if self._parameters.rejoin_every:
            self.set_timer("settled", INTERVAL_S)

    def on_subscribe(self, topic: Topic) -> None:
        super().on_subscribe(topic)
        self._interest_changed()

    def on_unsubscribe(self, topic: Topic) -> None:
        super().on_unsubscribe(topic)
        self._views.pop(topic, None)
        self._interest_changed()

    def on_timer(self, timer: Timer) -> None:
        if timer == "sample":
            self._report()
            self.set_timer("sample", INTERVAL_S / self._parameters.sample_rounds)
        elif timer == "settled":
            self._is_settled = True
        elif timer == "rejoin":
            self._ask_views()
        elif timer == "place":
            self._refused = set()
            self._places_left = PLACES_MAX
            self._ask_best()
        else:
            super().on_timer(timer)

    def on_receive(self, source: int, message: Message) -> None:
        if isinstance(message, Sample):
            self._reports.setdefault(message.topic, {})[source] = (self.now_s, message.subscribers)
        elif isinstance(message, View):
            self._take_view(message)
        elif isinstance(message, AskView):
            self._on_ask_view(message)
        elif isinstance(message, AskPlace):
            self._offer_place(source, message.position)
        elif isinstance(message, TellPlace):
            self._on_place(source, message)
        else:
            if isinstance(message, Ping) and self.now_s - self._moved_s < 2 * INTERVAL_S:
                self.send(source, Ping(self.router.position))  # it may not have heard where we sit now
                if self.router.position_of(source) == message.position:
                    return
            super().on_receive(source, message)

    def on_neighbour_lost(self, peer: int) -> None:
        for topic, view in self._views.items():
            self._views[topic] = tuple(it for it in view if it.node != peer)
        super().on_neighbour_lost(peer)
        if self._asked == peer:
            self._refused.add(peer)
            self._ask_best()

    # --- interest-aware membership (section 3.4) ---

    def _interest(self) -> tuple[Topic, ...]:
        return tuple(topic for topic, branch in self._groups.items() if branch.is_member)

    def _truncate(self, pool: dict[int, Descriptor]) -> tuple[Descriptor, ...]:
        everybody = list(pool.values())
        size = self._parameters.samples
        return tuple(everybody if len(everybody) <= size else self.random.sample(everybody, size))

    def _sample(self, topic: Topic, interest: tuple[Topic, ...]) -> tuple[Descriptor, ...]:
        pool = {
            descriptor.node: descriptor
            for _, subscribers in self._reports.get(topic, {}).values()
            for descriptor in subscribers
        }
        pool.pop(self.address, None)
        branch = self._groups.get(topic)
        if branch is not None and branch.is_member:
            pool[self.address] = Descriptor(self.address, self.router.position, interest)
        return self._truncate(pool)

    def _report(self) -> None:
        """One round of this node: what came from below since the last one goes up."""
        stale_s = self.now_s - STALE_ROUNDS * INTERVAL_S / self._parameters.sample_rounds
        interest = self._interest()
        for topic in list(self._reports):
            fresh = {peer: it for peer, it in self._reports[topic].items() if it[0] >= stale_s}
            self._reports[topic] = fresh
            if not fresh:
                del self._reports[topic]
        for topic in dict.fromkeys([*interest, *self._reports]):
            sample = self._sample(topic, interest)
            towards = self.root_hop(topic_key(topic))
            if towards is None:
                self._take_view(View(topic, sample))
            elif sample:
                self.send(towards, Sample(topic, sample))

    def _take_view(self, message: View) -> None:
        branch = self._groups.get(message.topic)
        if branch is not None and branch.is_member:
            self._views[message.topic] = message.subscribers
        self.send_all(self._reports.get(message.topic, ()), message)

    def _on_ask_view(self, message: AskView) -> None:
        towards = self.root_hop(topic_key(message.topic))
        if towards is None:
            self.send(message.origin, View(message.topic, self._sample(message.topic, self._interest())))
        elif message.hops < HOPS_MAX:
            self.send(towards, AskView(message.topic, message.origin, message.hops + 1))

    def join_start(self, topic: Topic) -> int | None:
        others = [it.node for it in self._views.get(topic, ()) if it.node != self.address]
        return self.random.choice(others) if others else None

    # --- identifier acquisition (Algorithm 1) ---

    def _interest_changed(self) -> None:
        every = self._parameters.rejoin_every
        self._changes += self._is_settled
        if every and self._changes >= every:
            self._changes = 0
            self.set_timer("rejoin", REJOIN_DELAY_S)

    def _ask_views(self) -> None:
        for topic in self._interest():
            towards = self.root_hop(topic_key(topic))
            if towards is None:
                self._take_view(View(topic, self._sample(topic, self._interest())))
            else:
                self.send(towards, AskView(topic, self.address, 1))
        self.set_timer("place", VIEWS_DELAY_S)

    def _ask_best(self) -> None:
        """Ask the most similar node we know for the place behind it, ties at random (lines 2 and 3)."""
        self._asked = None
        own = set(self._interest())
        known = {it.node: it for view in self._views.values() for it in view}
        open_ = [it for it in known.values() if it.node != self.address and it.node not in self._refused]
        if not open_ or not own or self._places_left == 0:
            return
        worth = {it.node: len(own & set(it.interest)) / len(own | set(it.interest)) for it in open_}
        best = max(worth.values())
        self._ask_place(self.random.choice(sorted(node for node, value in worth.items() if value == best)))

    def _ask_place(self, peer: int) -> None:
        self._asked = peer
        self._places_left -= 1
        self.send(peer, AskPlace(self.router.position))

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
        if message.successor == self.address:
            return  # we sit there already
        gap = clockwise(message.position, message.successor_position)
        if gap >= 4:
            # Near the mean rather than at it: two who come at once must not meet.
            self._move((message.position + gap // 4 + self.random.randrange(gap // 2)) & MASK, message.contacts)
        elif self._places_left and message.successor not in (source, self.address):
            self._ask_place(message.successor)  # identifiers have run out here; the next gap will do

    def _move(self, position: int, contacts: tuple[tuple[int, int], ...]) -> None:
        wanted = self._uproot()
        behind, ahead = self.ring.predecessors()[:1], self.ring.successors()[:1]
        for side, other in ((behind, ahead), (ahead, behind)):
            if side and other and side != other:
                self.send(side[0][0], TellState(tuple(other)))
        before = self.router.announce_targets()
        self.router.move(position, contacts)
        self._moved_s = self.now_s
        self._ping(sorted({*before, *self.router.announce_targets()}))
        for topic in wanted:
            self._want(topic)
