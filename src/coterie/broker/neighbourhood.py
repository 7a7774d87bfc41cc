"""What peers say and do: frames to whom they concern, links that come and go, and what a lost one may have cost."""

from __future__ import annotations

from coterie.broker.admitting import Admitting
from coterie.broker.adopting import Adopting
from coterie.broker.cascades import Cascades
from coterie.broker.copies import HeldCopies
from coterie.broker.crossing import Crossings
from coterie.broker.delivering import Delivering
from coterie.broker.detours import Detours
from coterie.broker.facts import PeerSaid
from coterie.broker.frames import (
    BEAT,
    BYE,
    CONTROL,
    DONE,
    MESSAGE,
    TRACKED_CONTROL,
    TRACKED_MESSAGE,
    AboutCopies,
    AskDigest,
    AskKept,
    AskRetained,
    AskSession,
    AskWanting,
    ClaimSession,
    ControlMessage,
    Detoured,
    Digest,
    Disturbed,
    EndSession,
    Expected,
    FoundSession,
    GivenSession,
    Handed,
    HandOver,
    HandsOver,
    HeldFor,
    HoldFor,
    Keep,
    KeepAll,
    KeepLog,
    Kept,
    KeptBy,
    LogCopies,
    LogGone,
    LogHeads,
    MovedSessions,
    OpenDetours,
    PlanInForce,
    Retained,
    SeekSession,
    Sent,
    SentOff,
    Taken,
    Want,
    WantedFilters,
    Wanting,
    decode_control,
    numbered,
)
from coterie.broker.hosting import Hosting
from coterie.broker.interest import LocalInterest
from coterie.broker.keeperlists import KeeperLists
from coterie.broker.keeping import Keeping
from coterie.broker.lastpublished import LastPublished
from coterie.broker.lastwords import LastWords
from coterie.broker.links import PeerLinks
from coterie.broker.marks import Marks
from coterie.broker.membership import Membership
from coterie.broker.moving import Moving
from coterie.broker.orders import HangUp
from coterie.broker.planes import ControlPlanes
from coterie.broker.recovery import Recovery
from coterie.broker.renewing import Renewing
from coterie.broker.said import (
    AboutSockets,
    AskRoom,
    ClientComes,
    HangOn,
    HasRoom,
    Hosted,
    LeafDrops,
    LeafEvent,
    LeafPlanned,
    LeafServed,
    LeafWants,
    OfferPlan,
    PlanStands,
    SiblingRuns,
    SiblingTook,
    SiblingWants,
    TakeSessions,
    Unheard,
)
from coterie.broker.siblings import Siblings
from coterie.broker.takeover import Takeover
from coterie.broker.talk import Talk
from coterie.broker.transfers import Transfers
from coterie.broker.turn import Turn
from coterie.broker.wards import Wards
from coterie.errors import RemoteProtocolError

LINK_CHECK_S = 2.0
DIAL_LATER_S = 0.3
SHED_S = 1.0
LINKS_TIMER, DIAL_TIMER, SHED_TIMER = "links", "dial", "shed"


