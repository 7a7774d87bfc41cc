"""What a node tells who looks at it again and again: little, and at little cost, however many channels it has.

Going through 100,000 channels takes a while, so what was found serves for fifty times as long as that: looking costs a
node 2 % of its time at most. Of the channels a sample is told: those whose names have the smallest hashes. The hash is
the same everywhere, so the samples of all nodes are of the same channels, with all their members; and how small the
hashes are says how many channels there are in all.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from coterie.broker import views

if TYPE_CHECKING:
    from coterie.broker.machine import Broker

SAMPLE = 200
FOUND_MAX = 100
LASTS = 50  # times as long as it took
LASTS_S_MIN = 0.5
SPACE = 1 << 32


@dataclass(frozen=True)
class Glance:
    """One look at everything."""

    document: dict[str, Any]
    channels: dict[str, int | None]  # channel -> the parent in its tree, None where there is none
    members: frozenset[str]


class Overview:
    """Serves glances; `clock` is in seconds."""

    def __init__(self, broker: Broker, clock: Callable[[], float] = time.perf_counter) -> None:
        self._broker, self._clock = broker, clock
        self._glance: Glance | None = None
        self._until_s = 0.0

    def document(self) -> dict[str, Any]:
        return self._latest().document

    def find(self, text: str) -> dict[str, Any]:
        """The first channels by name that have this in their name; so are those of all nodes together."""
        asked, channels = text.lower(), self._latest().channels
        names = heapq.nsmallest(FOUND_MAX, (name for name in channels if asked in name.lower()))
        members = self._latest().members
        found = [[name, name in members, channels[name]] for name in names]
        return {"node": self._broker.setup.node, "channels": found}

    def _latest(self) -> Glance:
        began_s = self._clock()
        if self._glance is None or began_s >= self._until_s:
            self._glance = glance(self._broker)
            took_s = self._clock() - began_s
            self._until_s = began_s + max(LASTS * took_s, LASTS_S_MIN)
        return self._glance


def glance(broker: Broker) -> Glance:
    plane = broker.planes.in_use
    state = plane.state()
    members = [str(channel) for channel in state.memberships]
    channels: dict[str, int | None] = dict.fromkeys(members)
    channels |= {str(channel): parent for channel, parent in state.parents}
    sample, below = sample_of(list(channels))
    wanting = frozenset(members)
    document = {
        **views.health(broker),
        "position": plane.slice.position,
        "neighbours": list(state.links),
        "connected": sorted(broker.links.connected),
        "tree_links": sorted(Counter(parent for _, parent in state.parents).items()),
        "channel_count": len(channels),
        "sample": [[name, name in wanting, channels[name]] for name in sample],
        "sampled_below": below,
    }
    return Glance(document, channels, wanting)


def sample_of(names: list[str]) -> tuple[list[str], int]:
    """(names with the smallest hashes, below which hash these are all there are)."""
    if len(names) <= SAMPLE:
        return sorted(names), SPACE
    smallest = heapq.nsmallest(SAMPLE + 1, ((hash_of(name), name) for name in names))
    return sorted(name for _, name in smallest[:-1]), smallest[-1][0]


def hash_of(name: str) -> int:
    """The same at every node. Names that differ in a digit have checksums that are close: multiply."""
    return crc32(name.encode()) * 0x9E3779B1 % SPACE
