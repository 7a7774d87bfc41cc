"""Publishers wait while what they publish piles up: nothing that will be acknowledged is given up for want of room.

What can pile up: batches that the disk has not taken yet, events for a peer that does not read fast enough, messages
for a client that is there and does not keep up. Whoever adds to such a pile is not read any more (`Pause`) until it has
become smaller (`Resume`); what its last chunk held is still taken, so a pile grows by a chunk per publisher at most. A
client that takes nothing at all for `STUCK_S` while others wait for it is sent away. Clients that are away cannot be
waited for: `Publishing` refuses what their sessions have no room for.
"""

from __future__ import annotations

from coterie.broker.counts import Counts
from coterie.broker.links import PeerLinks
from coterie.broker.turn import Turn
from coterie.broker.writes import StoreWrite
from coterie.mqtt.connection import Connection
from coterie.mqtt.session import Budget, Session

UNSAFE_BYTES_MAX = 8 << 20  # of batches under way to the disk
STUCK_S = 30.0


class Pressure:
    """See the module."""

    def __init__(self, budget: Budget, links: PeerLinks, counts: Counts, turn: Turn) -> None:
        self.lines: dict[int, Connection] = {}  # those that are not read at present
        self.is_disk_slow = False
        self.budget, self.links, self._counts, self._turn = budget, links, counts, turn
        self._unsafe: dict[int, int] = {}  # batch -> bytes
        self._unsafe_bytes = 0
        self._waited: dict[Session, tuple[int, float]] = {}  # what it takes next, and since when that is so

    # --- what piles up ---

    def handed_over(self, batch: int, writes: list[StoreWrite]) -> None:
        """A batch while an earlier one is still under way."""
        size = sum(len(value) for _, _, value in writes if value is not None)
        self._unsafe[batch] = size
        self._unsafe_bytes += size
        self.is_disk_slow = self._unsafe_bytes > UNSAFE_BYTES_MAX

    def safe(self, batch: int) -> None:
        if not self._unsafe:
            return
        for one in [one for one in self._unsafe if one <= batch]:
            self._unsafe_bytes -= self._unsafe.pop(one)
        if self._unsafe_bytes <= UNSAFE_BYTES_MAX // 2:
            self.is_disk_slow = False

    # --- who waits ---

    def hold(self, connection: Connection) -> None:
        """It has added to a pile."""
        self.budget.is_pressed = self.links.is_pressed = False
        if connection.line not in self.lines:
            self.lines[connection.line] = connection
            self._counts.publishers_paused += 1
            self._turn.pause(connection.line)

    def forget(self, line: int) -> None:
        self.lines.pop(line, None)

    def look(self) -> list[Connection]:
        """Let them go on if there is room again; returns clients that take nothing."""
        stuck = self._stuck()
        if self.is_disk_slow or self.links.is_full or self.budget.crowded:
            for connection in self.lines.values():
                connection.excuse(self._turn.now_s)
        else:
            for line, connection in self.lines.items():
                connection.excuse(self._turn.now_s)
                self._turn.resume(line)
            self.lines.clear()
        return stuck

    def _stuck(self) -> list[Connection]:
        budget, now_s = self.budget, self._turn.now_s
        found = []
        for session in list(budget.crowded):
            connection = session.connection
            if connection is None or not session.is_crowded(4):
                del budget.crowded[session]
                self._waited.pop(session, None)
                continue
            taken, since_s = self._waited.get(session, (-1, now_s))
            if taken != session.next_sequence:
                self._waited[session] = session.next_sequence, now_s
            elif now_s - since_s > STUCK_S:
                found.append(connection)
        return found
