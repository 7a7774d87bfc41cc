"""Finding out that a topic is in pieces, which the paper leaves open.

How it works: the lowest-numbered member of a topic floods a beacon inside it every so often; each member's *label* is
the lowest member it has heard lately, and a member that hears nobody lower is its own. Two members with different
labels that both have been stable for a while are in different parts. Whoever notices (labels travel with the gossip)
tells the lowest member of the part with the higher label, which links to the other part: one link per join, not one
per witness.
"""

from __future__ import annotations

from dataclasses import dataclass

from coterie.model.plan import Topic

MISSED = 2.5  # beacons missed before the lowest member is given up
STABLE = 1.5  # periods a label must have stood before it proves anything


@dataclass
class Label:
    lowest: int
    count: int  # the lowest member's own counter, so that old beacons cannot revive it
    heard_s: float
    since_s: float


class Labels:
    """The labels of one node's topics."""

    def __init__(self, owner: int, period_s: float) -> None:
        self._owner = owner
        self._period_s = period_s
        self._labels: dict[Topic, Label] = {}
        self._repaired_s: dict[Topic, float] = {}

    def forget(self, topic: Topic) -> None:
        self._labels.pop(topic, None)
        self._repaired_s.pop(topic, None)

    def beacons(self, topics: list[Topic], now_s: float) -> list[tuple[Topic, int, int]]:
        """What to flood now: every topic of which we are the lowest member as far as we know."""
        mine = []
        for topic in topics:
            label = self._labels.get(topic)
            is_lost = label is None or now_s - label.heard_s > MISSED * self._period_s
            if label is None or is_lost or label.lowest >= self._owner:
                count = int(now_s * 1000)
                self._set(topic, self._owner, count, now_s)
                mine.append((topic, self._owner, count))
        return mine

    def hear(self, topic: Topic, lowest: int, count: int, now_s: float) -> bool:
        """True if it is news to pass on."""
        label = self._labels.get(topic)
        if label is not None and now_s - label.heard_s <= MISSED * self._period_s:
            if lowest > label.lowest or (lowest == label.lowest and count <= label.count):
                return False
        elif lowest > self._owner:
            return False
        self._set(topic, lowest, count, now_s)
        return True

    def _set(self, topic: Topic, lowest: int, count: int, now_s: float) -> None:
        before = self._labels.get(topic)
        since_s = before.since_s if before is not None and before.lowest == lowest else now_s
        self._labels[topic] = Label(lowest, count, now_s, since_s)

    def stable(self, now_s: float) -> tuple[tuple[Topic, int], ...]:
        """The labels that have stood long enough to prove something."""
        return tuple(
            (topic, label.lowest)
            for topic, label in self._labels.items()
            if now_s - label.since_s > STABLE * self._period_s and now_s - label.heard_s <= MISSED * self._period_s
        )

    def is_lowest(self, topic: Topic) -> bool:
        label = self._labels.get(topic)
        return label is not None and label.lowest == self._owner

    def may_repair(self, topic: Topic, now_s: float) -> bool:
        """Once in a while per topic, so that a repair has time to show."""
        if now_s - self._repaired_s.get(topic, -1e9) < 2 * self._period_s:
            return False
        self._repaired_s[topic] = now_s
        return True
