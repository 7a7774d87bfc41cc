"""What is done again and again, or after a while: deadlines, the sign of life, old log entries, journal lines."""

from __future__ import annotations

import msgspec

from coterie.broker.carried import TIME_BITS, TIME_MASK
from coterie.broker.copies import HeldCopies
from coterie.broker.counts import Counts
from coterie.broker.lastpublished import LastPublished
from coterie.broker.lastwords import LastWords
from coterie.broker.links import PeerLinks
from coterie.broker.marks import Marks
from coterie.broker.settings import StoreSection
from coterie.broker.stored import StoredSessions
from coterie.broker.turn import Turn
from coterie.broker.writes import LOG, MESSAGES, META, Between, Saved, Shelf

ALIVE_S, TRIM_S = 1.0, 600.0
ALIVE_TIMER, TRIM_TIMER = "alive", "trim"
ALIVE, TRIMMED = "alive_us", "trimmed_us"


class Housekeeping:
    """See the module. A log is forgotten by age; one that is too large loses its oldest eighth, which is counted."""

    def __init__(
        self, node: int, is_alone: bool, settings: StoreSection, stored: StoredSessions, words: LastWords,
        marks: Marks, last: LastPublished, copies: HeldCopies, links: PeerLinks, counts: Counts, shelf: Shelf,
        turn: Turn,
    ) -> None:  # fmt: skip
        self._node, self._is_alone, self._settings = node, is_alone, settings
        self._stored, self._words, self._counts, self._shelf, self._turn = stored, words, counts, shelf, turn
        self._marks, self._last, self._copies, self._links = marks, last, copies, links
        self._heard_count = -1
        self.alive_us = 0

    def start(self, saved: Saved) -> None:
        known = {key: msgspec.msgpack.decode(value) for key, value in saved.rows(META) if key in (ALIVE, TRIMMED)}
        self.alive_us = int(known.get(ALIVE, 0))
        if not self._is_alone:
            base = self._node << TIME_BITS
            self._stored.logged_from, self._stored.logged_to = base | int(known.get(TRIMMED, 0)), base | TIME_MASK
            self._turn.set_timer((ALIVE_TIMER,), ALIVE_S)
            self._turn.set_timer((TRIM_TIMER,), TRIM_S)

    def on_alive(self, heard_count: int) -> None:
        """Since when something may be missing after a crash; while nothing is said, nothing can be missed.

        What is done and waits for company is written now: in a network that has become still nothing else may come.
        """
        self._stored.end_turn(is_pressing=True)
        if heard_count != self._heard_count:
            self._heard_count = heard_count
            self.note_alive()
        self._turn.set_timer((ALIVE_TIMER,), ALIVE_S)

    def note_alive(self) -> None:
        """Whoever is silent may be cut off by now, though nobody knows it yet."""
        if not self._is_alone:
            silent_s = max(0.0, self._turn.now_s - self._links.heard_until_s)
            self._turn.write(META, ALIVE, msgspec.msgpack.encode(self._turn.now_us - int(silent_s * 1e6)))
            self._marks.keep_heads()
            self._words.keep_time()

    def on_trim(self) -> None:
        before_us = self._turn.now_us - int(self._settings.log_hours * 3600e6)
        self._words.trim(before_us)
        self._marks.trim(before_us)
        self._copies.trim(self._settings.log_hours)
        if self._shelf.bytes_in(MESSAGES) > self._settings.log_bytes_max:
            before_us = max(before_us, self._eighth_us())
        if before_us > 0:
            self._cut_log(before_us)
        self._turn.set_timer((TRIM_TIMER,), TRIM_S)

    def _eighth_us(self) -> int:
        first = self._shelf.between(LOG, self._stored.logged_from, self._stored.logged_to, 1)
        if not first:
            return 0
        start_us = first[0][0] & TIME_MASK
        cut_us = start_us + (self._turn.now_us - start_us) // 8
        base = self._node << TIME_BITS
        self._counts.log_dropped += len(self._shelf.between(LOG, base, base | cut_us))
        return cut_us

    def _cut_log(self, before_us: int) -> None:
        """Log entries up to then, and their bodies as far as no delivery refers to them."""
        first, last = self._node << TIME_BITS, self._node << TIME_BITS | before_us
        writes = self._turn.writes
        writes.append((LOG, Between(first, last), None))
        for held in sorted(one for one in self._stored.references if first <= one <= last):
            if first < held:
                writes.append((MESSAGES, Between(first, held - 1), None))
            first = held + 1
        writes.append((MESSAGES, Between(first, last), None))
        self._stored.logged_from = last + 1
        self._last.trim(last)
        self._turn.write(META, TRIMMED, msgspec.msgpack.encode(before_us + 1))
