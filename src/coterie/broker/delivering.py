"""What comes from the network for local clients: each publication once, wherever and however often it comes in."""

from __future__ import annotations

from collections import deque

from coterie.accounting.tally import Tally
from coterie.broker.arrivals import ComingSessions
from coterie.broker.asking import Asking
from coterie.broker.carried import RETAINED_CHANNEL, TIME_MASK, Carried, decode_carried, origin_of
from coterie.broker.counts import Counts
from coterie.broker.detours import Detours
from coterie.broker.interest import InterestBook
from coterie.broker.lastwords import LastWords, named_in_log
from coterie.broker.ordering import Ordering
from coterie.broker.turn import Turn
from coterie.errors import RemoteProtocolError
from coterie.mqtt.fanout import fan_out
from coterie.mqtt.index import Match
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions
from coterie.protocol.events import Event
from coterie.protocol.seen import Seen

RECENT_MAX = 200_000
LATEST_MAX = 65_536


class RecentEvents:
    """When events at QoS 1 and 2 were delivered here, while somebody needs to know."""

    def __init__(self) -> None:
        self.is_watched = False
        self._when_s: dict[int, float] = {}

    def watch(self, is_watched: bool) -> None:
        self.is_watched = is_watched
        if not is_watched:
            self._when_s.clear()

    def note(self, identifier: int, now_s: float) -> None:
        if self.is_watched:
            if len(self._when_s) >= RECENT_MAX:
                del self._when_s[next(iter(self._when_s))]
            self._when_s[identifier] = now_s

    def when_s(self, identifier: int) -> float | None:
        return self._when_s.get(identifier)


class Delivering:
    """See the module."""

    def __init__(
        self, sessions: Sessions, book: InterestBook, ordering: Ordering, words: LastWords, recent: RecentEvents,
        detours: Detours, asking: Asking, arrivals: ComingSessions, counts: Counts, is_alone: bool, turn: Turn,
    ) -> None:  # fmt: skip
        self.ordering = ordering
        self._sessions, self._book, self._words, self._recent = sessions, book, words, recent
        self._asking, self._arrivals = asking, arrivals
        self._found: deque[bytes] = deque()  # what was asked for and is kept here, for an origin that is away
        self._is_taking = False
        self._detours, self._counts, self._is_alone, self._turn = detours, counts, is_alone, turn
        self._once = Seen(65_536)  # QoS 0 events that came on several channels
        self._latest: dict[tuple[int, str], int] = {}  # origin and topic -> the last event at QoS 0
        self._before: dict[int, int] = {}  # origin -> the last event that was heard of before this start

    def start(self, heads: dict[int, int]) -> None:
        self._before = heads.copy()

    def take_event(self, event: Event, hops: int, tally: Tally) -> None:
        """From the overlay."""
        try:
            carried = decode_carried(event.payload)
        except RemoteProtocolError as error:
            self._turn.say(f"event {event.id} is of no use: {error}")
            return
        if origin_of(carried.id) == self._book.node:
            return
        if event.topic == RETAINED_CHANNEL:
            self._words.hear(carried.word, carried.message())
            return
        delivered = self._take(carried)
        if delivered:
            delay_us = max(0, self._turn.now_us - (carried.id & TIME_MASK))
            tally.add_delivery(hops, delay_us, delivered)
            self._counts.late_us.add(delay_us, delivered)

    def take_detoured(self, body: bytes) -> None:
        """A copy that came straight from where it was published."""
        carried = decode_carried(body)
        if origin_of(carried.id) == self._book.node:
            return
        if carried.retain:
            self._words.hear(carried.word, carried.message())
        if self._sessions.index.matches(carried.topic).is_wanted:
            self._take(carried)

    def take_direct(self, carried: Carried) -> None:
        """One of a run (`crossing`) that cannot be taken as a whole."""
        match = self._sessions.index.matches(carried.topic)
        if match.is_wanted:
            self._take(carried)

    def take_copy(self, body: bytes) -> None:
        """An event that was asked for, straight from its origin."""
        carried = decode_carried(body)
        if carried.retain:
            self._words.hear(carried.word, carried.message())
        if self._arrivals.of:
            self._arrivals.offer(carried)
        if self._sessions.index.matches(carried.topic).is_wanted:  # at QoS 0, too: newer ones may wait for it
            self._take(carried)

    def _take(self, carried: Carried) -> int:
        is_kept = carried.qos or carried.retain
        is_twice = carried.channels > 1 or self._detours.is_guarding
        if not is_kept and is_twice and not self._once.add(carried.id):
            return 0
        free = self.ordering.take(carried)
        if self.ordering.asking:
            self._ask()
        return sum(map(self._deliver, free)) if free else 0

    def _ask(self) -> None:
        for origin, identifiers in self.ordering.take_asking().items():
            self._found += self._asking.want(origin, identifiers)[1]
        if self._found and not self._is_taking:
            self._is_taking = True
            while self._found:
                self.take_copy(self._found.popleft())
            self._is_taking = False

    def on_held(self) -> None:
        """Some wait for what was not had yet."""
        for carried in self.ordering.on_time(self._asking.is_heard):
            self._deliver(carried)
        self._ask()

    def pass_over(self, identifier: int) -> None:
        """What was asked for is nowhere any more."""
        for carried in self.ordering.pass_over(identifier):
            self._deliver(carried)

    def is_late(self, origin: int, topic: str, identifier: int) -> bool:
        """Whether this one at QoS 0 or a newer one was delivered, or may have been before a restart: it came another
        way, over a repaired tree, a new plan or a detour.

        At QoS 0 a message may be lost; it may not come out of order.
        """
        key = (origin, topic)
        if identifier <= self._latest.get(key, 0) or identifier < self._before.get(origin, 0):
            return True
        if len(self._latest) >= LATEST_MAX:
            self._latest.clear()
        self._latest[key] = identifier
        return False

    def _deliver(self, carried: Carried) -> int:
        if not carried.qos and self.is_late(origin_of(carried.id), carried.topic, carried.id):
            self._counts.late_dropped += 1
            return 0
        message = carried.message()
        match = self.in_turn(self._sessions.index.matches(message.topic), carried.id)
        delivered = fan_out(message, match, None, self._sessions.dirty, self._turn.now_s)
        if message.qos:
            self._recent.note(carried.id, self._turn.now_s)
        self._counts.events_in += 1
        self._counts.messages_out += delivered
        self._counts.fan_out.add(delivered)
        return delivered

    def in_turn(self, match: Match[Session], identifier: int) -> Match[Session]:
        """Without the shared subscriptions whose turn is at another node."""
        if not match.groups or self._is_alone:
            return match
        names, is_turn = self._sessions.index.groups, self._book.is_turn
        mine = tuple(one for one in match.groups if one not in names or is_turn(names[one], identifier))
        return match if len(mine) == len(match.groups) else Match(match.topic, match.receivers, mine)

    def misses(self, topic: str, identifier: int, when_us: int) -> bool:
        """Whether an event from another node's log should be here and is not; it was published then, by our clock."""
        if origin_of(identifier) == self._book.node:
            return False
        topic, stamp = named_in_log(topic, identifier)
        if stamp and self._words.is_news(topic, stamp):
            return True
        if self._arrivals.of and self._arrivals.lacks(topic, identifier, when_us):
            return True
        is_missing = self._is_wanted(topic) and not self.ordering.is_had(topic, identifier)
        return is_missing and self._book.is_owed(topic, identifier, when_us)

    def _is_wanted(self, topic: str) -> bool:
        match = self._sessions.index.matches(topic)
        return bool(match.groups) or any(receiver.qos for receiver in match.receivers)
