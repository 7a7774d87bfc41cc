"""What is here of a session when its client appears at another node: *there*, as `takeover` has it.

It may be this node's own, or in a copy of what a node has that is away.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from coterie.broker.arrivals import ComingSession, Had, guest_of, had_of, state_parts
from coterie.broker.carried import EPOCH_S, Identifiers
from coterie.broker.copies import Copy, HeldCopies, session_row
from coterie.broker.frames import AskSession, FoundSession, GivenSession, HandOver, HandsOver, SeekSession
from coterie.broker.interest import LocalInterest, wished_of
from coterie.broker.lastpublished import LastPublished
from coterie.broker.marks import Marks
from coterie.broker.recovery import Recovery
from coterie.broker.turn import Turn
from coterie.broker.writes import SESSIONS, SessionRow
from coterie.mqtt.sessions import Sessions

_pack = msgspec.msgpack.Encoder().encode


class Giving:
    """See the module. `leaving`: client -> where it goes; `came`: sessions that came lately, and what they had then."""

    def __init__(
        self, node: int, sessions: Sessions, interest: LocalInterest, marks: Marks, last: LastPublished,
        identifiers: Identifiers, copies: HeldCopies, recovery: Recovery, turn: Turn,
    ) -> None:  # fmt: skip
        self.leaving: dict[str, int] = {}
        self.came: dict[str, Had] = {}
        self._node, self._sessions, self._interest, self._marks, self._last = node, sessions, interest, marks, last
        self._identifiers, self._copies, self._recovery, self._turn = identifiers, copies, recovery, turn

    def found(self, said: SeekSession) -> FoundSession:
        """The user's own if there is one, else another's."""
        session = self._sessions.of.get(said.client)
        is_here = session is not None and bool(session.expiry_s)
        if session is not None and is_here and session.owner in (None, said.user):
            return FoundSession(said.client, "owner", session.epoch, self._node)
        best: tuple[bool, int, int, int, int] | None = None
        without: list[tuple[int, int, int]] = []
        for origin, copy in self._copies.of.items():
            value = copy.rows[SESSIONS].get(said.client)
            row = None if value is None else session_row(value)
            if row is not None and row.expiry_s and not self._is_over(copy, row):
                rank = (row.owner in (None, said.user), row.epoch, copy.state.life, copy.state.serial, origin)
                best = rank if best is None else max(best, rank)
            else:
                without.append((origin, *copy.place))
        if session is not None and is_here and (best is None or not best[0]):
            return FoundSession(said.client, "other", session.epoch, self._node, True)
        if best is None:
            return FoundSession(said.client, "none", 0, self._node, without=tuple(without))
        is_own, epoch, life, serial, origin = best
        return FoundSession(said.client, "copy", epoch, origin, not is_own, life, serial, tuple(without))

    def _is_over(self, copy: Copy, row: SessionRow) -> bool:
        """Whether its time was up since then, by its node's clock, though that was away and could not end it."""
        now_s = EPOCH_S + copy.now_us(self._turn.now_us) / 1e6
        return row.expires_at_s is not None and row.expires_at_s <= now_s

    def handed_over(self, peer: int, said: HandOver) -> HandsOver:
        if said.of != self._node:
            copy = self._copies.of.get(said.of)
            if copy is None:
                return HandsOver(said.client, (), is_gone=True, number=said.number)
            filters, now_us = copy.subscriptions(said.client), copy.now_us(self._turn.now_us)
            return HandsOver(said.client, filters, wished_of(filters, copy.wishes(), now_us), number=said.number)
        session = self._sessions.of.get(said.client)
        if session is None:
            return HandsOver(said.client, (), is_gone=True, number=said.number)
        self._sessions.take_away(session, self._turn.now_s)
        session.will = session.will_due_s = None
        self.leaving[said.client] = peer
        filters = tuple(session.subscriptions.values())
        return HandsOver(said.client, filters, self._interest.wished(filters), number=said.number)

    def given(self, peer: int, said: AskSession) -> Iterator[GivenSession]:
        """All of it, in parts."""
        copy, session = self._copies.of.get(said.of), self._sessions.of.get(said.client)
        floors: tuple[tuple[int, int], ...] = ()
        if said.of == self._node:
            is_there = session is not None and not session.is_online and self.leaving.get(said.client) == peer
            state = session.state() if session is not None and is_there else None
            marks = self._marks.all() + [((self._node, topic), last) for topic, last in self._last.all()]
            beyond = self._marks.ahead()
            floor, ago_us = (self._node, self._identifiers.last), self._recovery.lacking_us
            had = self.came.get(said.client)
        else:
            state = None if copy is None else self._copies.session(copy, said.client)
            marks = [] if copy is None else copy.marks()
            beyond = [] if copy is None else copy.ahead()
            floor = (said.of, 0 if copy is None else copy.state.log_last)
            ago_us = 1 if copy is None else max(1, self._turn.now_us - copy.state.here_us)
            value = None if copy is None else copy.rows[SESSIONS].get(said.client)
            had = None if value is None else had_of(session_row(value).past)
        if had is not None:
            marks += had.taken.items()
            floors = tuple(had.floors.items())
        ahead = () if had is None else had.ahead
        if state is None:
            yield GivenSession(said.client, b"", (), (0, 0), 0, True, True, number=said.number)
            return
        wanted = ComingSession(guest_of(said.client, None, state.subscriptions, self._sessions.options))
        highest: dict[tuple[int, str], int] = {}
        for place, last in marks:
            highest[place] = max(last, highest.get(place, 0))
        told = tuple((origin, topic, last) for (origin, topic), last in highest.items() if wanted.wants(topic))
        ahead = (*ahead, *(one for (_, topic), found in beyond if wanted.wants(topic) for one in found))
        parts = list(state_parts(state))
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            yield GivenSession(
                said.client, _pack(part), told if is_last else (), floor, ago_us, is_last, floors=floors,
                ahead=ahead if is_last else (), number=said.number,
            )  # fmt: skip
