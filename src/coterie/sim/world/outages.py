"""Who could not reach whom, when: a node need not have kept something where it could not be kept in time."""

from __future__ import annotations

import msgspec

LONG_US = 3_000_000  # an outage of less is waited for
AFTER_US = 10_000_000  # until everybody has found each other again
APART_US = 4_500_000  # without a way between two for so long, the one may have given the other up


class Outage(msgspec.Struct):
    """Nothing passed between these nodes and the others, or they were down, or their disks were no good."""

    nodes: frozenset[int]
    from_us: int
    until_us: int = -1
    is_disk: bool = False


class Outages:
    """See the module."""

    def __init__(self) -> None:
        self._open: dict[str, Outage] = {}
        self._all: list[Outage] = []
        self._dials: list[tuple[frozenset[int], int, int]] = []  # in vain: the two, from when to when

    def begin(self, name: str, now_us: int, nodes: frozenset[int], is_disk: bool = False) -> None:
        if name not in self._open:
            self._open[name] = Outage(nodes, now_us, is_disk=is_disk)
            self._all.append(self._open[name])

    def end(self, name: str, now_us: int) -> None:
        if name in self._open:
            self._open.pop(name).until_us = now_us

    def dialled(self, node: int, peer: int, from_us: int, until_us: int) -> None:
        """In an outage: there is no way between the two before that has failed, though the outage is over by then."""
        self._dials.append((frozenset((node, peer)), from_us, until_us))

    def since_us(self, name: str) -> int:
        """When the one of that name began that has not ended."""
        return self._open[name].from_us if name in self._open else -1

    def excuse(self, node: int, peer: int, now_us: int) -> bool:
        """Whether outages between the two took so long that the one may have stopped waiting for the other, then.

        Several of them one after the other count as one: between them there may not have been time enough. So does a
        connection that was begun in one of them: until that has failed, nobody dials again.
        """
        between = [one for one in self._between(node, peer) if not (one.is_disk and node in one.nodes)]  # it can wait
        spans = [(one.from_us, now_us if one.until_us < 0 else one.until_us) for one in between]
        dials = [(from_us, until_us) for ends, from_us, until_us in self._dials if ends == {node, peer}]
        return _length_us(spans, now_us) >= LONG_US or _union_us(spans + dials, now_us) >= APART_US

    def was_between(self, node: int, peer: int, since_us: int) -> bool:
        """Whether there was one between the two at any time since then."""
        return any(one.until_us < 0 or one.until_us >= since_us for one in self._between(node, peer))

    def _between(self, node: int, peer: int) -> list[Outage]:
        return [one for one in self._all if (node in one.nodes) != (peer in one.nodes)]


def _lately(spans: list[tuple[int, int]], now_us: int) -> list[tuple[int, int]]:
    """Those that were not over long ago, up to now."""
    ended = ((from_us, min(now_us, until_us)) for from_us, until_us in spans)
    return sorted((from_us, until_us) for from_us, until_us in ended if from_us < until_us >= now_us - AFTER_US)


def _length_us(spans: list[tuple[int, int]], now_us: int) -> int:
    return sum(until_us - from_us for from_us, until_us in _lately(spans, now_us))


def _union_us(spans: list[tuple[int, int]], now_us: int) -> int:
    """What is in several of them counts once."""
    length_us = covered_us = 0
    for from_us, until_us in _lately(spans, now_us):
        length_us += max(0, until_us - max(from_us, covered_us))
        covered_us = max(covered_us, until_us)
    return length_us
