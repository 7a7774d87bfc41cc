"""The interest view (section 2.2): what a node has learned by gossip of who wants what, bounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from random import Random

from coterie.model.plan import Topic
from coterie.systems.spidercast.messages import Descriptor

GONE_TOLD = 32  # departures told in one gossip message
GONE_S = 120.0  # older ones are no news
HANDOVER_MAX = 512  # descriptors given to who has just come

Known = tuple[tuple[Topic, ...], float]  # interest and when its owner said so; tuples are shared, sets would not be


class InterestView:
    """At most `capacity` others. What somebody said of itself later wins; the word of who is lost no longer counts.

    On the wire a descriptor's `age` is in milliseconds. When the view is full a random entry makes room, so what
    stays is a random sample of what went by.
    """

    def __init__(self, owner: int, capacity: int, exchange_size: int, random: Random) -> None:
        self._owner = owner
        self._capacity = capacity
        self._exchange_size = exchange_size
        self._random = random
        self._known: dict[int, Known] = {}
        self._order: list[int] = []  # the keys of `_known`, for sampling
        self._place: dict[int, int] = {}
        self._lost_s: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_full(self) -> bool:
        return len(self._known) >= self._capacity

    def items(self) -> Iterable[tuple[int, Known]]:
        return self._known.items()

    def members(self, topic: Topic) -> list[int]:
        return [node for node, (interest, _) in self._known.items() if topic in interest]

    def any_of(self, wanted: Callable[[int], bool] = lambda node: True) -> int | None:
        """A random one of those wanted; tries a few."""
        for _ in range(8):
            if not self._order:
                return None
            node = self._order[self._random.randrange(len(self._order))]
            if wanted(node):
                return node
        return None

    def forget(self, node: int, now_s: float) -> None:
        if node in self._known:
            self._drop(node)
        self._lost_s.pop(node, None)
        self._lost_s[node] = now_s  # the latest lie at the end
        if len(self._lost_s) > self._capacity:
            del self._lost_s[next(iter(self._lost_s))]

    def gone(self, now_s: float) -> tuple[tuple[int, int], ...]:
        """The latest departures that we know of, with milliseconds since."""
        latest = list(self._lost_s.items())[-GONE_TOLD:]
        return tuple((node, round((now_s - lost_s) * 1000)) for node, lost_s in latest if now_s - lost_s < GONE_S)

    def bury(self, gone: Iterable[tuple[int, int]], now_s: float) -> None:
        """Others' word that these are gone; who has spoken since is not."""
        for node, age in gone:
            lost_s = now_s - age / 1000
            held = self._known.get(node)
            if node == self._owner or age > GONE_S * 1000 or (held is not None and held[1] > lost_s):
                continue
            if lost_s > self._lost_s.get(node, -math.inf):
                self.forget(node, lost_s)

    def learn(self, node: int, interest: tuple[Topic, ...], said_s: float) -> bool:
        """True if the node was not known."""
        if node == self._owner or said_s <= self._lost_s.get(node, -math.inf):
            return False
        held = self._known.get(node)
        if held is not None:
            if said_s > held[1]:
                self._known[node] = (interest, said_s)
            return False
        if len(self._known) >= self._capacity:
            self._drop(self._order[self._random.randrange(len(self._order))])
        self._place[node] = len(self._order)
        self._order.append(node)
        self._known[node] = (interest, said_s)
        return True

    def _drop(self, node: int) -> None:
        del self._known[node]
        at, last = self._place.pop(node), self._order.pop()
        if last != node:
            self._order[at] = last
            self._place[last] = at

    def offer(self, own_interest: Iterable[Topic], now_s: float, is_handover: bool = False) -> tuple[Descriptor, ...]:
        """Ourselves and a random handful of the others, or of a handover many."""
        count = min(HANDOVER_MAX if is_handover else self._exchange_size - 1, len(self._order))
        offered = [Descriptor(self._owner, 0, tuple(own_interest))]
        for node in self._random.sample(self._order, count):
            interest, said_s = self._known[node]
            offered.append(Descriptor(node, 0, interest, 0, round((now_s - said_s) * 1000)))
        return tuple(offered)

    def absorb(self, received: Iterable[Descriptor], now_s: float) -> int:
        """How many were new while there was room for them; a full view only changes, it does not grow."""
        was_full = self.is_full
        new = sum([self.learn(it.node, it.interest, now_s - it.age / 1000) for it in received])
        return 0 if was_full else new
