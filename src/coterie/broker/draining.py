"""A node leaves in good order: its clients are sent away, its sessions and its log handed over, then it is removed.

asked     the list of members says that it is leaving (a decree); from then on a restart goes on with it
clients   nobody is let in; who is connected is sent to another member, a few at a time
sessions  lasting ones are taken by other members, each by the take-over that a client's return would cause
log       keepers have all of it: they speak for this node from now on
removal   a decree; then the node ends

What is left says which of these it is at: whoever waited for a session when this began may still be let in, and what
it brought here goes the same way.
"""

from __future__ import annotations

from typing import Literal

from coterie.broker.clients import Clients
from coterie.broker.hosting import Hosting
from coterie.broker.keeping import Keeping
from coterie.broker.links import PeerLinks
from coterie.broker.members import ListChange, Members
from coterie.broker.membership import Membership
from coterie.broker.said import TakeSessions
from coterie.broker.takeover import Takeover
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.wards import Wards
from coterie.errors import ConfigError
from coterie.mqtt.connection import Connection, Stage
from coterie.mqtt.reasons import Reason
from coterie.mqtt.ruling import Ruling
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions

Phase = Literal["", "asked", "clients", "sessions", "log", "removal"]
DRAIN_TIMER = "drain"
LOOK_S = 0.2
AWAY_PER_LOOK = 50
ASKED_PER_LOOK = 10
ASK_AGAIN_S = 2.0
ASK_OTHERS_S = 12.0  # one that takes a session while somebody is silent may need so long, and would be interrupted


class Draining:
    """See the module. `phase` is empty while nothing of it happens."""

    def __init__(
        self, node: int, membership: Membership, clients: Clients, sessions: Sessions, keeping: Keeping | None,
        takeover: Takeover, wards: Wards, hosting: Hosting, servers: dict[int, str], links: PeerLinks, talk: Talk,
        turn: Turn,
    ) -> None:  # fmt: skip
        self.phase: Phase = ""
        self.sent_away = self.handed_over = 0
        self._node, self._membership, self._clients, self._sessions = node, membership, clients, sessions
        self._keeping, self._takeover, self._wards, self._hosting = keeping, takeover, wards, hosting
        self._servers, self._links, self._talk, self._turn = servers, links, talk, turn
        self._asked: dict[str, tuple[int, float, float]] = {}  # who shall take it, since when, told when
        self._asked_all_s = 0.0
        self._turns = 0
        self._change = 0

    def begin(self) -> None:
        """An operator's word."""
        if self.phase:
            return
        members = self._membership.members
        if len(members.present) < 2 or self._keeping is None:
            raise ConfigError("drain", self._node, "a node with others to hand over to", do="stop it instead")
        self.phase = "asked"
        self._turn.say("this node is to leave the network")
        self._membership.want(ListChange("leave", (self._node,)))
        self.look_later()

    def set_members(self, members: Members) -> None:
        """The list says that this node is leaving: now, or since before a restart. Or it has left: nothing comes to it
        any more."""
        own = members.get(self._node)
        if own is not None and own.state == "leaving" and self.phase in ("", "asked"):
            self.phase = "clients"
            self._hosting.close()
            self.look_later()
        elif own is not None and own.state == "removed":
            self._takeover.give_up()

    def look_later(self) -> None:
        self._turn.set_timer((DRAIN_TIMER,), LOOK_S)

    def look(self) -> None:
        if self.phase in ("clients", "sessions", "log"):
            self._turn_away()
            here = [one.connection for one in self._clients.lines.values() if one.connection.stage is Stage.OPEN]
            left = self._lasting()
            self._note_handed_over()
            if here:
                self.phase = "clients"
                self._send_away(here[:AWAY_PER_LOOK])
            elif left or self._takeover.is_seeking():  # what somebody waits for may be about to come here
                self.phase = "sessions"
                self._hand_over(left)
            else:
                self.phase = "log"
                self._await_log()
        if self.phase and self._membership.members.has(self._node):
            self.look_later()

    def _next_server(self) -> str:
        """Each client another one, in turn."""
        found = [self._servers[node] for node in sorted(self._servers) if node != self._node]
        self._turns += 1
        return found[self._turns % len(found)] if found else ""

    def _turn_away(self) -> None:
        server = self._next_server()
        reason = Reason.USE_ANOTHER_SERVER if server else Reason.SERVER_UNAVAILABLE
        self._clients.turned_away = Ruling(reason, server, "this node is leaving the network")

    def _send_away(self, here: list[Connection]) -> None:
        for connection in here:
            server = self._next_server()
            reason = Reason.SERVER_MOVED if server else Reason.SERVER_SHUTTING_DOWN
            self._clients.send_away(connection, server, "this node is leaving the network", reason)
            self.sent_away += 1

    def _lasting(self) -> list[Session]:
        return [one for one in self._sessions.of.values() if one.expiry_s]

    def _note_handed_over(self) -> None:
        for client in [one for one in self._asked if one not in self._sessions.of]:
            del self._asked[client]
            self.handed_over += 1

    def _hand_over(self, left: list[Session]) -> None:
        now_s, members = self._turn.now_s, self._membership.members
        there = [one for one in self._links.connected if (m := members.get(one)) is not None and m.state == "in"]
        if not there:
            self._links.want(self._links.peers)
            return
        never = (-1, now_s, -ASK_AGAIN_S)
        due = [one for one in left if now_s - self._asked.get(one.client_id, never)[2] >= ASK_AGAIN_S]
        for session in due[:ASKED_PER_LOOK]:
            taker, since_s, _ = self._asked.get(session.client_id, never)
            if taker not in there or now_s - since_s > ASK_OTHERS_S:
                self._turns += 1
                taker, since_s = there[self._turns % len(there)], now_s
            self._asked[session.client_id] = taker, since_s, now_s
            self._talk.tell(taker, TakeSessions(((session.client_id, session.owner),)))

    def _await_log(self) -> None:
        """Keepers have everything, of others that are away too, and nothing more comes: nobody can publish here."""
        assert self._keeping is not None
        if self._turn.now_s - self._asked_all_s >= ASK_AGAIN_S:
            self._asked_all_s = self._turn.now_s
            self._keeping.ask_all()
        self._keeping.flush()
        if self._keeping.is_whole and self._wards.is_whole:
            self.phase = "removal"
            self._membership.want(ListChange("remove", (self._node,)))
