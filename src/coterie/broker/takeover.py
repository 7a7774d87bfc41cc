"""Sessions follow their clients: whoever has a lasting session finds it at any node, as any MQTT client asks for it.

*Here* is where a client connects, *there* is where its session is. Here asks every node who has the session; the
highest epoch counts, and while a node is away, its keepers' copies of what it had. There closes the client's old
connection and goes on collecting. Here enters the session's wishes, and when they have taken effect asks for all of it:
subscriptions, packet identifiers, queue, and *taken*, how far there has dealt with each origin and topic. What here
collected itself beyond that follows behind. Then the session is written here, with a higher epoch; CONNACK leaves; and
once that is kept as it should be, everybody is told, and there forgets. Until then there has all of it, whatever
happens here.

With more nodes silent than there can be without a copy elsewhere, nobody can know: the client is told that the server
is unavailable, never that it has no session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from coterie.broker.arrivals import ComingSession, ComingSessions, Had, guest_of
from coterie.broker.carried import Identifiers
from coterie.broker.cascades import Cascades
from coterie.broker.copies import HeldCopies
from coterie.broker.delivering import Delivering
from coterie.broker.detours import Detours
from coterie.broker.following import Following
from coterie.broker.frames import (
    AskSession,
    EndSession,
    Follows,
    FoundSession,
    GivenSession,
    HandOver,
    HandsOver,
    MovedSessions,
    SeekSession,
)
from coterie.broker.giving import Giving
from coterie.broker.interest import LocalInterest, book_of
from coterie.broker.keeping import Keeping
from coterie.broker.lacking import FRESH_S, Lacking
from coterie.broker.lastpublished import LastPublished
from coterie.broker.links import PeerLinks
from coterie.broker.marks import Marks
from coterie.broker.quests import Outcome, Quest
from coterie.broker.recovery import Recovery
from coterie.broker.residing import Residing
from coterie.broker.stored import StoredSessions
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.wards import Wards
from coterie.broker.writes import Shelf
from coterie.mqtt.packets import Connect
from coterie.mqtt.session import SessionState
from coterie.mqtt.sessions import Sessions
from coterie.mqtt.topics import split_shared

AGAIN_S = 0.2
GIVE_UP_S = 5.0
EFFECT_S = 1.5  # a node that is silent holds up no session: what it missed of the wishes is found by logs
LOOK_S = 4.0  # how long logs are compared for what a node that is away took with it
IDENTIFIERS_APART, IDENTIFIER_RANGES = (
    2048,
    31,
)  # each node that takes sessions from copies goes on in a range of its own
TAKE_TIMER = "take"
_state = msgspec.msgpack.Decoder(SessionState).decode


class Takeover:
    """See the module."""

    def __init__(
        self, node: int, copies_wanted: int, sessions: Sessions, stored: StoredSessions, arrivals: ComingSessions,
        delivering: Delivering, following: Following, interest: LocalInterest, cascades: Cascades, detours: Detours,
        marks: Marks, last: LastPublished, identifiers: Identifiers, recovery: Recovery, keeping: Keeping | None,
        copies: HeldCopies, wards: Wards, links: PeerLinks, talk: Talk, shelf: Shelf, turn: Turn,
    ) -> None:  # fmt: skip
        self.taken_count = 0
        self._node, self._spare = node, copies_wanted - 1
        self._sessions, self._stored, self._arrivals = sessions, stored, arrivals
        self._following, self._cascades, self._detours = following, cascades, detours
        self._marks, self._last, self._recovery = marks, last, recovery
        self._keeping, self._wards, self._links, self._talk, self._turn = keeping, wards, links, talk, turn
        self._quests: dict[str, Quest] = {}
        self._number = 0  # of the last question for a session
        self._giving = Giving(node, sessions, interest, marks, last, identifiers, copies, recovery, turn)
        self.lacking = Lacking(node, sessions, interest, marks, recovery, copies, delivering, self._giving, shelf, turn)
        self._residing = Residing(node, sessions, self._giving, following, keeping, links, talk, turn)
        self._unsure: dict[str, None] = {}  # from before the start: somebody may have taken it meanwhile

    # --- here ---

    def must_seek(self, packet: Connect) -> bool:
        """Whether the client may have a session that is not here."""
        if packet.clean_start or not packet.client_id or not self._links.peers:
            return False
        is_known = packet.client_id in self._sessions.of and packet.client_id not in self._unsure
        if is_known:
            self._stay(packet.client_id)
        return not is_known

    def _stay(self, client: str) -> None:
        """Its client is here again. Whoever was given it meanwhile may have written it, and be lost before it says so:
        what it has must not count for more than what is agreed here from now on."""
        peer, session = self._giving.leaving.pop(client, None), self._sessions.of.get(client)
        if peer is not None and session is not None:
            self._residing.claim(session, session.epoch + 1, [peer])

    def is_seeking(self, client: str = "") -> bool:
        return client in self._quests if client else any(one.of < 0 for one in self._quests.values())  # that one; any

    def give_up(self) -> None:
        for client in list(self._quests):
            self._end(client, "away")

    def set_members(self, leaving: Iterable[int]) -> None:
        """Others are to be asked from now on, by those who are asking, too."""
        self._residing.set_leaving(leaving)
        peers = dict.fromkeys(self._links.peers)
        for client, quest in list(self._quests.items()):
            new = [peer for peer in peers if peer not in quest.asked]
            has_lost = any(peer not in peers for peer in quest.asked)
            quest.asked = peers.copy()
            if has_lost and quest.there is None:  # what it had is at another one now, who may have denied it before
                self._ask_all(client, quest)
                continue
            quest.answers = {peer: said for peer, said in quest.answers.items() if peer in peers}
            for peer in new:
                self._talk.tell(peer, quest.asking(client))

    def seek(self, client: str, user: str | None, done: Callable[[Outcome], None], of: int = -1) -> None:
        """Find it and bring it here; the newest who asks gets the answer. With `of`, only if it is that node's."""
        before = self._quests.pop(client, None)
        if before is not None:
            self._abandon(client)
            before.done("away")
        quest = self._quests[client] = Quest(user, self._links.peers, self._turn.now_s, done, of)
        for peer in quest.asked:
            self._talk.tell(peer, quest.asking(client))
        self._turn.set_timer((TAKE_TIMER, client), AGAIN_S)

    def on_found(self, peer: int, said: FoundSession) -> None:
        quest, own = self._quests.get(said.client), self._sessions.of.get(said.client)
        if quest is not None and quest.there is None:
            quest.answers[peer] = said
            if len(quest.answers) == len(quest.asked):
                self._decide(said.client, quest)
        elif quest is None and own is not None and said.client not in self._giving.leaving:
            # It was silent when its client was let in here.
            owners = [peer] if said.kind == "owner" and not said.is_others else []
            self._residing.claim(own, said.epoch, owners)

    def on_time(self, client: str) -> None:
        quest = self._quests.get(client)
        if quest is None:
            return
        now_s = self._turn.now_s
        if now_s - quest.since_s > (GIVE_UP_S + LOOK_S if quest.look_until_s else GIVE_UP_S):
            self._end(client, "away")
            return
        self._turn.set_timer((TAKE_TIMER, client), AGAIN_S)
        if quest.there is None:
            if now_s - quest.asked_s > quest.patience_s(self._links):
                self._decide(client, quest)
        elif client in self._arrivals.of and not quest.is_asking:
            if quest.is_effective or now_s - quest.entered_s > EFFECT_S:
                self._ask(client, quest)
        elif quest.look_until_s:
            if quest.look_batch < 0:
                quest.look_batch = self._links.held_batch
            if self._links.persisted < quest.look_batch:  # the question waits for this node's disk
                quest.look_until_s = now_s + LOOK_S
            elif now_s >= quest.look_until_s:
                self._settle(client, quest)

    def _decide(self, client: str, quest: Quest) -> None:
        """Who has it, if that can be said by now."""
        if quest.of >= 0 and any(one.kind == "seeking" for one in quest.answers.values()):
            self._end(client, "away")  # its client is there, or another one sees to it
            return
        own = self._sessions.of.get(client)
        silent = [peer for peer in quest.asked if peer not in quest.answers]
        at_home = self._giving.found(quest.asking(client))
        # Another user may have begun a session of that name where this one's was not: that takes nothing away from it.
        found = [
            (not one.is_others, one.epoch, one.kind == "owner", one.life, one.serial, peer)
            for peer, one in quest.answers.items()
            if one.kind in ("owner", "other") or quest.counts(one, at_home)
        ]  # fmt: skip
        if quest.counts(at_home, at_home):
            found.append((not at_home.is_others, at_home.epoch, False, at_home.life, at_home.serial, self._node))
        best = max(found, default=None)
        is_enough = len(silent) <= max(1, self._spare) or client not in self._unsure
        if own is not None and is_enough and (best is None or not best[0] or best[1] <= own.epoch):
            self._stay(client)
            owners = [peer for peer, one in quest.answers.items() if one.kind == "owner" and not one.is_others]
            theirs = [one[1] for one in found if quest.answers.get(one[-1], at_home).of != self._node]
            self._residing.claim(own, max(theirs, default=0), owners)  # a copy of what is here is nobody else's
            self._end(client, "here")
            return
        if len(silent) > self._spare:
            return  # until it is too late
        if best is None:
            if len(silent) <= max(1, len(quest.asked) // 2):  # who is cut off from most does not know of what they did
                self._has_none(client, quest, bool(silent) or self._may_have_moved(quest, at_home))
            return
        quest.peer, quest.there = best[-1], quest.answers.get(best[-1], at_home)
        if quest.of not in (-1, quest.there.of):
            self._end(client, "here")  # it is somebody else's by now
            return
        if quest.there.is_others:
            self._end(client, "other")
            return
        if own is not None:
            self._residing.drop(own)
        self._say(quest.peer, HandOver(client, quest.there.of, self._number_of(quest)))

    def _may_have_moved(self, quest: Quest, at_home: FoundSession) -> bool:
        """Whether the answers need not be of one moment: one node told before it came there, another after it had left.

        Somebody sees to it just now, or still has a copy of what its node says it has not; or it took long to hear all.
        """
        kinds = [one.kind for one in (*quest.answers.values(), at_home)]
        return "seeking" in kinds or "copy" in kinds or self._turn.now_s - quest.asked_s > AGAIN_S

    def _has_none(self, client: str, quest: Quest, is_doubtful: bool) -> None:
        """Nobody who has answered knows of it. Before that is said while somebody is silent, or the session may have
        gone from one to another meanwhile, all are asked again. If nobody answers at all, it may be this node's fault.
        """
        if not is_doubtful or (quest.is_asked_again and (quest.answers or not quest.is_slow(self._links))):
            is_heard_of = len(quest.answers) == len(quest.asked)
            self._end(client, "here")
            session = self._sessions.of.get(client)
            if (
                session is not None and not is_heard_of
            ):  # who is silent is told of it, as of one that came from elsewhere
                session.epoch += 1
                session.report()
        elif not quest.is_asked_again:
            quest.is_asked_again = True
            self._ask_all(client, quest)

    def _ask_all(self, client: str, quest: Quest) -> None:
        """Anew; who cannot be reached just now is dialled at once, for that may be over."""
        quest.asked_s, quest.answers = self._turn.now_s, {}
        self._links.want(quest.asked, is_urgent=True)
        for peer in quest.asked:
            self._talk.tell(peer, quest.asking(client))

    def on_hands_over(self, peer: int, said: HandsOver) -> None:
        quest = self._quests.get(said.client)
        if quest is None or quest.peer != peer or said.client in self._arrivals.of or not quest.is_due(said.number):
            return
        if said.is_gone:
            self._end(said.client, "away")
            return
        late_us = self._late_us(quest)
        wished = tuple((one, ago_us + late_us, since) for one, ago_us, since in said.wished)
        self._enter(said.client, quest, msgspec.structs.replace(said, wished=wished))

    def _late_us(self, quest: Quest) -> int:
        """How old an answer may be: it left behind what its node had to write, and a disk may be slow."""
        return int((self._turn.now_s - quest.said_s) * 1e6)

    def _enter(self, client: str, quest: Quest, said: HandsOver) -> None:
        """Its wishes are wanted here from now on, and a little earlier: what is on its way to the other node counts."""
        subscriptions = said.subscriptions
        guest = guest_of(client, quest.user, subscriptions, self._sessions.options)
        arrival = ComingSession(guest, book_of(said.wished, self._turn.now_us))
        arrival.entered_us = self._recovery.now_us
        arrival.due = {place: last for place, last in self._marks.all() if arrival.wants(place[1])}
        arrival.due |= {(self._node, topic): last for topic, last in self._last.all() if arrival.wants(topic)}
        self._arrivals.of[client] = arrival
        index = self._sessions.index
        bare = [split_shared(one.filter)[1] for one in subscriptions]
        new = [one for one in bare if not index.has_filter(one)]

        def served() -> None:
            self._detours.when_served(bare, effective)

        def effective() -> None:
            quest.is_effective = True
            if self._quests.get(client) is quest and not quest.is_asking:
                self._ask(client, quest)

        outer = self._cascades.current
        cascade = self._cascades.begin(served, self._turn.now_s)
        for subscription in subscriptions:
            index.subscribe(guest, subscription)
        self._following.follow()
        self._cascades.end(cascade)
        self._cascades.current = outer
        wished_us = {topic_filter: ago_us for topic_filter, ago_us, _ in said.wished}
        quest.new, quest.entered_s = {one: wished_us.get(one) for one in new}, self._turn.now_s
        self.lacking.want_earlier(quest, 0)

    def _ask(self, client: str, quest: Quest) -> None:
        assert quest.there is not None
        quest.is_asking, quest.state = True, None
        self._say(quest.peer, AskSession(client, quest.there.of, self._number_of(quest)))

    def _number_of(self, quest: Quest) -> int:
        """Of the question that is asked now. Whoever asked before may have given up, and its client come again."""
        self._number = max(self._number + 1, self._turn.now_us)
        quest.number, quest.said_s = self._number, self._turn.now_s
        return self._number

    def on_given(self, peer: int, said: GivenSession) -> None:
        quest, arrival = self._quests.get(said.client), self._arrivals.of.get(said.client)
        if quest is None or arrival is None or quest.peer != peer or not quest.is_asking:
            return
        if not quest.is_due(said.number):
            return
        if said.is_gone:
            self._end(said.client, "away")
            return
        state = _state(said.state)
        before = () if quest.state is None else quest.state.deliveries
        quest.state = msgspec.structs.replace(state, deliveries=(*before, *state.deliveries))
        if not said.is_last:
            return
        arrival.taken = {(origin, topic): last for origin, topic, last in said.marks}
        arrival.floor, arrival.floors, arrival.ahead = said.floor, dict(said.floors), frozenset(said.ahead)
        self.lacking.fill(arrival)
        is_late = self._turn.now_s - quest.entered_s > GIVE_UP_S / 2
        others = [place for place in arrival.gaps() if place[0] != self._node]
        is_new = quest.new.keys() >= {split_shared(one)[1] for one in arrival.guest.subscriptions}
        is_there = quest.there is not None and quest.there.of == peer
        # Nobody has collected for it since then, or not all: logs have what came. What is wanted here for its sake
        # alone is found by logs at any time.
        if said.ago_us and not (is_there and is_new):
            quest.look_until_s, arrival.missed_until_us = self._turn.now_s + LOOK_S, self._turn.now_us
            # There may have been cut off from somebody without knowing it, for as long as links are believed silent.
            lacking_us = said.ago_us + self._late_us(quest)
            ago_us = lacking_us + int(max(FRESH_S, self._links.settings.silence_s) * 1e6)
            self.lacking.want_earlier(quest, lacking_us)
            quest.missed_us = self._recovery.now_us - ago_us
            if not is_there:
                self.lacking.owe_earlier(arrival, quest)
            self._recovery.disturb(max(1, self._recovery.now_us - ago_us))
        elif not others or is_late:
            self._settle(said.client, quest)
        else:
            quest.is_asking = False  # again, when there has it too

    def _settle(self, client: str, quest: Quest) -> None:
        """It is all here."""
        arrival, state, there = self._arrivals.of.pop(client), quest.state, quest.there
        assert state is not None
        assert there is not None
        session, now_s = arrival.guest, self._turn.now_s
        rest = arrival.rest()
        session.collected = None
        messages = [shared.message for shared, *_ in rest]
        waiting = self.lacking.settle(arrival, quest, messages)
        # What its node sent alone since the copy was made is not known: the client may still hold its identifiers.
        ahead = 0 if there.of == quest.peer else IDENTIFIERS_APART * (1 + self._node % IDENTIFIER_RANGES)
        last_id = (state.last_packet_id + ahead) % 0xFFFF
        kept = {one.filter for one in state.subscriptions}
        lost = [one for one in session.subscriptions if one not in kept]  # its rights have changed there meanwhile
        for topic_filter in lost:
            self._sessions.index.unsubscribe(session, topic_filter)
        session.take_state(
            msgspec.structs.replace(state, will=None, will_due_s=None, expires_at_s=None, last_packet_id=last_id)
        )
        session.epoch = there.epoch + 1
        session.past = arrival.had()  # what it had there may still be on its way here
        self._sessions.adopt(session, now_s)
        self._stored.adopt(session)
        self.lacking.remember(client, session.past)
        for shared, qos, retain, identifiers in rest:
            if shared.message.id not in waiting:
                session.deliver(shared, qos, retain, identifiers, now_s)
        self.lacking.note_rest(session, [one for one in messages if one.id not in waiting])
        if self._sessions.review(session) or lost:  # rights have changed while its node was away
            self._following.follow()
        self.lacking.seed_marks(arrival)
        session.update_plain_version()
        self.taken_count += 1
        self._end(client, "here")
        self.lacking.hold([one for one in messages if one.id in waiting])
        self._residing.tell(lambda: self._links.connected, [session], is_new=True)

    def resume(self) -> None:
        """Sessions that were here before a restart; some of them came shortly before it."""
        for session in self._sessions.of.values():
            if self._links.peers:
                self._unsure[session.client_id] = None
            if isinstance(session.past, Had):
                self.lacking.remember(session.client_id, session.past)

    def _end(self, client: str, outcome: Outcome) -> None:
        quest = self._quests.pop(client)
        self._turn.cancel_timer((TAKE_TIMER, client))
        self._abandon(client)
        if outcome == "here":
            self._unsure.pop(client, None)
        quest.done(outcome)

    def _abandon(self, client: str) -> None:
        arrival = self._arrivals.of.pop(client, None)
        if arrival is not None:
            for topic_filter in arrival.guest.subscriptions:
                self._sessions.index.unsubscribe(arrival.guest, topic_filter)
            self._following.follow()

    # --- there ---

    def _say(self, peer: int, said: Follows) -> None:
        """A copy of another node's session may be here."""
        if peer == self._node:
            self.hear(peer, said)
        else:
            self._talk.tell(peer, said)

    def hear(self, peer: int, said: Follows) -> None:
        match said:
            case SeekSession():
                self._talk.tell(peer, self._answer(said))
            case FoundSession():
                self.on_found(peer, said)
            case HandOver():
                if said.of != self._node:
                    self._wards.urge(said.of)
                self._say(peer, self._giving.handed_over(peer, said))
            case HandsOver():
                self.on_hands_over(peer, said)
            case AskSession():
                self._give(peer, said)
            case GivenSession():
                self.on_given(peer, said)
            case MovedSessions():
                self._residing.hear(peer, said)
                for client, epoch, owner in said.sessions:
                    quest = self._quests.get(client)
                    if quest is None:
                        continue
                    is_others = owner not in (None, quest.user)
                    if quest.there is None:  # whatever was said before
                        self.on_found(peer, FoundSession(client, "owner", epoch, peer, is_others))
                    elif epoch > quest.there.epoch and not is_others:  # what was given is not the last word any more
                        self._end(client, "away")
            case EndSession():
                session = self._sessions.of.get(said.client)
                if session is not None and session.expiry_s and session.owner in (None, said.user):
                    self._residing.drop(session)

    def _answer(self, said: SeekSession) -> FoundSession:
        quest = self._quests.get(said.client)
        # Its client is there now: two nodes that go on would each have a session of it.
        if quest is not None and said.has_client and (quest.look_until_s or quest.of >= 0 or quest.user == said.user):
            self._end(said.client, "away")
        found = self._giving.found(said)
        is_ahead = quest is not None and quest.of < 0 and not said.has_client
        if quest is not None and (found.kind == "none" or is_ahead):
            found = msgspec.structs.replace(found, kind="seeking")
        return found

    def _give(self, peer: int, said: AskSession) -> None:
        """Behind everything that is on its way to a disk: where the session goes, its client is answered for it."""

        def give() -> None:
            for part in self._giving.given(peer, said):
                self._say(peer, part)

        session = self._sessions.of.get(said.client)
        if said.of != self._node:
            self._wards.when_safe(said.of, give)
            return
        if session is None or session.journal is None:
            give()
            return
        session.report()  # a write of this turn: what is said with it leaves behind it
        if self._keeping is None:
            give()
        else:
            self._keeping.when_kept(give)

    def begun_afresh(self, client: str, user: str | None) -> None:
        """A client with a clean start here: what it had elsewhere is over."""
        self._giving.leaving.pop(client, None)
        self._unsure.pop(client, None)
        self._talk.flood(EndSession(client, user))

    def tell_all(self, peer: int) -> None:
        """To a new neighbour: the sessions that came here; it may have had one of them before it fell.

        Whoever waits here for a session asks it, too: it may not have heard the question. And its own sessions are not
        taken from a copy any more.
        """
        for client, quest in list(self._quests.items()):
            if quest.there is None and peer not in quest.answers:
                self._talk.tell(peer, quest.asking(client))
            elif quest.there is not None and quest.there.of == peer != quest.peer:
                self._end(client, "away")
        moved = [one for one in self._sessions.of.values() if one.epoch > 1]
        if moved:
            self._residing.tell(lambda: [peer], moved, is_new=False)
