"""What was last handed to each peer to pass on, so that it can go another way if the peer turns out to be gone.

A peer is found out when something sent to it cannot be handed over; what went to it shortly before may have got lost
with it. Kept are the last few messages of the last few seconds; whoever had them already recognises them.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from coterie.protocol.events import EventMessage

KEPT_S = 15.0
KEPT_MAX = 256
KEPT_BYTES = 1 << 20  # of payloads, per peer

Handed = TypeVar("Handed", bound=EventMessage)


class Recent(Generic[Handed]):
    """Peer -> messages, oldest first."""

    def __init__(self) -> None:
        self._of: dict[int, deque[tuple[float, Handed]]] = {}
        self._bytes: dict[int, int] = {}

    def add(self, peer: int, message: Handed, now_s: float) -> None:
        kept = self._of.setdefault(peer, deque())
        kept.append((now_s, message))
        self._bytes[peer] = self._bytes.get(peer, 0) + len(message.event.payload)
        while len(kept) > KEPT_MAX or self._bytes[peer] > KEPT_BYTES or now_s - kept[0][0] > KEPT_S:
            self._bytes[peer] -= len(kept.popleft()[1].event.payload)
            if not kept:
                return

    def take(self, peer: int, now_s: float) -> list[Handed]:
        """Those that may be lost; they are forgotten here."""
        self._bytes.pop(peer, None)
        return [message for sent_s, message in self._of.pop(peer, ()) if now_s - sent_s <= KEPT_S]
