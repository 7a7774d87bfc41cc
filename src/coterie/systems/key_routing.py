"""The lower tier of every ring-based system: a node that keeps its routing table true while peers come and go.

Each heartbeat a node pings everybody in its table, which tells them where it sits and tells it who cannot be reached. A
peer that is lost is forgotten, replacements are asked for, and the lost one is probed until it answers again, so that
two halves of a healed partition find each other. A newcomer asks whoever it knows, then those it hears of, until
nobody tells it anything new. The tier above routes with `router.next_hop` and hears of losses by `on_neighbour_lost`.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar

from coterie.model import Slice
from coterie.protocol.events import Timer
from coterie.protocol.node import OverlayNode
from coterie.protocol.wire import SystemMessage
from coterie.substrate.router import RingRouter
from coterie.trace import Traffic

LOST_MAX = 64  # lost peers that are still probed
ASKED_FOR_REPAIR = 3
REPAIR_DELAY_S = 1.0


class Ping(SystemMessage, frozen=True):
    """I am here, at this position."""

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE
    position: int


class Probe(SystemMessage, frozen=True):
    """I had lost you; are you back?"""

    traffic: ClassVar[Traffic] = Traffic.LINK_KEEPALIVE
    position: int


class AskState(SystemMessage, frozen=True):
    """Whom would you know, if you sat at this position?"""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    position: int


class TellState(SystemMessage, frozen=True):
    """These peers, at these positions."""

    traffic: ClassVar[Traffic] = Traffic.OVERLAY
    contacts: tuple[tuple[int, int], ...]


KEY_ROUTING_MESSAGES: tuple[type[SystemMessage], ...] = (Ping, Probe, AskState, TellState)


class RingNode(OverlayNode):
    """A node on a ring. Subclasses make their router and react to losses; hooks they extend call `super()`."""

    router: RingRouter

    def __init__(self, address: int, link_heartbeat_s: float, random: Random) -> None:
        super().__init__(address, random)
        self._link_heartbeat_s = link_heartbeat_s
        self._lost: dict[int, int] = {}  # peer -> position, most recent last
        self._to_ask: dict[int, None] = {}  # who may know replacements of lost peers
        self._is_joining = False

    def make_router(self, position: int) -> RingRouter:
        raise NotImplementedError

    def on_neighbour_lost(self, peer: int) -> None:
        """The peer cannot be reached; the router has forgotten it already."""

    # --- hooks of the driver ---

    def on_start(self, slice: Slice) -> None:
        self.router = self.make_router(slice.position)
        self.router.learn_all((neighbour.node, neighbour.position) for neighbour in slice.neighbours)
        self._lost = {}
        self._ping(self.router.announce_targets())
        self._is_joining = bool(slice.settings.get("join"))
        if self._is_joining:
            self.send_all(self.router.announce_targets(), AskState(slice.position))
        self.set_timer("links", self._link_heartbeat_s)

    def on_timer(self, timer: Timer) -> None:
        if timer == "links":
            self._ping(self.router.announce_targets())
            self.send_all(self._lost, Probe(self.router.position))
            self.set_timer("links", self._link_heartbeat_s)
        elif timer == "repair":
            known = [peer for peer in self._to_ask if self.router.position_of(peer) is not None]
            self._to_ask = {}
            self.send_all(known[:ASKED_FOR_REPAIR], AskState(self.router.position))

    def on_receive(self, source: int, message: SystemMessage) -> None:
        if isinstance(message, Ping):
            self._hear(source, message.position)
        elif isinstance(message, Probe):
            self._hear(source, message.position)
            self._ping([source])
        elif isinstance(message, AskState):
            self._hear(source, message.position)
            known = (contact for contact in self.router.state_for(message.position) if contact[0] != source)
            self.send(source, TellState(tuple(known)))
        elif isinstance(message, TellState):
            self._hear_of(message.contacts)

    def on_peer_lost(self, peer: int) -> None:
        position = self.router.position_of(peer)
        if position is not None:
            self._lost.pop(peer, None)
            self._lost[peer] = position
            if len(self._lost) > LOST_MAX:
                del self._lost[next(iter(self._lost))]
            if not self._to_ask:
                self.set_timer("repair", REPAIR_DELAY_S)  # losses come in waves; one round of questions serves them all
            self._to_ask.update(dict.fromkeys(self.router.repair_candidates(peer)))
            self.router.forget(peer)
        self.on_neighbour_lost(peer)

    # --- inside ---

    def _ping(self, peers: list[int]) -> None:
        self.send_all(peers, Ping(self.router.position))

    def _hear(self, peer: int, position: int) -> None:
        """First-hand word from a peer: it is alive and sits there."""
        if self.router.position_of(peer) != position:
            self._lost.pop(peer, None)
            self.router.learn(peer, position)

    def _hear_of(self, contacts: tuple[tuple[int, int], ...]) -> None:
        """Take what fits and greet who is new; a newcomer also asks them, for they may know still better ones."""
        fresh = self.router.learn_all(contacts, is_hearsay=True)
        self._ping(fresh)
        if self._is_joining:
            self.send_all(fresh, AskState(self.router.position))
