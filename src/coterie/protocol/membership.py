"""Bounded peer sampling with interest views: each node knows a few others and, by gossip, keeps knowing fresh ones.

A view holds at most `capacity` descriptors. Every round a node picks the oldest, sends it a random handful of what it
knows (itself included, age 0) and merges what comes back, preferring what it did not have and what is younger. Ages
only grow by rounds, so a node that left is forgotten by everyone within about `capacity` rounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from coterie.errors import ConfigError
from coterie.model.plan import Topic


class Descriptor(msgspec.Struct, frozen=True, array_like=True):
    """What one node says of itself; `version` rises when its interest changes, so the newest word wins."""

    node: int
    position: int = 0
    interest: tuple[Topic, ...] = ()
    version: int = 0
    age: int = 0


class PeerView:
    """The bounded view and the two halves of an exchange: `offer` and `absorb`. The owner sends the messages."""

    def __init__(self, owner: int, capacity: int, exchange_size: int, random: Random) -> None:
        if capacity < 1:
            raise ConfigError("view capacity", capacity, "at least 1")
        if not 1 <= exchange_size <= capacity:
            raise ConfigError("view exchange size", exchange_size, f"between 1 and the capacity, {capacity}")
        self._owner = owner
        self._capacity = capacity
        self._exchange_size = exchange_size
        self._random = random
        self._known: dict[int, Descriptor] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, node: int) -> bool:
        return node in self._known

    def descriptors(self) -> list[Descriptor]:
        """All that is known, by node."""
        return [self._known[node] for node in sorted(self._known)]

    def get(self, node: int) -> Descriptor | None:
        return self._known.get(node)

    def forget(self, node: int) -> None:
        self._known.pop(node, None)

    def grow_older(self) -> None:
        self._known = {node: msgspec.structs.replace(it, age=it.age + 1) for node, it in self._known.items()}

    def oldest(self) -> int | None:
        """Whom to exchange with next; the oldest, so that the dead are found out first."""
        if not self._known:
            return None
        return max(self._known.values(), key=lambda it: (it.age, -it.node)).node

    def offer(self, own: Descriptor, to: int) -> tuple[Descriptor, ...]:
        """What to send: ourselves and a random handful of the others."""
        others = [it for it in self.descriptors() if it.node != to]
        chosen = self._random.sample(others, min(self._exchange_size - 1, len(others)))
        return (own, *chosen)

    def absorb(self, received: Iterable[Descriptor], sent: Iterable[Descriptor] = ()) -> None:
        """Merge; when full, what was just sent away makes room first, then the oldest."""
        expendable = [it.node for it in sent if it.node != self._owner]
        for descriptor in received:
            if descriptor.node == self._owner:
                continue
            held = self._known.get(descriptor.node)
            if held is not None:
                if (descriptor.version, -descriptor.age) > (held.version, -held.age):
                    self._known[descriptor.node] = descriptor
                continue
            if len(self._known) >= self._capacity:
                self._make_room(expendable)
            self._known[descriptor.node] = descriptor

    def _make_room(self, expendable: list[int]) -> None:
        while expendable:
            node = expendable.pop()
            if self._known.pop(node, None) is not None:
                return
        oldest = self.oldest()
        assert oldest is not None
        self.forget(oldest)
