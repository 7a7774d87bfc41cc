"""Sessions without a client come here: from a node that is leaving, or from the copy of one that was removed.

It is the take-over of `takeover`, started by nobody's CONNECT, a few at a time. Of a removed node the first of its
keepers takes them, so that they are its own, and kept by its own keepers, before anything happens to that copy.
"""

from __future__ import annotations

from functools import partial

import msgspec

from coterie.broker.copies import Copy, HeldCopies
from coterie.broker.keeperlists import KeeperLists
from coterie.broker.members import Members
from coterie.broker.quests import Outcome
from coterie.broker.said import TakeSessions
from coterie.broker.takeover import Takeover
from coterie.broker.turn import Turn
from coterie.broker.writes import SESSIONS, SessionRow
from coterie.mqtt.sessions import Sessions

AT_ONCE = 20
LOOK_S = 1.0
ADOPT_TIMER = "adopt"
_row = msgspec.msgpack.Decoder(SessionRow).decode


class Adopting:
    """See the module."""

    def __init__(
        self, node: int, sessions: Sessions, takeover: Takeover, copies: HeldCopies, lists: KeeperLists, turn: Turn
    ) -> None:
        self.adopted_count = 0
        self._node, self._sessions, self._takeover = node, sessions, takeover
        self._copies, self._lists, self._turn = copies, lists, turn
        self._removed: tuple[int, ...] = ()
        self._stand_ins: tuple[int, ...] = ()
        self._under_way: dict[str, int] = {}
        self._is_looking = False

    def set_members(self, members: Members) -> None:
        self._removed = tuple(one.id for one in members.entries if one.state == "removed")
        self._stand_ins = tuple(members.present)
        self._look_later()

    def hear(self, peer: int, said: TakeSessions) -> None:
        """What is asked for and does not fit now is asked for again."""
        for client, user in said.sessions:
            self._take(client, user, peer)

    def _take(self, client: str, user: str | None, of: int) -> None:
        is_busy = client in self._under_way or self._takeover.is_seeking(client)
        if is_busy or len(self._under_way) >= AT_ONCE:
            return
        self._under_way[client] = of
        self._takeover.seek(client, user, partial(self._found, client, of), of)

    def _found(self, client: str, of: int, outcome: Outcome) -> None:
        self._under_way.pop(client, None)
        session = self._sessions.of.get(client)
        if outcome == "here" and session is not None and session.connection is None and session.expires_at_s is None:
            self.adopted_count += 1
            self._sessions.rest(session, self._turn.now_s)
        copy = self._copies.of.get(of)
        if outcome != "away" and copy is not None and of in self._removed:
            self._copies.settle(copy, client)
        self._look_later()

    def look(self) -> None:
        self._is_looking = False
        for copy in self._orphans():
            for client, value in list(copy.rows[SESSIONS].items()):
                row = _row(value)
                if row.expiry_s:
                    self._take(str(client), row.owner, copy.origin)
                else:
                    self._copies.settle(copy, str(client))
        self._look_later()

    def _orphans(self) -> list[Copy]:
        """Copies of removed nodes with sessions that this node is the one to take."""
        found = []
        for origin in self._removed:
            copy = self._copies.of.get(origin)
            if copy is not None and copy.rows[SESSIONS]:
                keepers = [one for one in self._lists.keepers(origin) if one in self._stand_ins]
                if not keepers or keepers[0] == self._node:
                    found.append(copy)
        return found

    def _look_later(self) -> None:
        if not self._is_looking and self._removed and self._orphans():
            self._is_looking = True
            self._turn.set_timer((ADOPT_TIMER,), LOOK_S)
