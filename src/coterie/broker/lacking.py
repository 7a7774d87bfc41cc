"""What a session lacks when it comes: its node may not have had everything, and what others here had is over for them.

What is in a log here goes to it at once. What its origin has not told again since is owed from then on: the marks of
this node go back, so that it is looked for like anything else that is missing, in order; and the others, who had it,
remember that they did. So nothing depends on whether that origin can be reached while the session comes.
"""

from __future__ import annotations

from coterie.broker.arrivals import ComingSession, Had, Place
from coterie.broker.carried import TIME_BITS, TIME_MASK, decode_carried, encode_carried, origin_of
from coterie.broker.copies import HeldCopies
from coterie.broker.delivering import Delivering
from coterie.broker.giving import Giving
from coterie.broker.interest import LocalInterest
from coterie.broker.lastwords import named_in_log
from coterie.broker.marks import Marks
from coterie.broker.quests import Quest
from coterie.broker.recovery import Recovery
from coterie.broker.turn import Turn
from coterie.broker.writes import COPIED_BODIES, COPIED_LOG, LOG, MESSAGES, Shelf
from coterie.mqtt.publish import Message
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions
from coterie.mqtt.topics import split_shared

FRESH_S = 10.0  # what is younger may be on its way still
FORGET_S = 60.0
FORGET_TIMER = "forget"


