"""The parts of a node, put together.

Parts know each other by what they are given here, in one direction; nothing is bound later. The order of the
constructor is the order of the layers: links at the bottom, clients at the top.
"""

from __future__ import annotations

from coterie.broker.access import Access
from coterie.broker.admitting import Admitting
from coterie.broker.adopting import Adopting
from coterie.broker.arrivals import ComingSessions
from coterie.broker.asking import Asking
from coterie.broker.carried import Identifiers
from coterie.broker.cascades import Cascades
from coterie.broker.clients import Clients
from coterie.broker.commands import (
    Setup,
)
from coterie.broker.copies import HeldCopies
from coterie.broker.counts import Counts
from coterie.broker.crossing import Crossings
from coterie.broker.delivering import Delivering, RecentEvents
from coterie.broker.detours import Detours
from coterie.broker.draining import Draining
from coterie.broker.following import Following
from coterie.broker.hosting import Hosting
from coterie.broker.housekeeping import Housekeeping
from coterie.broker.interest import InterestBook, LocalInterest
from coterie.broker.journal import Journal
from coterie.broker.keeperlists import KeeperLists, rendezvous
from coterie.broker.keeping import Keeping
from coterie.broker.lastpublished import LastPublished
from coterie.broker.lastwords import LastWords
from coterie.broker.leafbook import LeafBook
from coterie.broker.limits import Gate
from coterie.broker.links import PeerLinks
from coterie.broker.marks import Marks
from coterie.broker.membership import Membership
from coterie.broker.moving import Moving
from coterie.broker.neighbourhood import Neighbourhood
from coterie.broker.newcomers import MemberParts
from coterie.broker.ordering import Ordering
from coterie.broker.placement import Placing
from coterie.broker.planes import ControlPlanes
from coterie.broker.pressure import Pressure
from coterie.broker.publishing import Publishing
from coterie.broker.recovery import Recovery
from coterie.broker.renewing import Renewing
from coterie.broker.siblings import Siblings, WishBoard
from coterie.broker.stored import StoredSessions
from coterie.broker.takeover import Takeover
from coterie.broker.talk import Talk
from coterie.broker.transfers import Transfers
from coterie.broker.turn import Turn
from coterie.broker.turnshelf import TurnShelf
from coterie.broker.wards import Wards
from coterie.broker.writes import Shelf
from coterie.mqtt.sessions import Sessions


