"""Where sessions live: whoever has one says so, and whoever had it before forgets it.

Two nodes that were apart may each have a session of the same client: one took it from a copy while it could not ask the
other. When they hear of each other it stays where its client came last, for there it is expected, and what was agreed
there is what it goes by. Otherwise the higher epoch counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from coterie.broker.following import Following
from coterie.broker.frames import MovedSessions
from coterie.broker.giving import Giving
from coterie.broker.keeping import Keeping
from coterie.broker.links import PeerLinks
from coterie.broker.talk import Talk
from coterie.broker.turn import Turn
from coterie.broker.wards import PATIENT_S
from coterie.mqtt.session import Session
from coterie.mqtt.sessions import Sessions

MOVED_PER_FRAME = 500
ANSWER_S, SETTLED_S = 5.0, 60.0  # a word that comes later is no answer; nobody is asked twice within that time
NOBODY = -1, 0.0, False


class Residing:
    """See the module."""

    def __init__(
        self, node: int, sessions: Sessions, giving: Giving, following: Following, keeping: Keeping | None,
        links: PeerLinks, talk: Talk, turn: Turn,
    ) -> None:  # fmt: skip
        self._node, self._sessions, self._giving, self._following = node, sessions, giving, following
        self._keeping, self._links, self._talk, self._turn = keeping, links, talk, turn
        # Members that are, and until when they keep what others have alone (0: that is not said yet).
        self._leaving: dict[int, float] = {}
        # Client -> which node was told of the session here, when, and whether its answer is due.
        self._asked: dict[str, tuple[int, float, bool]] = {}

    def set_leaving(self, nodes: Iterable[int]) -> None:
        self._leaving = {node: self._leaving.get(node, 0.0) for node in nodes}

    def tell(self, peers: Callable[[], list[int]], sessions: list[Session], is_new: bool) -> None:
        """When as many have them as can be had: until then, whoever had them before must not forget them.

        One that leaves has nobody coming to it, and can keep them until others are in reach here.
        """
        moved, keeping = [(one, one.epoch) for one in sessions], self._keeping
        leaving = () if keeping is None else tuple(self._leaving)

        def tell(is_leaving: bool) -> None:
            still = [one for one, epoch in moved if self._sessions.of.get(one.client_id) is one and one.epoch == epoch]
            told = [peer for peer in peers() if (peer in leaving) == is_leaving]
            for start in range(0, len(still), MOVED_PER_FRAME):
                part = still[start : start + MOVED_PER_FRAME]
                names = tuple((one.client_id, one.epoch, one.owner) for one in part)
                for peer in told:
                    self._talk.tell(peer, MovedSessions(names, tuple(map(self._came_us, part))))

        if keeping is None:
            tell(False)
            return
        keeping.when_firm(partial(tell, False), is_new)
        if leaving:
            now_s = self._turn.now_s
            self._leaving = {node: until_s or now_s + PATIENT_S for node, until_s in self._leaving.items()}
            keeping.when_firm(partial(tell, True), is_new, max(self._leaving.values()))

    def claim(self, session: Session, epoch: int, owners: list[int]) -> None:
        """These have one too, up to that epoch: each began it, or took it, when it could not ask."""
        if owners and session.expiry_s:
            if session.epoch <= epoch:
                session.epoch = epoch + 1
                session.report()
            self.tell(lambda: owners, [session], is_new=True)

    def hear(self, peer: int, said: MovedSessions) -> None:
        came = said.came or (-1,) * len(said.sessions)
        doubtful: list[Session] = []
        for (client, epoch, owner), came_us in zip(said.sessions, came, strict=False):
            session = self._sessions.of.get(client)
            if session is None or session.owner not in (None, owner):
                continue
            held_us = self._held_up_us(peer, client)
            if session.epoch > epoch:  # it was still on its way there when its client came back here
                self.tell(lambda: [peer], [session], is_new=False)
            elif session.owner == owner and self._is_later_here(peer, session, epoch, came_us, held_us):
                session.epoch = epoch + 1
                session.report()
                self.tell(lambda: self._links.connected, [session], is_new=True)
            elif session.owner == owner and self._is_doubtful(peer, session, came_us):
                self._asked[client] = peer, self._turn.now_s, True
                doubtful.append(session)
            elif session.epoch < epoch:
                self.drop(session)
            elif session.owner == owner and session.expiry_s:
                self._end_draw(peer, session)
        if doubtful:
            since_s = self._turn.now_s - SETTLED_S
            self._asked = {client: asked for client, asked in self._asked.items() if asked[1] >= since_s}
            self.tell(lambda: [peer], doubtful, is_new=False)

    def _is_doubtful(self, peer: int, session: Session, came_us: int) -> bool:
        """Whether its client may have come here later than there, though it does not look so: the word may have been
        held up, and how old it is nobody knows. Then that node is told of the one here, and says its word again."""
        here_us = self._came_us(session)
        if came_us < 0 or here_us < 0 or not session.expiry_s or session.client_id in self._giving.leaving:
            return False
        asked, asked_s, _ = self._asked.get(session.client_id, NOBODY)
        was_asked = asked == peer and self._turn.now_s - asked_s < SETTLED_S  # two that ask by turns might never end
        return not was_asked and here_us - came_us < self._links.settings.silence_s * 1e6

    def _held_up_us(self, peer: int, client: str) -> int:
        """For how long its answer may have been under way at most; only the first one counts."""
        asked, asked_s, is_due = self._asked.get(client, NOBODY)
        if asked != peer or not is_due:
            return 0
        self._asked[client] = asked, asked_s, False
        passed_s = self._turn.now_s - asked_s
        return int(passed_s * 1e6) if passed_s < ANSWER_S else 0

    def _end_draw(self, peer: int, session: Session) -> None:
        """Of two with the same epoch, neither may be sure to be later: then one of them decides, or both might drop it.
        The other one tells it what it has."""
        if self._node < peer:
            self.drop(session)
        else:
            self.tell(lambda: [peer], [session], is_new=False)

    def _is_later_here(self, peer: int, session: Session, epoch: int, came_us: int, held_us: int) -> bool:
        """How long ago its client came is told by each node's own clock, and has become more when it is heard: so never
        are both later. An answer is as old as its question at most. Where nobody knows, one of two with the same epoch
        keeps it."""
        if not session.expiry_s or session.client_id in self._giving.leaving:  # it was given, not taken from a copy
            return False
        here_us = self._came_us(session)
        if here_us < 0:
            return came_us < 0 and session.epoch == epoch and self._node < peer
        return came_us < 0 or here_us < came_us + held_us

    def _came_us(self, session: Session) -> int:
        return -1 if session.came_s is None else max(0, int((self._turn.now_s - session.came_s) * 1e6))

    def drop(self, session: Session) -> None:
        """It lives elsewhere, or its client began afresh there."""
        self._giving.leaving.pop(session.client_id, None)
        self._asked.pop(session.client_id, None)
        if session.connection is not None:
            self._sessions.take_away(session, self._turn.now_s)
        session.will = session.will_due_s = None
        if session.client_id in self._sessions.of:
            self._sessions.end_session(session, self._turn.now_s)
            self._following.follow()
