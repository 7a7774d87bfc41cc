"""Sessions that are on their way here: what comes for them meanwhile, and what they lack.

`ComingSessions` is asked by those who deliver and recover; `takeover` decides when a session has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from coterie.broker.carried import TIME_BITS, TIME_MASK, Carried, origin_of
from coterie.broker.interest import InterestBook
from coterie.mqtt.index import SubscriptionIndex
from coterie.mqtt.packets import Subscription
from coterie.mqtt.publish import Message, SharedPublish
from coterie.mqtt.session import Delivery, Session, SessionState

PART_BYTES = 1 << 20
Place = tuple[int, str]  # origin, topic
_pack = msgspec.msgpack.Encoder().encode


class _PackedHad(msgspec.Struct, array_like=True):
    taken: list[tuple[int, str, int]]
    floors: list[tuple[int, int]]
    ahead: list[int] = []


_unpack_had = msgspec.msgpack.Decoder(_PackedHad).decode


class Had:
    """What went into a session where it was before: all up to there of each origin and topic, and of each origin, and
    these beyond.

    It may still be on its way here; so it is kept with the session, for as long as it may be.
    """

    def __init__(self, taken: dict[Place, int], floors: dict[int, int], ahead: Iterable[int] = ()) -> None:
        self.taken, self.floors, self.ahead = taken, floors, frozenset(ahead)

    def has(self, topic: str, identifier: int) -> bool:
        origin = origin_of(identifier)
        is_up_to = identifier <= self.floors.get(origin, 0) or identifier <= self.taken.get((origin, topic), 0)
        return is_up_to or identifier in self.ahead

    def and_here(self, marks: dict[Place, int], ahead: Iterable[int]) -> Had:
        """And all up to these marks, and these."""
        taken = self.taken | {place: max(last, self.taken.get(place, 0)) for place, last in marks.items()}
        return Had(taken, self.floors, self.ahead.union(ahead))

    def packed(self) -> bytes:
        taken, floors = [(*place, last) for place, last in self.taken.items()], list(self.floors.items())
        return _pack((taken, floors, sorted(self.ahead)) if self.ahead else (taken, floors))


def had_of(data: bytes) -> Had | None:
    if not data:
        return None
    had = _unpack_had(data)
    return Had({(origin, topic): last for origin, topic, last in had.taken}, dict(had.floors), had.ahead)


class ComingSession:
    """One of them. `guest` stands for it in the index and collects; `due`: what was dealt with here before it came.

    `wished` is what was wanted where the session was, and since when; None: not known, so everything is owed.
    """

    def __init__(self, guest: Session, wished: InterestBook | None = None) -> None:
        self.guest, self.wished = guest, wished
        self.due: dict[Place, int] = {}
        self.entered_us = 0  # when that was
        self.taken: dict[Place, int] | None = None  # what went into it at the other node, as far as that is known
        self.floor = (0, 0)  # all of this origin up to there did
        self.floors: dict[int, int] = {}  # and of these, where it was before
        self.ahead: frozenset[int] = frozenset()  # and these, beyond something that was missing there
        self.missed_until_us = 0  # nobody collected for it up to then, by our clock: its node is away
        self._sought: dict[int, None] = {}  # what was found missing because of that
        self._index: SubscriptionIndex[Session] = SubscriptionIndex()
        for subscription in guest.subscriptions.values():
            self._index.subscribe(guest, subscription)

    def wants(self, topic: str) -> bool:
        return self._index.matches(topic).is_wanted

    def has(self, topic: str, identifier: int) -> bool:
        """Whether it was dealt with where the session was, or is collected."""
        origin = origin_of(identifier)
        if self._is_below(origin, identifier) or identifier in self.ahead:
            return True
        is_had = self.taken is not None and identifier <= self.taken.get((origin, topic), 0)
        return is_had or (self.guest.collected is not None and identifier in self.guest.collected)

    def _is_below(self, origin: int, identifier: int) -> bool:
        is_here = origin == self.floor[0] and identifier <= self.floor[1]
        return is_here or identifier <= self.floors.get(origin, 0)

    def had(self) -> Had:
        floors = dict(self.floors)
        floors[self.floor[0]] = max(self.floor[1], floors.get(self.floor[0], 0))
        return Had(self.taken or {}, floors, self.ahead)

    def had_up_to(self, place: Place) -> int:
        """All up to there went into it where it was before."""
        floors = (self.floors.get(place[0], 0), self.floor[1] if self.floor[0] == place[0] else 0)
        return max((self.taken or {}).get(place, 0), *floors)

    def is_awaited(self, topic: str) -> bool:
        """Whether it wants that at QoS 1 or 2, for itself."""
        return any(one.qos for one in self._index.matches(topic).receivers)

    def gaps(self) -> list[Place]:
        """Where something was dealt with here that the session has not had there."""
        taken = self.taken or {}
        return [
            place for place, last in self.due.items()
            if taken.get(place, 0) < last and not self._is_below(place[0], last) and self.is_owed(place[1], last)
        ]  # fmt: skip

    def lacks(self, topic: str, identifier: int, when_us: int = TIME_MASK) -> bool:
        """Whether it lies in such a gap; it was published then, by our clock, if that is known.

        Others here may have wanted its topic for a shorter time, and what they were not owed is no gap of theirs.
        """
        is_due = identifier <= self.due.get((origin_of(identifier), topic), 0)
        is_missed = when_us < self.missed_until_us or identifier in self._sought
        is_lacking = (is_due or is_missed) and self.wants(topic) and not self.has(topic, identifier)
        if not is_lacking or not self.is_owed(topic, identifier, when_us):
            return False
        if is_missed and not is_due:
            self._sought[identifier] = None
        return True

    def is_owed(self, topic: str, identifier: int, when_us: int = TIME_MASK) -> bool:
        """Whether it came after the subscription."""
        return self.wished is None or self.wished.is_owed(topic, identifier, when_us)

    def offer(self, message: Message) -> None:
        match = self._index.matches(message.topic)
        collected = self.guest.collected
        assert collected is not None
        for receiver in match.receivers:
            qos = min(receiver.qos, message.qos)
            if qos:
                retain = message.retain and receiver.retain_as_published
                collected[message.id] = (SharedPublish(message), qos, retain, receiver.identifiers)

    def rest(self) -> list[tuple[SharedPublish, int, bool, tuple[int, ...]]]:
        """What was collected and is news to the session, oldest first."""
        collected = self.guest.collected or {}
        self.guest.collected = {}
        news = [one for one in collected if not self.has(collected[one][0].message.topic, one)]
        return [collected[one] for one in sorted(news, key=lambda one: (one & TIME_MASK, one >> TIME_BITS))]


class ComingSessions:
    """All that are under way, by client."""

    def __init__(self) -> None:
        self.of: dict[str, ComingSession] = {}

    def lacks(self, topic: str, identifier: int, when_us: int) -> bool:
        return any(one.lacks(topic, identifier, when_us) for one in self.of.values())

    def offer(self, carried: Carried) -> None:
        for one in self.of.values():
            if one.lacks(carried.topic, carried.id):
                one.offer(carried.message())


def guest_of(client: str, owner: str | None, subscriptions: tuple[Subscription, ...], options: object) -> Session:
    """A session that only collects."""
    guest = Session(client, options)  # type: ignore[arg-type]
    guest.owner, guest.collected = owner, {}
    guest.subscriptions = {one.filter: one for one in subscriptions}
    return guest


def state_parts(state: SessionState) -> Iterator[SessionState]:
    """A session in messages that fit a frame."""
    chunk: list[Delivery] = []
    size = 0
    for delivery in state.deliveries:
        chunk.append(delivery)
        size += 200 + len(delivery.message.payload)
        if size > PART_BYTES:
            yield msgspec.structs.replace(state, deliveries=tuple(chunk))
            chunk, size = [], 0
    yield msgspec.structs.replace(state, deliveries=tuple(chunk))