class Lacking:
    """See the module."""

    def __init__(
        self, node: int, sessions: Sessions, interest: LocalInterest, marks: Marks, recovery: Recovery,
        copies: HeldCopies, delivering: Delivering, giving: Giving, shelf: Shelf, turn: Turn,
    ) -> None:  # fmt: skip
        self._node, self._sessions, self._interest, self._marks = node, sessions, interest, marks
        self._recovery, self._copies, self._delivering, self._giving = recovery, copies, delivering, giving
        self._shelf, self._turn = shelf, turn

    def want_earlier(self, quest: Quest, ago_us: int) -> None:
        """As there: what it has not dealt with is owed here. If it does not say since when, what is on its way is."""
        for topic_filter, wished_us in quest.new.items():
            back_us = ago_us + int(FRESH_S * 1e6) if wished_us is None else wished_us
            self._interest.want_earlier(topic_filter, back_us)

    def fill(self, arrival: ComingSession) -> None:
        """What there has not got yet and is in a log here: this node's own, or one that it keeps for another.

        That one may be gone, though its link is believed in: then nobody speaks for it yet.
        """
        for origin in {place[0] for place in arrival.gaps()} & {self._node, *self._copies.of}:
            is_own = origin == self._node
            log, bodies = (LOG, MESSAGES) if is_own else (COPIED_LOG, COPIED_BODIES)
            taken = arrival.taken or {}
            places = [place for place in arrival.gaps() if place[0] == origin]
            ahead_us = self._recovery.now_us - self._turn.now_us  # identifiers may be ahead of the clock
            if not is_own:
                ahead_us = self._copies.of[origin].now_us(self._turn.now_us) - self._turn.now_us
            first = min(taken.get(place, 0) for place in places) or origin << TIME_BITS
            for identifier, logged in self._shelf.between(log, first + 1, max(arrival.due[place] for place in places)):
                topic, _ = named_in_log(logged.decode(), identifier)
                is_lacking = arrival.lacks(topic, identifier, (identifier & TIME_MASK) - ahead_us)
                body = self._shelf.get(bodies, identifier) if is_lacking else None
                if body is not None:
                    arrival.offer(decode_carried(body).message())

    def settle(self, arrival: ComingSession, quest: Quest, rest: list[Message]) -> dict[int, None]:
        """It goes on with that rest, but for what is returned: that comes behind what is still missing."""
        if quest.missed_us and any(self._recovery.may_lack(one, arrival.entered_us) for one in self._recovery.others):
            self.owe_earlier(arrival, quest)
        self._owe_fresh(arrival, quest)
        return self._reopen(arrival, rest)

    def hold(self, messages: list[Message]) -> None:
        """What was here before what it waits for; the session, which is here by now, gets it in its turn."""
        for message in messages:
            self._delivering.take_direct(decode_carried(encode_carried(message.id, message, 1)))

    def owe_earlier(self, arrival: ComingSession, quest: Quest) -> None:
        """What a node took alone since then comes when that is back, though others here want it only now."""
        back_us = max(0, self._recovery.now_us - quest.missed_us)
        for bare in {split_shared(one)[1] for one in arrival.guest.subscriptions}.difference(quest.new):
            self._interest.want_earlier(bare, back_us)

    def _owe_fresh(self, arrival: ComingSession, quest: Quest) -> None:
        """What was on its way there may never have come, and others here may want the same only since a moment ago."""
        since = {} if arrival.wished is None else arrival.wished.since
        for bare in {split_shared(one)[1] for one in arrival.guest.subscriptions}.difference(quest.new):
            wished_us = self._turn.now_us - since[bare].now_us if bare in since else TIME_MASK
            self._interest.want_earlier(bare, min(int(FRESH_S * 1e6), wished_us), is_needed=False)

    def _reopen(self, arrival: ComingSession, rest: list[Message]) -> dict[int, None]:
        """What others here have had, it has not, and its origin has not told again: that is looked for like anything
        else that is missing, in order, and passes by those who had it. Returns what of the rest comes behind that."""
        had_here: dict[Place, int] = {}
        ahead: dict[int, int] = {}
        waiting: dict[int, None] = {}
        beyond_gaps = [place for place, _ in self._marks.ahead() if arrival.wants(place[1])]
        for place in dict.fromkeys((*arrival.gaps(), *beyond_gaps)):
            origin, topic = place
            low, mark, beyond = arrival.had_up_to(place), self._marks.get(*place), self._marks.ahead_of(*place)
            if origin == self._node or not arrival.is_awaited(topic):
                continue
            got = {one.id: one.before for one in rest if one.topic == topic and origin_of(one.id) == origin}
            got |= {one: before for one, before in beyond.items() if one in arrival.ahead or one <= low}
            if mark <= low and beyond.keys() <= got.keys():
                continue
            if not self._recovery.may_lack(origin, arrival.entered_us):
                continue
            had_here[place] = mark
            ahead |= beyond
            first = min(low, mark)  # it is open already where another one came just now
            waiting |= self._waiting(arrival, place, got)
            got = {one: before for one, before in got.items() if one not in waiting}
            self._marks.reopen(origin, topic, first, {one: before for one, before in got.items() if one > first})
        if not had_here:
            return waiting
        others: dict[str, Session] = {}
        for topic in {topic for _, topic in had_here}:
            match = self._sessions.index.matches(topic)
            receivers = [one.receiver for one in match.receivers]
            receivers += [one for group in match.groups for one in group.members]
            others |= {one.client_id: one for one in receivers if one.collected is None and one is not arrival.guest}
        for client, session in others.items():
            before = session.past if isinstance(session.past, Had) else Had({}, {})
            session.past = had = before.and_here(had_here, ahead)
            session.report()
            session.update_plain_version()
            self.remember(client, had)
        return waiting

    def _waiting(self, arrival: ComingSession, place: Place, got: dict[int, int]) -> dict[int, None]:
        """What is news to the session, while its predecessor is owed to it and neither had nor given to it now."""
        waiting: dict[int, None] = {}
        low, given = arrival.had_up_to(place), {one for one in got if one in arrival.ahead}
        for one in sorted(got.keys() - given):
            before = got[one]
            when_us = self._turn.now_us - (one - before)  # at the latest
            is_had = before <= low or before in given
            if one > low and not is_had and arrival.is_owed(place[1], before, when_us):
                waiting[one] = None
            else:
                given.add(one)
        return waiting

    def seed_marks(self, arrival: ComingSession) -> None:
        """What there dealt with need not come here for this session; unless somebody else waits for it."""
        for (origin, topic), last in (arrival.taken or {}).items():
            receivers = self._sessions.index.matches(topic).receivers
            is_shared = any(one.receiver is not arrival.guest for one in receivers)
            if origin != self._node and not is_shared and self._marks.get(origin, topic) < last:
                self._marks.set(origin, topic, last)
                self._delivering.pass_over(last)

    def note_rest(self, session: Session, rest: list[Message]) -> None:
        """It has these now. For another one that came they may be looked for still: they are not to come again."""
        news = [(origin_of(one.id), one.topic, one.id) for one in rest if origin_of(one.id) != self._node]
        again = [one for origin, topic, one in news if not self._marks.has(origin, topic, one)]
        if again and isinstance(session.past, Had):
            session.past = had = session.past.and_here({}, again)
            session.report()
            self.remember(session.client_id, had)

    def remember(self, client: str, had: Had) -> None:
        """What went into that session before is not to come again."""
        self._giving.came[client] = had
        self._turn.set_timer((FORGET_TIMER, client), FORGET_S)

    def forget(self, client: str) -> None:
        """By now nothing comes any more that the session had at its last node; or before somebody came who had not."""
        session, had = self._sessions.of.get(client), self._giving.came.get(client)
        places = {} if had is None else had.taken
        is_open = any(self._may_come(place, last) for place, last in places.items())
        if had is not None and (is_open or not self._recovery.behind.keys().isdisjoint(map(origin_of, had.ahead))):
            self.remember(client, had)
            return
        self._giving.came.pop(client, None)
        if session is not None:
            session.past = None
            session.report()
            session.update_plain_version()

    def _may_come(self, place: Place, last: int) -> bool:
        return self._marks.get(*place) < last and place[0] in self._recovery.behind