class Neighbourhood:
    """See the module. `heard_count` counts what was said besides heartbeats, a system's own among them."""

    def __init__(
        self, node: int, links: PeerLinks, cascades: Cascades, talk: Talk, planes: ControlPlanes,
        interest: LocalInterest, words: LastWords, recovery: Recovery, moving: Moving,
        admitting: Admitting | None, detours: Detours, delivering: Delivering,
        marks: Marks, last: LastPublished, keeping: Keeping | None, copies: HeldCopies, lists: KeeperLists,
        wards: Wards, takeover: Takeover, hosting: Hosting, membership: Membership, adopting: Adopting,
        renewing: Renewing, siblings: Siblings | None, crossing: Crossings | None,
        transfers: Transfers | None, turn: Turn,
    ) -> None:  # fmt: skip
        self.heard_count = 0
        self._node, self._links, self._cascades, self._talk, self._planes = node, links, cascades, talk, planes
        self._interest, self._words, self._recovery, self._moving = interest, words, recovery, moving
        self._detours, self._delivering, self._marks, self._last = detours, delivering, marks, last
        self._admitting, self._hosting, self._turn = admitting, hosting, turn
        self._membership, self._adopting, self._renewing = membership, adopting, renewing
        self._keeping, self._copies, self._lists, self._wards, self._takeover = keeping, copies, lists, wards, takeover
        self._siblings, self._crossing, self._transfers = siblings, crossing, transfers
        self._lost_us: dict[int, int] = {}  # since when something may be missing because of this peer
        self._was_up: set[int] = set()

    # --- links ---

    def keep_links(self) -> None:
        """Reach those that the plans want, let go of those that nobody uses."""
        self._links.release_idle(self.want_links() | self._copies.of.keys())
        if self._cascades.expire(self._turn.now_s):  # somebody may not know yet what is wanted here, and was told
            since_s = self._cascades.limit_s + LINK_CHECK_S
            self._recovery.disturb(max(1, self._recovery.now_us - int(since_s * 1e6)))
        self._turn.set_timer((LINKS_TIMER,), LINK_CHECK_S)

    def _planned(self) -> set[int]:
        named = {one.node for one in self._planes.in_use.slice.neighbours}
        named |= set(() if self._siblings is None else self._siblings.others)
        known = named.intersection(self._links.peers)
        return self._planes.links() | known if self._siblings is not None else self._planes.links() or known

    def want_links(self) -> set[int]:
        wanted = self._planned()
        # Mostly the lower address dials, so that a pair does not connect twice at once.
        self._links.want(sorted(peer for peer in wanted if peer > self._node))
        if self._keeping is not None:
            wanted |= self._keeping.keepers.keys()
        wanted |= set(self._hosting.leaves)
        if any(peer < self._node and not self._links.is_connected(peer) for peer in wanted):
            self._turn.set_timer((DIAL_TIMER,), DIAL_LATER_S)
        return wanted

    def dial_lower(self) -> None:
        self._links.want(sorted(peer for peer in self._planned() if peer < self._node))

    def on_up(self, peer: int) -> None:
        if not self._links.knows(peer):  # it was removed while it connected
            self._turn.orders.append(HangUp(peer, "it is no member"))
            return
        self._links.on_up(peer)
        self._membership.greet(peer)
        self._hosting.reached(peer)
        if self._planes.generation:
            self._talk.tell(peer, PlanInForce(self._planes.generation))
        self._interest.tell_all(peer)
        if self._siblings is not None and self._crossing is not None:
            self._siblings.tell_all(peer)
            self._crossing.reached(peer)
        if self._admitting is not None:
            self._admitting.reached(peer)
        self._detours.tell_all(peer)
        self._talk.tell(peer, LogHeads((*self._marks.heads.values(), self._last.last), self._words.now_us))
        self._words.greet(peer, self._links.connected)
        self._lists.tell_all(peer)
        self._takeover.tell_all(peer)
        self._wards.back(peer)
        if self._keeping is not None:
            self._keeping.reached(peer)
        since_us = self._lost_us.pop(peer, None)
        if since_us is not None:
            self._recovery.disturb(since_us)
        self._was_up.add(peer)

    def on_gone(self, peer: int, reason: str) -> None:
        is_loss = self._links.on_gone(peer, reason)
        self._wards.lost(peer)
        self._words.lost(peer, self._links.connected)
        if self._keeping is not None:
            self._keeping.lost(peer)
        self._hosting.lost(peer)
        if self._transfers is not None:
            self._transfers.lost(peer)
        if is_loss:
            self._lose(peer)
        if self._crossing is not None and (oldest_us := self._crossing.lost(peer)):
            self._lost_us[peer] = min(oldest_us, self._lost_us.get(peer, oldest_us))

    def on_dial_failed(self, peer: int, reason: str) -> None:
        if not self._links.knows(peer):
            return
        if self._links.on_dial_failed(peer, reason):
            if self._keeping is not None:
                self._keeping.unreachable(peer)
            self._lose(peer)

    def _lose(self, peer: int) -> None:
        if peer in self._was_up:
            self._was_up.discard(peer)
            self._lost_us[peer] = max(1, self._turn.now_us - int(self._links.settings.silence_s * 1e6))
            self._recovery.disturb(self._lost_us[peer])
            self._words.spread(peer)
        self._cascades.lost(peer)
        self._planes.lose(peer)

    def note_shed(self) -> None:
        """Events could not be handed to these peers; once they can be reached, what is missing is looked for."""
        for peer in self._links.take_shed():
            if peer not in self._lost_us:
                self._lost_us[peer] = self._turn.now_us
                self._turn.set_timer((SHED_TIMER, peer), SHED_S)

    def after_shedding(self, peer: int) -> None:
        since_us = self._lost_us.pop(peer, None) if self._links.is_connected(peer) else None
        if since_us is not None:
            self._recovery.disturb(since_us)

    # --- what they say ---

    def on_said(self, fact: PeerSaid) -> None:
        peer = fact.peer
        if not self._links.knows(peer):
            return
        self._links.heard(peer, [kind for kind, _ in fact.frames])
        if self._keeping is not None:
            self._keeping.heard(peer)
        try:
            for kind, body in fact.frames:
                if kind in (BEAT, BYE):
                    continue
                if kind != MESSAGE:
                    self.heard_count += 1
                    if kind == CONTROL:
                        self._on_control(peer, decode_control(body))
                    else:
                        self._on_other(peer, kind, body)
                elif (plane := self._planes.tagged(body[:1])) is not None:
                    self.heard_count += plane.receive(peer, body)
        except RemoteProtocolError as error:
            self._turn.orders.append(HangUp(peer, str(error), abrupt=True))

    def _on_other(self, peer: int, kind: int, body: bytes) -> None:
        if kind == DONE:
            self._cascades.done(peer, numbered(body)[0])
        elif kind in (TRACKED_MESSAGE, TRACKED_CONTROL):
            self._on_tracked(peer, kind, *numbered(body))
        else:
            raise RemoteProtocolError(f"a frame of kind {kind} on an open link", f"node {peer}")

    def _on_tracked(self, peer: int, kind: int, number: int, body: bytes) -> None:
        cascade = self._cascades.begin(lambda: self._talk.say_done(peer, number), self._turn.now_s)
        try:
            if kind != TRACKED_MESSAGE:
                self._on_control(peer, decode_control(body))
            elif (plane := self._planes.tagged(body[:1])) is not None:
                plane.receive(peer, body)
        finally:
            self._cascades.end(cascade)

    def _on_control(self, peer: int, said: ControlMessage) -> None:
        match said:
            case SiblingRuns():  # first, since it comes with every turn
                if self._crossing is not None:
                    self._crossing.hear(peer, said)
            case SiblingTook() | SiblingWants() | AskRoom() | HasRoom() | ClientComes():
                self._on_sibling(peer, said)
            case SentOff() | ClaimSession() | Handed() | Taken():
                self._moving.hear(peer, said)
            case Wanting() | AskWanting() | Sent() | Expected():
                if self._admitting is not None:
                    self._admitting.hear(peer, said)
            case OpenDetours():
                self._detours.hear(peer, said)
            case Detoured():
                self._hosting.detoured(said)
                self._delivering.take_detoured(said.body)
            case AskKept() | Keep() | KeepAll() | KeepLog() | Kept() | KeptBy() | HoldFor() | HeldFor():
                self._on_copies(peer, said)
            case (
                SeekSession() | FoundSession() | HandOver() | HandsOver() | AskSession() | GivenSession()
                | MovedSessions() | EndSession()
            ):  # fmt: skip
                self._takeover.hear(peer, said)
            case PlanInForce():
                self._on_plan(peer, said)
            case WantedFilters():
                self._interest.on_filters(peer, said)
            case Disturbed():
                self._recovery.on_disturbed(peer, said)
            case Digest():
                self._recovery.on_digest(peer, said)
            case AskDigest():
                self._recovery.on_ask(peer, said)
            case Want():
                self._recovery.on_want(peer, said)
            case LogCopies():
                self._recovery.on_copies(said)
            case LogGone():
                self._recovery.on_gone(said)
            case LogHeads():
                for identifier in said.heads:
                    self._marks.hear(identifier)
                self._words.hear_time(said.words_us)
            case AskRetained():
                self._words.on_ask(peer)
            case Retained():
                self._words.on_retained(peer, said)
            case HangOn() | Hosted() | LeafWants() | LeafServed() | LeafDrops() | LeafPlanned() | LeafEvent():
                self._hosting.hear(peer, said)
            case OfferPlan() | PlanStands():
                self._renewing.hear(peer, said)
            case TakeSessions():
                self._adopting.hear(peer, said)
            case Unheard():
                pass
            case _:
                self._membership.hear(peer, said)

    def _on_sibling(self, peer: int, said: SiblingTook | SiblingWants | AboutSockets) -> None:
        if self._siblings is None or self._crossing is None or self._transfers is None:
            return
        match said:
            case SiblingTook():
                self._crossing.took(peer, said)
            case SiblingWants():
                self._siblings.hear(peer, said)
            case _:
                self._transfers.hear(peer, said)

    def _on_copies(self, peer: int, said: AboutCopies) -> None:
        match said:
            case AskKept():
                self._copies.on_ask(peer, said)
            case Keep():
                self._copies.on_keep(peer, said)
            case HoldFor() if said.node != self._node:
                self._copies.on_hold(peer, said)
                self._wards.took(said.node)
            case HeldFor():
                self._wards.on_held(peer, said)
            case KeepAll():
                self._copies.on_all(peer, said)
            case KeepLog():
                self._copies.on_log(peer, said)
            case Kept():
                if self._keeping is not None:
                    self._keeping.on_kept(peer, said)
            case KeptBy():
                self._lists.hear(peer, said)

    def _on_plan(self, peer: int, said: PlanInForce) -> None:
        if self._planes.hear(said.generation):
            self._talk.flood(said, but=peer)
        elif self._planes.outdated_by == said.generation:
            self._turn.say(f"plan generation {said.generation} is in force and was never given to this node")
