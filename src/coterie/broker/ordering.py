"""First receipts rise: what one node publishes on a topic is delivered in that order, whatever ways it comes.

Each event at QoS 1 and 2 names the one before it on its topic. One whose predecessor is owed here and was not dealt
with yet is held, and the predecessor is asked for at once, at its origin. So a loss is found by the next event. With
no answer for `GIVE_UP_S` it goes on, and that is counted; what is missing is still owed, and comes when it can.
"""

from __future__ import annotations

from coterie.broker.carried import Carried, origin_of
from coterie.broker.interest import InterestBook
from coterie.broker.marks import Marks
from coterie.broker.turn import Turn

HELD_MAX = 10_000  # of one origin on one topic
ASK_AGAIN_S = 1.0
GIVE_UP_S = 30.0  # what is held is of one origin and topic, so only that waits; most nodes are back by then
HELD_TIMER = "held"


class _Line:
    """What is held of one origin on one topic, by identifier."""

    __slots__ = ("events", "since_s")

    def __init__(self, since_s: float) -> None:
        self.events: dict[int, Carried] = {}
        self.since_s = since_s


class Ordering:
    """Says what may be delivered. `asking` is what is to be asked for: identifier -> None."""

    def __init__(self, marks: Marks, book: InterestBook, turn: Turn) -> None:
        self.gave_up_count = 0
        self.asking: dict[int, None] = {}
        self._marks, self._book, self._turn = marks, book, turn
        self._held: dict[tuple[int, str], _Line] = {}

    def __len__(self) -> int:
        return sum(len(line.events) for line in self._held.values())

    def holds(self, origin: int, topic: str) -> bool:
        """Whether something waits for its turn there."""
        return bool(self._held) and (origin, topic) in self._held

    def is_had(self, topic: str, identifier: int) -> bool:
        """Whether it was dealt with, or is here and waits for its turn."""
        return self._marks.has(origin_of(identifier), topic, identifier) or self.is_held(topic, identifier)

    def is_held(self, topic: str, identifier: int) -> bool:
        line = self._held.get((origin_of(identifier), topic))
        return line is not None and identifier in line.events

    def take(self, carried: Carried) -> list[Carried]:
        """What may be delivered now that this one is here, in order; nothing if it was had."""
        identifier, topic = carried.id, carried.topic
        origin = origin_of(identifier)
        self._marks.hear(identifier)
        line = self._held.get((origin, topic))
        if not (carried.qos or carried.retain):
            if line is None:
                return [carried]
            line.events[identifier] = carried  # behind what is held
            return []
        if self.is_had(topic, identifier):
            return []
        if self._waits(origin, topic, identifier, carried.before):
            return self._hold(origin, carried)
        if line is not None and min(line.events) < identifier:  # older ones wait still
            line.events[identifier] = carried
            return []
        self._marks.pass_by(origin, topic, identifier, carried.before)
        return [carried] if line is None else [carried, *self._release(origin, topic)]

    def _waits(self, origin: int, topic: str, identifier: int, before: int) -> bool:
        if self._marks.has(origin, topic, before):
            return False
        when_us = self._turn.now_us - (identifier - before)  # this one was published just now, that one so much earlier
        return self._book.is_owed(topic, before, when_us)

    def _hold(self, origin: int, carried: Carried) -> list[Carried]:
        key = (origin, carried.topic)
        line = self._held.get(key)
        if line is None:
            line = self._held[key] = _Line(self._turn.now_s)
            self._turn.set_timer((HELD_TIMER,), ASK_AGAIN_S)
        elif carried.id < min(line.events):  # what was asked for has come, and names one more: somebody answers
            line.since_s = self._turn.now_s
        line.events[carried.id] = carried
        if carried.before not in line.events:
            self.asking[carried.before] = None
        return self._give_up(key) if len(line.events) > HELD_MAX else []

    def _release(self, origin: int, topic: str) -> list[Carried]:
        """What waits no longer, oldest first."""
        line = self._held[origin, topic]
        free = []
        for identifier in sorted(line.events):
            carried = line.events[identifier]
            is_kept = bool(carried.qos or carried.retain)
            if is_kept and self._waits(origin, topic, identifier, carried.before):
                break
            del line.events[identifier]
            if is_kept:
                self._marks.pass_by(origin, topic, identifier, carried.before)
            free.append(carried)
        if not line.events:
            del self._held[origin, topic]
        return free

    def _give_up(self, key: tuple[int, str]) -> list[Carried]:
        """Deliver what is here. The mark stays behind what is missing, which may still be found at its origin."""
        line = self._held.pop(key)
        self.gave_up_count += 1
        free = [line.events[identifier] for identifier in sorted(line.events)]
        for carried in free:
            if carried.qos or carried.retain:
                self._marks.set_ahead(*key, carried.id, carried.before)
        return free

    def pass_over(self, identifier: int) -> list[Carried]:
        """Its origin does not have it any more: whoever waits for it goes on."""
        found = []
        for origin, topic in list(self._held):
            if origin == origin_of(identifier):
                waiting = self._held[origin, topic].events.values()
                if any(one.before == identifier for one in waiting):
                    self._marks.set(origin, topic, max(identifier, self._marks.get(origin, topic)))
                    found += self._release(origin, topic)
        return found

    def on_time(self, is_heard: bool = True) -> list[Carried]:
        """Ask again; give up on those that wait too long. Who waits for an answer while the question itself is not
        `is_heard` yet has not begun to wait."""
        found = []
        for key in list(self._held):
            line = self._held[key]
            line.since_s += 0.0 if is_heard else ASK_AGAIN_S
            if self._turn.now_s - line.since_s >= GIVE_UP_S:
                found += self._give_up(key)
            else:
                wanted = [one.before for one in line.events.values() if one.before and one.before not in line.events]
                self.asking.update(dict.fromkeys(wanted))
        if self._held:
            self._turn.set_timer((HELD_TIMER,), ASK_AGAIN_S)
        return found

    def take_asking(self) -> dict[int, list[int]]:
        """What to ask for, by origin."""
        found: dict[int, list[int]] = {}
        for identifier in self.asking:
            found.setdefault(origin_of(identifier), []).append(identifier)
        self.asking.clear()
        return found
