"""Who could not reach whom, when: a node need not have kept something where it could not be kept in time."""

from __future__ import annotations

import msgspec

LONG_US = 3_000_000  # an outage of less is waited for
AFTER_US = 10_000_000  # until everybody has found each other again


class Outage(msgspec.Struct):
    """Nothing passed between these nodes and the others, or they were down, or their disks were no good."""

    nodes: frozenset[int]
    from_us: int
    until_us: int = -1


class Outages:
    """See the module."""

    def __init__(self) -> None:
        self._open: dict[str, Outage] = {}
        self._all: list[Outage] = []

    def begin(self, name: str, now_us: int, nodes: frozenset[int]) -> None:
        if name not in self._open:
            self._open[name] = Outage(nodes, now_us)
            self._all.append(self._open[name])

    def end(self, name: str, now_us: int) -> None:
        if name in self._open:
            self._open.pop(name).until_us = now_us

    def since_us(self, name: str) -> int:
        """When the one of that name began that has not ended."""
        return self._open[name].from_us if name in self._open else -1

    def excuse(self, node: int, peer: int, now_us: int) -> bool:
        """Whether outages between the two took so long that the one may have stopped waiting for the other, then.

        Several of them one after the other count as one: between them there may not have been time enough.
        """
        length_us = 0
        for one in self._between(node, peer):
            until_us = now_us if one.until_us < 0 else min(now_us, one.until_us)
            if one.from_us < until_us >= now_us - AFTER_US:
                length_us += until_us - one.from_us
        return length_us >= LONG_US

    def was_between(self, node: int, peer: int, since_us: int) -> bool:
        """Whether there was one between the two at any time since then."""
        return any(one.until_us < 0 or one.until_us >= since_us for one in self._between(node, peer))

    def _between(self, node: int, peer: int) -> list[Outage]:
        return [one for one in self._all if (node in one.nodes) != (peer in one.nodes)]
