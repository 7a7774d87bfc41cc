"""Long links found by random walks (section 2.2): medians of what lies ahead, and peers between them.

How it works. A node sends out a few walkers who step at random from neighbour to neighbour but never leave the stretch
of the ring that is being sampled, at first all of it. Where they end tells the median of that stretch, roughly. The
nearer half is sampled next, and so on until nobody is left in between. The ends beyond each median are random peers of
its partition; links are drawn from these, a random partition each time, the most similar of `choices` peers. All of a
node's acquaintances can be stepped to, also those who keep a link to it: links of a ring lead ahead, and walkers who
could only go ahead would all end at the far side.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Generic, NamedTuple

from coterie.model import Slice, Topic
from coterie.protocol.events import Timer
from coterie.protocol.wire import SystemMessage
from coterie.substrate.identifiers import MASK, clockwise
from coterie.substrate.oscar import OscarRouter
from coterie.substrate.router import Contact
from coterie.systems.group_multicast import GroupNode, OwnBranch
from coterie.systems.key_routing import Ping, Probe
from coterie.systems.magnet.parameters import RingParameters
from coterie.systems.magnet.wire import Follow, Walk, Walked

WALKS = 5  # per median, where the parameters ask for exact medians: a running node sees no others
WALK_HOPS = 8
PATIENCE_S = 3.0  # walkers that have not answered by then were lost
SEARCH_DELAY_S = 2.0  # a newcomer's neighbours must know it first
PARTITIONS_MAX = 64
CALLERS_MAX = 64
LOST_SHARE = 3  # a third of the long links lost: time to draw new ones


class Met(NamedTuple):
    """Somebody a walker has ended at."""

    distance: int
    peer: int
    position: int
    interest: tuple[Topic, ...]
    weight: float


class LinkSearch:
    """What one search has found so far."""

    def __init__(self, position: int, walks: int) -> None:
        self.position = position
        self.reach = MASK  # walkers stay within this distance
        self._walks = walks
        self._met: list[Met] = []
        self.partitions: list[list[Met]] = []

    def met(self, peer: int, message: Walked) -> bool:
        """Where one walker ended; True if it was the last one of this median."""
        distance = clockwise(self.position, message.position)
        if 0 < distance <= self.reach:
            self._met.append(Met(distance, peer, message.position, message.interest, message.weight))
        return len(self._met) >= self._walks

    def narrow(self) -> bool:
        """Take the median of what was met and turn to the nearer half; False if there is nothing nearer."""
        found = sorted(self._met)
        self._met = []
        if not found:
            return False
        median = found[len(found) // 2].distance
        self.partitions.append([it for it in found if it.distance >= median])
        self.reach = median - 1
        return self.reach > 0 and len(self.partitions) < PARTITIONS_MAX

    def draw(self, links: int, choices: int, worth: Callable[[Met], float], random: Random) -> list[Contact]:
        """So many of those met: each the best of some from a random partition."""
        drawn: dict[int, int] = {}
        while len(drawn) < links:
            rooms = [fresh for part in self.partitions if (fresh := [it for it in part if it.peer not in drawn])]
            if not rooms:
                break
            room = random.choice(rooms)
            best = max((random.choice(room) for _ in range(choices)), key=worth)
            drawn[best.peer] = best.position
        return list(drawn.items())


class WalkingNode(GroupNode[OwnBranch], Generic[OwnBranch]):
    """Looks for long links when it has joined or moved, or has lost many; answers other nodes' walkers."""

    def __init__(self, address: int, parameters: RingParameters, random: Random) -> None:
        super().__init__(
            address, parameters.link_heartbeat_s, parameters.tree_heartbeat_s, parameters.seen_capacity, random
        )
        self._walks = (parameters.median_samples or WALKS) * parameters.choices  # so that there is a choice
        self._choices = parameters.choices
        self._search: LinkSearch | None = None
        self._turn = 0
        self._callers: dict[int, int] = {}  # who keeps a link to us -> its place, most recent last
        self._links_lost = 0

    @property
    def ring(self) -> OscarRouter:
        """The ring that long links are for."""
        raise NotImplementedError

    def relink(self, contacts: list[Contact]) -> list[int]:
        """Make these the long links; who is new."""
        return self.ring.relink(contacts)

    def profile(self) -> tuple[tuple[Topic, ...], float]:
        """What this node tells walkers of its interest, and what that weighs; nothing if it does not matter."""
        return (), 0.0

    def worth(self, met: Met) -> float:
        """How much rather than others we would have a link to this one."""
        return 0.0

    def search_links(self) -> None:
        self.set_timer("search", SEARCH_DELAY_S)

    # --- hooks ---

    def on_start(self, slice: Slice) -> None:
        self._search = None
        self._links_lost = 0
        super().on_start(slice)
        if self._is_joining:
            self.search_links()

    def on_timer(self, timer: Timer) -> None:
        if timer == "search":
            self._links_lost = 0
            self._search = LinkSearch(self.ring.position, self._walks)
            self._send_walkers()
        elif timer == "walkers":
            self._narrow()
        else:
            super().on_timer(timer)

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, Walk):
            self._on_walk(source, message)
        elif isinstance(message, Walked):
            if self._search is not None and message.turn == self._turn and self._search.met(source, message):
                self._narrow()
        else:
            if isinstance(message, Ping | Probe | Follow):
                self._callers.pop(source, None)
                self._callers[source] = message.position
                if len(self._callers) > CALLERS_MAX:
                    del self._callers[next(iter(self._callers))]
            super().on_receive(source, message)

    def on_peer_lost(self, peer: int) -> None:
        self._callers.pop(peer, None)
        if self.ring.position_of(peer) is not None:
            self._links_lost += 1
            if self._links_lost > len(self.ring.links()) // LOST_SHARE:
                self._links_lost = 0
                self.search_links()
        super().on_peer_lost(peer)

    # --- walking ---

    def _steps(self, position: int, reach: int) -> list[int]:
        """Whom a walker may go to from here who must stay within this distance of that position."""
        known = {**self._callers, **dict(self.router.neighbours())}
        return sorted(peer for peer, place in known.items() if 0 < clockwise(position, place) <= reach)

    def _send_walkers(self) -> None:
        search = self._search
        assert search is not None
        steps = self._steps(search.position, search.reach)
        if not steps:
            self._take_links()
            return
        self._turn += 1
        for _ in range(self._walks):
            walk = Walk(self.address, search.position, search.reach, 1, self._turn)
            self.send(self.random.choice(steps), walk)
        self.set_timer("walkers", PATIENCE_S)

    def _on_walk(self, source: int, message: Walk) -> None:
        steps = [peer for peer in self._steps(message.position, message.reach) if peer != message.origin]
        if message.hops < WALK_HOPS and steps:
            following = Walk(message.origin, message.position, message.reach, message.hops + 1, message.turn)
            self.send(self.random.choice(steps), following)
        else:
            self.send(message.origin, Walked(message.turn, self.ring.position, *self.profile()))

    def _narrow(self) -> None:
        search = self._search
        if search is None:
            return
        self.cancel_timer("walkers")
        if search.narrow():
            self._send_walkers()
        else:
            self._take_links()

    def _take_links(self) -> None:
        search, self._search = self._search, None
        assert search is not None
        links = search.draw(self.ring.shape.links, self._choices, self.worth, self.random)
        if links:
            self._ping(self.relink(links))