class BrokerParts:
    """Public for those who look at a node (`views`)."""

    def __init__(self, setup: Setup, shelf: Shelf, board: WishBoard | None = None) -> None:
        self.setup, self.life = setup, 0
        node, peers = setup.node, [peer.id for peer in setup.network.peers if peer.id != setup.node]
        self.is_alone = is_alone = not peers and not setup.may_grow
        self.turn = turn = Turn()
        shelf = TurnShelf(shelf, turn)
        self.tallied = counts = Counts()
        self.links = PeerLinks(node, peers, setup.links, turn)
        self.cascades = Cascades(setup.mqtt.subscribe_wait_s)
        self.talk = Talk(self.links, self.cascades)
        self._make_copies(shelf)
        self._make_sessions()
        self.words = LastWords(node, self.sessions.retained, self.talk, turn)
        self.book = InterestBook(node)
        self.marks = Marks(turn)
        self.last = LastPublished(turn)
        self.ordering = Ordering(self.marks, self.book, turn)
        self.detours = Detours(node, self.talk, self.cascades, turn)
        recent = RecentEvents()
        self.delivering = Delivering(
            self.sessions, self.book, self.ordering, self.words, recent, self.detours, self.asking, self.arrivals,
            counts, is_alone, turn,
        )  # fmt: skip
        self._make_siblings(board, recent)
        self._make_planes()
        self.interest = LocalInterest(self.book, self.marks, is_alone, self.planes, self.talk, turn)
        self.recovery = Recovery(
            node, peers, setup.recovery, self.identifiers, self.links, self.talk, self.asking, self.copies,
            self.delivering, shelf, turn,
        )  # fmt: skip
        self.moving = Moving(self.sessions, self.delivering, self.recovery, self.book, recent, self.talk, turn)
        self.publishing = Publishing(
            self.sessions, self.access, self.delivering, self.planes, self.book, self.words, recent,
            self.detours, self.links, self.talk, self.last, self.identifiers, self.journal, counts, is_alone,
            self.siblings, self.crossing, turn,
        )  # fmt: skip
        self.servers = servers = {peer.id: peer.server for peer in setup.network.peers if peer.server}
        self.placing = Placing(node, servers, self.links, turn)
        self.admitting = self._made_admitting(servers)
        self.following = Following(
            self.sessions, self.interest, self.moving, self.admitting, self.journal, self.siblings, turn
        )  # fmt: skip
        self.takeover = self._made_takeover(shelf)
        self.clients = Clients(
            self.sessions, self.access, self.gate, self.stored, self.publishing, self.following, self.cascades,
            self.moving, self.placing, self.admitting, self.detours, self.pressure, self.keeping, self.takeover, counts,
            is_alone, setup.mqtt.connections_max, self.siblings, self.crossing, turn,
        )  # fmt: skip
        self.transfers = self._made_transfers()
        self._make_members()
        self.neighbourhood = Neighbourhood(
            node, self.links, self.cascades, self.talk, self.planes, self.interest, self.words, self.recovery,
            self.moving, self.admitting, self.detours, self.delivering, self.marks, self.last,
            self.keeping, self.copies, self.lists, self.wards, self.takeover, self.hosting, self.membership,
            self.adopting, self.renewing, self.siblings, self.crossing, self.transfers, turn,
        )  # fmt: skip
        self.housekeeping = Housekeeping(
            node, is_alone, setup.store, self.stored, self.words, self.marks, self.last, self.copies, self.links,
            counts, shelf, turn,
        )  # fmt: skip

    def _make_sessions(self) -> None:
        setup = self.setup
        self.access = Access(setup.access, setup.passwords, setup.token_key)
        self.gate = Gate(setup.limits, 0.0)
        self.sessions = Sessions(setup.options, self.access)
        self.journal = Journal(setup.name) if setup.journal.enabled else None
        self.pressure = Pressure(self.sessions.budget, self.links, self.tallied, self.turn)
        self.identifiers = Identifiers(setup.node, 0)
        self.stored = StoredSessions(self.turn)

    def _make_siblings(self, board: WishBoard | None, recent: RecentEvents) -> None:
        """Where processes share a machine, and copies elsewhere are not asked for: they would be on the same disk."""
        setup, turn = self.setup, self.turn
        self.siblings: Siblings | None = None
        self.crossing: Crossings | None = None
        if board is None or len(setup.machine) < 2 or setup.durability.copies > 1:
            return
        self.siblings = Siblings(setup.node, setup.machine, board, self.links, self.talk, self.sessions, turn)
        self.crossing = Crossings(
            setup.node, self.siblings.others, self.sessions, self.delivering, self.arrivals, recent, self.marks,
            self.last, self.identifiers, self.links, self.tallied, turn,
        )  # fmt: skip

    def _made_transfers(self) -> Transfers | None:
        if self.siblings is None:
            return None
        share = self.setup.admission.connections
        return Transfers(
            self.clients, self.sessions, self.siblings, self.placing, share, self.links, self.talk, self.tallied,
            self.turn,
        )  # fmt: skip

    def _make_copies(self, shelf: Shelf) -> None:
        """For others, and by others."""
        node = self.setup.node
        self.copies = HeldCopies(self.talk, shelf, self.turn)
        self.lists = KeeperLists(node, self.copies, self.talk, self.turn)
        self.arrivals = ComingSessions()
        self.asking = Asking(node, self.links, self.talk, self.copies, self.lists)
        self.keeping = self._made_keeping(shelf)
        self.wards = Wards(
            node, self._zones(), self.setup.durability.copies, self.copies, self.lists, self.links, self.talk, shelf,
            self.turn,
        )  # fmt: skip

    def _make_planes(self) -> None:
        leaves, detours, delivering = LeafBook(self.links), self.detours, self.delivering
        self.planes = ControlPlanes(
            self.setup, self.links, self.cascades, detours, delivering, leaves, self.tallied, self.turn
        )  # fmt: skip
        self.hosting = Hosting(self.planes, leaves, delivering, self.cascades, detours, self.talk, self.turn)

    def _make_members(self) -> None:
        """Who belongs to the network, and what is to be done when that changes."""
        node, turn = self.setup.node, self.turn
        parts = MemberParts(
            node, self.servers, self.links, self.hosting, self.planes, self.cascades, self.keeping, self.lists,
            self.wards, self.recovery, self.takeover, self.detours, self.book, self.admitting,
        )  # fmt: skip
        self.membership: Membership = Membership(self.setup, self.talk, self.planes, parts, self.clients, turn)
        self.adopting: Adopting = Adopting(node, self.sessions, self.takeover, self.copies, self.lists, turn)
        self.draining = Draining(
            node, self.membership, self.clients, self.sessions, self.keeping, self.takeover, self.wards, self.hosting,
            self.servers, self.links, self.talk, turn,
        )  # fmt: skip
        self.renewing: Renewing = Renewing(
            self.setup, self.membership, self.planes, self.recovery, self.links, self.talk, turn
        )  # fmt: skip
        self._epoch = -1

    def _made_takeover(self, shelf: Shelf) -> Takeover:
        setup = self.setup
        return Takeover(
            setup.node, setup.durability.copies, self.sessions, self.stored, self.arrivals, self.delivering,
            self.following, self.interest, self.cascades, self.detours, self.marks, self.last, self.identifiers,
            self.recovery, self.keeping, self.copies, self.wards, self.links, self.talk, shelf, self.turn,
        )  # fmt: skip

    def _made_keeping(self, shelf: Shelf) -> Keeping | None:
        setup = self.setup
        if self.is_alone:
            return None
        order = rendezvous(setup.node, self._zones())
        return Keeping(setup.node, order, setup.durability, self.lists, self.links, self.talk, shelf, self.turn)

    def _zones(self) -> dict[int, str]:
        network = self.setup.network
        return {peer.id: peer.zone for peer in network.peers} | {self.setup.node: network.zone}

    def _made_admitting(self, servers: dict[int, str]) -> Admitting | None:
        setup = self.setup
        if self.is_alone or not setup.admission.enabled:
            return None
        return Admitting(
            setup.admission, setup.node, servers, self.sessions.index, self.links, self.talk, self.tallied,
            self.journal, self.turn,
        )  # fmt: skip
