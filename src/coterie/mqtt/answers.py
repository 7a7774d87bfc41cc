"""The retained messages that subscriptions are answered with, a part a turn: nobody waits for another's wildcard.

A subscription over very many topics would keep a node busy and fill its memory with what its client has not read. So a
session is *owed* what was not sent yet: SUBACK leaves, and the rest follows as fast as the client takes it. To the
client it looks as if all had been sent at once: a later message on a topic comes behind what was retained there, or
stands for it if it is retained itself. For a lasting session the place is written with the messages before it, so that
a crash or a move to another node loses nothing, and repeats at most what had gone ahead of its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.mqtt.packets import Subscription
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.retained import RetainedStore
from coterie.mqtt.topics import filter_matches

if TYPE_CHECKING:
    from coterie.mqtt.session import Session

PART_COUNT = 200  # messages in a turn, and their bytes: a millisecond or two
PART_BYTES = 256 << 10
MESSAGE_BYTES = 100  # what a message costs besides its payload


class Owed:
    """What one subscription is still owed."""

    def __init__(self, store: RetainedStore, subscription: Subscription, after: str = "") -> None:
        self.subscription = subscription
        self.count = 0
        self._store = store
        self._walk = store.walk(subscription.filter, after)
        self._sent: dict[str, None] = {}  # ahead of the walk, because something else came on that topic

    @property
    def position(self) -> str:
        return self._walk.position

    def send_next(self, session: Session, count_max: int, now_s: float) -> int:
        """Send the next one; returns about how many bytes that were, 0 at the end."""
        message = self._walk.next(now_s)
        if message is None:
            return 0
        if self._sent.pop(message.topic, self) is not self:
            return 1
        self.count += 1
        if self.count > count_max:
            session.shed_count += 1
            return 1
        self._send(session, message, now_s)
        return MESSAGE_BYTES + len(message.payload)

    def overtaken(self, session: Session, message: Message, now_s: float) -> None:
        """A message is about to be sent: what is retained on its topic goes first, unless this is the newer word."""
        topic = message.topic
        if not filter_matches(self.subscription.filter, topic) or topic in self._sent or not self._walk.is_ahead(topic):
            return
        retained = self._store.get(topic, now_s)
        if retained is not None:
            self._sent[topic] = None
            if not message.retain:
                self._send(session, retained, now_s)

    def _send(self, session: Session, message: Message, now_s: float) -> None:
        wish = self.subscription
        if wish.no_local and message.publisher == session.client_id:
            return
        identifiers = (wish.identifier,) if wish.identifier else ()
        session.pass_on(SharedPublish(message), min(wish.qos, message.qos), True, identifiers, now_s)


class RetainedAnswers:
    """See the module. `owing`: sessions whose clients are there and have not had all of it."""

    def __init__(self, store: RetainedStore) -> None:
        self.owing: dict[Session, None] = {}
        self._store = store

    def begin(self, session: Session, subscription: Subscription, after: str = "") -> None:
        session.owed[subscription.filter] = Owed(self._store, subscription, after)
        session.update_plain_version()

    def resume(self, session: Session) -> None:
        """One that comes from a disk or from another node; its client is not there yet."""
        places, session.owed_from = session.owed_from, ()
        for topic_filter, after in places:
            if topic_filter in session.subscriptions:
                self.begin(session, session.subscriptions[topic_filter], after)

    def advance(self, session: Session, count_max: int, now_s: float) -> bool:
        """Send a part, as far as the client takes it; whether there was anything that could be done."""
        owed, room, count = session.owed, PART_BYTES, 0
        while owed and room > 0 and count < PART_COUNT and _takes_more(session):
            topic_filter, answer = next(iter(owed.items()))
            size = answer.send_next(session, count_max, now_s)
            if not size:
                del owed[topic_filter]
            room -= size
            count += 1
        if session.owed_places != session.owed_kept:
            session.report()
        if owed and session.connection is not None:
            self.owing[session] = None
        else:
            self.owing.pop(session, None)
        if not owed:
            session.update_plain_version()
        return count > 0

    def part(self, count_max: int, dirty: list[Session], now_s: float) -> bool:
        """For one of the sessions, in turn; False if none of them takes anything at present."""
        for session in list(self.owing):
            del self.owing[session]
            if self.advance(session, count_max, now_s):
                dirty.append(session)
                return True
        return False


def _takes_more(session: Session) -> bool:
    """Its client reads, and less than a part waits for it."""
    connection = session.connection
    return connection is not None and not connection.is_congested and session.queue_count < PART_COUNT
